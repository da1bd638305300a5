#include "vision/preprocess.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "vision/resample.h"

using namespace kiln;

namespace {

struct Image {
  std::vector<uint8_t> bytes;
  ImageView view;

  // Noise over a slope; rows padded with `gap` bytes of 255. Exactly as many bytes as the view says, for
  // ASan.
  Image(int32_t width, int32_t height, int32_t channels, int32_t gap, uint32_t seed) {
    const int32_t row_bytes = width * channels + gap;
    bytes.resize(size_t(row_bytes) * size_t(height) - size_t(gap), 255);
    for (int32_t y = 0; y < height; ++y) {
      for (int32_t i = 0; i < width * channels; ++i) {
        seed = seed * 1664525 + 1013904223;
        bytes[size_t(y * row_bytes + i)] = static_cast<uint8_t>((seed >> 25) + 127 * i / (width * channels));
      }
    }
    view = {bytes.data(), width, height, channels, row_bytes};
  }

  double pixel(int32_t x, int32_t y, int32_t c) const {
    return view.pixels[y * view.row_bytes + x * view.channels + (view.channels == 1 ? 0 : c)];
  }
};

// One output pixel of the plain bilinear filter, or of the triangle as wide as the scale.
double plain_resample(const Image& image, double scaled_w, double scaled_h, double x, double y, int32_t c,
                      bool antialias) {
  const auto taps = [&](int32_t source, double scaled, double at, std::vector<std::pair<int32_t, double>>& out) {
    const double ratio = source / scaled;
    const double support = antialias ? std::max(1.0, ratio) : 1.0;
    const double centre = (at + 0.5) * ratio;
    double sum = 0;
    for (int32_t s = -2; s < source + 2; ++s) {
      const double weight = 1 - std::fabs(s + 0.5 - centre) / support;
      if (weight <= 0) continue;
      if (antialias && (s < 0 || s >= source)) continue;
      out.push_back({std::clamp(s, 0, source - 1), weight});
      sum += weight;
    }
    for (auto& tap : out) tap.second /= sum;
  };
  std::vector<std::pair<int32_t, double>> across, down;
  taps(image.view.width, scaled_w, x, across);
  taps(image.view.height, scaled_h, y, down);
  double sum = 0;
  for (const auto& [sy, wy] : down) {
    for (const auto& [sx, wx] : across) sum += wx * wy * image.pixel(sx, sy, c);
  }
  return sum;
}

VisionRecipe letterbox(int32_t width, int32_t height) {
  VisionRecipe recipe;
  recipe.resize = static_cast<int32_t>(ResizeMode::kLetterbox);
  recipe.width = width;
  recipe.height = height;
  return recipe;
}

}  // namespace

TEST_CASE("letterbox_round_trip_within_half_a_pixel") {
  const int32_t sizes[][2] = {{641, 480}, {480, 641}, {1280, 720}, {333, 517}, {640, 640}, {31, 17}, {1921, 1079}};
  for (const auto& size : sizes) {
    for (const int32_t top_left : {0, 1}) {
      VisionRecipe recipe = letterbox(640, 640);
      recipe.top_left = top_left;
      recipe.floor_size = top_left;
      const ImageView view{nullptr, size[0], size[1], 3, size[0] * 3};
      VisionPlacement p;
      REQUIRE(place_image(view, recipe, &p).ok());
      CHECK(p.offset_x == std::floor(p.offset_x));
      CHECK(p.offset_y == std::floor(p.offset_y));
      const double ratio = std::min(640.0 / size[0], 640.0 / size[1]);
      const double scaled[2] = {top_left ? std::floor(size[0] * ratio) : std::floor(size[0] * ratio + 0.5),
                                top_left ? std::floor(size[1] * ratio) : std::floor(size[1] * ratio + 0.5)};
      INFO(size[0], " x ", size[1], top_left ? " top left" : " centred");
      // Where the resampling really puts a point, against the placement's way back; in image pixels where the
      // image shrinks, else in model pixels.
      for (double x = 0; x <= size[0]; x += size[0] / 8.0) {
        const double model = x * scaled[0] / size[0] + p.offset_x;
        CHECK(std::fabs((model - p.offset_x) / p.scale_x - x) * std::min(1.0, ratio) <= (top_left ? 1.0 : 0.5));
      }
      for (double y = 0; y <= size[1]; y += size[1] / 8.0) {
        const double model = y * scaled[1] / size[1] + p.offset_y;
        CHECK(std::fabs((model - p.offset_y) / p.scale_y - y) * std::min(1.0, ratio) <= (top_left ? 1.0 : 0.5));
      }
    }
  }
}

