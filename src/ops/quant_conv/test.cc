#include <doctest/doctest.h>

#include "op_test.h"
#include "ops/quant_conv/quant_conv.h"

namespace kiln::test {
namespace {

struct Case {
  const char* name;
  Shape x;  // channels last
  int64_t filters;
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides, pads, dilations;
  int64_t group = 1;
  const char* kernel_name = "quant_conv_gemm";
};

const Case kCases[] = {
    {"1x1", {1, 9, 11, 32}, 24, {1, 1}, {}, {}, {}},
    {"1x1 odd channels", {2, 5, 7, 13}, 17, {1, 1}, {}, {}, {}},
    {"1x1 one channel", {1, 5, 7, 1}, 1, {1, 1}, {}, {}, {}},
    {"3x3", {1, 13, 11, 16}, 40, {3, 3}, {}, {1, 1, 1, 1}, {}},
    {"3x3 stride 2, odd sizes", {2, 12, 9, 7}, 9, {3, 3}, {2, 2}, {0, 1, 1, 0}, {}},
    {"first layer", {1, 17, 19, 3}, 16, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}},
    {"7x7 first layer", {1, 23, 21, 3}, 8, {7, 7}, {2, 2}, {3, 3, 3, 3}, {}},
    {"dilated", {1, 14, 13, 8}, 8, {3, 3}, {}, {2, 3, 2, 3}, {2, 3}},
    {"groups", {1, 7, 6, 12}, 20, {3, 3}, {}, {1, 1, 1, 1}, {}, 4},
    {"many rows", {1, 40, 41, 8}, 8, {1, 1}, {}, {}, {}},
    {"deep", {1, 5, 5, 600}, 12, {3, 3}, {}, {1, 1, 1, 1}, {}},
    {"few rows, many columns", {1, 2, 3, 16}, 300, {1, 1}, {}, {}, {}},
    {"1-D", {2, 19, 6}, 11, {5}, {2}, {2, 1}, {}},
    {"product", {7, 70}, 33, {}, {}, {}, {}},
    {"depthwise", {1, 9, 10, 16}, 16, {3, 3}, {}, {1, 1, 1, 1}, {}, 16, "quant_conv_depthwise"},
    {"depthwise stride 2", {2, 11, 9, 21}, 21, {3, 3}, {2, 2}, {1, 0, 1, 2}, {}, 21, "quant_conv_depthwise"},
    {"depthwise 5x5", {1, 9, 8, 9}, 9, {5, 5}, {}, {2, 2, 2, 2}, {}, 9, "quant_conv_depthwise"},
    {"depthwise of few channels", {1, 9, 8, 5}, 5, {3, 3}, {}, {1, 1, 1, 1}, {}, 5},
};

enum class Form { kPlain, kRelu, kSilu, kResidual, kSiluResidual, kFloat, kSigned, kGain, kClipGain };

OpTest make_test(const Case& c, Form form, uint64_t seed) {
  const DType byte = form == Form::kSigned ? DType::kI8 : DType::kU8;
  const double low = byte == DType::kI8 ? -128 : 0;
  OpTest test("QuantConv", 1, "kiln");
  test.input(random_tensor(c.x, seed, low, low + 256, byte));
  const int64_t channels = c.x[c.x.rank - 1];
  Shape w{c.filters, channels / c.group};
  int64_t k = channels / c.group;
  for (int64_t size : c.kernel) {
    w.push_back(size);
    k *= size;
  }
  test.constant(random_tensor(w, seed + 1, -128, 128, DType::kI8));
  test.constant(random_tensor(Shape{c.filters}, seed + 2, -1, 1));
  Shape y = c.x;
  const bool has_residual = form == Form::kResidual || form == Form::kSiluResidual;
  const auto spatial = static_cast<int>(c.kernel.size());
  for (int i = 0; i < spatial; ++i) {
    const int64_t stride = c.strides.empty() ? 1 : c.strides[size_t(i)];
    const int64_t pads = c.pads.empty() ? 0 : c.pads[size_t(i)] + c.pads[size_t(i + spatial)];
    const int64_t dilation = c.dilations.empty() ? 1 : c.dilations[size_t(i)];
    y[i + 1] = (c.x[i + 1] + pads - (c.kernel[size_t(i)] - 1) * dilation - 1) / stride + 1;
  }
  y[y.rank - 1] = c.filters;
  if (has_residual)
    test.input(random_tensor(y, seed + 3, 0, 256, DType::kU8));
  else
    test.absent();
  test.constant(random_tensor(Shape{c.filters}, seed + 4, 0.001, 0.02));
  if (form == Form::kGain || form == Form::kClipGain) test.constant(random_tensor(Shape{c.filters}, seed + 5, 1, 9));
  test.attr("x_scale", 0.02f).attr("x_zero", int64_t{byte == DType::kI8 ? -9 : 100});
  const auto spread = static_cast<float>(std::sqrt(double(k)));
  if (form == Form::kFloat) {
    test.attr("y_dtype", std::string("f32"));
  } else {
    test.attr("y_dtype", std::string(byte == DType::kI8 ? "i8" : "u8"));
    test.attr("y_scale", 0.02f * spread).attr("y_zero", int64_t{byte == DType::kI8 ? 3 : 117});
  }
  if (has_residual) test.attr("r_scale", 0.05f).attr("r_zero", int64_t{90});
  if (form == Form::kRelu) test.attr("activation", std::string("Clip")).attr("activation_b", spread);
  if (form == Form::kClipGain) {
    test.attr("activation", std::string("Clip")).attr("activation_b", 0.3f * spread);
  }
  if (form == Form::kSilu || form == Form::kSiluResidual) {
    test.attr("activation", std::string("Silu"));
  }
  if (form == Form::kSiluResidual) test.attr("residual", std::string("after_activation"));
  if (!c.strides.empty()) test.ints("strides", c.strides);
  if (!c.pads.empty()) test.ints("pads", c.pads);
  if (!c.dilations.empty()) test.ints("dilations", c.dilations);
  if (c.group != 1) test.attr("group", c.group);
  return test;
}

constexpr Form kForms[] = {Form::kPlain, Form::kRelu,   Form::kSilu, Form::kResidual, Form::kSiluResidual,
                           Form::kFloat, Form::kSigned, Form::kGain, Form::kClipGain};

}  // namespace

