#include <doctest/doctest.h>

#include "op_test.h"

using namespace kiln;
using namespace kiln::test;

namespace {

Tensor random(const Shape& shape, uint64_t seed) { return random_tensor(shape, seed, -1, 1); }

struct Case {
  Shape x, w;  // NCHW
  std::vector<int64_t> strides, pads, dilations, output_padding;
  int64_t group = 1;
  bool bias = true;
};

const Case kCases[] = {
    {{1, 8, 5, 7}, {8, 6, 2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}, {}},  // v8-seg's prototype
    {{2, 3, 4, 5}, {3, 5, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, {}},
    {{1, 4, 4, 4}, {4, 9, 4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}, {1, 1}},
    {{1, 4, 3, 6}, {4, 3, 3, 5}, {3, 2}, {0, 2, 1, 1}, {1, 1}, {2, 1}},
    {{1, 6, 3, 3}, {6, 2, 3, 3}, {2, 2}, {1, 0, 0, 1}, {1, 1}, {}, 3},
    {{1, 2, 3, 3}, {2, 2, 2, 2}, {4, 4}, {0, 0, 0, 0}, {1, 1}, {}, 1, false},  // outputs that no tap reaches
    {{1, 2, 5, 5}, {2, 3, 3, 3}, {2, 1}, {1, 2, 1, 2}, {2, 2}, {}},
    {{1, 17, 1, 1}, {17, 5, 5, 5}, {1, 1}, {0, 0, 0, 0}, {1, 1}, {}},
};

Shape to_nhwc(const Shape& s) { return Shape{s[0], s[2], s[3], s[1]}; }

OpTest make_test(const Case& c, bool nhwc, bool constant) {
  OpTest test("ConvTranspose");
  test.ints("strides", c.strides).ints("pads", c.pads).ints("dilations", c.dilations).attr("group", c.group);
  if (!c.output_padding.empty()) test.ints("output_padding", c.output_padding);
  if (nhwc) test.attr("layout", std::string("NHWC"));
  test.input(random(nhwc ? to_nhwc(c.x) : c.x, 1));
  const Tensor w = random(c.w, 2);
  const Tensor b = random({c.w[1] * c.group}, 3);
  if (constant)
    test.constant(w);
  else
    test.input(w);
  if (c.bias && constant) test.constant(b);
  if (c.bias && !constant) test.input(b);
  return test;
}

}  // namespace

TEST_CASE("conv_transpose: kernels against the reference, both layouts, weights constant and computed") {
  for (const Case& c : kCases) {
    CAPTURE(print_shape(c.x));
    CAPTURE(print_shape(c.w));
    for (int bits = 0; bits < 4; ++bits) make_test(c, bits & 1, bits & 2).expect_kernel_matches_reference(1e-5);
  }
}

TEST_CASE("conv_transpose: activations and one dimension") {
  OpTest test = make_test(kCases[0], true, true);
  test.attr("activation", std::string("HardSwish")).expect_kernel_matches_reference(1e-5);
  CHECK(make_test(kCases[0], true, true).kernel_name() == "conv_transpose_f32_phases");
  OpTest("ConvTranspose")
      .ints("strides", {2})
      .attr("layout", std::string("NHWC"))
      .input(random({2, 5, 3}, 1))
      .constant(random({3, 4, 3}, 2))
      .expect_kernel_matches_reference(1e-5);
  OpTest("ConvTranspose")
      .input(random({1, 2, 2, 3, 2}, 1))
      .input(random({2, 2, 2, 2, 2}, 2))
      .expect_kernel_matches_reference();
}

TEST_CASE("conv_transpose: known values, output_shape and auto_pad") {
  const Tensor x = make_tensor(DType::kF32, {1, 1, 2, 2}, {1, 2, 3, 4});
  const Tensor w = make_tensor(DType::kF32, {1, 1, 2, 2}, {1, 10, 100, 1000});
  OpTest("ConvTranspose")
      .input(x)
      .input(w)
      .expect_reference(0, {1, 1, 3, 3}, {1, 12, 20, 103, 1234, 2040, 300, 3400, 4000});
  OpTest("ConvTranspose")
      .ints("strides", {2, 2})
      .attr("auto_pad", std::string("SAME_UPPER"))
      .input(x)
      .input(w)
      .expect_reference(0, {1, 1, 4, 4}, {1, 10, 2, 20, 100, 1000, 200, 2000, 3, 30, 4, 40, 300, 3000, 400, 4000});
  OpTest("ConvTranspose")
      .ints("output_shape", {2, 3})
      .input(x)
      .input(w)
      .expect_reference(0, {1, 1, 2, 3}, {103, 1234, 2040, 300, 3400, 4000});
}

TEST_CASE("conv_transpose: bad forms are told") {
  OpTest("ConvTranspose")
      .input(random({1, 2, 3, 3}, 1))
      .input(random({3, 2, 2, 2}, 2))
      .expect_problem("channels of W=3");
  OpTest("ConvTranspose")
      .attr("group", int64_t{2})
      .input(random({1, 3, 3, 3}, 1))
      .input(random({3, 2, 2, 2}, 2))
      .expect_problem("group=2");
  OpTest("ConvTranspose")
      .ints("output_padding", {1})
      .input(random({1, 3, 3, 3}, 1))
      .input(random({3, 2, 2, 2}, 2))
      .expect_problem("output_padding");
}

TEST_CASE("conv_transpose: checks hold against changed steps") {
  for (const Case& c : kCases) {
    CAPTURE(print_shape(c.w));
    for (int bits = 0; bits < 4; ++bits) make_test(c, bits & 1, bits & 2).expect_check_guards();
  }
}