TEST_CASE("letterbox_641x480_has_odd_padding") {
  VisionPlacement p;
  REQUIRE(place_image({nullptr, 641, 480, 3, 641 * 3}, letterbox(640, 640), &p).ok());
  CHECK(p.scale_x == doctest::Approx(640.0 / 641));
  CHECK(p.offset_x == 0);
  CHECK(p.offset_y == 80);  // 640 - 479 = 161 rows: 80 above, 81 below
}

TEST_CASE("preprocess_matches_plain_resampling") {
  struct Case {
    int32_t width, height, channels, gap;
    int32_t to_width, to_height;
    ResizeMode mode;
    bool antialias, round;
  };
  const Case cases[] = {
      {37, 23, 3, 0, 32, 32, ResizeMode::kLetterbox, false, false},
      {37, 23, 4, 5, 32, 32, ResizeMode::kLetterbox, false, true},
      {23, 37, 1, 3, 33, 31, ResizeMode::kLetterbox, false, false},
      {9, 7, 3, 1, 30, 22, ResizeMode::kStretch, false, false},
      {9, 7, 4, 0, 5, 4, ResizeMode::kStretch, true, false},
      {64, 48, 3, 0, 24, 24, ResizeMode::kResizeCrop, true, false},
      {64, 48, 4, 0, 24, 24, ResizeMode::kResizeCrop, false, false},
      {33, 33, 3, 0, 33, 33, ResizeMode::kStretch, false, true},
      {1, 1, 3, 0, 6, 5, ResizeMode::kLetterbox, false, false},
      {2, 50, 3, 2, 7, 7, ResizeMode::kStretch, true, false},
  };
  uint32_t seed = 1;
  for (const Case& c : cases) {
    const Image image(c.width, c.height, c.channels, c.gap, ++seed);
    for (const int variant : {0, 1, 2, 3, 4}) {  // RGB planes, BGR planes, RGB interleaved, u8 planes, luma
      VisionRecipe recipe = letterbox(c.to_width, c.to_height);
      recipe.resize = static_cast<int32_t>(c.mode);
      recipe.resize_shorter = c.mode == ResizeMode::kResizeCrop ? 27 : 0;
      recipe.antialias = c.antialias;
      recipe.round_pixels = c.round;
      recipe.bgr = variant == 1;
      recipe.nhwc = variant == 2;
      recipe.u8 = variant == 3;
      recipe.channels = variant == 4 ? 1 : 3;
      const float mean[3] = {0.485f, 0.456f, 0.406f};
      const float std[3] = {0.229f, 0.224f, 0.225f};
      std::copy(mean, mean + 3, recipe.mean);
      std::copy(std, std + 3, recipe.std);
      std::vector<uint8_t> out(preprocessed_bytes(recipe));
      VisionPlacement p;
      REQUIRE(preprocess_image(image.view, recipe, out.data(), &p).ok());

      const bool fits = c.mode == ResizeMode::kLetterbox;
      double scaled_w = c.to_width, scaled_h = c.to_height;
      if (fits) {
        scaled_w = std::floor(c.width * static_cast<double>(p.scale_x) + 0.5);
        scaled_h = std::floor(c.height * static_cast<double>(p.scale_y) + 0.5);
      } else if (c.mode == ResizeMode::kResizeCrop) {
        scaled_w = 27 * c.width / std::min(c.width, c.height);
        scaled_h = 27 * c.height / std::min(c.width, c.height);
      }
      double worst = 0;
      for (int32_t y = 0; y < recipe.height; ++y) {
        for (int32_t x = 0; x < recipe.width; ++x) {
          const double sx = x - p.offset_x;
          const double sy = y - p.offset_y;
          const bool inside = !fits || (sx >= 0 && sy >= 0 && sx < scaled_w && sy < scaled_h);
          double rgb[3];
          for (int32_t k = 0; k < 3; ++k) {
            rgb[k] = inside ? plain_resample(image, scaled_w, scaled_h, sx, sy, k, c.antialias) : recipe.pad_value;
            if (c.round && !c.antialias) rgb[k] = std::floor(rgb[k] + 0.5);
          }
          for (int32_t k = 0; k < recipe.channels; ++k) {
            double expected = variant == 4   ? 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]
                              : variant == 1 ? rgb[2 - k]
                                             : rgb[k];
            if (variant != 3) expected = (expected / 255 - static_cast<double>(mean[k])) / static_cast<double>(std[k]);
            const size_t index =
                variant == 2 ? (size_t(y) * size_t(recipe.width) + size_t(x)) * 3 + size_t(k)
                             : (size_t(k) * size_t(recipe.height) + size_t(y)) * size_t(recipe.width) + size_t(x);
            double actual = 0;
            if (variant == 3) {
              actual = out[index];
              expected = std::floor(expected + 0.5);
            } else {
              float value;
              std::memcpy(&value, &out[index * 4], 4);
              actual = static_cast<double>(value);
            }
            worst = std::max(worst, std::fabs(actual - expected));
          }
        }
      }
      INFO(c.width, "x", c.height, "x", c.channels, " to ", c.to_width, "x", c.to_height, " variant ", variant);
      // A value just at .5 may round either way: one level.
      CHECK(worst <= (variant == 3 || c.round ? 1.0001 / (variant == 3 ? 1 : 255 * 0.22) : 2e-5));
    }
  }
}

