#include "vision/detect.h"

#include <algorithm>
#include <cmath>

namespace kiln {
namespace {

// Candidates that go into NMS at most, best first, so that a threshold near 0 cannot make it quadratic in all
// cells.
constexpr size_t kMaxCandidates = 30000;

struct Grid {
  int64_t num_boxes = 0;
  int64_t num_fields = 0;  // of a box: 4 coordinates, objectness, classes
};

Status shape_error(const DetectRequest& request, const char* needed) {
  std::string dims;
  for (int32_t i = 0; i < std::min(request.rank, 4); ++i) dims += (i ? ", " : "") + std::to_string(request.dims[i]);
  return {Code::kInvalidArgument, "the output has shape [" + dims + "], the decoder needs " + needed};
}

// The two inner dims, all outer ones being 1.
bool inner_dims(const DetectRequest& request, int64_t* rows, int64_t* columns) {
  if (request.rank < 2 || request.rank > 4) return false;
  for (int32_t i = 0; i + 2 < request.rank; ++i) {
    if (request.dims[i] != 1) return false;
  }
  *rows = request.dims[request.rank - 2];
  *columns = request.dims[request.rank - 1];
  return *rows > 0 && *columns > 0;
}

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

// Collects boxes given by centre and size in model pixels.
class Collector {
 public:
  explicit Collector(const DetectRequest& request) : request_(request) {}

  void add_centred(float cx, float cy, float w, float h, float score, int32_t class_id) {
    add_corners(cx - w * 0.5f, cy - h * 0.5f, cx + w * 0.5f, cy + h * 0.5f, score, class_id);
  }

  void add_corners(float x1, float y1, float x2, float y2, float score, int32_t class_id) {
    const VisionPlacement& p = request_.placement;
    const auto width = static_cast<float>(p.image_width);
    const auto height = static_cast<float>(p.image_height);
    Detection box;
    box.x1 = std::clamp((x1 - p.offset_x) / p.scale_x, 0.0f, width);
    box.y1 = std::clamp((y1 - p.offset_y) / p.scale_y, 0.0f, height);
    box.x2 = std::clamp((x2 - p.offset_x) / p.scale_x, 0.0f, width);
    box.y2 = std::clamp((y2 - p.offset_y) / p.scale_y, 0.0f, height);
    box.score = score;
    box.class_id = class_id;
    const bool whole = std::isfinite(box.x1 + box.y1 + box.x2 + box.y2);
    if (whole && box.x2 > box.x1 && box.y2 > box.y1) boxes.push_back(box);
  }

  // Classes at `classes`, `stride` apart, each worth objectness * class.
  template <typename Box>
  void add_classes(const float* classes, int64_t stride, int32_t num_classes, float objectness, Box&& box) {
    if (request_.multi_label && num_classes > 0) {
      for (int32_t c = 0; c < num_classes; ++c) {
        const float score = objectness * classes[c * stride];
        if (score >= request_.score_threshold) box(score, c);
      }
      return;
    }
    int32_t best = 0;
    float best_class = num_classes > 0 ? -INFINITY : 1.0f;  // NaN is never better
    for (int32_t c = 0; c < num_classes; ++c) {
      if (!(classes[c * stride] > best_class)) continue;
      best_class = classes[c * stride];
      best = c;
    }
    const float score = objectness * best_class;
    if (score >= request_.score_threshold) box(score, best);
  }

  std::vector<Detection> boxes;

