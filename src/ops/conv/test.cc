#include <doctest/doctest.h>

#include <cmath>

#include "op_test.h"
#include "ops/conv/conv.h"
#include "ops/kernel.h"

namespace kiln::test {
namespace {

struct Case {
  const char* name;
  Shape x;  // NCHW
  int64_t filters;
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides, pads, dilations;  // empty: default
  int64_t group = 1;
  const char* auto_pad = "NOTSET";
  const char* kernel_name = "conv_f32_gemm8";  // of the NHWC form
};

const Case kCases[] = {
    {"1x1", {1, 64, 14, 14}, 128, {1, 1}, {}, {}, {}},
    {"1x1 one channel in and out", {1, 1, 5, 7}, 1, {1, 1}, {}, {}, {}},
    {"1x1 strided", {1, 32, 15, 15}, 24, {1, 1}, {2, 2}, {}, {}},
    {"1x1 on one pixel", {1, 96, 1, 1}, 24, {1, 1}, {}, {}, {}},
    {"1x1 deeper than a block", {1, 900, 3, 5}, 40, {1, 1}, {}, {}, {}},
    {"1x1 one pixel, deeper than a block of rows", {1, 4101, 1, 1}, 17, {1, 1}, {}, {}, {}},
    {"1x1 many columns, few rows", {1, 16, 7, 7}, 520, {1, 1}, {}, {}, {}},
    {"3x3", {1, 16, 13, 17}, 32, {3, 3}, {}, {1, 1, 1, 1}, {}},
    {"3x3 many rows", {1, 8, 57, 61}, 16, {3, 3}, {}, {1, 1, 1, 1}, {}},
    {"3x3 odd channels", {1, 17, 9, 8}, 5, {3, 3}, {}, {1, 1, 1, 1}, {}},
    {"3x3 stride 2 on odd sizes", {1, 8, 15, 13}, 17, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}},
    {"3x3 deeper than a block", {2, 64, 7, 7}, 72, {3, 3}, {}, {1, 1, 1, 1}, {}},
    {"first layer of MobileNet", {1, 3, 33, 31}, 32, {3, 3}, {2, 2}, {0, 0, 1, 1}, {}},
    {"first layer of YOLOv5", {1, 3, 32, 40}, 48, {6, 6}, {2, 2}, {2, 2, 2, 2}, {}},
    {"first layer of ResNet", {1, 3, 37, 41}, 64, {7, 7}, {2, 2}, {3, 3, 3, 3}, {}},
    {"batch 3", {3, 5, 6, 7}, 9, {3, 3}, {}, {1, 1, 1, 1}, {}},
    {"asymmetric pads", {1, 6, 9, 9}, 8, {3, 3}, {2, 1}, {0, 2, 3, 1}, {}},
    {"asymmetric kernel", {1, 6, 9, 9}, 8, {1, 7}, {}, {0, 3, 0, 3}, {}},
    {"dilation", {1, 8, 17, 15}, 8, {3, 3}, {}, {2, 3, 2, 3}, {2, 3}},
    {"dilation and stride", {1, 8, 17, 15}, 8, {3, 3}, {2, 2}, {2, 2, 2, 2}, {2, 2}},
    {"kernel larger than the input", {1, 3, 2, 3}, 4, {5, 5}, {}, {2, 2, 2, 2}, {}},
    {"pads larger than the kernel", {1, 3, 4, 4}, 4, {2, 2}, {3, 3}, {5, 4, 4, 5}, {}},
    {"SAME_UPPER", {1, 4, 10, 11}, 8, {3, 3}, {2, 2}, {}, {}, 1, "SAME_UPPER"},
    {"SAME_LOWER", {1, 4, 10, 11}, 8, {4, 3}, {2, 3}, {}, {}, 1, "SAME_LOWER"},
    {"VALID", {1, 4, 10, 11}, 8, {3, 3}, {2, 2}, {}, {}, 1, "VALID"},
    {"group 2", {1, 16, 9, 9}, 24, {3, 3}, {}, {1, 1, 1, 1}, {}, 2},
    {"groups of three channels", {2, 9, 6, 5}, 15, {3, 3}, {2, 2}, {1, 1, 1, 1}, {}, 3},
    {"groups as in ResNeXt", {1, 128, 7, 7}, 128, {3, 3}, {}, {1, 1, 1, 1}, {}, 32},
    {"channel multiplier", {1, 6, 9, 9}, 18, {3, 3}, {}, {1, 1, 1, 1}, {}, 6},
    {"depthwise on three channels", {1, 3, 9, 9}, 3, {3, 3}, {}, {1, 1, 1, 1}, {}, 3},
    {"depthwise 3x3", {1, 32, 14, 14}, 32, {3, 3}, {}, {1, 1, 1, 1}, {}, 32, "NOTSET", "conv_f32_depthwise"},
    {"depthwise 3x3 stride 2",
     {2, 24, 15, 13},
     24,
     {3, 3},
     {2, 2},
     {1, 1, 1, 1},
     {},
     24,
     "NOTSET",
     "conv_f32_depthwise"},
    {"depthwise 3x3 keras pads",
     {1, 13, 16, 16},
     13,
     {3, 3},
     {2, 2},
     {0, 0, 1, 1},
     {},
     13,
     "NOTSET",
     "conv_f32_depthwise"},
    {"depthwise 5x5", {1, 20, 9, 11}, 20, {5, 5}, {}, {2, 2, 2, 2}, {}, 20, "NOTSET", "conv_f32_depthwise"},
    {"depthwise 5x5 stride 2",
     {1, 17, 10, 11},
     17,
     {5, 5},
     {2, 2},
     {2, 2, 2, 2},
     {},
     17,
     "NOTSET",
     "conv_f32_depthwise"},
    {"depthwise 5x5 on a tiny image", {1, 8, 2, 2}, 8, {5, 5}, {}, {2, 2, 2, 2}, {}, 8, "NOTSET", "conv_f32_depthwise"},
    {"depthwise 7x7", {1, 8, 9, 9}, 8, {7, 7}, {}, {3, 3, 3, 3}, {}, 8, "NOTSET", "conv_f32_depthwise"},
    {"depthwise dilated", {1, 8, 12, 11}, 8, {3, 3}, {}, {2, 2, 2, 2}, {2, 2}, 8, "NOTSET", "conv_f32_depthwise"},
    {"depthwise stride 3, far pads",
     {1, 5, 4, 4},
     5,
     {3, 3},
     {3, 3},
     {6, 6, 6, 6},
     {},
     5,
     "NOTSET",
     "conv_f32_depthwise"},
    {"depthwise 1-D", {1, 8, 19}, 8, {3}, {}, {1, 1}, {}, 8, "NOTSET", "conv_f32_depthwise"},
    {"1-D", {2, 7, 23}, 10, {5}, {2}, {2, 1}, {}},
    {"1-D dilated", {1, 4, 23}, 8, {3}, {}, {4, 0}, {3}},
    {"3-D", {1, 3, 4, 5, 6}, 4, {2, 3, 3}, {1, 2, 1}, {0, 1, 1, 1, 1, 1}, {}, 1, "NOTSET", "conv_f32_plain"},
};

Tensor to_nhwc(const Tensor& x) {
  const Shape& s = x.shape();
  Shape shape{s[0]};
  for (int i = 2; i < s.rank; ++i) shape.push_back(s[i]);
  shape.push_back(s[1]);
  Tensor y(x.dtype(), shape);
  const int64_t pixels = s.product(2, s.rank);
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t c = 0; c < s[1]; ++c) {
      for (int64_t i = 0; i < pixels; ++i) {
        y.as<float>()[(n * pixels + i) * s[1] + c] = x.as<float>()[(n * s[1] + c) * pixels + i];
      }
    }
  }
  return y;
}

