#include "vision/preprocess.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/simd.h"
#include "vision/resample.h"

namespace kiln {
namespace {

// The part of the model's input that the image covers, and what the whole image is scaled to.
struct Region {
  int32_t scaled_width, scaled_height;  // size of the whole image after scaling
  int32_t crop_x, crop_y;               // first scaled pixel that is kept
  int32_t x, y, width, height;          // where it goes in the model's input
};

Status check_image(const ImageView& image, const VisionRecipe& recipe) {
  if (image.width < 1 || image.height < 1 || image.width > kMaxImageSide || image.height > kMaxImageSide) {
    return {Code::kInvalidArgument, strf("image of %d x %d pixels; each side must be 1 to %d", image.width,
                                         image.height, kMaxImageSide)};
  }
  if (image.channels != 1 && image.channels != 3 && image.channels != 4) {
    return {Code::kInvalidArgument, strf("image with %d channels; allowed: 1, 3, 4", image.channels)};
  }
  if (image.row_bytes < image.width * image.channels) {
    return {Code::kInvalidArgument, strf("rows are %d bytes apart, less than %d pixels of %d channels",
                                         image.row_bytes, image.width, image.channels)};
  }
  if (recipe.width < 1 || recipe.height < 1 || recipe.width > kMaxImageSide ||
      recipe.height > kMaxImageSide || (recipe.channels != 1 && recipe.channels != 3)) {
    return {Code::kInvalidArgument,
            strf("model input of %d x %d pixels and %d channels; allowed: sides 1 to %d, 1 or 3 "
                 "channels",
                 recipe.width, recipe.height, recipe.channels, kMaxImageSide)};
  }
  const bool finite = std::isfinite(recipe.scale) && recipe.scale != 0 && recipe.std[0] != 0 &&
                      recipe.std[1] != 0 && recipe.std[2] != 0;
  if (!finite || recipe.resize < 0 || recipe.resize > 2 || recipe.resize_shorter < 0 ||
      recipe.resize_shorter > kMaxImageSide) {
    return {Code::kInvalidArgument,
            "preprocessing recipe: scale and std must not be 0, resize must be a known mode"};
  }
  return {};
}

Status find_region(const ImageView& image, const VisionRecipe& recipe, Region* region,
                   VisionPlacement* placement) {
  KILN_TRY(check_image(image, recipe));
  *placement = {1, 1, 0, 0, image.width, image.height};
  const auto mode = static_cast<ResizeMode>(recipe.resize);
  if (mode == ResizeMode::kStretch) {
    *region = {recipe.width, recipe.height, 0, 0, 0, 0, recipe.width, recipe.height};
    placement->scale_x = static_cast<float>(recipe.width) / static_cast<float>(image.width);
    placement->scale_y = static_cast<float>(recipe.height) / static_cast<float>(image.height);
    return {};
  }
  if (mode == ResizeMode::kLetterbox) {
    const double ratio = std::min(static_cast<double>(recipe.width) / image.width,
                                  static_cast<double>(recipe.height) / image.height);
    const auto scaled = [&](int32_t side, int32_t limit) {
      const double size = recipe.floor_size ? std::floor(side * ratio) : std::floor(side * ratio + 0.5);
      return std::clamp(static_cast<int32_t>(size), 1, limit);
    };
    const int32_t width = scaled(image.width, recipe.width);
    const int32_t height = scaled(image.height, recipe.height);
    const int32_t x = recipe.top_left ? 0 : (recipe.width - width) / 2;
    const int32_t y = recipe.top_left ? 0 : (recipe.height - height) / 2;
    *region = {width, height, 0, 0, x, y, width, height};
    placement->scale_x = placement->scale_y = static_cast<float>(ratio);
    placement->offset_x = static_cast<float>(x);
    placement->offset_y = static_cast<float>(y);
    return {};
  }
  const int32_t shorter =
      recipe.resize_shorter > 0 ? recipe.resize_shorter : std::min(recipe.width, recipe.height);
  const int32_t image_shorter = std::min(image.width, image.height);
  const auto scaled = [&](int32_t side) {
    return static_cast<int32_t>(std::min<int64_t>(int64_t{shorter} * side / image_shorter, int64_t{1} << 24));
  };
  const int32_t width = scaled(image.width);
  const int32_t height = scaled(image.height);
  if (width < recipe.width || height < recipe.height) {
    return {Code::kInvalidArgument,
            strf("preprocessing recipe: the image is scaled to %d x %d, smaller than the crop of "
                 "%d x %d; raise resize_shorter",
                 width, height, recipe.width, recipe.height)};
  }
  const int32_t crop_x = static_cast<int32_t>(std::nearbyint((width - recipe.width) / 2.0));
  const int32_t crop_y = static_cast<int32_t>(std::nearbyint((height - recipe.height) / 2.0));
  *region = {width, height, crop_x, crop_y, 0, 0, recipe.width, recipe.height};
  placement->scale_x = static_cast<float>(width) / static_cast<float>(image.width);
  placement->scale_y = static_cast<float>(height) / static_cast<float>(image.height);
  placement->offset_x = static_cast<float>(-crop_x);
  placement->offset_y = static_cast<float>(-crop_y);
  return {};
}

// One pixel as four floats: r g b (a).
v128_t load_pixel(const uint8_t* pixel, int32_t channels, bool four_readable) {
  v128_t bytes;
  if (channels == 4 || (channels == 3 && four_readable)) {
    bytes = wasm_v128_load32_zero(pixel);
  } else if (channels == 3) {
    bytes = wasm_i32x4_make(pixel[0] | pixel[1] << 8 | pixel[2] << 16, 0, 0, 0);
  } else {
    return wasm_f32x4_splat(static_cast<float>(pixel[0]));
  }
  return wasm_f32x4_convert_u32x4(wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(bytes)));
}

v128_t round_half_up(v128_t v) { return wasm_f32x4_floor(wasm_f32x4_add(v, wasm_f32x4_splat(0.5f))); }

// Scales one source row horizontally into `out`, four floats a pixel.
void scale_row(const ImageView& image, int32_t y, const AxisTaps& taps, bool round, float* out) {
  const uint8_t* row = image.pixels + static_cast<ptrdiff_t>(y) * image.row_bytes;
  const auto size = static_cast<int32_t>(taps.first.size());
  for (int32_t i = 0; i < size; ++i) {
    const int32_t first = taps.first[size_t(i)];
    const int32_t count = taps.count[size_t(i)];
    const float* weights = &taps.weights[size_t(i) * size_t(taps.max_taps)];
    v128_t sum = wasm_f32x4_splat(0);
    for (int32_t t = 0; t < count; ++t) {
      const int32_t x = first + t;
      const v128_t pixel = load_pixel(row + x * image.channels, image.channels, x + 1 < image.width);
      sum = wasm_f32x4_add(sum, wasm_f32x4_mul(pixel, wasm_v128_load32_splat(weights + t)));
    }
    wasm_v128_store(out + 4 * i, round ? round_half_up(sum) : sum);
  }
}

// Writes one finished pixel (r g b in lanes 0-2) in the recipe's colour order, layout and dtype.
class PixelWriter {
 public:
  PixelWriter(const VisionRecipe& recipe, void* out) : recipe_(recipe), out_(out) {
    scale_ = wasm_f32x4_splat(recipe.scale);
    const int r = recipe.bgr ? 2 : 0;
    // Lanes hold r g b; mean and std are in the model's channel order.
    mean_ = wasm_f32x4_make(recipe.mean[r], recipe.mean[1], recipe.mean[2 - r], 0);
    std_ = wasm_f32x4_make(recipe.std[r], recipe.std[1], recipe.std[2 - r], 1);
    plane_ = static_cast<ptrdiff_t>(recipe.width) * recipe.height;
  }

