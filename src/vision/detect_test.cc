#include "vision/detect.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "soak.h"

using namespace kiln;

namespace {

struct Random {
  uint64_t state;
  double operator()() {  // [0, 1)
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 33) * 0x1p-31;
  }
};

DetectRequest make_request(Decoder decoder, std::initializer_list<int32_t> dims, int32_t side = 64) {
  DetectRequest request;
  request.decoder = static_cast<int32_t>(decoder);
  request.rank = static_cast<int32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), request.dims);
  request.input_width = request.input_height = side;
  request.placement = {1, 1, 0, 0, side, side};
  return request;
}

std::vector<Detection> detect(const DetectRequest& request, const std::vector<float>& data) {
  std::vector<Detection> boxes;
  const Status status = detect_boxes(request, data.data(), &boxes);
  REQUIRE_MESSAGE(status.ok(), status.message());
  return boxes;
}

void check_box(const Detection& box, double x1, double y1, double x2, double y2, double score, int32_t class_id) {
  CHECK(box.x1 == doctest::Approx(x1).epsilon(1e-5));
  CHECK(box.y1 == doctest::Approx(y1).epsilon(1e-5));
  CHECK(box.x2 == doctest::Approx(x2).epsilon(1e-5));
  CHECK(box.y2 == doctest::Approx(y2).epsilon(1e-5));
  CHECK(box.score == doctest::Approx(score).epsilon(1e-5));
  CHECK(box.class_id == class_id);
}

double logit(double p) { return std::log(p / (1 - p)); }

}  // namespace

TEST_CASE("decode_yolov5_multiplies_objectness") {
  const auto boxes = detect(make_request(Decoder::kYolov5, {1, 3, 7}),
                            {
                                20, 30, 10, 8, 0.9f, 0.1f, 0.8f,  //
                                20, 30, 10, 8, 0.2f, 0.9f, 0.9f,  // objectness below the threshold
                                50, 50, 4,  4, 0.5f, 0.4f, 0.1f,  // 0.2 is below as well
                            });
  REQUIRE(boxes.size() == 1);
  check_box(boxes[0], 15, 26, 25, 34, 0.72, 1);
}

TEST_CASE("decode_yolov8_reads_planes") {
  // Two boxes, three classes.
  const std::vector<float> data = {20, 50, 30, 50, 10, 4, 8, 4, 0.1f, 0.3f, 0.6f, 0.7f, 0.5f, 0.1f};
  DetectRequest request = make_request(Decoder::kYolov8, {1, 7, 2});
  auto boxes = detect(request, data);
  REQUIRE(boxes.size() == 2);
  check_box(boxes[0], 48, 48, 52, 52, 0.7, 1);
  check_box(boxes[1], 15, 26, 25, 34, 0.6, 1);
  request.multi_label = 1;
  request.score_threshold = 0.2f;
  CHECK(detect(request, data).size() == 4);
}

TEST_CASE("decode_yolox_knows_its_grids") {
  // Input 64: grids of 8 x 8, 4 x 4, 2 x 2 cells; one box in each.
  std::vector<float> data(84 * 6, 0.0f);
  const auto set = [&](size_t cell, std::vector<float> fields) {
    std::copy(fields.begin(), fields.end(), &data[cell * 6]);
  };
  set(8 * 2 + 3, {0.5f, 0.25f, 0, 0, 0.9f, 0.9f});
  set(64 + 4 * 1 + 2, {0.5f, 0.5f, std::log(0.5f), 0, 0.8f, 1});
  set(64 + 16 + 3, {0, 0, 0, std::log(0.25f), 0.7f, 1});
  const auto boxes = detect(make_request(Decoder::kYolox, {1, 84, 6}), data);
  REQUIRE(boxes.size() == 3);
  check_box(boxes[0], 24, 14, 32, 22, 0.81, 0);  // centre (3.5, 2.25) * 8
  check_box(boxes[1], 36, 16, 44, 32, 0.8, 0);   // centre (2.5, 1.5) * 16
  check_box(boxes[2], 16, 28, 48, 36, 0.7, 0);
}

TEST_CASE("decode_end_to_end_never_suppresses") {
  const auto boxes = detect(make_request(Decoder::kEndToEnd, {1, 4, 6}),
                            {
                                10, 10, 30, 30, 0.9f, 3,    //
                                10, 10, 30, 31, 0.8f, 3,    // the same place and class: stays
                                10, 10, 30, 30, 0.1f, 3,    // below the threshold
                                10, 10, 30, 30, 0.7f, NAN,  // no class
                            });
  REQUIRE(boxes.size() == 2);
  check_box(boxes[1], 10, 10, 30, 31, 0.8, 3);
}