Shape weights_shape(const Case& c) {
  Shape shape{c.filters, c.x[1] / c.group};
  for (int64_t k : c.kernel) shape.push_back(k);
  return shape;
}

OpTest make_test(const Case& c, bool nhwc) {
  OpTest test("Conv");
  if (nhwc) test.attr("layout", std::string("NHWC"));
  if (!c.strides.empty()) test.ints("strides", c.strides);
  if (!c.pads.empty()) test.ints("pads", c.pads);
  if (!c.dilations.empty()) test.ints("dilations", c.dilations);
  test.attr("group", c.group).attr("auto_pad", std::string(c.auto_pad)).ints("kernel_shape", c.kernel);
  return test;
}

// A tolerance relative to the length of the sums.
double tolerance(const Case& c) {
  const Shape w = weights_shape(c);
  return 1e-7 * (4 + std::sqrt(static_cast<double>(w.product(1, w.rank))));
}

}  // namespace

TEST_CASE("conv_layouts_pads_strides_dilations_groups") {
  for (const Case& c : kCases) {
    INFO(c.name);
    const Tensor x = random_tensor(c.x, 1);
    const Tensor w = random_tensor(weights_shape(c), 2);
    const Tensor bias = random_tensor({c.filters}, 3);
    OpTest nhwc = make_test(c, true);
    nhwc.input(to_nhwc(x)).constant(w).constant(bias);
    CHECK(nhwc.kernel_name() == c.kernel_name);
    nhwc.expect_kernel_matches_reference(tolerance(c));
    OpTest no_bias = make_test(c, true);
    no_bias.input(to_nhwc(x)).constant(w).expect_kernel_matches_reference(tolerance(c));
    OpTest run_time_bias = make_test(c, true);
    run_time_bias.input(to_nhwc(x)).constant(w).input(bias).expect_kernel_matches_reference(tolerance(c));
    OpTest run_time_weights = make_test(c, true);
    run_time_weights.input(to_nhwc(x)).input(w).input(bias).expect_kernel_matches_reference(tolerance(c));
    OpTest nchw = make_test(c, false);
    nchw.input(x).constant(w).constant(bias).expect_kernel_matches_reference(tolerance(c));
    if (c.x.rank < 5) {
      OpTest planar_input = make_test(c, true);
      planar_input.attr("input_layout", std::string("NCHW"));
      planar_input.input(x).constant(w).constant(bias).expect_kernel_matches_reference(tolerance(c));
    }
  }
}

