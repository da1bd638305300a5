// From an image's 8-bit pixels to a model's input: resize or letterbox, colour order, normalisation, layout.
//
// input[c] = (pixel[c] / scale - mean[c]) / std[c]
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace kiln {

enum class ResizeMode : int32_t {
  kStretch = 0,     // both sides to the target, aspect not kept
  kLetterbox = 1,   // r = min(W / w, H / h); the rest of the target is pad_value
  kResizeCrop = 2,  // shorter side to resize_shorter, then the centre W x H
};

// How a preset prepares an image. A POD that JS fills: every field is 4 bytes, in this order; 80 bytes.
struct VisionRecipe {
  int32_t resize = 0;  // ResizeMode
  int32_t width = 0;   // of the model's input
  int32_t height = 0;
  int32_t channels = 3;        // of the model's input: 1 (luma, BT.601) or 3
  int32_t resize_shorter = 0;  // for kResizeCrop; 0 = the shorter target side
  int32_t top_left = 0;        // letterbox: 1 = image at the top left, 0 = centred with whole-pixel pads
  int32_t floor_size = 0;      // letterbox: 1 = scaled size rounds down, 0 = to nearest
  int32_t antialias = 0;       // 1 = triangle filter as wide as the scale (Pillow's BILINEAR); 0 = two taps (OpenCV)
  int32_t round_pixels = 0;    // 1 = resized pixels are rounded to whole numbers, half up
  int32_t bgr = 0;
  int32_t nhwc = 0;
  int32_t u8 = 0;  // 1 = output bytes without normalisation
  float pad_value = 114;
  float scale = 255;
  float mean[3] = {0, 0, 0};
  float std[3] = {1, 1, 1};
};
static_assert(sizeof(VisionRecipe) == 80);

// Where an image's pixels went: model = image * scale + offset. A POD of six 4-byte fields.
struct VisionPlacement {
  float scale_x = 1;
  float scale_y = 1;
  float offset_x = 0;  // model pixels; whole numbers for letterbox
  float offset_y = 0;
  int32_t image_width = 0;
  int32_t image_height = 0;
};
static_assert(sizeof(VisionPlacement) == 24);

// An 8-bit image: 1 (grey), 3 (RGB) or 4 (RGBA; alpha is ignored) interleaved channels.
struct ImageView {
  const uint8_t* pixels = nullptr;  // (height, width, channels), rows row_bytes apart
  int32_t width = 0;
  int32_t height = 0;
  int32_t channels = 0;
  int32_t row_bytes = 0;
};

constexpr int32_t kMaxImageSide = 32768;

// Where `recipe` puts an image of this size; an error names the size at fault.
Status place_image(const ImageView& image, const VisionRecipe& recipe, VisionPlacement* placement);

// Bytes that preprocess_image writes.
size_t preprocessed_bytes(const VisionRecipe& recipe);

// Fills `out` (f32 or u8, (c, h, w) or (h, w, c)) and tells the placement. Errors: kInvalidArgument,
// kOutOfMemory.
Status preprocess_image(const ImageView& image, const VisionRecipe& recipe, void* out, VisionPlacement* placement);

}  // namespace kiln