TEST_CASE("decode_tiny_yolov2_cells_and_anchors") {
  DetectRequest request = make_request(Decoder::kTinyYolov2, {1, 2, 2, 2 * 7});
  request.num_anchors = 2;
  const float anchors[] = {1, 1, 0.5f, 0.25f};
  std::copy(anchors, anchors + 4, request.anchors);
  std::vector<float> data(2 * 2 * 14, -9.0f);
  // Cell (row 1, column 0), anchor 1: two classes, softmax 0.9 / 0.1.
  float* field = &data[2 * 14 + 7];
  field[0] = static_cast<float>(logit(0.25));
  field[1] = static_cast<float>(logit(0.5));
  field[2] = std::log(0.5f);
  field[3] = 0;
  field[4] = static_cast<float>(logit(0.8));
  field[5] = std::log(9.0f);
  field[6] = 0;
  const auto boxes = detect(request, data);
  REQUIRE(boxes.size() == 1);
  // Cells are 32 pixels: centre (0.25, 1.5) * 32, size (0.5 * 0.5, 0.25) * 32.
  check_box(boxes[0], 4, 44, 12, 52, 0.8 * 0.9, 0);
}

TEST_CASE("detect_maps_to_the_image_and_clips") {
  DetectRequest request = make_request(Decoder::kYolov5, {1, 2, 6}, 640);
  request.placement = {0.5f, 0.5f, 0, 80, 1280, 960};
  const auto boxes = detect(request, {320, 320, 100, 50, 1, 1, 630, 90, 100, 100, 1, 0.9f});
  REQUIRE(boxes.size() == 2);
  check_box(boxes[0], 540, 430, 740, 530, 1, 0);
  check_box(boxes[1], 1160, 0, 1280, 120, 0.9, 0);  // clipped at the right and at the top
}

TEST_CASE("detect_survives_nan_and_infinity") {
  DetectRequest request = make_request(Decoder::kYolov5, {1, 6, 7});
  const auto boxes = detect(request, {
                                         NAN, 30, 10, 8,          0.9f, 0.9f, 0.1f,  //
                                         20,  30, 10, 8,          NAN,  0.9f, 0.1f,  //
                                         20,  30, 10, 8,          0.9f, NAN,  0.8f,  // class 1 counts
                                         20,  30, 10, 8,          0.9f, NAN,  NAN,   //
                                         20,  30, -1, 8,          0.9f, 0.9f, 0.1f,  // no area
                                         20,  30, 10, 1e38f * 10, 0.9f, 0.9f, 0.1f,  // as high as the image
                                     });
  REQUIRE(boxes.size() == 2);
  check_box(boxes[0], 15, 0, 25, 64, 0.81, 0);
  check_box(boxes[1], 15, 26, 25, 34, 0.72, 1);
  const auto v8 = detect(make_request(Decoder::kYolov8, {1, 6, 1}), {20, 30, 10, 8, NAN, 0.5f});
  REQUIRE(v8.size() == 1);
  CHECK(v8[0].class_id == 1);
}

TEST_CASE("nms_known_cases") {
  const Detection a{0, 0, 10, 10, 0.9f, 0};
  const Detection b{0, 0, 10, 5, 0.8f, 0};  // IoU 0.5 with a
  const Detection c{0, 0, 10, 10, 0.7f, 1};
  const Detection d{20, 20, 30, 30, 0.6f, 0};
  CHECK(box_iou(a, b) == 0.5f);
  CHECK(box_iou(a, d) == 0);
  CHECK(box_iou(Detection{}, Detection{}) == 0);
  const auto run = [&](float iou, bool agnostic, int32_t max) {
    std::vector<Detection> boxes = {d, c, b, a};
    suppress_boxes(boxes, iou, agnostic, max);
    std::vector<float> scores;
    for (const Detection& box : boxes) scores.push_back(box.score);
    return scores;
  };
  CHECK(run(0.5f, false, 300) == std::vector<float>{0.9f, 0.8f, 0.7f, 0.6f});  // equal is not more
  CHECK(run(0.49f, false, 300) == std::vector<float>{0.9f, 0.7f, 0.6f});
  CHECK(run(0.49f, true, 300) == std::vector<float>{0.9f, 0.6f});
  CHECK(run(0.49f, false, 2) == std::vector<float>{0.9f, 0.7f});
  CHECK(run(0.49f, false, 0).empty());
  // A box that a suppressed box overlaps stays.
  std::vector<Detection> chain = {{0, 0, 10, 10, 0.9f, 0}, {4, 0, 14, 10, 0.8f, 0}, {8, 0, 18, 10, 0.7f, 0}};
  suppress_boxes(chain, 0.4f, false, 300);
  REQUIRE(chain.size() == 2);
  CHECK(chain[1].score == 0.7f);
  // Ties: the earlier first.
  std::vector<Detection> ties = {{0, 0, 10, 10, 0.5f, 0}, {0, 0, 10, 9, 0.5f, 0}};
  suppress_boxes(ties, 0.45f, false, 300);
  REQUIRE(ties.size() == 1);
  CHECK(ties[0].y2 == 10);
}

