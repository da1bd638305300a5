#include <doctest/doctest.h>

#include <cmath>

#include "op_test.h"
#include "ops/pointwise/pointwise.h"

using namespace kiln;
using namespace kiln::test;

namespace {

const double kInf = INFINITY;

struct UnaryCase {
  const char* op;
  double lo, hi;
  const char* domain = "";
};

// Every float operator; the interval is where it is interesting.
const UnaryCase kUnaryCases[] = {
    {"Identity", -5, 5},
    {"Relu", -5, 5},
    {"Clip", -5, 5},
    {"Sigmoid", -20, 20},
    {"Silu", -20, 20, "kiln"},
    {"Tanh", -8, 8},
    {"LeakyRelu", -5, 5},
    {"HardSigmoid", -5, 5},
    {"HardSwish", -5, 5},
    {"Elu", -8, 8},
    {"Selu", -8, 8},
    {"Celu", -8, 8},
    {"ThresholdedRelu", -3, 3},
    {"Softplus", -30, 30},
    {"Softsign", -9, 9},
    {"Gelu", -6, 6},
    {"Mish", -30, 30},
    {"Erf", -4, 4},
    {"Exp", -20, 5},
    {"Log", 0.001, 50},
    {"Sqrt", 0, 50},
    {"Abs", -5, 5},
    {"Neg", -5, 5},
    {"Reciprocal", 0.1, 9},
    {"Floor", -5, 5},
    {"Ceil", -5, 5},
    {"Round", -5, 5},
    {"Sign", -2, 2},
    {"Sin", -9, 9},
    {"Cos", -9, 9},
    {"Tan", -1, 1},
    {"Asin", -1, 1},
    {"Acos", -1, 1},
    {"Atan", -9, 9},
    {"Sinh", -4, 4},
    {"Cosh", -4, 4},
    {"Asinh", -9, 9},
    {"Acosh", 1, 9},
    {"Atanh", -0.9, 0.9},
    {"IsNaN", -1, 1},
    {"IsInf", -1, 1},
};

}  // namespace

TEST_CASE("pointwise_unary_kernels_match_reference") {
  uint64_t seed = 1;
  for (const UnaryCase& c : kUnaryCases) {
    for (const Shape& shape : {Shape{2, 5, 7}, Shape{1, 3, 4, 16}, Shape{3}, Shape{}, Shape{2, 0, 3}, Shape{3, 6000}}) {
      INFO(c.op, " ", print_shape(shape));
      OpTest(c.op, 20, c.domain).input(random_tensor(shape, ++seed, c.lo, c.hi)).expect_kernel_matches_reference(1e-6);
    }
    INFO(c.op);
    for (DType dtype : {DType::kF16, DType::kBF16, DType::kF64}) {
      OpTest(c.op, 20, c.domain)
          .input(random_tensor({3, 5}, ++seed, c.lo, c.hi, dtype))
          .expect_kernel_matches_reference(0);
    }
  }
}

