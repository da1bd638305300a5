#include "op_test.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "op_run.h"

namespace kiln::test {
namespace {

// Three "threads" that take the tiles backwards: shows up kernels whose bits depend on tile order or thread number.
const Parallel& reversed_parallel() {
  static const Parallel reversed{3, nullptr, [](void*, int num_tiles, void (*task)(void*, int, int), void* context) {
                                   for (int tile = num_tiles - 1; tile >= 0; --tile) task(context, tile, tile % 3);
                                 }};
  return reversed;
}

// Kernels made of cpu/gemm_tile.h.
bool runs_products(const KernelDef& kernel) {
  const std::string name = kernel.name;
  return name.find("gemm8") != name.npos || name.find("winograd") != name.npos || name.find("phases") != name.npos;
}

// A tensor laid into a larger parent with `gap` extra channels, so that rows are not adjacent.
struct ChannelView {
  Tensor parent;
  TensorRef ref;
  ChannelView(const TensorRef& dense, int gap) {
    Shape shape;
    for (int i = 0; i < dense.rank; ++i) shape.push_back(dense.dims[i]);
    const int last = dense.rank - 1;
    shape[last] += gap;
    parent = Tensor(dense.dtype, shape);
    std::memset(parent.data(), 0x5a, parent.bytes());
    ref = make_ref(parent);
    ref.dims[last] = dense.dims[last];
  }
  void copy(const TensorRef& dense, bool into_view) {
    const size_t item = dtype_bytes(dense.dtype);
    const size_t row = static_cast<size_t>(dense.dims[dense.rank - 1]) * item;
    const size_t pitch = static_cast<size_t>(dense.rank > 1 ? ref.strides[dense.rank - 2] : 0) * item;
    const int64_t rows = dense.num_elements() / std::max(1, dense.dims[dense.rank - 1]);
    for (int64_t r = 0; r < rows; ++r) {
      char* a = static_cast<char*>(ref.data) + static_cast<size_t>(r) * pitch;
      char* b = static_cast<char*>(dense.data) + static_cast<size_t>(r) * row;
      if (into_view)
        std::memcpy(a, b, row);
      else
        std::memcpy(b, a, row);
    }
  }
};

void compare(const Tensor& expected, const TensorRef& actual, double tolerance, const char* what) {
  REQUIRE(expected.dtype() == actual.dtype);
  const int64_t n = expected.num_elements();
  double largest = 1;
  for (int64_t i = 0; i < n; ++i) {
    const double e = element_as_f64(expected.dtype(), expected.data(), i);
    if (std::isfinite(e)) largest = std::max(largest, std::fabs(e));
  }
  int64_t worst = -1;
  double worst_error = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (!is_float(expected.dtype())) {
      if (element_as_i64(expected.dtype(), expected.data(), i) != element_as_i64(actual.dtype, actual.data, i)) {
        worst = i;
        worst_error = INFINITY;
        break;
      }
      continue;
    }
    const double e = element_as_f64(expected.dtype(), expected.data(), i);
    const double a = element_as_f64(actual.dtype, actual.data, i);
    if (std::isnan(e) && std::isnan(a)) continue;
    const double error = e == a ? 0 : std::fabs(e - a);
    if (!(error <= worst_error)) {
      worst_error = error;
      worst = i;
    }
  }
  if (worst < 0) return;
  INFO(what, ": worst element ", worst, " expected ", element_as_f64(expected.dtype(), expected.data(), worst), " got ",
       element_as_f64(actual.dtype, actual.data, worst));
  CHECK(worst_error <= tolerance * largest);
}

}  // namespace

Tensor random_tensor(const Shape& shape, uint64_t seed, double lo, double hi, DType dtype) {
  Tensor tensor(dtype, shape);
  uint64_t state = seed;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double unit = static_cast<double>(next_random(state) >> 11) * 0x1p-53;
    store_f64(dtype, tensor.data(), i, lo + unit * (hi - lo));
  }
  return tensor;
}

Tensor make_tensor(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) store_f64(dtype, tensor.data(), static_cast<int64_t>(i), values[i]);
  return tensor;
}

OpTest::OpTest(std::string op, int opset, std::string domain) {
  Node node;
  node.op = std::move(op);
  node.domain = std::move(domain);
  node.opset = opset;
  node.name = "test";
  graph_.nodes.push_back(std::move(node));
}

