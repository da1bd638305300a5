#include <doctest/doctest.h>

#include <cmath>

#include "op_test.h"

namespace kiln::test {
namespace {

struct Case {
  const char* name;
  Shape x;                                                // NCHW
  std::vector<int64_t> kernel, strides, pads, dilations;  // empty: absent
  int64_t ceil_mode = 0;
  const char* auto_pad = nullptr;
  int64_t count_include_pad = 0;
};

const Case kCases[] = {
    {"2x2", {2, 5, 8, 6}, {2, 2}, {2, 2}, {}, {}},
    {"ResNet", {1, 64, 15, 17}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}},
    {"SPPF", {1, 24, 10, 9}, {5, 5}, {1, 1}, {2, 2, 2, 2}, {}},
    {"SPP of YOLOX", {1, 20, 13, 13}, {13, 13}, {}, {6, 6, 6, 6}, {}},
    {"SqueezeNet", {1, 16, 10, 11}, {3, 3}, {2, 2}, {}, {}, 1},
    {"ceil drops a window", {1, 3, 5, 5}, {1, 1}, {3, 3}, {0, 0, 1, 1}, {}, 1},
    {"ceil and pads", {1, 7, 7, 8}, {3, 2}, {2, 3}, {1, 1, 0, 1}, {}, 1, nullptr, 1},
    {"asymmetric pads", {1, 4, 7, 8}, {3, 3}, {2, 2}, {0, 1, 2, 0}, {}, 0, nullptr, 1},
    {"SAME_UPPER", {1, 6, 7, 8}, {2, 3}, {2, 2}, {}, {}, 0, "SAME_UPPER"},
    {"SAME_UPPER stride 1, yolov3-tiny", {1, 18, 13, 13}, {2, 2}, {1, 1}, {}, {}, 0, "SAME_UPPER"},
    {"SAME_LOWER", {1, 6, 7, 8}, {2, 3}, {2, 2}, {}, {}, 0, "SAME_LOWER", 1},
    {"VALID", {1, 6, 7, 8}, {3, 3}, {2, 2}, {}, {}, 0, "VALID"},
    {"dilations", {1, 5, 9, 11}, {3, 2}, {1, 2}, {1, 0, 1, 2}, {2, 3}, 0, nullptr, 1},
    {"1-D", {2, 9, 17}, {3}, {2}, {1, 1}, {}, 1},
    {"3-D", {1, 6, 5, 6, 7}, {2, 3, 2}, {1, 2, 2}, {1, 1, 0, 0, 1, 1}, {}},
    {"whole plane", {1, 33, 7, 7}, {7, 7}, {}, {}, {}},
    {"empty batch", {0, 3, 4, 4}, {2, 2}, {}, {}, {}},
};

Shape to_nhwc(const Shape& x) {
  Shape result{x[0]};
  for (int i = 2; i < x.rank; ++i) result.push_back(x[i]);
  result.push_back(x[1]);
  return result;
}

OpTest make_test(const char* op, const Case& c, bool nhwc, DType dtype = DType::kF32) {
  OpTest test(op, 19);
  test.ints("kernel_shape", c.kernel);
  if (!c.strides.empty()) test.ints("strides", c.strides);
  if (!c.pads.empty()) test.ints("pads", c.pads);
  if (!c.dilations.empty()) test.ints("dilations", c.dilations);
  if (c.ceil_mode) test.attr("ceil_mode", c.ceil_mode);
  if (c.auto_pad) test.attr("auto_pad", std::string(c.auto_pad));
  if (c.count_include_pad) test.attr("count_include_pad", c.count_include_pad);
  if (nhwc) test.attr("layout", std::string("NHWC"));
  test.input(random_tensor(nhwc ? to_nhwc(c.x) : c.x, 17, -20, 20, dtype));
  return test;
}

Tensor counting(int64_t h, int64_t w) {
  Tensor x(DType::kF32, {1, 1, h, w});
  for (int64_t i = 0; i < h * w; ++i) x.as<float>()[i] = static_cast<float>(i + 1);
  return x;
}

}  // namespace