TEST_CASE("pointwise_unary_known_values") {
  auto f32 = [](std::vector<double> values) {
    return make_tensor(DType::kF32, {static_cast<int64_t>(values.size())}, values);
  };
  OpTest("Round", 11).input(f32({0.5, 1.5, 2.5, -0.5, -1.5, 2.4})).expect_reference(0, {6}, {0, 2, 2, -0.0, -2, 2});
  OpTest("Sign", 13).input(f32({-3, 0, 9})).expect_reference(0, {3}, {-1, 0, 1});
  OpTest("HardSwish", 14).input(f32({-4, -1, 0, 1, 4})).expect_reference(0, {5}, {0, -1.0 / 3, 0, 2.0 / 3, 4});
  OpTest("Celu", 12).attr("alpha", 2.0f).input(f32({-1, 1})).expect_reference(0, {2}, {2 * std::expm1(-0.5), 1});
  OpTest("Selu", 6).input(f32({-1, 1})).expect_reference(0, {2}, {-1.1113307, 1.0507010});
  OpTest("Elu", 6).attr("alpha", 2.0f).input(f32({-1, 1})).expect_reference(0, {2}, {2 * std::expm1(-1), 1});
  OpTest("ThresholdedRelu", 10).attr("alpha", 2.0f).input(f32({1, 2, 3})).expect_reference(0, {3}, {0, 0, 3});
  OpTest("Gelu", 20).input(f32({1})).expect_reference(0, {1}, {0.8413447});
  OpTest("Gelu", 20).attr("approximate", "tanh").input(f32({1})).expect_reference(0, {1}, {0.8411920});
  OpTest("Mish", 18).input(f32({1})).expect_reference(0, {1}, {0.8650984});
  OpTest("IsInf", 10).input(f32({1, kInf, -kInf, NAN})).expect_reference(0, {4}, {0, 1, 1, 0});
  OpTest("IsInf", 10).attr("detect_negative", int64_t{0}).input(f32({kInf, -kInf})).expect_reference(0, {2}, {1, 0});
  OpTest("IsNaN", 9).input(f32({1, NAN, kInf})).expect_reference(0, {3}, {0, 1, 0});
  OpTest("Not", 1).input(make_tensor(DType::kBool, {2}, {1, 0})).expect_reference(0, {2}, {0, 1});
  OpTest("Neg", 13).input(make_tensor(DType::kI8, {2}, {-128, 5})).expect_reference(0, {2}, {-128, -5});
  OpTest("Abs", 13).input(make_tensor(DType::kI32, {2}, {-7, 5})).expect_reference(0, {2}, {7, 5});
  OpTest("Relu", 14).input(make_tensor(DType::kI16, {3}, {-7, 0, 5})).expect_reference(0, {3}, {0, 0, 5});
}

TEST_CASE("pointwise_vector_kernels_keep_nan_and_infinities") {
  const Tensor x = make_tensor(DType::kF32, {6}, {NAN, kInf, -kInf, 0, -0.0, 1});
  for (const char* op : {"Relu",       "Clip",     "Sigmoid", "Tanh",  "LeakyRelu", "HardSigmoid",    "Elu", "Selu",
                         "Celu",       "Softplus", "Erf",     "Exp",   "Log",       "Sqrt",           "Abs", "Neg",
                         "Reciprocal", "Floor",    "Ceil",    "Round", "Sign",      "ThresholdedRelu"}) {
    INFO(op);
    OpTest(op, 17).input(x).expect_kernel_matches_reference(1e-6);
  }
}

TEST_CASE("pointwise_clip_forms") {
  const Tensor x = make_tensor(DType::kF32, {5}, {-9, -1, 0, 1, 9});
  OpTest("Clip", 6).attr("min", -2.0f).attr("max", 2.0f).input(x).expect_reference(0, {5}, {-2, -1, 0, 1, 2});
  OpTest("Clip", 6).attr("max", 0.5f).input(x).expect_kernel_matches_reference();
  OpTest("Clip", 11).input(x).absent().constant(make_f32_scalar(0.5f)).expect_reference(0, {5}, {-9, -1, 0, .5, .5});
  OpTest("Clip", 13).input(x).constant(make_f32_scalar(0)).expect_reference(0, {5}, {0, 0, 0, 1, 9});
  OpTest at_run_time("Clip", 13);
  at_run_time.input(x).constant(make_f32_scalar(-3)).input(make_f32_scalar(3));
  at_run_time.expect_reference(0, {5}, {-3, -1, 0, 1, 3});
  at_run_time.expect_kernel_matches_reference();
  CHECK(at_run_time.kernel_name() == "unary_any");
  CHECK(OpTest("Clip", 13).input(x).constant(make_f32_scalar(-3)).kernel_name() == "unary_f32");
  // More than a double holds.
  const int64_t big = (int64_t{1} << 60) + 1;
  const int64_t values[] = {big - 1, big + 1};
  Tensor limit(DType::kI64, {});
  *limit.as<int64_t>() = big;
  OpTest clip_i64("Clip", 13);
  clip_i64.input(make_i64_vector(values, 2)).constant(limit);
  clip_i64.expect_kernel_matches_reference();
  OpTest("Clip", 13)
      .input(make_tensor(DType::kU8, {3}, {1, 100, 255}))
      .absent()
      .constant(make_tensor(DType::kU8, {}, {200}))
      .expect_reference(0, {3}, {1, 100, 200});
  OpTest("Clip", 13).input(x).constant(make_tensor(DType::kF64, {}, {0})).expect_problem("min=f64");
  OpTest("Clip", 13).input(x).constant(x).expect_problem("a scalar");
}