TEST_CASE("conv_fused_activation_and_residual") {
  struct Fused {
    const char* activation;
    float a, b;
  };
  const Fused kFused[] = {
      {"", 0, 0},     {"Clip", 0, INFINITY},       {"Clip", 0, 6},      {"LeakyRelu", 0.1f, 0}, {"Sigmoid", 0, 0},
      {"Silu", 0, 0}, {"HardSigmoid", 0.2f, 0.5f}, {"HardSwish", 0, 0}, {"Tanh", 0, 0}};
  const Case kShapes[] = {
      {"gemm", {2, 12, 6, 7}, 20, {3, 3}, {}, {1, 1, 1, 1}, {}},
      {"gemm in two blocks", {1, 420, 5, 5}, 9, {1, 1}, {}, {}, {}},
      {"one pixel", {1, 64, 1, 1}, 20, {1, 1}, {}, {}, {}},
      {"depthwise", {2, 21, 6, 7}, 21, {3, 3}, {}, {1, 1, 1, 1}, {}, 21},
      {"depthwise of any kernel", {2, 21, 6, 7}, 21, {2, 2}, {}, {}, {}, 21},
  };
  for (const Case& c : kShapes) {
    for (const Fused& f : kFused) {
      for (const char* residual : {"", "before_activation", "after_activation"}) {
        INFO(c.name, " ", f.activation, " residual ", residual);
        for (bool nhwc : {true, false}) {
          const Tensor x = random_tensor(c.x, 4, -2, 2);
          OpTest test = make_test(c, nhwc);
          test.input(nhwc ? to_nhwc(x) : x).constant(random_tensor(weights_shape(c), 5));
          test.constant(random_tensor({c.filters}, 6));
          if (*f.activation != 0) {
            test.attr("activation", std::string(f.activation)).attr("activation_a", f.a).attr("activation_b", f.b);
          }
          if (*residual != 0) {
            Shape shape = c.x;
            shape[1] = c.filters;
            if (c.kernel[0] == 2) {
              --shape[2];
              --shape[3];
            }
            const Tensor r = random_tensor(shape, 7, -3, 3);
            test.input(nhwc ? to_nhwc(r) : r).attr("residual", std::string(residual));
          }
          test.expect_kernel_matches_reference(tolerance(c) * 4);
        }
      }
    }
  }
}

