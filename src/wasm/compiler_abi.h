// The C ABI of compiler.wasm: what js/src/compiler calls. One job at a time: files and arguments in, bytes and texts
// out.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "wasm/runtime_abi.h"  // KILN_EXPORT

extern "C" {

KILN_EXPORT void* kilnc_alloc(size_t bytes);
KILN_EXPORT void kilnc_free(void* pointer);

// Starts a new job: forgets files and results of the one before.
KILN_EXPORT void kilnc_reset();
// Gives the job a file under a name (external data, labels, preprocess recipe, an input to bind, the model itself).
// Name and bytes are copied: the caller may free them at once.
KILN_EXPORT void kilnc_add_file(const char* name, size_t name_bytes, const void* data, size_t bytes);
// Runs a command line: NUL-separated arguments exactly as the native tool `tilekiln-compiler` takes them:
//   compile MODEL [--input-shape …] … -o OUT                      -> result file OUT
//   inspect MODEL [--stage NAME] [--json] [--check] [--svg OUT]   -> text, result file OUT
//   tensor FILE.pb -o OUT.npy                                     -> result file OUT.npy
// Returns the exit code 0, 1 or 2.
KILN_EXPORT int32_t kilnc_run(const char* arguments, size_t bytes);

// Results: standard output and standard error as UTF-8, and the files written.
KILN_EXPORT const char* kilnc_stdout();
KILN_EXPORT const char* kilnc_stderr();
KILN_EXPORT const void* kilnc_result_data(const char* name, size_t name_bytes);
KILN_EXPORT size_t kilnc_result_bytes(const char* name, size_t name_bytes);
// Problems of the last job as a JSON array of {code, node, op, opset, attribute, value, supported, message}.
KILN_EXPORT const char* kilnc_problems_json();
}