TEST_CASE("pointwise_dropout_is_identity") {
  const Tensor x = random_tensor({2, 3}, 5);
  Tensor yes(DType::kBool, {});
  *yes.as<uint8_t>() = 1;
  OpTest("Dropout", 7).attr("ratio", 0.5f).input(x).expect_kernel_matches_reference(0);
  OpTest with_mask("Dropout", 12);
  with_mask.input(x).outputs(2);
  with_mask.expect_reference(1, {2, 3}, {1, 1, 1, 1, 1, 1});
  with_mask.expect_kernel_matches_reference(0);
  OpTest("Dropout", 13).input(x).constant(make_f32_scalar(0.5f)).constant(yes).expect_problem("training_mode=1");
}

TEST_CASE("pointwise_binary_kernels_match_reference_for_all_broadcasts") {
  const Shape pairs[][2] = {
      {{2, 3, 4, 5}, {2, 3, 4, 5}},
      {{2, 3, 4, 5}, {}},
      {{}, {7}},
      {{2, 3, 4, 16}, {16}},
      {{1, 30, 40, 3}, {3}},
      {{3}, {1, 30, 40, 3}},
      {{2, 8, 4, 5}, {8, 1, 1}},
      {{2, 8, 4, 5}, {2, 8, 1, 1}},
      {{4, 1, 6}, {3, 1}},
      {{5, 1}, {1, 9}},
      {{2, 1, 4, 1}, {3, 1, 7}},
      {{40000}, {40000}},
      {{3, 50000}, {3, 1}},
      {{0, 3}, {1, 3}},
      {{2, 100, 1}, {2, 100, 1}},
      {{64, 2, 2}, {2}},
      {{1, 700, 5}, {1}},
  };
  uint64_t seed = 100;
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Pow", "Mod", "Less"}) {
    for (const auto& pair : pairs) {
      INFO(op, " ", print_shape(pair[0]), " ", print_shape(pair[1]));
      const double lo = op[0] == 'D' || op[0] == 'P' || op[0] == 'M' ? 0.5 : -2;
      OpTest test(op, 17);
      if (std::string(op) == "Mod") test.attr("fmod", int64_t{1});
      seed += 2;
      test.input(random_tensor(pair[0], seed, lo, 3)).input(random_tensor(pair[1], seed + 1, lo, 3));
      test.expect_kernel_matches_reference(1e-6);
    }
  }
}

TEST_CASE("pointwise_binary_fused_activation") {
  const Tensor a = random_tensor({2, 9, 7}, 3, -4, 4);
  const Tensor b = random_tensor({2, 9, 7}, 4, -4, 4);
  for (const char* op : {"Add", "Mul"}) {
    for (const char* activation : {"Clip", "LeakyRelu", "Sigmoid", "Silu", "HardSigmoid", "HardSwish", "Tanh"}) {
      INFO(op, " ", activation);
      OpTest test(op, 17);
      test.attr("activation", activation).attr("activation_a", 0.25f).attr("activation_b", 0.75f);
      test.input(a).input(b).expect_kernel_matches_reference(2e-6);
    }
  }
  OpTest relu("Add", 17);
  relu.attr("activation", "Clip").attr("activation_a", 0.0f).attr("activation_b", INFINITY);
  relu.input(make_tensor(DType::kF32, {2}, {1, 2})).input(make_tensor(DType::kF32, {2}, {-3, 3}));
  relu.expect_reference(0, {2}, {0, 5});
}

