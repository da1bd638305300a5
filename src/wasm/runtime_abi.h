// The C ABI of the runtime artefacts (kiln-*.wasm): what js/src/core calls. Pointers are wasm32 offsets. The threaded
// ones export threads_abi.h besides.
//
// Errors: a call that fails returns 0 (handles, pointers) or a non-zero Code; kiln_error_*() then describe it until the
// next call. Nothing here traps on bad arguments: handles and indices are checked.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __EMSCRIPTEN__
#include <emscripten.h>
#define KILN_EXPORT EMSCRIPTEN_KEEPALIVE
#else
#define KILN_EXPORT
#endif

extern "C" {

KILN_EXPORT uint32_t kiln_abi_version();  // 1

// 64-byte aligned memory; 0 if there is none.
KILN_EXPORT void* kiln_alloc(size_t bytes);
KILN_EXPORT void kiln_free(void* pointer);

// The last error: a Code number, and NUL-terminated UTF-8 texts.
KILN_EXPORT int32_t kiln_error_code();
KILN_EXPORT const char* kiln_error_message();
KILN_EXPORT const char* kiln_error_node();

// Loads a bundle from kiln_alloc'ed bytes. On success the session owns them (freed by kiln_unload); on failure the
// caller still does. Returns a handle > 0, or 0.
KILN_EXPORT int32_t kiln_load(void* bundle, size_t bytes);
KILN_EXPORT void kiln_unload(int32_t handle);

// Numbers of a session. `what`: 0 profiles, 1 inputs, 2 outputs, 3 steps of the current profile, 4 metadata entries,
// 5 current profile, 6 weights bytes, 7 arena bytes, 8 peak live bytes, 9 prepared bytes. -1 for a bad handle. Exact up
// to 2^53.
KILN_EXPORT double kiln_count(int32_t handle, int32_t what);
KILN_EXPORT int32_t kiln_select_profile(int32_t handle, int32_t profile);  // Code

// IO of a profile. `io` is 0 for inputs, 1 for outputs. Names and layouts are NUL-terminated UTF-8.
KILN_EXPORT const char* kiln_io_name(int32_t handle, int32_t io, int32_t index);
KILN_EXPORT const char* kiln_io_layout(int32_t handle, int32_t io, int32_t index);
// 1 if axis 0 is a batch that may be padded: its rows do not depend on each other.
KILN_EXPORT int32_t kiln_io_batched(int32_t handle, int32_t io, int32_t index);
KILN_EXPORT int32_t kiln_io_dtype(int32_t handle, int32_t io, int32_t index);  // kiln::DType
KILN_EXPORT int32_t kiln_io_rank(int32_t handle, int32_t profile, int32_t io, int32_t index);
KILN_EXPORT int32_t kiln_io_dim(int32_t handle, int32_t profile, int32_t io, int32_t index, int32_t axis);
// Where the current profile's tensor lies: dense, row-major. Valid until select_profile or memory growth moves JS
// views.
KILN_EXPORT void* kiln_io_data(int32_t handle, int32_t io, int32_t index);

KILN_EXPORT const char* kiln_metadata_key(int32_t handle, int32_t index);
KILN_EXPORT const char* kiln_metadata_value(int32_t handle, int32_t index);

// Runs steps [begin, end); end = -1 means all. Code.
KILN_EXPORT int32_t kiln_run(int32_t handle, int32_t begin, int32_t end);
// `what`: 0 op, 1 node name, 2 kernel.
KILN_EXPORT const char* kiln_step_text(int32_t handle, int32_t step, int32_t what);
KILN_EXPORT double kiln_step_macs(int32_t handle, int32_t step);

// --- vision (src/vision) ---
// Pre-processing: reads an 8-bit image (channels 1, 3 or 4, rows `row_bytes` apart) and writes f32 or u8 into `out`.
// `recipe` is a VisionRecipe (see vision/preprocess.h), `placement` receives a VisionPlacement (how pixels map back).
KILN_EXPORT int32_t kiln_preprocess(const uint8_t* image, int32_t width, int32_t height, int32_t channels,
                                    int32_t row_bytes, const void* recipe, size_t recipe_bytes, void* out,
                                    size_t out_bytes, void* placement, size_t placement_bytes);
// Decoding: reads the model's output tensors, writes up to `max_detections` Detection structs (vision/detect.h) sorted
// by falling score, in pixels of the original image. Returns how many, or -(Code).
KILN_EXPORT int32_t kiln_detect(const void* request, size_t request_bytes, void* detections, int32_t max_detections);
// Top-k of n scores: writes k indices and k scores, highest first, ties by lower index. Softmax first if asked.
KILN_EXPORT int32_t kiln_top_k(const float* scores, int32_t n, int32_t k, int32_t apply_softmax, int32_t* indices,
                               float* out_scores);
}