TEST_SUITE("ops/quant_conv") {
  TEST_CASE("kernels_give_the_bits_of_the_reference") {
    for (const Case& c : kCases) {
      CAPTURE(c.name);
      for (Form form : kForms) {
        CAPTURE(static_cast<int>(form));
        OpTest test = make_test(c, form, 11 + static_cast<uint64_t>(form));
        CHECK(test.kernel_name() == c.kernel_name);
        test.expect_kernel_matches_reference(0);
      }
    }
  }

  TEST_CASE("full_range_products_are_exact") {
    // 255 * -128 over K = 64: no pair saturates.
    for (int64_t k : {64, 65, 4096}) {
      OpTest test("QuantConv", 1, "kiln");
      test.input(make_tensor(DType::kU8, {2, k}, std::vector<double>(size_t(2 * k), 255)));
      test.constant(make_tensor(DType::kI8, {9, k}, std::vector<double>(size_t(9 * k), -128)));
      test.absent().absent().constant(make_tensor(DType::kF32, {9}, std::vector<double>(9, 1)));
      test.attr("x_scale", 1.0f).attr("x_zero", int64_t{0}).attr("y_dtype", std::string("f32"));
      test.expect_reference(0, {2, 9}, std::vector<double>(18, -32640.0 * double(k)), 0);
      test.expect_kernel_matches_reference(0);
    }
  }

  TEST_CASE("rounds_half_to_even_and_saturates") {
    OpTest test("QuantConv", 1, "kiln");
    test.input(make_tensor(DType::kI8, {6, 1}, {1, 3, 5, -1, -3, 127}));
    test.constant(make_tensor(DType::kI8, {1, 1}, {2})).absent().absent();
    test.constant(make_tensor(DType::kF32, {1}, {0.25}));
    test.attr("x_scale", 1.0f).attr("y_scale", 1.0f).attr("y_dtype", std::string("i8")).attr("y_zero", int64_t{70});
    test.expect_reference(0, {6, 1}, {70, 72, 72, 70, 68, 127}, 0);
    test.expect_kernel_matches_reference(0);
  }

  TEST_CASE("every_activation_gives_the_bits_of_the_reference") {
    for (const char* name : {"LeakyRelu", "Sigmoid", "Silu", "HardSigmoid", "HardSwish", "Tanh"}) {
      CAPTURE(name);
      for (Form form : {Form::kPlain, Form::kFloat, Form::kGain}) {
        OpTest test = make_test(kCases[3], form, 21);
        test.attr("activation", std::string(name)).attr("activation_a", 0.2f).attr("activation_b", 0.5f);
        test.expect_kernel_matches_reference(0);
      }
    }
  }

  TEST_CASE("checks_guard_against_hostile_steps") {
    make_test(kCases[3], Form::kSiluResidual, 5).expect_check_guards();
    make_test(kCases[0], Form::kRelu, 6).expect_check_guards();
    make_test(kCases[14], Form::kSilu, 7).expect_check_guards();
  }

  TEST_CASE("wrong_forms_are_refused") {
    make_test(kCases[0], Form::kPlain, 1).attr("x_scale", -1.0f).expect_problem("x_scale");
    make_test(kCases[0], Form::kPlain, 1).attr("x_zero", int64_t{256}).expect_problem("x_zero");
    make_test(kCases[0], Form::kPlain, 1).attr("y_dtype", std::string("i32")).expect_problem("y_dtype");
  }
}

}  // namespace kiln::test