 private:
  const DetectRequest& request_;
};

Status decode_rows(const DetectRequest& request, const float* data, Collector& out) {
  int64_t num_boxes = 0;
  int64_t num_fields = 0;
  if (!inner_dims(request, &num_boxes, &num_fields) || num_fields < 6) {
    return shape_error(request, "[1, boxes, 5 + classes]");
  }
  const bool is_yolox = request.decoder == static_cast<int32_t>(Decoder::kYolox);
  int32_t stride = 0;
  int64_t columns = 0;
  int64_t level_begin = 0;
  int64_t level_end = 0;
  if (is_yolox) {
    int64_t cells = 0;
    for (int32_t s = 8; s <= 32; s *= 2) cells += int64_t{request.input_width / s} * (request.input_height / s);
    if (cells != num_boxes) {
      return shape_error(request, strf("%lld boxes: one a cell of strides 8, 16, 32 on a %d x %d input",
                                       static_cast<long long>(cells), request.input_width, request.input_height)
                                      .c_str());
    }
  }
  const auto num_classes = static_cast<int32_t>(num_fields - 5);
  for (int64_t i = 0; i < num_boxes; ++i) {
    while (is_yolox && i >= level_end) {
      stride = stride == 0 ? 8 : stride * 2;
      columns = request.input_width / stride;
      level_begin = level_end;
      level_end += columns * (request.input_height / stride);
    }
    const float* field = data + i * num_fields;
    if (!(field[4] >= request.score_threshold)) continue;  // class scores are at most 1
    out.add_classes(field + 5, 1, num_classes, field[4], [&](float score, int32_t class_id) {
      if (is_yolox) {
        const auto s = static_cast<float>(stride);
        const auto column = static_cast<float>((i - level_begin) % columns);
        const auto row = static_cast<float>((i - level_begin) / columns);
        out.add_centred((field[0] + column) * s, (field[1] + row) * s, std::exp(field[2]) * s, std::exp(field[3]) * s,
                        score, class_id);
      } else {
        out.add_centred(field[0], field[1], field[2], field[3], score, class_id);
      }
    });
  }
  return {};
}

Status decode_yolov8(const DetectRequest& request, const float* data, Collector& out) {
  int64_t num_fields = 0;
  int64_t n = 0;
  if (!inner_dims(request, &num_fields, &n) || num_fields < 5) return shape_error(request, "[1, 4 + classes, boxes]");
  const auto num_classes = static_cast<int32_t>(num_fields - 4);
  // Best class of 512 boxes at a time: class planes are read in order.
  constexpr int64_t kBlock = 512;
  float best[kBlock];
  int32_t best_class[kBlock];
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t size = std::min(kBlock, n - begin);
    for (int64_t i = 0; i < size; ++i) {
      best[i] = -INFINITY;  // NaN is never better
      best_class[i] = 0;
    }
    for (int32_t c = 0; c < num_classes; ++c) {
      const float* plane = data + (4 + int64_t{c}) * n + begin;
      for (int64_t i = 0; i < size; ++i) {
        const bool better = plane[i] > best[i];
        best[i] = better ? plane[i] : best[i];
        best_class[i] = better ? c : best_class[i];
      }
    }
    for (int64_t i = 0; i < size; ++i) {
      if (!(best[i] >= request.score_threshold)) continue;
      const float* at = data + begin + i;
      const auto add = [&](float score, int32_t class_id) {
        out.add_centred(at[0], at[n], at[2 * n], at[3 * n], score, class_id);
      };
      if (request.multi_label)
        out.add_classes(at + 4 * n, n, num_classes, 1.0f, add);
      else
        add(best[i], best_class[i]);
    }
  }
  return {};
}

Status decode_end_to_end(const DetectRequest& request, const float* data, Collector& out) {
  int64_t n = 0;
  int64_t num_fields = 0;
  if (!inner_dims(request, &n, &num_fields) || num_fields != 6) {
    return shape_error(request, "[1, boxes, 6] (x1 y1 x2 y2 score class)");
  }
  for (int64_t i = 0; i < n; ++i) {
    const float* field = data + i * 6;
    if (!(field[4] >= request.score_threshold) || !(field[5] >= 0 && field[5] < 1e6f)) continue;
    out.add_corners(field[0], field[1], field[2], field[3], field[4], static_cast<int32_t>(field[5]));
  }
  return {};
}

Status decode_tiny_yolov2(const DetectRequest& request, const float* data, Collector& out) {
  const bool shaped = request.rank == 4 && request.dims[0] == 1 && request.num_anchors >= 1 &&
                      request.num_anchors <= kMaxAnchors && request.dims[3] % request.num_anchors == 0 &&
                      request.dims[3] / request.num_anchors >= 5 && request.dims[1] > 0 && request.dims[2] > 0;
  if (!shaped) {
    return shape_error(request,
                       strf("[1, rows, columns, anchors * (5 + classes)] with 1 to %d anchors", kMaxAnchors).c_str());
  }
  const int32_t rows = request.dims[1];
  const int32_t columns = request.dims[2];
  const int32_t num_fields = request.dims[3] / request.num_anchors;
  const int32_t num_classes = num_fields - 5;
  const float cell_w = static_cast<float>(request.input_width) / static_cast<float>(columns);
  const float cell_h = static_cast<float>(request.input_height) / static_cast<float>(rows);
  std::vector<float> classes(static_cast<size_t>(num_classes));
  for (int32_t row = 0; row < rows; ++row) {
    for (int32_t column = 0; column < columns; ++column) {
      for (int32_t a = 0; a < request.num_anchors; ++a) {
        const float* field = data + ((int64_t{row} * columns + column) * request.num_anchors + a) * num_fields;
        const float objectness = sigmoid(field[4]);
        if (!(objectness >= request.score_threshold)) continue;
        float max = -INFINITY;
        float sum = 0;
        for (int32_t c = 0; c < num_classes; ++c) max = std::max(max, field[5 + c]);
        for (int32_t c = 0; c < num_classes; ++c) sum += classes[size_t(c)] = std::exp(field[5 + c] - max);
        for (int32_t c = 0; c < num_classes; ++c) classes[size_t(c)] /= sum;
        out.add_classes(classes.data(), 1, num_classes, objectness, [&](float score, int32_t class_id) {
          out.add_centred((static_cast<float>(column) + sigmoid(field[0])) * cell_w,
                          (static_cast<float>(row) + sigmoid(field[1])) * cell_h,
                          request.anchors[2 * a] * std::exp(field[2]) * cell_w,
                          request.anchors[2 * a + 1] * std::exp(field[3]) * cell_h, score, class_id);
        });
      }
    }
  }
  return {};
}

}  // namespace

