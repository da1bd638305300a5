#include <doctest/doctest.h>

#include <cmath>

#include "op_test.h"
#include "ops/norm/norm.h"

using namespace kiln;
using namespace kiln::test;

namespace {

OpTest& add_batch_norm_inputs(OpTest& test, const Shape& shape, int64_t channels, uint64_t seed) {
  return test.input(random_tensor(shape, seed, -3, 3))
      .constant(random_tensor({channels}, seed + 1, 0.5, 2))
      .constant(random_tensor({channels}, seed + 2))
      .constant(random_tensor({channels}, seed + 3))
      .constant(random_tensor({channels}, seed + 4, 0.2, 2));
}

}  // namespace

TEST_CASE("batch_norm_matches_reference") {
  uint64_t seed = 1;
  for (int opset : {7, 9, 14, 15}) {
    for (const Shape& shape :
         {Shape{2, 3, 4, 5}, Shape{1, 70, 9, 9}, Shape{4, 6}, Shape{2, 3, 0}, Shape{1, 3, 2, 2, 2}}) {
      OpTest test("BatchNormalization", opset);
      add_batch_norm_inputs(test, shape, shape[1], seed += 10).expect_kernel_matches_reference(2e-6);
    }
  }
  OpTest nhwc("BatchNormalization", 15);
  nhwc.attr("layout", "NHWC");
  add_batch_norm_inputs(nhwc, {2, 4, 5, 7}, 7, 500).expect_kernel_matches_reference(2e-6);
}

TEST_CASE("batch_norm_known_values") {
  auto vec = [](std::vector<double> v) { return make_tensor(DType::kF32, {static_cast<int64_t>(v.size())}, v); };
  OpTest("BatchNormalization", 9)
      .attr("epsilon", 0.0f)
      .input(make_tensor(DType::kF32, {1, 2, 1, 2}, {3, 5, 1, 2}))
      .constant(vec({3, 1}))
      .constant(vec({5, 0}))
      .constant(vec({1, 0}))
      .constant(vec({4, 1}))
      .expect_reference(0, {1, 2, 1, 2}, {8, 11, 1, 2});
}

TEST_CASE("batch_norm_training_export_form_loads") {
  OpTest test("BatchNormalization", 9);
  add_batch_norm_inputs(test, {2, 3, 4}, 3, 7).outputs(5);
  test.expect_problem("statistics are read");  // the harness makes every output a graph output
}

TEST_CASE("batch_norm_training_mode_uses_the_batch") {
  OpTest test("BatchNormalization", 15);
  test.attr("training_mode", int64_t{1}).attr("momentum", 0.75f).attr("epsilon", 0.0f).outputs(3);
  test.input(make_tensor(DType::kF32, {2, 1, 2}, {1, 3, 5, 7}));
  for (double value : {1.0, 0.0, 8.0, 1.0}) test.constant(make_tensor(DType::kF32, {1}, {value}));
  const double deviation = std::sqrt(5.0);
  test.expect_reference(0, {2, 1, 2}, {-3 / deviation, -1 / deviation, 1 / deviation, 3 / deviation});
  test.expect_reference(1, {1}, {8 * 0.75 + 4 * 0.25});
  test.expect_reference(2, {1}, {1 * 0.75 + 5 * 0.25});
  test.expect_kernel_matches_reference();
}

TEST_CASE("batch_norm_refusals") {
  OpTest spatial("BatchNormalization", 7);
  spatial.attr("spatial", int64_t{0});
  add_batch_norm_inputs(spatial, {1, 3, 4}, 3, 1).expect_problem("spatial=0");
  OpTest size("BatchNormalization", 9);
  add_batch_norm_inputs(size, {1, 3, 4}, 4, 1).expect_problem("one value a channel");
}

TEST_CASE("instance_norm_matches_reference") {
  for (const char* layout : {"NCHW", "NHWC"}) {
    for (const Shape& shape : {Shape{2, 3, 4, 6}, Shape{1, 37, 9, 5}, Shape{2, 6, 1200}, Shape{1, 5, 4, 3, 2}}) {
      const int64_t channels = layout[1] == 'C' ? shape[1] : shape[shape.rank - 1];
      INFO(layout, " ", print_shape(shape));
      OpTest("InstanceNormalization", 6)
          .attr("layout", layout)
          .input(random_tensor(shape, 3, -2, 5))
          .constant(random_tensor({channels}, 4, 0.5, 2))
          .constant(random_tensor({channels}, 5))
          .expect_kernel_matches_reference(5e-6);
    }
  }
  OpTest("InstanceNormalization", 6)
      .input(make_tensor(DType::kF32, {1, 2, 1, 3}, {-1, 0, 1, 2, 3, 4}))
      .constant(make_tensor(DType::kF32, {2}, {1, 1.5}))
      .constant(make_tensor(DType::kF32, {2}, {0, 1}))
      .expect_reference(0, {1, 2, 1, 3}, {-1.2247356, 0, 1.2247356, -0.8371035, 1, 2.8371035}, 1e-6);
}

