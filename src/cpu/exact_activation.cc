#include "cpu/exact_activation.h"

namespace kiln {
namespace exact_detail {

const Constants kExact = {
    -87.0f,
    88.0f,
    1.44269504088896341f,
    12582912.0f,
    0.693359375f,
    -2.12194440e-4f,
    {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f},
    1.0f,
    0.5f,
    2.0f,
    1.0f / 6,
};

}  // namespace exact_detail

}  // namespace kiln
