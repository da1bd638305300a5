// The threads of a runtime artefact: one (one_thread.cc), or a pool whose workers JS starts (threads_abi.cc).
#pragma once

#include "base/status.h"
#include "cpu/parallel.h"

namespace kiln {

// What sessions are loaded with; valid for the life of the instance.
const Parallel* runtime_parallel();

// Around the steps of a run.
void begin_threaded_run();
Status end_threaded_run();

}  // namespace kiln