TEST_CASE("pool_kernels_match_the_reference_in_both_layouts") {
  for (const Case& c : kCases) {
    for (bool nhwc : {false, true}) {
      CAPTURE(c.name);
      CAPTURE(nhwc);
      CHECK(make_test("MaxPool", c, nhwc).kernel_name() == "pool_f32");
      make_test("MaxPool", c, nhwc).expect_kernel_matches_reference(0);
      make_test("AveragePool", c, nhwc).expect_kernel_matches_reference(1e-6);
      make_test("LpPool", c, nhwc).expect_kernel_matches_reference(1e-6);
      for (DType dtype : {DType::kI8, DType::kU8, DType::kF16}) {
        make_test("MaxPool", c, nhwc, dtype).expect_kernel_matches_reference(0);
      }
    }
  }
}

TEST_CASE("average_pool_ceil_mode_counts_padding_but_not_what_ceil_adds") {
  OpTest test("AveragePool", 11);
  test.ints("kernel_shape", {3, 3}).ints("strides", {2, 2}).ints("pads", {1, 1, 1, 1});
  test.attr("ceil_mode", int64_t{1}).attr("count_include_pad", int64_t{1}).input(counting(4, 4));
  test.expect_reference(0, {1, 1, 3, 3}, {1.5555556, 3.3333333, 2, 6.3333333, 11, 6, 4.5, 7.5, 4});
  test.expect_kernel_matches_reference(1e-6);
}

TEST_CASE("average_pool_without_padding_in_the_count") {
  OpTest test("AveragePool", 11);
  test.ints("kernel_shape", {2, 2}).ints("pads", {1, 1, 0, 0}).input(counting(2, 2));
  test.expect_reference(0, {1, 1, 2, 2}, {1, 1.5, 2, 2.5});
}

TEST_CASE("average_pool_dilations_of_opset_19") {
  OpTest test("AveragePool", 19);
  test.ints("kernel_shape", {2, 2}).ints("dilations", {2, 2}).ints("strides", {1, 1}).attr("ceil_mode", int64_t{1});
  test.input(counting(4, 4)).expect_reference(0, {1, 1, 2, 2}, {6, 7, 10, 11});
}

TEST_CASE("max_pool_ceil_mode") {
  OpTest test("MaxPool", 12);
  test.ints("kernel_shape", {3, 3}).ints("strides", {2, 2}).attr("ceil_mode", int64_t{1}).input(counting(4, 4));
  test.expect_reference(0, {1, 1, 2, 2}, {11, 12, 15, 16});
}

TEST_CASE("max_pool_drops_the_window_that_would_start_in_the_padding_behind") {
  OpTest test("MaxPool", 22);
  test.ints("kernel_shape", {1, 1}).ints("strides", {2, 2}).attr("ceil_mode", int64_t{1}).input(counting(2, 2));
  test.expect_reference(0, {1, 1, 1, 1}, {1});
}

TEST_CASE("max_pool_never_takes_padding_for_a_value") {
  OpTest test("MaxPool", 12);
  test.ints("kernel_shape", {3, 3}).ints("pads", {1, 1, 1, 1}).input(make_tensor(DType::kF32, {1, 1, 1, 2}, {-5, -3}));
  test.expect_reference(0, {1, 1, 1, 2}, {-3, -3});
  test.expect_kernel_matches_reference(0);
  OpTest bytes("MaxPool", 12);
  bytes.ints("kernel_shape", {3, 3})
      .ints("pads", {1, 1, 1, 1})
      .input(make_tensor(DType::kI8, {1, 1, 1, 2}, {-128, -100}));
  bytes.expect_reference(0, {1, 1, 1, 2}, {-100, -100});
}

TEST_CASE("max_pool_indices_row_and_column_major") {
  for (int64_t order : {0, 1}) {
    OpTest test("MaxPool", 12);
    test.ints("kernel_shape", {2, 2}).ints("strides", {2, 2}).attr("storage_order", order);
    test.input(counting(4, 4)).outputs(2);
    test.expect_reference(0, {1, 1, 2, 2}, {6, 8, 14, 16});
    test.expect_reference(1, {1, 1, 2, 2},
                          order ? std::vector<double>{5, 13, 7, 15} : std::vector<double>{5, 7, 13, 15});
    test.expect_kernel_matches_reference(0);
  }
  OpTest planes("MaxPool", 12);
  planes.ints("kernel_shape", {1, 2}).input(make_tensor(DType::kF32, {1, 2, 1, 2}, {1, 2, 4, 3})).outputs(2);
  planes.expect_reference(1, {1, 2, 1, 1}, {1, 2});
  OpTest nhwc("MaxPool", 12);
  nhwc.ints("kernel_shape", {1, 2}).attr("layout", std::string("NHWC"));
  nhwc.input(make_tensor(DType::kF32, {1, 1, 2, 2}, {1, 4, 2, 3})).outputs(2);
  nhwc.expect_reference(1, {1, 1, 1, 2}, {1, 2});
  nhwc.expect_kernel_matches_reference(0);
}