OpTest& OpTest::attr(const std::string& name, Attr value) {
  graph_.nodes[0].attrs[name] = std::move(value);
  return *this;
}

OpTest& OpTest::input(Tensor tensor) {
  inputs_.push_back({false, false, std::move(tensor)});
  return *this;
}

OpTest& OpTest::constant(Tensor tensor) {
  inputs_.push_back({true, false, std::move(tensor)});
  return *this;
}

OpTest& OpTest::constant_i64(std::vector<int64_t> values) {
  return constant(make_i64_vector(values.data(), static_cast<int>(values.size())));
}

OpTest& OpTest::absent() {
  inputs_.push_back({false, true, {}});
  return *this;
}

OpTest& OpTest::outputs(int count) {
  num_outputs_ = count;
  return *this;
}

void OpTest::build() {
  if (built_) return;
  built_ = true;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::string name = "in" + std::to_string(i);
    if (inputs_[i].is_absent) {
      graph_.nodes[0].inputs.push_back(kNoValue);
    } else if (inputs_[i].is_constant) {
      graph_.nodes[0].inputs.push_back(graph_.add_constant(name, inputs_[i].tensor));
    } else {
      const ValueId id = graph_.add_value(name, inputs_[i].tensor.dtype(), inputs_[i].tensor.shape());
      graph_.nodes[0].inputs.push_back(id);
      graph_.inputs.push_back(id);
    }
  }
  for (int i = 0; i < num_outputs_; ++i) {
    const ValueId id = graph_.add_value("out" + std::to_string(i));
    graph_.nodes[0].outputs.push_back(id);
    graph_.outputs.push_back(id);
  }
}

Inference OpTest::infer() {
  build();
  Inference inference = infer_node(builtin_ops(), graph_, graph_.nodes[0]);
  if (inference.ok()) {
    for (int i = 0; i < num_outputs_; ++i) {
      graph_.value(graph_.outputs[size_t(i)]).dtype = inference.outputs[size_t(i)].dtype;
      graph_.value(graph_.outputs[size_t(i)]).shape = inference.outputs[size_t(i)].shape;
    }
  }
  return inference;
}

std::vector<Tensor> OpTest::run_reference() {
  std::vector<const Tensor*> in;
  for (const Input& input : inputs_) in.push_back(input.is_absent ? nullptr : &input.tensor);
  auto result = evaluate_node(builtin_ops(), graph_, graph_.nodes[0], in);
  REQUIRE_MESSAGE(result.ok(), result.status().message());
  return std::move(result).value();
}