TEST_CASE("pointwise_integers_wrap_and_never_trap") {
  auto vec = [](DType dtype, std::vector<double> v) { return make_tensor(dtype, {static_cast<int64_t>(v.size())}, v); };
  auto run = [&](const char* op, DType dtype, std::vector<double> a, std::vector<double> b,
                 std::vector<double> expected, int64_t fmod = 0) {
    INFO(op, " ", dtype_name(dtype));
    OpTest test(op, 17);
    if (fmod) test.attr("fmod", fmod);
    test.input(vec(dtype, a)).input(vec(dtype, b));
    test.expect_reference(0, {static_cast<int64_t>(a.size())}, expected, 0);
    test.expect_kernel_matches_reference(0);
  };
  run("Add", DType::kU8, {250, 1}, {10, 2}, {4, 3});
  run("Sub", DType::kU8, {1}, {2}, {255});
  run("Mul", DType::kI8, {64}, {4}, {0});
  run("Div", DType::kI32, {-7, 7, 5, -2147483648.0}, {2, -2, 0, -1}, {-3, -3, 0, -2147483648.0});
  run("Div", DType::kU64, {18446744073709549568.0}, {2}, {9223372036854774784.0});
  run("Less", DType::kU64, {18446744073709549568.0, 1}, {1, 2}, {0, 1});
  run("Max", DType::kU64, {18446744073709549568.0}, {1}, {18446744073709549568.0});
  run("Mod", DType::kI32, {-4, 7, 5, 4, -7, 8}, {2, -3, 8, -2, 3, 0}, {0, -2, 5, 0, 2, 0});
  run("Mod", DType::kI64, {-4, 7, 5, 4, -7, 8}, {2, -3, 8, -2, 3, 5}, {0, 1, 5, 0, -1, 3}, 1);
  run("Mod", DType::kU8, {200, 7}, {7, 0}, {4, 0});
  run("Mod", DType::kF32, {-4.3, 7.2, 5.0}, {2.1, -3.4, 8.0}, {std::fmod(-4.3f, 2.1f), std::fmod(7.2f, -3.4f), 5}, 1);
  run("Pow", DType::kI64, {2, -3, 0, 7, -1}, {10, 3, 0, -1, -3}, {1024, -27, 1, 0, -1});
  run("Equal", DType::kBool, {1, 0}, {1, 1}, {1, 0});
  run("Xor", DType::kBool, {1, 0, 1}, {1, 1, 0}, {0, 1, 1});
  run("And", DType::kBool, {1, 0, 1}, {1, 1, 0}, {1, 0, 0});
  run("Or", DType::kBool, {1, 0, 0}, {1, 1, 0}, {1, 1, 0});
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF64, DType::kI8, DType::kU8, DType::kI16, DType::kU16,
                      DType::kI32, DType::kU32, DType::kI64, DType::kU64}) {
    run("Max", dtype, {3, 2, 1}, {1, 4, 1}, {3, 4, 1});
    run("Min", dtype, {3, 2, 1}, {1, 4, 1}, {1, 2, 1});
    run("Sum", dtype, {3, 2, 1}, {1, 4, 1}, {4, 6, 2});
    run("GreaterOrEqual", dtype, {3, 2, 1}, {1, 4, 1}, {1, 0, 1});
  }
}

TEST_CASE("pointwise_bit_shift") {
  const Tensor x = make_tensor(DType::kU8, {3}, {16, 4, 255});
  const Tensor y = make_tensor(DType::kU8, {3}, {1, 2, 200});
  OpTest("BitShift", 11).attr("direction", "RIGHT").input(x).input(y).expect_reference(0, {3}, {8, 1, 0});
  OpTest("BitShift", 11).attr("direction", "LEFT").input(x).input(y).expect_reference(0, {3}, {32, 16, 0});
  OpTest("BitShift", 11).input(x).input(y).expect_problem("direction");
}