TEST_CASE("global_pools_match_the_reference_in_both_layouts") {
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"}) {
    for (bool nhwc : {false, true}) {
      for (const Shape& x :
           {Shape{2, 37, 7, 9}, Shape{1, 64, 1, 1}, Shape{3, 5, 4}, Shape{1, 3, 2, 3, 4}, Shape{1, 1, 5, 1}}) {
        CAPTURE(op);
        CAPTURE(print_shape(x));
        OpTest test(op);
        if (nhwc) test.attr("layout", std::string("NHWC"));
        test.input(random_tensor(nhwc ? to_nhwc(x) : x, 5)).expect_kernel_matches_reference(1e-6);
      }
    }
  }
  OpTest mean("GlobalAveragePool");
  mean.input(counting(3, 3)).expect_reference(0, {1, 1, 1, 1}, {5});
  OpTest half("GlobalAveragePool");
  half.input(random_tensor({1, 2, 3, 3}, 1, 0, 1, DType::kF16)).expect_kernel_matches_reference(0);
}

TEST_CASE("pool_rejects_what_does_not_fit") {
  const auto pool = [](std::vector<int64_t> kernel, std::vector<int64_t> strides, std::vector<int64_t> pads) {
    OpTest test("MaxPool", 12);
    test.ints("kernel_shape", kernel).ints("strides", strides).ints("pads", pads).input(counting(4, 4));
    return test;
  };
  pool({3}, {1, 1}, {0, 0, 0, 0}).expect_problem("kernel_shape");
  pool({0, 1}, {1, 1}, {0, 0, 0, 0}).expect_problem("kernel_shape");
  pool({1, 1}, {0, 1}, {0, 0, 0, 0}).expect_problem("strides");
  pool({1, 1}, {1, 1}, {0, 0}).expect_problem("pads");
  pool({1, 1}, {1, 1}, {-1, 0, 0, 0}).expect_problem("pads");
  pool({5, 5}, {1, 1}, {0, 0, 0, 0}).expect_problem("fits");
  OpTest auto_pad("MaxPool", 12);
  auto_pad.ints("kernel_shape", {2, 2})
      .attr("auto_pad", std::string("SAME"))
      .input(counting(4, 4))
      .expect_problem("auto_pad");
  OpTest none("MaxPool", 12);
  none.input(counting(4, 4)).expect_problem("kernel_shape");
  OpTest dtype("AveragePool", 12);
  dtype.ints("kernel_shape", {2, 2}).input(random_tensor({1, 1, 4, 4}, 1, 0, 9, DType::kI32)).expect_problem("dtype");
  OpTest rank("MaxPool", 12);
  rank.ints("kernel_shape", {2}).input(random_tensor({4, 4}, 1)).expect_problem("rank");
}

TEST_CASE("pool_check_guards") {
  for (bool nhwc : {false, true}) {
    make_test("MaxPool", kCases[0], true, DType::kU8).expect_check_guards();
    make_test("MaxPool", {"", {1, 5, 6, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}}, nhwc).expect_check_guards();
    make_test("AveragePool", {"", {1, 5, 6, 7}, {3, 2}, {1, 2}, {1, 1, 1, 1}, {2, 1}}, nhwc).expect_check_guards();
    make_test("LpPool", {"", {1, 2, 3, 4, 5}, {2, 2, 2}, {}, {}, {}}, nhwc).expect_check_guards();
    OpTest indices = make_test("MaxPool", {"", {1, 2, 6, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}}, nhwc);
    indices.outputs(2).expect_check_guards();
    for (const char* op : {"GlobalAveragePool", "GlobalLpPool"}) {
      OpTest global(op);
      if (nhwc) global.attr("layout", std::string("NHWC"));
      global.input(random_tensor({2, 3, 4, 5}, 1)).expect_check_guards();
    }
  }
}

}  // namespace kiln::test