  v128_t normalize(v128_t pixel) const {
    return wasm_f32x4_div(wasm_f32x4_sub(wasm_f32x4_div(pixel, scale_), mean_), std_);
  }

  // `value` is normalised for f32, 0..255 for u8.
  void write(ptrdiff_t index, v128_t value) const {
    const int32_t c = recipe_.channels;
    float lanes[4];
    wasm_v128_store(lanes, value);
    if (recipe_.bgr) std::swap(lanes[0], lanes[2]);
    const ptrdiff_t step = recipe_.nhwc ? 1 : plane_;
    const ptrdiff_t base = recipe_.nhwc ? index * c : index;
    for (int32_t k = 0; k < c; ++k) {
      if (recipe_.u8) {
        const float clamped = std::min(255.0f, std::max(0.0f, std::floor(lanes[k] + 0.5f)));
        static_cast<uint8_t*>(out_)[base + k * step] = static_cast<uint8_t>(clamped);
      } else {
        static_cast<float*>(out_)[base + k * step] = lanes[k];
      }
    }
  }

  v128_t finish(v128_t pixel) const {
    if (recipe_.channels == 1) {  // BT.601 luma
      const float luma = 0.299f * wasm_f32x4_extract_lane(pixel, 0) +
                         0.587f * wasm_f32x4_extract_lane(pixel, 1) +
                         0.114f * wasm_f32x4_extract_lane(pixel, 2);
      pixel = wasm_f32x4_splat(luma);
    }
    return recipe_.u8 ? pixel : normalize(pixel);
  }

