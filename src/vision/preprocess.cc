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
    return {Code::kInvalidArgument,
            strf("image of %d x %d pixels; each side must be 1 to %d", image.width, image.height, kMaxImageSide)};
  }
  if (image.channels != 1 && image.channels != 3 && image.channels != 4) {
    return {Code::kInvalidArgument, strf("image with %d channels; allowed: 1, 3, 4", image.channels)};
  }
  if (image.row_bytes < image.width * image.channels) {
    return {Code::kInvalidArgument, strf("rows are %d bytes apart, less than %d pixels of %d channels", image.row_bytes,
                                         image.width, image.channels)};
  }
  if (recipe.width < 1 || recipe.height < 1 || recipe.width > kMaxImageSide || recipe.height > kMaxImageSide ||
      (recipe.channels != 1 && recipe.channels != 3)) {
    return {Code::kInvalidArgument,
            strf("model input of %d x %d pixels and %d channels; allowed: sides 1 to %d, 1 or 3 "
                 "channels",
                 recipe.width, recipe.height, recipe.channels, kMaxImageSide)};
  }
  bool finite = std::isfinite(recipe.scale) && recipe.scale != 0 && std::isfinite(recipe.pad_value);
  for (int c = 0; c < 3; ++c) {
    finite = finite && std::isfinite(recipe.mean[c]) && std::isfinite(recipe.std[c]) && recipe.std[c] != 0;
  }
  if (!finite || recipe.resize < 0 || recipe.resize > 2 || recipe.resize_shorter < 0 ||
      recipe.resize_shorter > kMaxImageSide) {
    return {Code::kInvalidArgument,
            "preprocessing recipe: numbers must be finite, scale and std not 0, resize a known mode"};
  }
  return {};
}

