// A small operator library of the tests' own, whose kernels take any strides: planner and session can be
// tested with it whatever the real operators do.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/definition.h"
#include "ops/kernel.h"

namespace kiln::test {

// Where element `index` (row-major) of a tensor lies.
inline int64_t place_of(const TensorRef& ref, int64_t index) {
  int64_t place = 0;
  for (int i = ref.rank - 1; i >= 0; --i) {
    place += index % ref.dims[i] * ref.strides[i];
    index /= ref.dims[i];
  }
  return place;
}

inline float& element(const TensorRef& ref, int64_t index) { return ref.as<float>()[place_of(ref, index)]; }

inline Status check_f32(const KernelArgs& args, int min_in, int max_in) {
  KILN_TRY(check_operands(args, min_in, max_in, args.num_out));
  for (int i = 0; i < args.num_in; ++i) {
    if (args.in[i].present() && args.in[i].dtype != DType::kF32 && args.in[i].dtype != DType::kI64) {
      return {Code::kCorrupt, "not f32"};
    }
  }
  for (int i = 0; i < args.num_out; ++i) {
    if (args.out[i].dtype != DType::kF32) return {Code::kCorrupt, "not f32"};
  }
  return {};
}

inline Status check_same_size(const KernelArgs& args) {
  KILN_TRY(check_f32(args, 1, 16));
  for (int i = 0; i < args.num_in; ++i) {
    if (args.in[i].dtype == DType::kF32 && args.in[i].num_elements() != args.out[0].num_elements()) {
      return {Code::kCorrupt, "sizes differ"};
    }
  }
  return {};
}

// TinySum: y = 1 + the sum of all inputs. Uses its scratch where it has some.
inline void run_sum(const KernelArgs& args) {
  const int64_t n = args.out[0].num_elements();
  for (size_t i = 0; i < args.scratch_bytes; ++i) static_cast<uint8_t*>(args.scratch)[i] = 0xff;
  for (int64_t i = 0; i < n; ++i) {
    float sum = 1;
    for (int k = 0; k < args.num_in; ++k) sum += element(args.in[k], i);
    element(args.out[0], i) = sum;
  }
}

inline void run_copy(const KernelArgs& args) {
  const int64_t n = args.out[0].num_elements();
  for (int64_t i = 0; i < n; ++i) element(args.out[0], i) = element(args.in[0], i);
}

// A part of a tensor: along `axis`, from `start` on, every `step`th.
struct PartParams {
  int32_t axis = 0;
  int32_t start = 0;
  int32_t step = 1;
};

inline TensorRef part_of(TensorRef whole, const TensorRef& like, const PartParams& part, int64_t start) {
  whole.data = whole.as<float>() + start * whole.strides[part.axis];
  whole.strides[part.axis] *= part.step;
  std::copy(std::begin(like.dims), std::end(like.dims), whole.dims);
  return whole;
}

inline void run_parts(const KernelArgs& args) {  // Split, Slice
  const auto& part = args.params_as<PartParams>();
  int64_t start = part.start;
  for (int k = 0; k < args.num_out; ++k) {
    const TensorRef from = part_of(args.in[0], args.out[k], part, start);
    for (int64_t i = 0; i < args.out[k].num_elements(); ++i) element(args.out[k], i) = element(from, i);
    start += args.out[k].dims[part.axis];
  }
}

inline void run_concat(const KernelArgs& args) {
  const auto& part = args.params_as<PartParams>();
  int64_t start = 0;
  for (int k = 0; k < args.num_in; ++k) {
    const TensorRef to = part_of(args.out[0], args.in[k], part, start);
    for (int64_t i = 0; i < args.in[k].num_elements(); ++i) element(to, i) = element(args.in[k], i);
    start += args.in[k].dims[part.axis];
  }
}

inline Status check_parts(const KernelArgs& args) {
  KILN_TRY(check_params<PartParams>(args));
  KILN_TRY(check_f32(args, 1, 16));
  const auto& part = args.params_as<PartParams>();
  if (part.axis < 0 || part.axis >= args.out[0].rank || part.step < 1) return {Code::kCorrupt, "bad part"};
  return {};
}

inline ParamBytes part_params(const NodeView& node) {
  PartParams part;
  part.axis = static_cast<int32_t>(node.attr_int("axis", 0));
  if (node.node().op == "Slice") {
    part.axis = static_cast<int32_t>(*node.constant(3)->as<int64_t>());
    part.start = static_cast<int32_t>(*node.constant(1)->as<int64_t>());
    part.step = static_cast<int32_t>(*node.constant(4)->as<int64_t>());
  }
  return pack_params(part);
}

// Types are set by whoever builds the graph.
inline void infer_nothing(const NodeView&, Inference&) {}

// TinyPacked: y = x + weight, where lowering packs the weight (reversed) and asks for scratch.
inline Status lower_packed(const NodeView& node, Lowering& out) {
  const Tensor& weight = *node.constant(1);
  Tensor packed(weight.dtype(), weight.shape());
  for (int64_t i = 0; i < weight.num_elements(); ++i) {
    packed.as<float>()[i] = weight.as<float>()[weight.num_elements() - 1 - i];
  }
  out.kernel = "tiny_packed";
  out.inputs = {{node.node().inputs[0], nullptr}, {kNoValue, std::make_shared<Tensor>(std::move(packed))}};
  out.outputs = node.node().outputs;
  out.scratch_bytes = 100;
  out.macs = 7;
  return {};
}

inline void run_packed(const KernelArgs& args) {
  const int64_t n = args.out[0].num_elements();
  for (size_t i = 0; i < args.scratch_bytes; ++i) static_cast<uint8_t*>(args.scratch)[i] = 0xff;
  for (int64_t i = 0; i < n; ++i) {
    element(args.out[0], i) = element(args.in[0], i) + element(args.in[1], n - 1 - i);
  }
}

inline void run_packed_reference(const KernelArgs& args) {
  for (int64_t i = 0; i < args.out[0].num_elements(); ++i) {
    element(args.out[0], i) = element(args.in[0], i) + element(args.in[1], i);
  }
}

inline std::span<const KernelDef> tiny_kernels() {
  static constexpr KernelDef kKernels[] = {
      {"tiny_sum", run_sum, check_same_size, true, true},
      {"tiny_copy", run_copy, check_same_size, true, true},
      {"tiny_parts", run_parts, check_parts, true, true},
      {"tiny_concat", run_concat, check_parts, true, true},
      {"tiny_packed", run_packed, check_same_size, true, true},
      {"tiny_dense_sum", run_sum, check_same_size, false, false},
  };
  return kKernels;
}

inline const KernelRegistry& tiny_kernel_registry() {
  static const KernelRegistry registry = [] {
    KernelRegistry all;
    all.add(tiny_kernels());
    return all;
  }();
  return registry;
}

inline const OpRegistry& tiny_op_registry() {
  static constexpr OpDef kDefs[] = {
      {"TinySum", "", 1, "", infer_nothing, nullptr, run_sum, "tiny_sum", nullptr},
      {"TinyDenseSum", "", 1, "", infer_nothing, nullptr, run_sum, "tiny_dense_sum", nullptr},
      {"TinyPacked", "", 1, "", infer_nothing, nullptr, run_packed_reference, nullptr, lower_packed},
      {"Identity", "", 1, "", infer_nothing, nullptr, run_copy, "tiny_copy", nullptr},
      {"Reshape", "", 1, "", infer_nothing, nullptr, run_copy, "tiny_copy", nullptr},
      {"Split", "", 1, "", infer_nothing, part_params, run_parts, "tiny_parts", nullptr},
      {"Slice", "", 1, "", infer_nothing, part_params, run_parts, "tiny_parts", nullptr},
      {"Concat", "", 1, "", infer_nothing, part_params, run_concat, "tiny_concat", nullptr},
  };
  static const OpRegistry registry = [] {
    OpRegistry all;
    all.add(kDefs);
    return all;
  }();
  return registry;
}

// Builds graphs of f32 tensors over the tiny operators.
class TinyGraph {
 public:
  Graph graph;

