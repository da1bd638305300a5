#include <doctest/doctest.h>

#include <cmath>

#include "op_test.h"

namespace kiln::test {
namespace {

Tensor floats(const std::vector<double>& values) {
  return make_tensor(DType::kF32, {static_cast<int64_t>(values.size())}, values);
}

Tensor counting(int64_t h, int64_t w, float first = 1) {
  Tensor x(DType::kF32, {1, 1, h, w});
  for (int64_t i = 0; i < h * w; ++i) x.as<float>()[i] = first + static_cast<float>(i);
  return x;
}

OpTest by_scales(const Tensor& x, const char* mode, const std::vector<double>& scales, int opset = 13) {
  OpTest test("Resize", opset);
  test.attr("mode", std::string(mode)).input(x).absent().constant(floats(scales));
  return test;
}

OpTest by_sizes(const Tensor& x, const char* mode, std::vector<int64_t> sizes, int opset = 13) {
  OpTest test("Resize", opset);
  test.attr("mode", std::string(mode)).input(x).absent().absent().constant_i64(std::move(sizes));
  return test;
}

OpTest& coordinates(OpTest& test, const char* name) {
  return test.attr("coordinate_transformation_mode", std::string(name));
}

}  // namespace

TEST_CASE("resize_nearest_half_pixel_round_prefer_floor") {
  OpTest test = by_scales(make_tensor(DType::kF32, {3, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8}), "nearest", {1.5, 1.5});
  test.expect_reference(0, {4, 4}, {0, 0, 1, 2, 0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8});
  test.expect_kernel_matches_reference(0);
}

TEST_CASE("resize_nearest_modes_at_ties") {
  // Asymmetric by 2/3 of 4: positions 0, 1.5; by 0.4 of 5: 0, 2.5.
  const struct {
    const char* rounding;
    std::vector<double> expected;
  } cases[] = {{"round_prefer_floor", {0, 2}}, {"round_prefer_ceil", {0, 3}}, {"floor", {0, 2}}, {"ceil", {0, 3}}};
  for (const auto& c : cases) {
    CAPTURE(c.rounding);
    OpTest test = by_scales(make_tensor(DType::kI32, {5}, {0, 1, 2, 3, 4}), "nearest", {0.4});
    coordinates(test, "asymmetric").attr("nearest_mode", std::string(c.rounding));
    test.expect_reference(0, {2}, c.expected);
    test.expect_kernel_matches_reference(0);
  }
}

TEST_CASE("resize_ultralytics_and_yolox_upsampling") {
  OpTest test = by_scales(counting(2, 2), "nearest", {1, 1, 2, 2});
  coordinates(test, "asymmetric").attr("nearest_mode", std::string("floor"));
  test.expect_reference(0, {1, 1, 4, 4}, {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4});
  CHECK(test.kernel_name() == "resize_nearest");
  for (DType dtype : {DType::kF32, DType::kU8, DType::kI64, DType::kF16}) {
    by_scales(random_tensor({1, 16, 5, 7}, 1, 0, 99, dtype), "nearest", {1, 1, 2, 2})
        .expect_kernel_matches_reference(0);
    by_scales(random_tensor({2, 5, 7, 16}, 1, 0, 99, dtype), "nearest", {1, 2, 2, 1})
        .expect_kernel_matches_reference(0);
    by_sizes(random_tensor({2, 5, 7, 16}, 1, 0, 99, dtype), "nearest", {2, 3, 9, 16})
        .expect_kernel_matches_reference(0);
  }
  by_scales(random_tensor({1, 40, 40, 64}, 1), "nearest", {1, 2, 2, 1}).expect_kernel_matches_reference(0);
}

TEST_CASE("resize_operand_forms") {
  const Tensor x = counting(2, 2);
  const std::vector<double> twice = {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
  OpTest opset10("Resize", 10);
  opset10.input(x).constant(floats({1, 1, 2, 2})).expect_reference(0, {1, 1, 4, 4}, twice);
  OpTest empty_roi("Resize", 11);
  empty_roi.input(x).constant(Tensor(DType::kF32, {0})).constant(floats({1, 1, 2, 2}));
  empty_roi.expect_reference(0, {1, 1, 4, 4}, twice);
  OpTest empty_scales("Resize", 11);
  empty_scales.input(x)
      .constant(Tensor(DType::kF32, {0}))
      .constant(Tensor(DType::kF32, {0}))
      .constant_i64({1, 1, 4, 4});
  empty_scales.expect_reference(0, {1, 1, 4, 4}, twice);
  OpTest upsample7("Upsample", 7);
  upsample7.attr("scales", std::vector<float>{1, 1, 2, 2}).input(x).expect_reference(0, {1, 1, 4, 4}, twice);
  OpTest upsample9("Upsample", 9);
  upsample9.input(x).constant(floats({1, 1, 2, 2})).expect_reference(0, {1, 1, 4, 4}, twice);
  OpTest axes("Resize", 18);
  axes.ints("axes", {3, -2}).input(x).absent().absent().constant_i64({4, 2});
  axes.expect_reference(0, {1, 1, 2, 4}, {1, 1, 2, 2, 3, 3, 4, 4});
  axes.expect_kernel_matches_reference(0);
  OpTest no_axes("Resize", 18);
  no_axes.ints("axes", {}).input(x).absent().absent().constant(Tensor(DType::kI64, {0}));
  no_axes.expect_reference(0, {1, 1, 2, 2}, {1, 2, 3, 4});
}

TEST_CASE("resize_opset_10_reduces_by_ceil") {
  OpTest test("Resize", 10);
  test.input(make_tensor(DType::kF32, {1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})).constant(floats({1, 1, 0.6, 0.6}));
  test.expect_reference(0, {1, 1, 1, 2}, {1, 3});
}

TEST_CASE("resize_linear_coordinates") {
  OpTest half = by_scales(counting(2, 2), "linear", {1, 1, 2, 2});
  half.expect_reference(0, {1, 1, 4, 4},
                        {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4});
  OpTest corners = by_scales(counting(2, 2), "linear", {1, 1, 2, 2});
  coordinates(corners, "align_corners")
      .expect_reference(
          0, {1, 1, 4, 4},
          {1, 4 / 3., 5 / 3., 2, 5 / 3., 2, 7 / 3., 8 / 3., 7 / 3., 8 / 3., 3, 10 / 3., 3, 10 / 3., 11 / 3., 4});
  OpTest asymmetric = by_scales(counting(1, 2), "linear", {1, 1, 1, 2});
  coordinates(asymmetric, "asymmetric").expect_reference(0, {1, 1, 1, 4}, {1, 1.5, 2, 2});
  OpTest torch = by_sizes(counting(4, 4), "linear", {1, 1, 3, 1});
  coordinates(torch, "pytorch_half_pixel").expect_reference(0, {1, 1, 3, 1}, {1.6666666, 7, 12.333333});
  OpTest reduced =
      by_scales(make_tensor(DType::kF32, {1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), "linear", {1, 1, 0.6, 0.6});
  reduced.expect_reference(0, {1, 1, 1, 2}, {2.6666665, 4.3333331});
  OpTest symmetric = by_scales(make_tensor(DType::kF32, {1, 1, 1, 4}, {1, 2, 3, 4}), "linear", {1, 1, 1, 0.6}, 19);
  coordinates(symmetric, "half_pixel_symmetric").expect_reference(0, {1, 1, 1, 2}, {1.6666667, 3.3333333});
  OpTest symmetric_up =
      by_scales(make_tensor(DType::kF32, {1, 1, 2, 2}, {1, 2, 3, 4}), "linear", {1, 1, 2.3, 2.94}, 19);
  coordinates(symmetric_up, "half_pixel_symmetric")
      .expect_reference(0, {1, 1, 4, 5},
                        {1,          1.15986395, 1.5,        1.84013605, 2,          1.56521738, 1.72508133,
                         2.06521738, 2.40535343, 2.56521738, 2.43478262, 2.59464657, 2.93478262, 3.27491867,
                         3.43478262, 3,          3.15986395, 3.5,        3.84013605, 4});
}

TEST_CASE("resize_cubic") {
  OpTest test = by_scales(counting(4, 4), "cubic", {1, 1, 0.8, 0.8});
  test.expect_reference(
      0, {1, 1, 3, 3},
      {1.47119141, 2.78125, 4.08251953, 6.71142578, 8.02148438, 9.32275391, 11.91650391, 13.2265625, 14.52783203},
      1e-5);
  OpTest outside = by_scales(counting(4, 4), "cubic", {1, 1, 0.8, 0.8});
  outside.attr("cubic_coeff_a", -0.5f).attr("exclude_outside", int64_t{1});
  outside.expect_reference(
      0, {1, 1, 3, 3},
      {1.36812675, 2.6695014, 4.0133367, 6.57362535, 7.875, 9.2188353, 11.94896657, 13.25034122, 14.59417652}, 1e-5);
  test.expect_kernel_matches_reference(1e-6);
  outside.expect_kernel_matches_reference(1e-6);
}

TEST_CASE("resize_antialias") {
  OpTest linear = by_scales(counting(4, 4), "linear", {1, 1, 0.6, 0.6}, 18);
  linear.attr("antialias", int64_t{1}).expect_reference(0, {1, 1, 2, 2}, {2.875, 4.5, 9.375, 11}, 1e-5);
  linear.expect_kernel_matches_reference(1e-6);
  OpTest sizes = by_sizes(counting(4, 4), "linear", {1, 1, 3, 3}, 18);
  sizes.attr("antialias", int64_t{1});
  sizes.expect_reference(0, {1, 1, 3, 3},
                         {2.3636363, 3.590909, 4.818182, 7.2727275, 8.5, 9.727273, 12.181818, 13.409091, 14.636364},
                         1e-5);
  OpTest cubic = by_scales(counting(4, 4), "cubic", {1, 1, 0.6, 0.6}, 18);
  cubic.attr("antialias", int64_t{1});
  cubic.expect_reference(0, {1, 1, 2, 2}, {2.5180721, 4.2858863, 9.589329, 11.357142}, 1e-5);
  cubic.expect_kernel_matches_reference(1e-6);
  // Enlarging is the same with and without.
  OpTest up = by_scales(counting(2, 2), "linear", {1, 1, 2, 2}, 18);
  up.attr("antialias", int64_t{1});
  up.expect_reference(0, {1, 1, 4, 4},
                      {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4});
  by_scales(random_tensor({1, 3, 40, 50}, 1), "linear", {1, 1, 0.1, 0.07}, 18)
      .attr("antialias", int64_t{1})
      .expect_kernel_matches_reference(1e-6);
}

TEST_CASE("resize_tf_crop_and_resize_extrapolates") {
  const auto crop = [](std::vector<double> roi) {
    OpTest test("Resize", 13);
    test.attr("mode", std::string("linear")).attr("extrapolation_value", 10.0f);
    coordinates(test, "tf_crop_and_resize")
        .input(counting(4, 4))
        .constant(floats(roi))
        .absent()
        .constant_i64({1, 1, 3, 3});
    return test;
  };
  crop({0, 0, 0.4, 0.6, 1, 1, 0.6, 0.8})
      .expect_reference(0, {1, 1, 3, 3}, {7.6000004, 7.9, 8.2, 8.8, 9.1, 9.4, 10, 10.3, 10.6}, 1e-5);
  crop({0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7})
      .expect_reference(0, {1, 1, 3, 3}, {7.6000004, 10, 10, 12.400001, 10, 10, 10, 10, 10}, 1e-5);
  crop({0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7}).expect_kernel_matches_reference(1e-6);
  OpTest nearest("Resize", 13);
  nearest.attr("extrapolation_value", -7.0f).input(counting(4, 4)).constant(floats({0, 0, -0.5, 0.6, 1, 1, 0.6, 1.8}));
  coordinates(nearest, "tf_crop_and_resize").absent().constant_i64({1, 1, 4, 3}).expect_kernel_matches_reference(0);
}

TEST_CASE("resize_keep_aspect_ratio_policy") {
  OpTest larger = by_sizes(make_tensor(DType::kF32, {1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), "nearest", {7, 8}, 18);
  larger.ints("axes", {2, 3}).attr("keep_aspect_ratio_policy", std::string("not_larger"));
  CHECK(larger.output_shape() == Shape{1, 1, 4, 8});
  OpTest smaller = by_sizes(make_tensor(DType::kF32, {1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}), "nearest", {7, 8}, 18);
  smaller.ints("axes", {2, 3}).attr("keep_aspect_ratio_policy", std::string("not_smaller"));
  CHECK(smaller.output_shape() == Shape{1, 1, 7, 14});
  smaller.expect_kernel_matches_reference(0);
  OpTest unknown = by_sizes(counting(2, 2), "nearest", {1, 1, 3, 3}, 18);
  unknown.attr("keep_aspect_ratio_policy", std::string("fit")).expect_problem("keep_aspect_ratio_policy");
}

TEST_CASE("resize_kernels_match_the_reference") {
  const struct {
    Shape x;
    std::vector<int64_t> sizes;
  } cases[] = {
      {{1, 7, 9, 16}, {1, 14, 18, 16}},
      {{2, 7, 9, 5}, {2, 5, 20, 5}},
      {{1, 3, 13, 11}, {1, 3, 26, 22}},
      {{1, 3, 13, 11}, {1, 3, 7, 30}},
      {{5, 6}, {3, 11}},
      {{7}, {20}},
      {{2, 3, 4, 5}, {3, 5, 7, 9}},
      {{1, 2, 3, 4, 5}, {1, 2, 6, 2, 10}},
      {{1, 8, 1, 16}, {1, 16, 1, 16}},
  };
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* name :
         {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"}) {
      for (const auto& c : cases) {
        CAPTURE(mode);
        CAPTURE(name);
        CAPTURE(print_shape(c.x));
        OpTest test = by_sizes(random_tensor(c.x, 3), mode, c.sizes, 19);
        coordinates(test, name).expect_kernel_matches_reference(2e-6);
      }
    }
  }
  OpTest fast = by_sizes(random_tensor({1, 7, 9, 16}, 3), "linear", {1, 14, 18, 16});
  CHECK(fast.kernel_name() == "resize_f32_linear_nhwc");
  for (DType dtype : {DType::kU8, DType::kI32, DType::kF16, DType::kF64}) {
    // Off by one where f32 and f64 sums fall on different sides of an integer would show as a failure: even numbers and
    // halves keep both exact.
    Tensor x = random_tensor({1, 2, 4, 4}, 3, 0, 60, DType::kI32);
    Tensor even(dtype, x.shape());
    for (int64_t i = 0; i < x.num_elements(); ++i) store_f64(dtype, even.data(), i, 4 * x.as<int32_t>()[i]);
    OpTest test = by_sizes(even, "linear", {1, 2, 8, 8});
    coordinates(test, "asymmetric").expect_kernel_matches_reference(0);
  }
}

TEST_CASE("resize_to_the_same_size_is_a_copy") {
  OpTest test = by_sizes(random_tensor({1, 2, 3, 4}, 1), "linear", {1, 2, 3, 4});
  CHECK(test.kernel_name() == "copy");
  test.expect_kernel_matches_reference(0);
  by_sizes(Tensor(DType::kF32, {1, 0, 3, 4}), "nearest", {1, 0, 6, 8}).expect_kernel_matches_reference(0);
}

TEST_CASE("resize_rejects_what_does_not_fit") {
  const Tensor x = counting(2, 2);
  by_scales(x, "nearest", {2, 2}).expect_problem("one an axis");
  by_scales(x, "nearest", {1, 1, 0, 2}).expect_problem("above 0");
  by_scales(x, "nearest", {1, 1, -1, 2}).expect_problem("above 0");
  by_scales(x, "nearest", {1, 1, NAN, 2}).expect_problem("above 0");
  by_scales(x, "nearest", {1, 1, 1e9, 1e9}).expect_problem("2^31");
  by_scales(x, "area", {1, 1, 2, 2}).expect_problem("mode");
  OpTest unknown = by_scales(x, "linear", {1, 1, 2, 2});
  coordinates(unknown, "corners").expect_problem("coordinate_transformation_mode");
  OpTest both("Resize", 13);
  both.input(x).absent().constant(floats({1, 1, 2, 2})).constant_i64({1, 1, 4, 4}).expect_problem("beside sizes");
  OpTest none("Resize", 13);
  none.input(x).expect_problem("one an axis");
  OpTest run_time("Resize", 13);
  run_time.input(x).absent().input(floats({1, 1, 2, 2})).expect_problem("scales");
  OpTest roi("Resize", 13);
  coordinates(roi, "tf_crop_and_resize").input(x).absent().constant(floats({1, 1, 2, 2})).expect_problem("roi");
  by_sizes(Tensor(DType::kF32, {1, 1, 0, 2}), "nearest", {1, 1, 2, 2}).expect_problem("sizes");
  by_scales(random_tensor({2, 2}, 1, 0, 9, DType::kI64), "linear", {2, 2}).expect_problem("dtype");
}

TEST_CASE("resize_check_guards") {
  by_sizes(random_tensor({1, 3, 4, 5}, 1), "nearest", {1, 3, 6, 7}).expect_check_guards();
  by_sizes(random_tensor({1, 3, 4, 5}, 1), "nearest", {1, 6, 7, 5}).expect_check_guards();
  by_sizes(random_tensor({1, 3, 4, 6}, 1), "linear", {1, 6, 7, 6}).expect_check_guards();
  by_sizes(random_tensor({1, 3, 4, 5}, 1), "cubic", {1, 3, 6, 7}).expect_check_guards(1500);
  by_sizes(random_tensor({3, 4, 5}, 1, 0, 9, DType::kU8), "linear", {4, 2, 9}).expect_check_guards(1500);
}

}  // namespace kiln::test