Status find_region(const ImageView& image, const VisionRecipe& recipe, Region* region, VisionPlacement* placement) {
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
    const double ratio =
        std::min(static_cast<double>(recipe.width) / image.width, static_cast<double>(recipe.height) / image.height);
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
  const int32_t shorter = recipe.resize_shorter > 0 ? recipe.resize_shorter : std::min(recipe.width, recipe.height);
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

v128_t low_to_f32(v128_t u16) { return wasm_f32x4_convert_u32x4(wasm_u32x4_extend_low_u16x8(u16)); }
v128_t high_to_f32(v128_t u16) { return wasm_f32x4_convert_u32x4(wasm_u32x4_extend_high_u16x8(u16)); }

// One pixel as four floats: r g b and anything.
v128_t load_pixel(const uint8_t* pixel, int32_t channels, bool four_readable) {
  if (channels == 1) return wasm_f32x4_splat(static_cast<float>(pixel[0]));
  const v128_t bytes = channels == 4 || four_readable
                           ? wasm_v128_load32_zero(pixel)
                           : wasm_i32x4_make(pixel[0] | pixel[1] << 8 | pixel[2] << 16, 0, 0, 0);
  return low_to_f32(wasm_u16x8_extend_low_u8x16(bytes));
}

v128_t round_half_up(v128_t v) { return wasm_f32x4_floor(wasm_f32x4_add(v, wasm_f32x4_splat(0.5f))); }

// Two neighbouring pixels of an RGB or RGBA row, as floats; eight bytes are readable.
struct PixelPair {
  v128_t first, second;
};
PixelPair load_pair(const uint8_t* pixels, int32_t channels) {
  v128_t bytes = wasm_v128_load64_zero(pixels);
  if (channels == 3) bytes = wasm_i8x16_shuffle(bytes, bytes, 0, 1, 2, 8, 3, 4, 5, 8, 8, 8, 8, 8, 8, 8, 8, 8);
  const v128_t u16 = wasm_u16x8_extend_low_u8x16(bytes);
  return {low_to_f32(u16), high_to_f32(u16)};
}

// Scales one source row horizontally into `out`, four floats a pixel.
void scale_row(const ImageView& image, int32_t y, const AxisTaps& taps, bool round, float* out) {
  const uint8_t* row = image.pixels + static_cast<ptrdiff_t>(y) * image.row_bytes;
  const int32_t channels = image.channels;
  const auto size = static_cast<int32_t>(taps.first.size());
  for (int32_t i = 0; i < size; ++i) {
    const int32_t first = taps.first[size_t(i)];
    const int32_t count = taps.count[size_t(i)];
    const float* weights = &taps.weights[size_t(i) * size_t(taps.max_taps)];
    v128_t sum;
    // Eight bytes are two RGBA pixels, or less than three RGB pixels.
    if (count == 2 && channels > 1 && first + (channels == 4 ? 1 : 2) < image.width) {
      const PixelPair pair = load_pair(row + first * channels, channels);
      sum = wasm_f32x4_add(wasm_f32x4_mul(pair.first, wasm_v128_load32_splat(weights)),
                           wasm_f32x4_mul(pair.second, wasm_v128_load32_splat(weights + 1)));
    } else {
      sum = wasm_f32x4_splat(0);
      for (int32_t t = 0; t < count; ++t) {
        const int32_t x = first + t;
        const v128_t pixel = load_pixel(row + x * channels, channels, x + 1 < image.width);
        sum = wasm_f32x4_add(sum, wasm_f32x4_mul(pixel, wasm_v128_load32_splat(weights + t)));
      }
    }
    wasm_v128_store(out + 4 * i, round ? round_half_up(sum) : sum);
  }
}

// out = sum over t of weights[t] * rows[t], n floats, n a multiple of 4. `out` is none of the rows.
void blend_rows(const float* const* rows, const float* weights, int32_t count, int32_t n, float* out) {
  for (int32_t t = 0; t < count; t += 2) {
    // Two rows at a time; a row on its own is paired with itself at weight 0.
    const bool pair = t + 1 < count;
    const float* a = rows[t];
    const float* b = rows[pair ? t + 1 : t];
    const v128_t wa = wasm_v128_load32_splat(weights + t);
    const v128_t wb = wasm_f32x4_splat(pair ? weights[t + 1] : 0.0f);
    for (int32_t i = 0; i < n; i += 4) {
      v128_t sum = wasm_f32x4_add(wasm_f32x4_mul(wasm_v128_load(a + i), wa), wasm_f32x4_mul(wasm_v128_load(b + i), wb));
      if (t > 0) sum = wasm_f32x4_add(wasm_v128_load(out + i), sum);
      wasm_v128_store(out + i, sum);
    }
  }
}

// Writes finished rows in the recipe's colour order, layout and dtype: four pixels (r g b in lanes 0-2 each)
// are turned into a vector a channel, rounded if asked, normalised as x * factor + summand.
class RowWriter {
 public:
  RowWriter(const VisionRecipe& recipe, void* out) : recipe_(recipe), out_(out) {
    for (int c = 0; c < 3; ++c) {
      const double std = recipe.std[c];
      factor_[c] = recipe.u8 ? 1.0f : static_cast<float>(1 / (static_cast<double>(recipe.scale) * std));
      summand_[c] = recipe.u8 ? 0.0f : static_cast<float>(-static_cast<double>(recipe.mean[c]) / std);
    }
    plane_ = static_cast<ptrdiff_t>(recipe.width) * recipe.height;
  }

  // `pixels` has n pixels and is readable up to the next multiple of 4; `index` is the first one's place in
  // the input.
  void write(const float* pixels, int32_t n, ptrdiff_t index) const {
    for (int32_t i = 0; i < n; i += 4, index += 4) {
      v128_t planes[3];
      transpose(pixels + 4 * i, planes);
      for (int c = 0; c < 3 && recipe_.round_pixels; ++c) planes[c] = round_half_up(planes[c]);
      if (recipe_.channels == 1) {  // BT.601 luma
        planes[0] = wasm_f32x4_add(wasm_f32x4_add(wasm_f32x4_mul(planes[0], wasm_f32x4_splat(0.299f)),
                                                  wasm_f32x4_mul(planes[1], wasm_f32x4_splat(0.587f))),
                                   wasm_f32x4_mul(planes[2], wasm_f32x4_splat(0.114f)));
      } else if (recipe_.bgr) {
        std::swap(planes[0], planes[2]);
      }
      for (int32_t c = 0; c < recipe_.channels; ++c) {
        const v128_t scaled = wasm_f32x4_mul(planes[c], wasm_f32x4_splat(factor_[c]));
        store(c, index, std::min(4, n - i), wasm_f32x4_add(scaled, wasm_f32x4_splat(summand_[c])));
      }
    }
  }

 private:
  static void transpose(const float* pixels, v128_t planes[3]) {
    const v128_t p0 = wasm_v128_load(pixels);
    const v128_t p1 = wasm_v128_load(pixels + 4);
    const v128_t p2 = wasm_v128_load(pixels + 8);
    const v128_t p3 = wasm_v128_load(pixels + 12);
    const v128_t low01 = wasm_i32x4_shuffle(p0, p1, 0, 4, 1, 5);
    const v128_t low23 = wasm_i32x4_shuffle(p2, p3, 0, 4, 1, 5);
    planes[0] = wasm_i32x4_shuffle(low01, low23, 0, 1, 4, 5);
    planes[1] = wasm_i32x4_shuffle(low01, low23, 2, 3, 6, 7);
    planes[2] =
        wasm_i32x4_shuffle(wasm_i32x4_shuffle(p0, p1, 2, 6, 2, 6), wasm_i32x4_shuffle(p2, p3, 2, 6, 2, 6), 0, 1, 4, 5);
  }

  // Channel c of n <= 4 pixels.
  void store(int32_t c, ptrdiff_t index, int32_t n, v128_t value) const {
    const ptrdiff_t step = recipe_.nhwc ? recipe_.channels : 1;
    const ptrdiff_t at = recipe_.nhwc ? index * recipe_.channels + c : c * plane_ + index;
    if (recipe_.u8) {
      value = wasm_f32x4_pmin(wasm_f32x4_pmax(round_half_up(value), wasm_f32x4_splat(0)), wasm_f32x4_splat(255));
    } else if (n == 4 && step == 1) {
      wasm_v128_store(static_cast<float*>(out_) + at, value);
      return;
    }
    float lanes[4];
    wasm_v128_store(lanes, value);
    for (int32_t k = 0; k < n; ++k) {
      if (recipe_.u8)
        static_cast<uint8_t*>(out_)[at + k * step] = static_cast<uint8_t>(lanes[k]);
      else
        static_cast<float*>(out_)[at + k * step] = lanes[k];
    }
  }

  const VisionRecipe& recipe_;
  void* out_;
  float factor_[3], summand_[3];  // in the order of the model's channels
  ptrdiff_t plane_;
};

// `row` has room for a row of pixels; it ends up as one of padding.
void fill_padding(const VisionRecipe& recipe, const Region& region, const RowWriter& writer, std::vector<float>& row) {
  std::fill(row.begin(), row.end(), recipe.pad_value);
  const int32_t right = region.x + region.width;
  for (int32_t y = 0; y < recipe.height; ++y) {
    const ptrdiff_t begin = static_cast<ptrdiff_t>(y) * recipe.width;
    if (y < region.y || y >= region.y + region.height) {
      writer.write(row.data(), recipe.width, begin);
    } else {
      writer.write(row.data(), region.x, begin);
      writer.write(row.data(), recipe.width - right, begin + right);
    }
  }
}

}  // namespace

