// kiln_preprocess, kiln_detect and kiln_top_k of runtime_abi.h: unpack PODs, call src/vision, report errors.
#include <algorithm>
#include <cstring>
#include <vector>

#include "vision/classify.h"
#include "vision/detect.h"
#include "vision/preprocess.h"
#include "wasm/last_error.h"
#include "wasm/runtime_abi.h"

using kiln::Code;
using kiln::Status;

namespace {

template <typename T>
bool read_pod(const void* bytes, size_t size, T* pod) {
  if (bytes == nullptr || size != sizeof(T)) return false;
  std::memcpy(pod, bytes, sizeof(T));
  return true;
}

int32_t wrong_size(const char* what) {
  return kiln::set_last_error({Code::kInvalidArgument, kiln::strf("%s has the wrong size for this runtime", what)});
}

}  // namespace

int32_t kiln_preprocess(const uint8_t* image, int32_t width, int32_t height, int32_t channels, int32_t row_bytes,
                        const void* recipe, size_t recipe_bytes, void* out, size_t out_bytes, void* placement,
                        size_t placement_bytes) {
  kiln::VisionRecipe vision_recipe;
  if (!read_pod(recipe, recipe_bytes, &vision_recipe)) return wrong_size("the recipe");
  if (placement == nullptr || placement_bytes != sizeof(kiln::VisionPlacement)) return wrong_size("the placement");
  const kiln::ImageView view{image, width, height, channels, row_bytes};
  kiln::VisionPlacement vision_placement;
  const Status placed = kiln::place_image(view, vision_recipe, &vision_placement);
  if (!placed.ok()) return kiln::set_last_error(placed);
  if (out_bytes != kiln::preprocessed_bytes(vision_recipe)) return wrong_size("the model's input");
  const Status status = kiln::preprocess_image(view, vision_recipe, out, &vision_placement);
  if (!status.ok()) return kiln::set_last_error(status);
  std::memcpy(placement, &vision_placement, sizeof(vision_placement));
  return 0;
}

int32_t kiln_detect(const void* request, size_t request_bytes, void* detections, int32_t max_detections) {
  kiln::DetectRequest detect_request;
  if (!read_pod(request, request_bytes, &detect_request)) return -wrong_size("the request");
  std::vector<kiln::Detection> boxes;
  const auto* data = reinterpret_cast<const float*>(static_cast<uintptr_t>(static_cast<uint32_t>(detect_request.data)));
  const Status status = kiln::detect_boxes(detect_request, data, &boxes);
  if (!status.ok()) return -kiln::set_last_error(status);
  const size_t count = std::min(boxes.size(), static_cast<size_t>(std::max(0, max_detections)));
  if (count > 0) std::memcpy(detections, boxes.data(), count * sizeof(kiln::Detection));
  return static_cast<int32_t>(count);
}

int32_t kiln_top_k(const float* scores, int32_t n, int32_t k, int32_t apply_softmax, int32_t* indices,
                   float* out_scores) {
  if (n < 0 || k < 0 || k > n) {
    return kiln::set_last_error({Code::kInvalidArgument, kiln::strf("top %d of %d scores; allowed: 0 to %d", k, n, n)});
  }
  kiln::top_k(scores, n, k, apply_softmax != 0, indices, out_scores);
  return 0;
}