 private:
  const VisionRecipe& recipe_;
  void* out_;
  v128_t scale_, mean_, std_;
  ptrdiff_t plane_;
};

void fill_padding(const VisionRecipe& recipe, const Region& region, const PixelWriter& writer) {
  const v128_t pad = writer.finish(wasm_f32x4_splat(recipe.pad_value));
  for (int32_t y = 0; y < recipe.height; ++y) {
    const bool in_rows = y >= region.y && y < region.y + region.height;
    const ptrdiff_t row = static_cast<ptrdiff_t>(y) * recipe.width;
    const int32_t left_end = in_rows ? region.x : recipe.width;
    for (int32_t x = 0; x < left_end; ++x) writer.write(row + x, pad);
    if (!in_rows) continue;
    for (int32_t x = region.x + region.width; x < recipe.width; ++x) writer.write(row + x, pad);
  }
}

}  // namespace

Status place_image(const ImageView& image, const VisionRecipe& recipe, VisionPlacement* placement) {
  Region region;
  return find_region(image, recipe, &region, placement);
}

size_t preprocessed_bytes(const VisionRecipe& recipe) {
  return static_cast<size_t>(recipe.width) * static_cast<size_t>(recipe.height) *
         static_cast<size_t>(recipe.channels) * (recipe.u8 ? 1 : 4);
}

Status preprocess_image(const ImageView& image, const VisionRecipe& recipe, void* out,
                        VisionPlacement* placement) {
  Region region;
  KILN_TRY(find_region(image, recipe, &region, placement));
  const bool antialias = recipe.antialias != 0;
  const AxisTaps across =
      make_axis_taps(image.width, region.scaled_width, region.crop_x, region.width, antialias);
  const AxisTaps down =
      make_axis_taps(image.height, region.scaled_height, region.crop_y, region.height, antialias);
  // Scaled source rows are kept in a ring: neighbouring output rows share them.
  const int32_t ring = down.max_taps + 1;
  const size_t row_floats = static_cast<size_t>(region.width) * 4;
  std::vector<float> rows(row_floats * static_cast<size_t>(ring));
  std::vector<int32_t> held(static_cast<size_t>(ring), -1);
  const PixelWriter writer(recipe, out);
  fill_padding(recipe, region, writer);
  const bool round = recipe.round_pixels != 0;
  for (int32_t y = 0; y < region.height; ++y) {
    const int32_t first = down.first[size_t(y)];
    const int32_t count = down.count[size_t(y)];
    for (int32_t t = 0; t < count; ++t) {
      const int32_t slot = (first + t) % ring;
      if (held[size_t(slot)] == first + t) continue;
      held[size_t(slot)] = first + t;
      // Pillow keeps 8 bits between its two passes; OpenCV's float form does not.
      scale_row(image, first + t, across, round && antialias, &rows[row_floats * size_t(slot)]);
    }
    const float* weights = &down.weights[size_t(y) * size_t(down.max_taps)];
    const ptrdiff_t base = static_cast<ptrdiff_t>(region.y + y) * recipe.width + region.x;
    for (int32_t x = 0; x < region.width; ++x) {
      v128_t sum = wasm_f32x4_splat(0);
      for (int32_t t = 0; t < count; ++t) {
        const float* row = &rows[row_floats * size_t((first + t) % ring)];
        sum = wasm_f32x4_add(
            sum, wasm_f32x4_mul(wasm_v128_load(row + 4 * x), wasm_v128_load32_splat(weights + t)));
      }
      if (round) sum = round_half_up(sum);
      writer.write(base + x, writer.finish(sum));
    }
  }
  return {};
}

}  // namespace kiln