Status place_image(const ImageView& image, const VisionRecipe& recipe, VisionPlacement* placement) {
  Region region;
  return find_region(image, recipe, &region, placement);
}

size_t preprocessed_bytes(const VisionRecipe& recipe) {
  return static_cast<size_t>(recipe.width) * static_cast<size_t>(recipe.height) * static_cast<size_t>(recipe.channels) *
         (recipe.u8 ? 1 : 4);
}

Status preprocess_image(const ImageView& image, const VisionRecipe& recipe, void* out, VisionPlacement* placement) {
  Region region;
  KILN_TRY(find_region(image, recipe, &region, placement));
  const bool antialias = recipe.antialias != 0;
  const AxisTaps across = make_axis_taps(image.width, region.scaled_width, region.crop_x, region.width, antialias);
  const AxisTaps down = make_axis_taps(image.height, region.scaled_height, region.crop_y, region.height, antialias);
  // Scaled source rows are kept in a ring: neighbouring output rows share them.
  const int32_t ring = down.max_taps + 1;
  const size_t row_floats = static_cast<size_t>(region.width) * 4;
  std::vector<float> rows(row_floats * static_cast<size_t>(ring));
  std::vector<int32_t> held(static_cast<size_t>(ring), -1);
  std::vector<const float*> taken(static_cast<size_t>(ring));
  std::vector<float> blended((static_cast<size_t>(recipe.width) + 4) * 4);
  const RowWriter writer(recipe, out);
  fill_padding(recipe, region, writer, blended);
  // Pillow keeps 8 bits between its two passes; OpenCV's float form does not.
  const bool round_between = recipe.round_pixels != 0 && antialias;
  for (int32_t y = 0; y < region.height; ++y) {
    const int32_t first = down.first[size_t(y)];
    const int32_t count = down.count[size_t(y)];
    for (int32_t t = 0; t < count; ++t) {
      const int32_t slot = (first + t) % ring;
      float* row = &rows[row_floats * size_t(slot)];
      taken[size_t(t)] = row;
      if (held[size_t(slot)] == first + t) continue;
      held[size_t(slot)] = first + t;
      scale_row(image, first + t, across, round_between, row);
    }
    blend_rows(taken.data(), &down.weights[size_t(y) * size_t(down.max_taps)], count, region.width * 4, blended.data());
    writer.write(blended.data(), region.width, static_cast<ptrdiff_t>(region.y + y) * recipe.width + region.x);
  }
  return {};
}

}  // namespace kiln
