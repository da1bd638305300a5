#include "cpu/vector_math.h"

namespace kiln::vector_math_detail {

const ExpConstants kExp = {
    -87.0f,
    88.7f,
    12582912.0f,
    1.44269504088896341f,
    -0.693359375f,
    2.12194440e-4f,
    {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f},
    1.0f,
};

}  // namespace kiln::vector_math_detail
