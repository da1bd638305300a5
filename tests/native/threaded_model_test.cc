// A model with every kind of kernel on a pool: the same bits for any number of threads, and no race under
// ThreadSanitizer.
#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "aligned_bytes.h"
#include "compile/compile.h"
#include "pool_threads.h"
#include "runtime/session.h"
#include "soak.h"
#include "text_front_end.h"

namespace kiln {
namespace {

const std::string kModel = R"(graph "threaded" opset 13
input %x: f32[1, 3, 48, 48]
const %stem_w: f32[32, 3, 3, 3] = random(1)
const %wide_w: f32[32, 32, 3, 3] = random(2)
const %deep_w: f32[32, 1, 3, 3] = random(3)
const %point_w: f32[48, 32, 1, 1] = random(4)
const %group_w: f32[48, 24, 3, 3] = random(5)
const %up_w: f32[48, 16, 2, 2] = random(6)
const %fc_w: f32[64, 20] = random(7)
%stem = Conv(%x, %stem_w) pads=[1, 1, 1, 1] strides=[1, 1] 'stem'
%stem_s = Sigmoid(%stem) 'sigmoid'
%silu = Mul(%stem, %stem_s) 'silu'
%wide = Conv(%silu, %wide_w) pads=[1, 1, 1, 1] 'wide'
%sum = Add(%wide, %silu) 'residual'
%deep = Conv(%sum, %deep_w) pads=[1, 1, 1, 1] strides=[2, 2] group=32 'depthwise'
%point = Conv(%deep, %point_w) 'pointwise'
%relu = Relu(%point) 'relu'
%group = Conv(%relu, %group_w) pads=[1, 1, 1, 1] group=2 'grouped'
%max = MaxPool(%group) kernel_shape=[5, 5] pads=[2, 2, 2, 2] 'pool'
%up = ConvTranspose(%max, %up_w) strides=[2, 2] 'up'
%cat = Concat(%up, %wide, %up) axis=1 'cat'
%mean = GlobalAveragePool(%cat) 'mean'
%flat = Flatten(%mean) 'flat'
%fc = MatMul(%flat, %fc_w) 'fc'
%soft = Softmax(%cat) axis=1 'soft'
%probabilities = Softmax(%fc) 'probabilities'
output %soft
output %probabilities
)";

std::vector<uint8_t> compile_test_model() {
  CompileResult result;
  const std::span<const uint8_t> model(reinterpret_cast<const uint8_t*>(kModel.data()), kModel.size());
  CompileOptions options;
  options.prepared_budget = 10;  // so that the small model has a Winograd layer
  const Status status = compile_model(model, nullptr, test::tables_with_text(), options, result);
  REQUIRE_MESSAGE(status.ok(), status.message());
  return result.bundle;
}

// The outputs' bytes, one after the other.
std::string run_model(Session& session) {
  const TensorRef x = session.input(0);
  for (int64_t i = 0; i < x.num_elements(); ++i) x.as<float>()[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
  session.run();
  std::string bytes;
  for (size_t i = 0; i < session.outputs(0).size(); ++i) {
    const TensorRef out = session.output(static_cast<int>(i));
    bytes.append(static_cast<const char*>(out.data), static_cast<size_t>(out.num_elements()) * sizeof(float));
  }
  return bytes;
}

TEST_CASE("a_model's_bits_do_not_depend_on_threads") {
  test::AlignedBytes bundle(compile_test_model());
  auto serial = Session::load(bundle.span(), builtin_kernels());
  REQUIRE_MESSAGE(serial.ok(), serial.status().message());
  bool has_winograd = false;
  for (int i = 0; i < (*serial)->num_steps(); ++i) {
    has_winograd |= std::string((*serial)->step(i).kernel).find("winograd") != std::string::npos;
  }
  CHECK(has_winograd);
  const std::string expected = run_model(**serial);
  CHECK(expected.size() == (64 * 48 * 48 + 20) * sizeof(float));
  for (const int num_threads : {1, 2, 3, 4, 7, 12}) {  // 12: more than kernels have work space for
    CAPTURE(num_threads);
    test::PoolThreads threads(num_threads);
    auto threaded = Session::load(bundle.span(), builtin_kernels(), &threads.pool().parallel());
    REQUIRE(threaded.ok());
    for (int run = 0; run < 3; ++run) {
      threads.pool().begin_run();
      CHECK(run_model(**threaded) == expected);
      CHECK(threads.pool().end_run().ok());
    }
  }
}

TEST_CASE("a_model's_bits_do_not_depend_on_delays" * doctest::test_suite("random")) {
  test::AlignedBytes bundle(compile_test_model());
  auto serial = Session::load(bundle.span(), builtin_kernels());
  REQUIRE(serial.ok());
  const std::string expected = run_model(**serial);
  test::PoolThreads threads(3);
  auto threaded = Session::load(bundle.span(), builtin_kernels(), &threads.pool().parallel());
  REQUIRE(threaded.ok());
  threads.pool().set_delays(1);
  for (uint64_t run = 0; run < test::soak_cases(5); ++run) CHECK(run_model(**threaded) == expected);
}

}  // namespace
}  // namespace kiln