void OpTest::expect_kernel_matches_reference(double tolerance) {
  Inference inference = infer();
  REQUIRE_MESSAGE(inference.ok(), (inference.ok() ? "" : inference.problems[0].message));
  const std::vector<Tensor> expected = run_reference();

  Lowering lowering;
  const Status lowered = lower_node(builtin_ops(), graph_, graph_.nodes[0], lowering);
  REQUIRE_MESSAGE(lowered.ok(), lowered.message());
  const KernelDef* kernel = builtin_kernels().find(lowering.kernel.c_str());
  REQUIRE_MESSAGE(kernel != nullptr, "no kernel named ", lowering.kernel);

  std::vector<TensorRef> in;
  for (const Operand& operand : lowering.inputs) {
    if (operand.packed)
      in.push_back(make_ref(*operand.packed));
    else if (operand.value == kNoValue)
      in.push_back({});
    else if (graph_.is_constant(operand.value))
      in.push_back(make_ref(*graph_.value(operand.value).constant));
    else {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        if (graph_.nodes[0].inputs[i] == operand.value) {
          in.push_back(make_ref(inputs_[i].tensor));
          break;
        }
      }
    }
  }
  REQUIRE(in.size() == lowering.inputs.size());
  Tensor scratch(DType::kU8, Shape{static_cast<int64_t>(lowering.scratch_bytes)});

  static constexpr const char* kModes[] = {"one thread", "three threads, tiles reversed", "channel views",
                                           "second register tile", "third register tile"};
  constexpr int kViews = 2;
  REQUIRE(tile_kernels().size() == 3);
  const bool has_views = kernel->strided_inputs || kernel->strided_outputs;
  std::vector<Tensor> first;  // the first mode's results, which all dense ones give to the bit
  for (int mode = 0; mode < 5; ++mode) {
    if ((mode == kViews && !has_views) || (mode > kViews && !runs_products(*kernel))) continue;
    const TileKernelChoice choice(std::max(0, mode - kViews));
    std::vector<Tensor> actual;
    std::vector<TensorRef> out;
    for (const Tensor& e : expected) {
      actual.emplace_back(e.dtype(), e.shape());
      std::memset(actual.back().data(), 0x5a, actual.back().bytes());
    }
    for (const Tensor& a : actual) out.push_back(a.dtype() == DType::kInvalid ? TensorRef{} : make_ref(a));
    std::memset(scratch.data(), 0x5a, scratch.bytes());

    std::vector<TensorRef> used_in = in;
    std::vector<TensorRef> used_out = out;
    std::vector<ChannelView> views;
    views.reserve(in.size() + out.size());
    if (mode == kViews) {
      for (size_t i = 0; kernel->strided_inputs && i < in.size(); ++i) {
        const bool at_run_time = lowering.inputs[i].value != kNoValue && !graph_.is_constant(lowering.inputs[i].value);
        if (!at_run_time || in[i].rank < 2) continue;
        views.emplace_back(in[i], 3);
        views.back().copy(in[i], true);
        used_in[i] = views.back().ref;
      }
      for (size_t i = 0; kernel->strided_outputs && i < out.size(); ++i) {
        if (out[i].rank < 2) continue;
        views.emplace_back(out[i], 5);
        used_out[i] = views.back().ref;
      }
    }
    KernelArgs args;
    args.params = lowering.params.data();
    args.params_bytes = lowering.params.size();
    args.in = used_in.data();
    args.num_in = static_cast<int>(used_in.size());
    args.out = used_out.data();
    args.num_out = static_cast<int>(used_out.size());
    args.scratch = scratch.data();
    args.scratch_bytes = lowering.scratch_bytes;
    args.parallel = mode == 1 ? &reversed_parallel() : &serial_parallel();
    const Status checked = kernel->check(args);
    REQUIRE_MESSAGE(checked.ok(), checked.message());
    const Prepared prepared(*kernel, args);
    kernel->run(args);
    if (mode == kViews) {
      size_t v = views.size();
      for (size_t i = out.size(); i-- > 0;) {
        if (kernel->strided_outputs && out[i].rank >= 2) views[--v].copy(out[i], false);
      }
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      if (out[i].present()) compare(expected[i], out[i], tolerance, kModes[mode]);
      if (mode == 0 || mode == kViews || !out[i].present()) continue;
      INFO(kernel->name, ": ", kModes[mode]);
      CHECK(std::memcmp(first[i].data(), actual[i].data(), actual[i].bytes()) == 0);
    }
    if (mode == 0) first = std::move(actual);
  }
}

void OpTest::expect_reference(int index, const Shape& shape, const std::vector<double>& values, double tolerance) {
  Inference inference = infer();
  REQUIRE_MESSAGE(inference.ok(), (inference.ok() ? "" : inference.problems[0].message));
  const std::vector<Tensor> outputs = run_reference();
  const Tensor& out = outputs[static_cast<size_t>(index)];
  REQUIRE_MESSAGE(out.shape() == shape, print_shape(out.shape()));
  compare(make_tensor(out.dtype(), shape, values), make_ref(out), tolerance, "reference");
}

void OpTest::expect_problem(const std::string& part) {
  const Inference inference = infer();
  REQUIRE(!inference.ok());
  bool found = false;
  for (const Problem& problem : inference.problems) found = found || problem.message.find(part) != std::string::npos;
  CHECK_MESSAGE(found, inference.problems[0].message);
}

Shape OpTest::output_shape(int index) {
  Inference inference = infer();
  REQUIRE_MESSAGE(inference.ok(), (inference.ok() ? "" : inference.problems[0].message));
  return inference.outputs[static_cast<size_t>(index)].shape;
}

std::string OpTest::kernel_name() {
  Inference inference = infer();
  REQUIRE(inference.ok());
  Lowering lowering;
  const Status status = lower_node(builtin_ops(), graph_, graph_.nodes[0], lowering);
  REQUIRE_MESSAGE(status.ok(), status.message());
  return lowering.kernel;
}

}  // namespace kiln::test