TEST_CASE("pointwise_pow_lowerings") {
  const Tensor x = random_tensor({2, 3, 8}, 9, -3, 3);
  const std::pair<float, const char*> cases[] = {
      {1, "unary_f32"}, {2, "binary_f32"}, {3, "unary_f32"}, {-1, "unary_f32"}, {0.5f, "binary_any"}};
  for (const auto& [exponent, kernel] : cases) {
    OpTest test("Pow", 13);
    test.input(x).constant(make_f32_scalar(exponent));
    test.expect_kernel_matches_reference(1e-6);
    CHECK(test.kernel_name() == kernel);
  }
  OpTest mixed("Pow", 13);
  mixed.input(make_tensor(DType::kI32, {3}, {1, 2, 3})).input(make_tensor(DType::kF32, {3}, {4, 5, 6}));
  mixed.expect_reference(0, {3}, {1, 32, 729});
  OpTest by_int("Pow", 13);
  by_int.input(make_tensor(DType::kF32, {3}, {1, 2, 3})).input(make_tensor(DType::kU64, {3}, {4, 5, 6}));
  by_int.expect_reference(0, {3}, {1, 32, 729});
}

TEST_CASE("pointwise_prelu_broadcasts_one_way") {
  const Tensor x = random_tensor({2, 4, 5, 6}, 11);
  for (const Shape& shape : {Shape{2, 4, 5, 6}, Shape{4, 1, 1}, Shape{1}, Shape{}, Shape{6}, Shape{1, 4, 1, 1}}) {
    OpTest("PRelu", 16).input(x).constant(random_tensor(shape, 12)).expect_kernel_matches_reference(1e-6);
  }
  OpTest("PRelu", 16).input(random_tensor({4, 1}, 1)).input(random_tensor({4, 3}, 2)).expect_problem("slope");
}

TEST_CASE("pointwise_variadic_counts") {
  auto f32 = [](std::vector<double> values) { return make_tensor(DType::kF32, {3}, values); };
  OpTest mean("Mean", 13);
  mean.input(f32({3, 0, 2})).input(f32({1, 3, 4})).input(f32({2, 6, 6}));
  mean.expect_reference(0, {3}, {2, 3, 4});
  mean.expect_kernel_matches_reference();
  for (const char* op : {"Max", "Min", "Sum"}) {
    OpTest many(op, 13);
    for (uint64_t i = 0; i < 5; ++i) many.input(random_tensor(i % 2 ? Shape{4, 1, 6} : Shape{3, 6}, i + 40));
    many.expect_kernel_matches_reference(1e-6);
    CHECK(many.kernel_name() == "binary_f32");
    OpTest("Max", 13).input(f32({1, 2, 3})).expect_kernel_matches_reference(0);
  }
  OpTest nan("Max", 13);
  nan.input(f32({NAN, 1, 2})).input(f32({1, NAN, 5}));
  nan.expect_kernel_matches_reference();
}

TEST_CASE("pointwise_refusals_say_why") {
  const Tensor a = random_tensor({2, 3}, 1);
  OpTest("Add", 17).input(a).input(random_tensor({4}, 2)).expect_problem("broadcasts with [2, 3]");
  OpTest("Add", 17).input(a).input(make_tensor(DType::kI32, {3}, {1, 2, 3})).expect_problem("dtype of input 1=i32");
  OpTest("Add", 17).input(a).expect_problem("number of inputs=1");
  OpTest("And", 7).input(a).input(a).expect_problem("bool");
  OpTest("Mod", 13).input(a).input(a).expect_problem("fmod=0");
  OpTest("Sin", 7).input(make_tensor(DType::kI32, {1}, {1})).expect_problem("dtype of input");
  OpTest("Gelu", 20).attr("approximate", "half").input(a).expect_problem("approximate=half");
  OpTest("Add", 6)
      .attr("broadcast", int64_t{1})
      .attr("axis", int64_t{1})
      .input(random_tensor({2, 3, 4}, 1))
      .input(random_tensor({3}, 1))
      .expect_problem("convert the model");
}