  ValueId input(const Shape& shape) {
    const ValueId id = value(shape);
    graph.inputs.push_back(id);
    return id;
  }
  ValueId constant(const Shape& shape, float first) {
    Tensor tensor(DType::kF32, shape);
    for (int64_t i = 0; i < tensor.num_elements(); ++i) tensor.as<float>()[i] = first + static_cast<float>(i);
    return graph.add_constant(graph.unique_name("c"), std::move(tensor));
  }
  ValueId sum(const std::vector<ValueId>& inputs, const char* op = "TinySum") {
    return node(op, inputs, {graph.value(inputs[0]).shape})[0];
  }
  ValueId reshape(ValueId x, const Shape& shape) { return node("Reshape", {x}, {shape})[0]; }
  ValueId identity(ValueId x) { return node("Identity", {x}, {graph.value(x).shape})[0]; }
  ValueId concat(const std::vector<ValueId>& inputs, int axis, bool view) {
    Shape shape = graph.value(inputs[0]).shape;
    for (size_t i = 1; i < inputs.size(); ++i) shape[axis] += graph.value(inputs[i]).shape[axis];
    const ValueId out = node("Concat", inputs, {shape})[0];
    mark(axis, view);
    return out;
  }
  std::vector<ValueId> split(ValueId x, int axis, const std::vector<int64_t>& sizes, bool view) {
    std::vector<Shape> shapes(sizes.size(), graph.value(x).shape);
    for (size_t i = 0; i < sizes.size(); ++i) shapes[i][axis] = sizes[i];
    const auto outs = node("Split", {x}, shapes);
    mark(axis, view);
    return outs;
  }
  ValueId slice(ValueId x, int axis, int64_t start, int64_t end, int64_t step, bool view) {
    Shape shape = graph.value(x).shape;
    shape[axis] = (end - start + step - 1) / step;
    std::vector<ValueId> inputs = {x};
    for (int64_t number : {start, end, static_cast<int64_t>(axis), step}) {
      inputs.push_back(graph.add_constant(graph.unique_name("i"), make_i64_vector(&number, 1)));
    }
    const ValueId out = node("Slice", inputs, {shape})[0];
    mark(axis, view);
    return out;
  }

 private:
  ValueId value(const Shape& shape) { return graph.add_value(graph.unique_name("v"), DType::kF32, shape); }
  std::vector<ValueId> node(const char* op, const std::vector<ValueId>& inputs, const std::vector<Shape>& shapes) {
    Node made;
    made.op = op;
    made.opset = 13;
    made.name = std::string(op) + "_" + std::to_string(graph.nodes.size());
    made.inputs = inputs;
    for (const Shape& shape : shapes) made.outputs.push_back(value(shape));
    graph.nodes.push_back(made);
    return made.outputs;
  }
  void mark(int axis, bool view) {
    graph.nodes.back().attrs["axis"] = int64_t{axis};
    if (view) graph.nodes.back().attrs["view"] = int64_t{1};
  }
};

}  // namespace kiln::test
