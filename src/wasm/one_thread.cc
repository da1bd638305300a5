#include "wasm/threads.h"

namespace kiln {

const Parallel* runtime_parallel() { return &serial_parallel(); }
void begin_threaded_run() {}
Status end_threaded_run() { return {}; }

}  // namespace kiln