TEST_CASE("conv_winograd") {
  const struct {
    const char* name;
    Shape x;
    int64_t filters;
    std::vector<int64_t> pads;
  } cases[] = {
      {"one tile", {1, 8, 4, 4}, 8, {1, 1, 1, 1}},
      {"less than a tile", {1, 8, 3, 3}, 8, {}},
      {"tiles that reach over the edge", {1, 16, 14, 14}, 24, {1, 1, 1, 1}},
      {"no pads, odd sizes", {2, 12, 9, 13}, 16, {}},
      {"wide pads, unlike", {1, 8, 5, 7}, 9, {3, 0, 5, 7}},
      {"channels of the last panel", {1, 8, 6, 6}, 13, {1, 1, 1, 1}},
      {"three more channels", {1, 8, 6, 6}, 11, {1, 1, 1, 1}},
      {"several blocks", {1, 64, 40, 36}, 32, {1, 1, 1, 1}},
      {"panels in turns", {1, 8, 40, 41}, 72, {1, 1, 1, 1}},
      {"deep", {1, 256, 7, 7}, 64, {1, 1, 1, 1}},
  };
  for (const auto& each : cases) {
    INFO(each.name);
    const Case c{each.name, each.x, each.filters, {3, 3}, {}, each.pads, {}, 1, "NOTSET", "conv_f32_winograd4"};
    Shape y = each.x;
    y[1] = each.filters;
    for (int i = 0; i < 2; ++i)
      y[2 + i] += (each.pads.empty() ? 0 : each.pads[size_t(i)] + each.pads[size_t(i) + 2]) - 2;
    const Tensor residual = to_nhwc(random_tensor(y, 7, -3, 3));
    for (int form = 0; form < 4; ++form) {
      INFO("form ", form);
      OpTest test = make_test(c, true);
      test.attr("algorithm", std::string("winograd4")).input(to_nhwc(random_tensor(c.x, 4, -2, 2)));
      test.constant(random_tensor(weights_shape(c), 5));
      if (form > 0) test.constant(random_tensor({c.filters}, 6));
      if (form == 2) test.attr("activation", std::string("Silu"));
      if (form >= 2)
        test.input(residual).attr("residual", std::string(form == 2 ? "after_activation" : "before_activation"));
      if (form == 3)
        test.attr("activation", std::string("Clip")).attr("activation_a", 0.0f).attr("activation_b", INFINITY);
      CHECK(test.kernel_name() == c.kernel_name);
      test.expect_kernel_matches_reference(tolerance(c) * 10);
    }
  }
}

TEST_CASE("conv_winograd_check_guards") {
  const Case c{"", {1, 8, 6, 6}, 12, {3, 3}, {}, {1, 1, 1, 1}, {}, 1, "NOTSET", "conv_f32_winograd4"};
  make_test(c, true)
      .attr("algorithm", std::string("winograd4"))
      .input(to_nhwc(random_tensor(c.x, 1)))
      .constant(random_tensor(weights_shape(c), 2))
      .constant(random_tensor({c.filters}, 3))
      .expect_check_guards(2000);
}

TEST_CASE("conv_values") {
  // ONNX's own example: 5x5 image, 3x3 kernel of ones.
  std::vector<double> image(25);
  for (int i = 0; i < 25; ++i) image[size_t(i)] = i;
  const Tensor x = make_tensor(DType::kF32, {1, 1, 5, 5}, image);
  const Tensor ones = make_tensor(DType::kF32, {1, 1, 3, 3}, std::vector<double>(9, 1));
  OpTest padded("Conv");
  padded.input(x).constant(ones).ints("pads", {1, 1, 1, 1}).ints("kernel_shape", {3, 3});
  padded.expect_reference(0, {1, 1, 5, 5}, {12,  21, 27, 33,  24,  33,  54,  63, 72,  51,  63,  99, 108,
                                            117, 81, 93, 144, 153, 162, 111, 72, 111, 117, 123, 84});
  OpTest strided("Conv");
  strided.input(x).constant(ones).ints("strides", {2, 2}).attr("auto_pad", std::string("SAME_LOWER"));
  strided.expect_reference(0, {1, 1, 3, 3}, {12, 27, 24, 63, 108, 81, 72, 117, 84});
  OpTest grouped("Conv");
  grouped.input(make_tensor(DType::kF32, {1, 2, 1, 2}, {1, 2, 3, 4}));
  grouped.constant(make_tensor(DType::kF32, {2, 1, 1, 1}, {10, 100})).constant(make_tensor(DType::kF32, {2}, {1, 2}));
  grouped.attr("group", int64_t{2}).expect_reference(0, {1, 2, 1, 2}, {11, 21, 302, 402});
}