TEST_CASE("nms_agrees_with_the_definition" * doctest::test_suite("random")) {
  for (uint64_t seed = 1; seed <= test::soak_cases(30); ++seed) {
    Random random{seed};
    std::vector<Detection> boxes;
    for (int i = 0; i < 200; ++i) {
      const float x = static_cast<float>(random() * 80);
      const float y = static_cast<float>(random() * 80);
      boxes.push_back({x, y, x + 5 + static_cast<float>(random() * 20), y + 5 + static_cast<float>(random() * 20),
                       static_cast<float>(std::floor(random() * 50) / 50), static_cast<int32_t>(random() * 3)});
    }
    // By definition: repeatedly take the best box left (the earliest of equals) and strike out what overlaps
    // it.
    std::vector<Detection> expected;
    std::vector<bool> gone(boxes.size());
    for (;;) {
      int best = -1;
      for (size_t i = 0; i < boxes.size(); ++i) {
        if (!gone[i] && (best < 0 || boxes[i].score > boxes[size_t(best)].score)) best = static_cast<int>(i);
      }
      if (best < 0) break;
      const Detection taken = boxes[size_t(best)];
      expected.push_back(taken);
      gone[size_t(best)] = true;
      for (size_t i = 0; i < boxes.size(); ++i) {
        if (boxes[i].class_id == taken.class_id && box_iou(boxes[i], taken) > 0.45f) gone[i] = true;
      }
    }
    std::vector<Detection> actual = boxes;
    suppress_boxes(actual, 0.45f, false, 1000);
    INFO("seed ", seed);
    REQUIRE(actual.size() == expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      CHECK(actual[i].x1 == expected[i].x1);
      CHECK(actual[i].score == expected[i].score);
    }
  }
}

TEST_CASE("yolov5_and_yolov8_layouts_give_the_same_boxes") {
  Random random{7};
  constexpr int32_t kBoxes = 1300;  // more than a block of the planar decoder
  constexpr int32_t kClasses = 5;
  std::vector<float> rows;
  std::vector<float> planes(size_t(4 + kClasses) * kBoxes);
  for (int32_t i = 0; i < kBoxes; ++i) {
    std::vector<float> row = {static_cast<float>(random() * 64), static_cast<float>(random() * 64),
                              static_cast<float>(1 + random() * 20), static_cast<float>(1 + random() * 20), 1.0f};
    for (int32_t c = 0; c < kClasses; ++c) row.push_back(static_cast<float>(random() * random()));
    rows.insert(rows.end(), row.begin(), row.end());
    for (int32_t k = 0; k < 4 + kClasses; ++k) planes[size_t(k * kBoxes + i)] = row[size_t(k < 4 ? k : k + 1)];
  }
  for (const int32_t multi_label : {0, 1}) {
    DetectRequest by_rows = make_request(Decoder::kYolov5, {1, kBoxes, 5 + kClasses});
    DetectRequest by_planes = make_request(Decoder::kYolov8, {1, 4 + kClasses, kBoxes});
    by_rows.multi_label = by_planes.multi_label = multi_label;
    const auto a = detect(by_rows, rows);
    const auto b = detect(by_planes, planes);
    REQUIRE(a.size() == b.size());
    REQUIRE(a.size() > 20);
    for (size_t i = 0; i < a.size(); ++i) {
      CHECK(a[i].x1 == b[i].x1);
      CHECK(a[i].score == b[i].score);
      CHECK(a[i].class_id == b[i].class_id);
    }
  }
}

TEST_CASE("detect_refuses_wrong_shapes") {
  const std::vector<float> data(4096, 0.0f);
  std::vector<Detection> boxes;
  const auto message = [&](const DetectRequest& request) {
    const Status status = detect_boxes(request, data.data(), &boxes);
    CHECK(status.code() == Code::kInvalidArgument);
    return status.message();
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  CHECK(has(message(make_request(Decoder::kYolov5, {1, 3, 5})), "[1, 3, 5]"));
  CHECK(has(message(make_request(Decoder::kYolov5, {2, 3, 7})), "boxes, 5 + classes"));
  CHECK(has(message(make_request(Decoder::kYolov8, {1, 4, 9})), "4 + classes"));
  CHECK(has(message(make_request(Decoder::kYolox, {1, 83, 6})), "84 boxes"));
  CHECK(has(message(make_request(Decoder::kEndToEnd, {1, 4, 7})), "boxes, 6"));
  CHECK(has(message(make_request(Decoder::kTinyYolov2, {1, 2, 2, 14})), "anchors"));
  DetectRequest request = make_request(static_cast<Decoder>(9), {1, 3, 7});
  CHECK(has(message(request), "decoder 9"));
  request = make_request(Decoder::kYolov5, {1, 3, 7});
  request.rank = 1 << 30;
  message(request);
  request.rank = -1;
  message(request);
  request.rank = 3;
  request.dims[1] = -3;
  message(request);
  request.dims[1] = 3;
  request.placement.scale_x = 0;
  CHECK(has(message(request), "scale"));
}