TEST_CASE("preprocess_raw_recipe_keeps_whole_numbers") {
  const Image image(8, 8, 3, 0, 9);
  VisionRecipe recipe = letterbox(8, 8);
  recipe.scale = 1;
  std::vector<float> out(8 * 8 * 3);
  VisionPlacement p;
  REQUIRE(preprocess_image(image.view, recipe, out.data(), &p).ok());
  for (int32_t i = 0; i < 64; ++i) CHECK(static_cast<double>(out[size_t(i)]) == image.pixel(i % 8, i / 8, 0));
}

TEST_CASE("preprocess_rounds_half_up") {
  Image image(2, 1, 3, 0, 1);
  const uint8_t pixels[] = {10, 20, 30, 11, 20, 33};
  std::copy(pixels, pixels + 6, image.bytes.begin());
  VisionRecipe recipe = letterbox(1, 1);
  recipe.resize = static_cast<int32_t>(ResizeMode::kStretch);
  recipe.scale = 1;
  recipe.round_pixels = 1;
  float out[3];
  VisionPlacement p;
  REQUIRE(preprocess_image(image.view, recipe, out, &p).ok());
  CHECK(out[0] == 11);  // 10.5
  CHECK(out[1] == 20);
  CHECK(out[2] == 32);  // 31.5
}

TEST_CASE("axis_taps_add_up_to_one_and_stay_inside") {
  for (const bool antialias : {false, true}) {
    for (int32_t source : {1, 2, 7, 100, 1280}) {
      for (int32_t scaled : {1, 3, 64, 99, 640}) {
        const AxisTaps taps = make_axis_taps(source, scaled, 0, scaled, antialias);
        for (size_t i = 0; i < size_t(scaled); ++i) {
          double sum = 0;
          REQUIRE(taps.count[i] >= 1);
          REQUIRE(taps.count[i] <= taps.max_taps);
          REQUIRE(taps.first[i] >= 0);
          REQUIRE(taps.first[i] + taps.count[i] <= source);
          for (int32_t t = 0; t < taps.count[i]; ++t) sum += taps.weights[i * size_t(taps.max_taps) + size_t(t)];
          REQUIRE(sum == doctest::Approx(1).epsilon(1e-5));
        }
      }
    }
  }
}

TEST_CASE("preprocess_refuses_absurd_images_and_recipes") {
  VisionPlacement p;
  const VisionRecipe good = letterbox(32, 32);
  const auto refused = [&](ImageView view, const VisionRecipe& recipe) {
    return place_image(view, recipe, &p).code() == Code::kInvalidArgument;
  };
  CHECK_FALSE(refused({nullptr, 4, 4, 3, 12}, good));
  CHECK(refused({nullptr, 0, 4, 3, 12}, good));
  CHECK(refused({nullptr, 4, -1, 3, 12}, good));
  CHECK(refused({nullptr, 1 << 20, 4, 3, 3 << 20}, good));
  CHECK(refused({nullptr, 4, 4, 2, 12}, good));
  CHECK(refused({nullptr, 4, 4, 3, 11}, good));
  for (int which = 0; which < 9; ++which) {
    VisionRecipe bad = good;
    if (which == 0) bad.width = 0;
    if (which == 1) bad.height = 1 << 20;
    if (which == 2) bad.channels = 4;
    if (which == 3) bad.scale = 0;
    if (which == 4) bad.std[1] = 0;
    if (which == 5) bad.resize = 3;
    if (which == 6) bad.pad_value = NAN;
    if (which == 7) bad.mean[2] = INFINITY;
    if (which == 8) bad.resize_shorter = -1;
    INFO(which);
    CHECK(refused({nullptr, 4, 4, 3, 12}, bad));
  }
  VisionRecipe crop = letterbox(224, 224);
  crop.resize = static_cast<int32_t>(ResizeMode::kResizeCrop);
  crop.resize_shorter = 100;
  CHECK(refused({nullptr, 640, 480, 3, 1920}, crop));
}
