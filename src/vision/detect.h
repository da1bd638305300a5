// From a detector's output tensors to boxes in the image's own pixels: decoding, score threshold, class-aware
// NMS.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "vision/preprocess.h"

namespace kiln {

// A box in pixels of the image, (0, 0) at its top left corner, clipped to the image. Six 4-byte fields.
struct Detection {
  float x1 = 0, y1 = 0, x2 = 0, y2 = 0;
  float score = 0;  // 0..1
  int32_t class_id = 0;
};
static_assert(sizeof(Detection) == 24);

// How the output tensor codes boxes; n boxes, nc classes. Coordinates are model pixels unless told.
enum class Decoder : int32_t {
  kYolov5 = 0,      // [1, n, 5 + nc]: cx cy w h objectness class…; score = objectness * class
  kYolov8 = 1,      // [1, 4 + nc, n]: cx cy w h class…
  kYolox = 2,       // [1, n, 5 + nc]: per cell of the grids of strides 8, 16, 32 (row-major): x = (t + column) *
                    // stride, w = exp(t) * stride; objectness and classes are past their sigmoid
  kEndToEnd = 3,    // [1, n, 6]: x1 y1 x2 y2 score class, already suppressed: NMS is never run again
  kTinyYolov2 = 4,  // [1, rows, columns, anchors * (5 + nc)]: x = (column + sigmoid(t)) / columns * width,
                    // w = anchor_w * exp(t) / columns * width; score = sigmoid(objectness) * softmax(class)
};
constexpr int32_t kNumDecoders = 5;
constexpr int32_t kMaxAnchors = 16;

// A POD that JS fills: every field is 4 bytes, in this order; 216 bytes.
struct DetectRequest {
  int32_t decoder = 0;  // Decoder
  int32_t data = 0;     // pointer to f32 elements, dense (0 in native calls, which pass it beside)
  int32_t rank = 0;     // 2 to 4; leading dims must be 1
  int32_t dims[4] = {};
  int32_t input_width = 0;  // the model's input
  int32_t input_height = 0;
  float score_threshold = 0.25f;  // boxes below are dropped
  float iou_threshold = 0.45f;    // a box that overlaps a better one by more is dropped
  int32_t max_detections = 300;
  int32_t class_agnostic = 0;           // 1 = NMS across classes
  int32_t multi_label = 0;              // 1 = one detection for each class above the threshold, 0 = the best class
  int32_t num_anchors = 0;              // kTinyYolov2
  float anchors[2 * kMaxAnchors] = {};  // w h pairs in grid cells
  VisionPlacement placement;
  int32_t reserved = 0;
};
static_assert(sizeof(DetectRequest) == 15 * 4 + 128 + 24 + 4);

// IoU of two boxes; 0 if either has no area.
float box_iou(const Detection& a, const Detection& b);

// Greedy NMS: sorts by falling score (ties: earlier first), keeps a box unless a kept one (of its class,
// unless class_agnostic) overlaps it by more than iou_threshold; at most max_detections stay.
void suppress_boxes(std::vector<Detection>& boxes, float iou_threshold, bool class_agnostic, int32_t max_detections);

// Decodes, maps back to the image, suppresses. Boxes with NaN anywhere are dropped. Errors: kInvalidArgument
// with the shape that the decoder needs.
Status detect_boxes(const DetectRequest& request, const float* data, std::vector<Detection>* detections);

}  // namespace kiln
