// What the threaded artefacts (kiln-*-mt.wasm) export besides runtime_abi.h. Their memory is shared and imported.
//
// The instance that JS makes first is the caller's: it calls __wasm_call_ctors, then kiln_threads_start once, before
// any kiln_load. Each worker instantiates the same module over the same memory, sets __stack_pointer to
// kiln_thread_stack(thread), calls __wasm_init_tls(kiln_thread_tls(thread)), with both numbers taken from the first
// instance, and then kiln_thread_work(thread), which returns after kiln_threads_stop.
#pragma once

#include "wasm/runtime_abi.h"

extern "C" {

// Sets up a pool of num_threads (1 to 64), the caller among them, of which `num_cores` can run at once.
// `may_sleep`: 0 where the caller must not wait (a browser's main thread). Code.
KILN_EXPORT int32_t kiln_threads_start(int32_t num_threads, int32_t num_cores, int32_t may_sleep);
KILN_EXPORT void* kiln_thread_stack(int32_t thread);
KILN_EXPORT void* kiln_thread_tls(int32_t thread);

// On the worker. Traps where a tile does: JS catches that and calls kiln_thread_died.
KILN_EXPORT void kiln_thread_work(int32_t thread);
// From anywhere, once worker `thread` runs no more.
KILN_EXPORT void kiln_thread_died(int32_t thread);

// The caller and the workers that take tiles now.
KILN_EXPORT int32_t kiln_threads_running();
// Ends the workers. No run may be under way or follow.
KILN_EXPORT void kiln_threads_stop();

// For tests: random pauses where threads meet; 0 is none.
KILN_EXPORT void kiln_threads_delay(uint32_t seed);
}