TEST_CASE("conv_bad_forms_are_reported") {
  const Tensor x = random_tensor({1, 4, 5, 5}, 1);
  const Tensor w = random_tensor({6, 4, 3, 3}, 2);
  const auto test = [&] {
    OpTest t("Conv");
    t.input(x).constant(w);
    return t;
  };
  test().attr("group", int64_t{3}).expect_problem("group=3; required: a divisor of channels=4");
  test().attr("group", int64_t{0}).expect_problem("group=0");
  test().attr("group", int64_t{2}).expect_problem("channels=4; required: group=2 times W's 4");
  test().ints("kernel_shape", {5, 5}).expect_problem("kernel_shape=[5, 5]; required: that of the weights, [3, 3]");
  test().ints("strides", {1}).expect_problem("strides=[1]");
  test().ints("strides", {0, 1}).expect_problem("strides=[0, 1]");
  test().ints("dilations", {1, -1}).expect_problem("dilations=[1, -1]");
  OpTest("Conv")
      .input(x)
      .constant(random_tensor({2, 4, 33, 1}, 2))
      .ints("dilations", {1 << 24, 1})
      .attr("auto_pad", std::string("SAME_UPPER"))
      .expect_problem("dilations=[16777216, 1] is not supported");
  test().ints("dilations", {4, 4}).expect_problem("a kernel that fits the padded input");
  test().ints("pads", {1, 1, 1, -1}).expect_problem("pads=[1, 1, 1, -1] is not supported");
  test().attr("auto_pad", std::string("SAME")).expect_problem("auto_pad=SAME");
  test().constant(random_tensor({5}, 3)).expect_problem("shape of bias=[5]; required: [6]");
  test().absent().input(random_tensor({1, 6, 5, 5}, 3)).expect_problem("shape of residual");
  test().attr("activation", std::string("Gelu")).expect_problem("activation=Gelu is not supported");
  OpTest("Conv").input(x).constant(random_tensor({6, 4, 3}, 2)).expect_problem("rank of W=3");
  OpTest("Conv").input(random_tensor({4, 5}, 1)).constant(random_tensor({6, 4}, 2)).expect_problem("rank of X=2");
  OpTest("Conv")
      .input(random_tensor({1, 4, 5, 5}, 1, 0, 9, DType::kF64))
      .constant(w)
      .expect_problem("f64 is not supported");
  OpTest("Conv").input(x).expect_problem("number of inputs=1");
}

// A kernel of one tap has no extent, whatever its dilation: positions would still overflow with it.
TEST_CASE("conv_checks_refuse_a_huge_dilation_of_one_tap") {
  ops::conv::ConvParams params;
  params.kernel[2] = 3;
  params.dilation[1] = INT32_MAX;
  params.pad_begin[1] = 2;
  params.pad_begin[2] = params.pad_end[2] = 1;
  params.group = 4;
  params.input_is_nhwc = params.output_is_nhwc = 1;
  const Tensor x(DType::kF32, {1, 3, 8, 4}), y(DType::kF32, {1, 5, 8, 4}), packed(DType::kF32, {16});
  Tensor scratch(DType::kF32, {16});
  TensorRef in[] = {make_ref(x), make_ref(packed), {}, {}};
  TensorRef out[] = {make_ref(y)};
  KernelArgs args;
  args.params = &params;
  args.params_bytes = sizeof(params);
  args.in = in;
  args.num_in = 4;
  args.out = out;
  args.num_out = 1;
  args.scratch = scratch.data();
  args.scratch_bytes = scratch.bytes();
  const KernelDef* kernel = builtin_kernels().find("conv_f32_depthwise");
  REQUIRE(kernel != nullptr);
  CHECK_FALSE(kernel->check(args).ok());
  params.dilation[1] = 1;
  CHECK(kernel->check(args).ok());
}

TEST_CASE("conv_checks_hold_against_changed_steps") {
  const char* kGuarded[] = {"1x1",
                            "3x3 odd channels",
                            "first layer of ResNet",
                            "asymmetric pads",
                            "dilation",
                            "group 2",
                            "1x1 on one pixel",
                            "batch 3",
                            "depthwise 3x3",
                            "depthwise 7x7",
                            "depthwise 5x5 stride 2",
                            "1-D",
                            "3-D"};
  for (const char* name : kGuarded) {
    const Case* found = nullptr;
    for (const Case& c : kCases) found = std::string(c.name) == name ? &c : found;
    REQUIRE(found != nullptr);
    INFO(name);
    const Case& c = *found;
    const Tensor x = random_tensor(c.x, 1);
    const Tensor w = random_tensor(weights_shape(c), 2);
    const Tensor bias = random_tensor({c.filters}, 3);
    make_test(c, true).input(to_nhwc(x)).constant(w).constant(bias).expect_check_guards();
    make_test(c, true).input(to_nhwc(x)).constant(w).input(bias).expect_check_guards();
    make_test(c, true).input(to_nhwc(x)).input(w).input(bias).expect_check_guards();
    make_test(c, false).input(x).constant(w).constant(bias).expect_check_guards();
    if (c.x.rank == 5) continue;
    make_test(c, true).attr("input_layout", std::string("NCHW")).input(x).constant(w).expect_check_guards();
  }
  for (const char* residual : {"before_activation", "after_activation"}) {
    OpTest("Conv")
        .attr("layout", std::string("NHWC"))
        .attr("residual", std::string(residual))
        .attr("activation", std::string("Silu"))
        .input(random_tensor({2, 4, 5, 8}, 1))
        .constant(random_tensor({12, 8, 1, 1}, 2))
        .absent()
        .input(random_tensor({2, 4, 5, 12}, 3))
        .expect_check_guards();
  }
}

}  // namespace kiln::test