TEST_CASE("layer_norm_matches_reference") {
  for (int axis = -4; axis < 4; ++axis) {
    const Shape x = {2, 3, 4, 5};
    Shape normalised;
    for (int i = axis < 0 ? axis + 4 : axis; i < 4; ++i) normalised.push_back(x[i]);
    for (bool bias : {false, true}) {
      INFO("axis ", axis, " bias ", bias);
      OpTest test("LayerNormalization", 17);
      test.attr("axis", int64_t{axis})
          .input(random_tensor(x, 1, -1, 4))
          .constant(random_tensor(normalised, 2))
          .outputs(3);
      if (bias) test.constant(random_tensor(normalised, 3));
      test.expect_kernel_matches_reference(2e-6);
    }
  }
  OpTest("LayerNormalization", 17)
      .input(random_tensor({3, 1000}, 1, 5, 9))
      .constant(random_tensor({1000}, 2))
      .expect_kernel_matches_reference(5e-6);
  OpTest("LayerNormalization", 17)
      .input(random_tensor({3, 10}, 1, 5, 9, DType::kF16))
      .constant(random_tensor({10}, 2, 0, 1, DType::kF16))
      .expect_kernel_matches_reference(0);
  OpTest("LayerNormalization", 17)
      .input(random_tensor({2, 4}, 1))
      .constant(random_tensor({1}, 2))
      .expect_problem("Scale");
}

TEST_CASE("lrn_matches_reference") {
  for (const char* layout : {"NCHW", "NHWC"}) {
    for (const Shape& shape : {Shape{2, 9, 3, 5}, Shape{1, 3, 4, 4}, Shape{1, 16, 7, 11}}) {
      for (int64_t size : {1, 3, 4, 5, 40}) {
        for (float beta : {0.75f, 0.5f}) {
          INFO(layout, " ", print_shape(shape), " size ", size, " beta ", beta);
          OpTest("LRN", 13)
              .attr("layout", layout)
              .attr("size", size)
              .attr("alpha", 0.1f)
              .attr("beta", beta)
              .attr("bias", 2.0f)
              .input(random_tensor(shape, 8, -4, 4))
              .expect_kernel_matches_reference(2e-6);
        }
      }
    }
  }
  OpTest("LRN", 13).input(random_tensor({1, 2, 3}, 1)).expect_problem("size=0");
}

TEST_CASE("mean_variance_norm") {
  OpTest test("MeanVarianceNormalization", 13);
  test.ints("axes", {1}).input(make_tensor(DType::kF32, {1, 3}, {1, 2, 3}));
  const double deviation = std::sqrt(2.0 / 3);
  test.expect_reference(0, {1, 3}, {-1 / deviation, 0, 1 / deviation}, 1e-6);
  OpTest("MeanVarianceNormalization", 13).input(random_tensor({2, 3, 4, 5}, 1)).expect_kernel_matches_reference(0);
  OpTest("MeanVarianceNormalization", 13).input(random_tensor({2, 3}, 1)).expect_problem("axes=2");
}

TEST_CASE("norm_checks_refuse_hostile_steps") {
  const KernelDef* batch = builtin_kernels().find("batch_norm_f32");
  const KernelDef* lrn = builtin_kernels().find("lrn_f32");
  REQUIRE((batch && lrn));
  const Tensor x(DType::kF32, {2, 3, 4});
  const Tensor c(DType::kF32, {3});
  TensorRef in[5] = {make_ref(x), make_ref(c), make_ref(c), make_ref(c), make_ref(c)};
  TensorRef out = make_ref(x);
  float scratch[6];
  ops::norm::BatchNormParams p{{2, 3, 4, 0}, 0, 1e-5f, 0.9f};
  KernelArgs args{&p, sizeof(p), in, 5, &out, 1, scratch, sizeof(scratch), &serial_parallel()};
  CHECK(batch->check(args).ok());
  args.scratch_bytes = 8;
  CHECK_FALSE(batch->check(args).ok());
  args.scratch_bytes = sizeof(scratch);
  p.image.channels = 4;
  CHECK_FALSE(batch->check(args).ok());
  p.image.channels = 3;
  in[4].dims[0] = 2;
  CHECK_FALSE(batch->check(args).ok());
  ops::norm::LrnParams l{{2, 3, 4, 0}, 0, 1, 1, 1};
  KernelArgs lrn_args{&l, sizeof(l), in, 1, &out, 1, nullptr, 0, &serial_parallel()};
  CHECK_FALSE(lrn->check(lrn_args).ok());
  l.size = 5;
  CHECK(lrn->check(lrn_args).ok());
}

TEST_CASE("norm_checks_hold_against_changed_steps") {
  for (const char* layout : {"NCHW", "NHWC"}) {
    const int64_t channels = layout[1] == 'C' ? 3 : 5;
    OpTest batch("BatchNormalization", 15);
    batch.attr("layout", layout);
    add_batch_norm_inputs(batch, {2, 3, 4, 5}, channels, 1).expect_check_guards();
    OpTest instance("InstanceNormalization", 6);
    instance.attr("layout", layout).input(random_tensor({2, 3, 4, 5}, 1)).constant(random_tensor({channels}, 2));
    instance.constant(random_tensor({channels}, 3)).expect_check_guards();
    OpTest("LRN", 13)
        .attr("layout", layout)
        .attr("size", int64_t{3})
        .input(random_tensor({2, 3, 4, 5}, 1))
        .expect_check_guards();
  }
  OpTest training("BatchNormalization", 15);
  training.attr("training_mode", int64_t{1}).outputs(3);
  add_batch_norm_inputs(training, {2, 3, 4, 5}, 3, 1).expect_check_guards();
  OpTest layer("LayerNormalization", 17);
  layer.input(random_tensor({3, 8}, 1)).constant(random_tensor({8}, 2)).constant(random_tensor({8}, 3)).outputs(3);
  layer.expect_check_guards();
  OpTest("MeanVarianceNormalization", 13).input(random_tensor({2, 3, 4, 5}, 1)).expect_check_guards();
}