float box_iou(const Detection& a, const Detection& b) {
  const float w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const float h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (!(w > 0 && h > 0)) return 0;
  const float both = w * h;
  const float total = (a.x2 - a.x1) * (a.y2 - a.y1) + (b.x2 - b.x1) * (b.y2 - b.y1) - both;
  return total > 0 ? both / total : 0;
}

void suppress_boxes(std::vector<Detection>& boxes, float iou_threshold, bool class_agnostic, int32_t max_detections) {
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const Detection& a, const Detection& b) { return a.score > b.score; });
  if (boxes.size() > kMaxCandidates) boxes.resize(kMaxCandidates);
  size_t kept = 0;
  for (size_t i = 0; i < boxes.size() && kept < static_cast<size_t>(std::max(0, max_detections)); ++i) {
    const Detection box = boxes[i];
    bool keep = true;
    for (size_t k = 0; k < kept && keep; ++k) {
      const bool same = class_agnostic || boxes[k].class_id == box.class_id;
      if (same && box_iou(boxes[k], box) > iou_threshold) keep = false;
    }
    if (keep) boxes[kept++] = box;
  }
  boxes.resize(kept);
}

Status detect_boxes(const DetectRequest& request, const float* data, std::vector<Detection>* detections) {
  if (request.decoder < 0 || request.decoder >= kNumDecoders) {
    return {Code::kInvalidArgument, strf("decoder %d is unknown; allowed: 0 to %d", request.decoder, kNumDecoders - 1)};
  }
  if (!(request.placement.scale_x > 0 && request.placement.scale_y > 0)) {
    return {Code::kInvalidArgument, "the placement's scale must be greater than 0"};
  }
  if (request.max_detections < 0 || request.input_width < 1 || request.input_height < 1) {
    return {Code::kInvalidArgument, "max_detections must be at least 0 and the input's sides at least 1"};
  }
  Collector collector(request);
  const auto decoder = static_cast<Decoder>(request.decoder);
  switch (decoder) {
    case Decoder::kYolov5:
    case Decoder::kYolox:
      KILN_TRY(decode_rows(request, data, collector));
      break;
    case Decoder::kYolov8:
      KILN_TRY(decode_yolov8(request, data, collector));
      break;
    case Decoder::kEndToEnd:
      KILN_TRY(decode_end_to_end(request, data, collector));
      break;
    case Decoder::kTinyYolov2:
      KILN_TRY(decode_tiny_yolov2(request, data, collector));
      break;
  }
  // End-to-end models suppress inside the graph: a threshold of 1 or more only sorts and cuts.
  const float iou_threshold = decoder == Decoder::kEndToEnd ? 2.0f : request.iou_threshold;
  suppress_boxes(collector.boxes, iou_threshold, request.class_agnostic != 0, request.max_detections);
  *detections = std::move(collector.boxes);
  return {};
}

}  // namespace kiln
