#include "wasm/last_error.h"

namespace kiln {
namespace {

Status& stored() {
  static Status status;
  return status;
}

}  // namespace

int32_t set_last_error(const Status& status) {
  stored() = status;
  return static_cast<int32_t>(status.code());
}

const Status& last_error() { return stored(); }

}  // namespace kiln
