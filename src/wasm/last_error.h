// The last error of the C ABI: kept until the next call that fails.
#pragma once

#include "base/status.h"

namespace kiln {

// Remembers a failed Status for kiln_error_*(); returns its code as a number.
int32_t set_last_error(const Status& status);

const Status& last_error();

}  // namespace kiln