TEST_CASE("pointwise_checks_refuse_hostile_steps") {
  const KernelDef* unary = builtin_kernels().find("unary_f32");
  const KernelDef* binary = builtin_kernels().find("binary_f32");
  const KernelDef* any = builtin_kernels().find("unary_any");
  REQUIRE(unary != nullptr);
  REQUIRE(binary != nullptr);
  REQUIRE(any != nullptr);
  Tensor a(DType::kF32, {2, 3});
  TensorRef in[2] = {make_ref(a), make_ref(a)};
  TensorRef out = make_ref(a);
  ops::pointwise::UnaryParams u;
  ops::pointwise::BinaryParams b;
  KernelArgs args{&u, sizeof(u), in, 1, &out, 1, nullptr, 0, &serial_parallel()};
  CHECK(unary->check(args).ok());
  for (int32_t op : {-1, 29, 44, INT32_MAX}) {
    u.op = op;
    CHECK_FALSE(unary->check(args).ok());
  }
  u.op = -7;
  CHECK_FALSE(any->check(args).ok());
  u.op = 0;
  args.params_bytes = 4;
  CHECK_FALSE(unary->check(args).ok());
  args.params_bytes = sizeof(u);
  out.dims[1] = 4;  // input does not reach
  CHECK_FALSE(unary->check(args).ok());
  out = make_ref(a);
  out.strides[0] = 0;  // rows on top of each other
  CHECK_FALSE(unary->check(args).ok());
  out = make_ref(a);
  in[0].dims[0] = -2;
  CHECK_FALSE(unary->check(args).ok());
  in[0] = make_ref(a);
  in[0].dtype = DType::kF64;
  CHECK_FALSE(unary->check(args).ok());
  in[0].dtype = static_cast<DType>(77);
  CHECK_FALSE(any->check(args).ok());
  in[0] = make_ref(a);

  args = {&b, sizeof(b), in, 2, &out, 1, nullptr, 0, &serial_parallel()};
  CHECK(binary->check(args).ok());
  args.num_in = 1;
  CHECK_FALSE(binary->check(args).ok());
  args.num_in = 2;
  b.activation.kind = 99;
  CHECK_FALSE(binary->check(args).ok());
  b.activation.kind = 0;
  b.op = 8;
  CHECK_FALSE(binary->check(args).ok());
}

TEST_CASE("pointwise_checks_hold_against_changed_steps") {
  OpTest("Sigmoid", 13).input(random_tensor({2, 3, 5}, 1)).expect_check_guards();
  OpTest("Sin", 13).input(random_tensor({2, 3, 5}, 1)).expect_check_guards();
  OpTest clip("Clip", 13);
  clip.input(random_tensor({2, 3}, 1)).input(make_f32_scalar(-3)).input(make_f32_scalar(3)).expect_check_guards();
  OpTest("Dropout", 12).input(random_tensor({2, 3}, 1)).outputs(2).expect_check_guards();
  OpTest add("Add", 13);
  add.attr("activation", "Clip").attr("activation_b", 6.0f);
  add.input(random_tensor({2, 3, 5}, 1)).input(random_tensor({3, 1}, 2)).expect_check_guards();
  OpTest("Mul", 13).input(random_tensor({90, 3}, 1)).input(random_tensor({3}, 2)).expect_check_guards();
  OpTest("Pow", 13).input(random_tensor({2, 5}, 1)).input(random_tensor({2, 1}, 2)).expect_check_guards();
  OpTest sum("Sum", 13);
  sum.input(random_tensor({2, 5}, 1))
      .input(random_tensor({5}, 2))
      .input(random_tensor({2, 1}, 3))
      .expect_check_guards();
  OpTest mean("Mean", 13);
  mean.input(random_tensor({2, 5}, 1)).input(random_tensor({5}, 2)).expect_check_guards();
}
