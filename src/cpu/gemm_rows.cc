#include "cpu/gemm_rows.h"

#include <algorithm>
#include <cstring>

namespace kiln {
namespace {

constexpr int32_t kShortSegment = 8;  // shorter ones cost more than a copy

// Where the window of each row of a tile begins.
struct TileOrigins {
  const float* image[kMaxTileRows];
  int32_t top[kMaxTileRows], left[kMaxTileRows];
};

TileOrigins locate_tile(const WindowRows& w, int32_t row, int32_t num_rows) {
  TileOrigins origins;
  const int32_t line = row / w.out_width;
  int32_t x = row - line * w.out_width;
  int32_t image = line / w.out_height;
  int32_t y = line - image * w.out_height;
  for (int32_t r = 0; r < kMaxTileRows; ++r) {
    origins.image[r] = w.x + image * w.image_stride;
    origins.top[r] = y * w.stride_h - w.pad_top;
    origins.left[r] = x * w.stride_w - w.pad_left;
    if (r + 1 >= num_rows) continue;
    if (++x < w.out_width) continue;
    x = 0;
    if (++y < w.out_height) continue;
    y = 0;
    ++image;
  }
  return origins;
}

// Windows inside the image, a segment a kernel row.
int32_t locate_inner(const WindowRows& w, const TileOrigins& at, int32_t begin, int32_t end, RowSegment* segments) {
  const int64_t line = w.width * w.pixel_stride;
  for (int32_t r = 0; r < kMaxTileRows; ++r) {
    const float* from = at.image[r] + (at.top[r] + begin * w.dilation_h) * line + at.left[r] * w.pixel_stride;
    for (int32_t kh = begin; kh < end; ++kh, from += w.dilation_h * line) segments[kh - begin].rows[r] = from;
  }
  for (int32_t kh = begin; kh < end; ++kh) segments[kh - begin].length = w.kernel_w * w.group_channels;
  return end - begin;
}

}  // namespace

RowForm matrix_form(bool is_transposed) {
  RowForm form;
  form.is_copied = is_transposed;
  return form;
}

int32_t locate_matrix_rows(const void* matrix_rows, int32_t group, int32_t row, int32_t num_rows, int32_t k_begin,
                           int32_t k_end, float* copy, RowSegment* segments) {
  const auto& matrix = *static_cast<const MatrixRows*>(matrix_rows);
  RowSegment& segment = segments[0];
  segment.length = k_end - k_begin;
  const float* from = matrix.data + group * matrix.group_stride + row * matrix.row_stride + k_begin * matrix.k_stride;
  const bool is_copied = matrix.k_stride != 1;
  for (int32_t r = 0; r < kMaxTileRows; ++r) {
    segment.rows[r] = is_copied ? copy : from;
    if (is_copied && r < num_rows) {
      for (int32_t k = 0; k < segment.length; ++k) copy[k] = from[k * matrix.k_stride];
    }
    if (r + 1 >= num_rows) continue;
    copy += segment.length;
    from += matrix.row_stride;
  }
  return 1;
}

RowForm window_form(int32_t taps, int32_t group_channels) {
  RowForm form;
  form.num_segments = taps;
  form.min_length = group_channels;
  form.is_copied = taps > 1 && group_channels < kShortSegment;
  return form;
}

RowForm inner_window_form(int32_t kernel_h, int32_t kernel_w, int32_t channels) {
  RowForm form;
  form.num_segments = kernel_h;
  form.min_length = kernel_w * channels;
  return form;
}

int32_t locate_window_rows(const void* window_rows, int32_t group, int32_t row, int32_t num_rows, int32_t k_begin,
                           int32_t k_end, float* copy, RowSegment* segments) {
  const auto& w = *static_cast<const WindowRows*>(window_rows);
  const int32_t channels = w.group_channels;
  const int32_t kernel_row = w.kernel_w * channels;
  const int64_t first_channel = static_cast<int64_t>(group) * channels;
  const TileOrigins at = locate_tile(w, row, num_rows);
  if (w.is_inner && k_begin % kernel_row == 0 && k_end % kernel_row == 0) {
    return locate_inner(w, at, k_begin / kernel_row, k_end / kernel_row, segments);
  }
  // Pixels of a kernel row are one run in memory: one segment where no row of the tile meets the border.
  bool take_run = w.pixel_stride == channels && w.dilation_w == 1;
  for (int32_t left : at.left) take_run = take_run && left >= 0 && left + w.kernel_w <= w.width;
  RowSegment* segment = segments;
  const int32_t depth = k_end - k_begin;
  for (int32_t k = k_begin; k < k_end;) {
    const int32_t kh = k / kernel_row;
    const int32_t in_row = k - kh * kernel_row;
    const int32_t kw = in_row / channels;
    const int32_t c = in_row - kw * channels;
    const int32_t count = std::min(k_end - k, take_run ? kernel_row - in_row : channels - c);
    for (int32_t r = 0; r < kMaxTileRows; ++r) {
      if (r >= num_rows) {
        segment->rows[r] = segment->rows[r - 1];
        continue;
      }
      const int32_t y = at.top[r] + kh * w.dilation_h;
      const int32_t x = at.left[r] + kw * w.dilation_w;
      const bool is_padding = y < 0 || y >= w.height || x < 0 || x >= w.width;
      const int64_t pixel = static_cast<int64_t>(y) * w.width + x;
      segment->rows[r] = is_padding ? w.zeros : at.image[r] + pixel * w.pixel_stride + first_channel + c;
    }
    segment->length = count;
    if (w.is_copied) {
      for (int32_t r = 0; r < std::min(num_rows, kMaxTileRows); ++r) {
        std::memcpy(copy + r * depth + (k - k_begin), segment->rows[r], static_cast<size_t>(count) * sizeof(float));
      }
    } else {
      ++segment;
    }
    k += count;
  }
  if (!w.is_copied) return static_cast<int32_t>(segment - segments);
  for (int32_t r = 0; r < kMaxTileRows; ++r) segments[0].rows[r] = copy + std::min(r, num_rows - 1) * depth;
  segments[0].length = depth;
  return 1;
}

}  // namespace kiln
