#include "plan/make_plan.h"

#include <algorithm>

#include "bundle/check_program.h"
#include "bundle/format.h"
#include "plan/aliases.h"
#include "plan/arena.h"
#include "plan/weights.h"

namespace kiln {
namespace {

// Gives every graph output a producer: one that is an input or a constant becomes an Identity of it.
Graph copy_borrowed_outputs(const Graph& graph) {
  Graph copy = graph;
  const Uses uses = compute_uses(graph);
  std::vector<ValueId> copied(graph.values.size(), kNoValue);
  for (ValueId& output : copy.outputs) {
    const auto id = static_cast<size_t>(output);
    if (uses.producer[id] >= 0) continue;
    if (copied[id] == kNoValue) {
      const Value source = graph.values[id];
      Node node;
      node.op = "Identity";
      node.opset = 13;
      node.name = "copy of " + source.name;
      node.inputs = {output};
      copied[id] = copy.add_value(copy.unique_name(source.name + "/copy"), source.dtype, source.shape);
      node.outputs = {copied[id]};
      copy.nodes.push_back(std::move(node));
    }
    output = copied[id];
  }
  return copy;
}

// What the graph's constants take. Packing changes that little.
size_t constant_bytes(const Graph& graph) {
  size_t bytes = 0;
  for (const Value& value : graph.values) bytes += value.constant != nullptr ? value.constant->bytes() : 0;
  return bytes;
}

// Whether a bundle may hold a tensor of this shape; an empty one is measured by its other axes.
bool is_countable(const Shape& shape) {
  int64_t product = 1;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape[i] < 0 || shape[i] > format::kMaxElements) return false;
    product *= std::max<int64_t>(shape[i], 1);  // both below 2^31
    if (product > format::kMaxElements) return false;
  }
  return true;
}

Status too_large(const std::string& name, DType dtype, const Shape& shape) {
  return {Code::kUnsupported, strf("'%s' of type %s%s is too large: a tensor may have up to 2^31 bytes", name.c_str(),
                                   dtype_name(dtype), print_shape(shape).c_str())};
}

class Planner {
 public:
  Planner(const Graph& graph, const OpRegistry& ops)
      : graph_(graph),
        ops_(ops),
        aliases_(find_aliases(graph)),
        weights_(constant_bytes(graph) / 16 * 17),
        tensor_of_(graph.values.size(), -1),
        buffer_of_(graph.values.size(), -1) {}

  // `names` are the outputs' names.
  Result<Plan> plan(const std::vector<std::string>& names) {
    for (ValueId id : graph_.inputs) {
      KILN_ASSIGN(const int32_t tensor, tensor_for(id));
      profile_.inputs.push_back({graph_.value(id).name, tensor, "", false});
      make_alive(id, -1);
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!aliases_.elided[n]) KILN_TRY(add_step(graph_.nodes[n]));
    }
    const auto num_steps = static_cast<int32_t>(profile_.steps.size());
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      KILN_ASSIGN(const int32_t tensor, tensor_for(graph_.outputs[i]));
      profile_.outputs.push_back({names[i], tensor, "", false});
      make_alive(graph_.outputs[i], num_steps);
    }
    KILN_TRY(place_tensors(num_steps));
    Plan plan;
    plan.profiles.push_back(std::move(profile_));
    plan.weights = weights_.take();
    return plan;
  }

 private:
  Result<int32_t> tensor_for(ValueId id) {
    int32_t& tensor = tensor_of_[static_cast<size_t>(id)];
    if (tensor < 0) {
      const Value& value = graph_.value(id);
      KILN_ASSIGN(tensor, value.constant != nullptr ? add_constant(value.name, *value.constant)
                                                    : add_tensor(value, aliases_.places[static_cast<size_t>(id)]));
      if (value.constant == nullptr) value_of_.push_back(id);
    }
    return tensor;
  }

  Result<int32_t> add_tensor(const Value& value, const ValuePlace& place) {
    PlanTensor tensor;
    tensor.name = value.name;
    tensor.dtype = value.dtype;
    tensor.shape = value.shape;
    std::copy(std::begin(place.strides), std::end(place.strides), tensor.strides);
    return append(std::move(tensor));
  }

  Result<int32_t> add_constant(const std::string& name, const Tensor& constant) {
    PlanTensor tensor;
    tensor.name = name;
    tensor.dtype = constant.dtype();
    tensor.shape = constant.shape();
    contiguous_strides(tensor.shape, tensor.strides);
    tensor.storage = Storage::kWeights;
    tensor.offset = weights_.add(constant.data(), constant.bytes());
    return append(std::move(tensor));
  }

  // Adds a tensor once its span is known to fit what TensorRef and the bundle can hold.
  Result<int32_t> append(PlanTensor tensor) {
    const int64_t elements = tensor.shape.num_elements();
    int64_t last = 0;
    bool fits = is_countable(tensor.shape);
    for (int i = 0; i < tensor.shape.rank && elements != 0; ++i) {
      fits = fits && tensor.strides[i] <= format::kMaxElements;
      if (fits) last += (tensor.shape[i] - 1) * tensor.strides[i];
    }
    tensor.bytes = elements == 0 ? 0 : (static_cast<uint64_t>(last) + 1) * dtype_bytes(tensor.dtype);
    if (!fits || last >= format::kMaxElements || tensor.bytes > format::kMaxArenaBytes) {
      return too_large(tensor.name, tensor.dtype, tensor.shape);
    }
    profile_.tensors.push_back(std::move(tensor));
    return static_cast<int32_t>(profile_.tensors.size() - 1);
  }

  Status add_step(const Node& node) {
    // Before lowering, which may make tables as long as an axis.
    for (ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      const Value& value = graph_.value(id);
      if (!is_countable(value.shape)) return too_large(value.name, value.dtype, value.shape);
    }
    const auto time = static_cast<int32_t>(profile_.steps.size());
    if (makes_nothing(node)) {
      for (ValueId id : node.outputs) {
        if (id != kNoValue) make_alive(id, time);
      }
      return {};
    }
    Lowering lowering;
    KILN_TRY(lower_node(ops_, graph_, node, lowering));
    if (lowering.inputs.size() + lowering.outputs.size() > kMaxStepOperands) {
      return {
          Code::kUnsupported,
          strf("%s '%s' has more than %zu inputs and outputs", node.op.c_str(), node.name.c_str(), kMaxStepOperands),
          node.name};
    }
    PlanStep step;
    step.kernel = lowering.kernel;
    step.op = node.op;
    step.name = node.name;
    step.params = std::move(lowering.params);
    step.macs = lowering.macs;
    for (const Operand& operand : lowering.inputs) {
      int32_t tensor = -1;
      if (operand.packed != nullptr) {
        KILN_ASSIGN(tensor, add_constant(node.name.empty() ? node.op : node.name, *operand.packed));
      } else if (operand.value != kNoValue) {
        KILN_ASSIGN(tensor, tensor_for(operand.value));
        if (!graph_.is_constant(operand.value)) {
          if (buffer(operand.value).first == kUnborn) {
            return {Code::kInternal, "'" + graph_.value(operand.value).name + "' is read before it is made", node.name};
          }
          make_alive(operand.value, time);
        }
      }
      step.inputs.push_back(tensor);
    }
    for (ValueId id : lowering.outputs) {
      int32_t tensor = -1;
      if (id != kNoValue) {
        KILN_ASSIGN(tensor, tensor_for(id));
        make_alive(id, time);
      }
      step.outputs.push_back(tensor);
    }
    if (lowering.scratch_bytes > 0) {
      if (lowering.scratch_bytes > format::kMaxArenaBytes) {
        return {Code::kUnsupported,
                strf("%s '%s' needs more than 2^31 bytes of scratch memory", node.op.c_str(), node.name.c_str()),
                node.name};
      }
      step.scratch_bytes = lowering.scratch_bytes;
      scratches_.push_back({profile_.steps.size(), buffers_.size()});
      buffers_.push_back({lowering.scratch_bytes, time, time, 0});
    }
    profile_.steps.push_back(std::move(step));
    return {};
  }

  // Whether all outputs are empty: there is nothing to run then, and tables as long as the other axes, which
  // nothing bounds, need not be made.
  bool makes_nothing(const Node& node) const {
    return std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](ValueId id) { return id == kNoValue || graph_.value(id).shape.num_elements() == 0; });
  }

  // The buffer that a value lies in.
  ArenaBuffer& buffer(ValueId id) {
    const ValueId root = aliases_.places[static_cast<size_t>(id)].root;
    int32_t& index = buffer_of_[static_cast<size_t>(root)];
    if (index < 0) {
      const Value& value = graph_.value(root);
      index = static_cast<int32_t>(buffers_.size());
      const int64_t elements = std::max<int64_t>(value.shape.num_elements(), 0);
      buffers_.push_back({static_cast<uint64_t>(elements) * dtype_bytes(value.dtype), kUnborn, -1, 0});
    }
    return buffers_[static_cast<size_t>(index)];
  }

  void make_alive(ValueId id, int32_t time) {
    ArenaBuffer& target = buffer(id);
    target.first = std::min(target.first, time);
    target.last = std::max(target.last, time);
  }

  Status place_tensors(int32_t num_steps) {
    const ArenaSize size = place_buffers(buffers_, num_steps);
    if (size.arena_bytes > format::kMaxArenaBytes) {
      return {Code::kUnsupported, strf("the model needs %llu MB for its tensors at this input shape; at most 2048 MB",
                                       static_cast<unsigned long long>(size.arena_bytes >> 20))};
    }
    profile_.arena_bytes = size.arena_bytes;
    profile_.peak_live_bytes = size.peak_live_bytes;
    for (ValueId id : value_of_) {
      PlanTensor& tensor = profile_.tensors[static_cast<size_t>(tensor_of_[static_cast<size_t>(id)])];
      const uint64_t item = dtype_bytes(tensor.dtype);
      tensor.offset = buffer(id).offset + static_cast<uint64_t>(aliases_.places[static_cast<size_t>(id)].offset) * item;
      if (tensor.offset + tensor.bytes > profile_.arena_bytes) {  // a part of something too large to count
        return {Code::kUnsupported, "'" + tensor.name + "' is part of a tensor of more than 2^31 bytes"};
      }
    }
    for (const auto& [step, index] : scratches_) profile_.steps[step].scratch_offset = buffers_[index].offset;
    return {};
  }

  static constexpr int32_t kUnborn = INT32_MAX;

  const Graph& graph_;
  const OpRegistry& ops_;
  const Aliases aliases_;
  PlanProfile profile_;
  WeightsPool weights_;
  std::vector<int32_t> tensor_of_;  // by value: its index in profile_.tensors
  std::vector<ValueId> value_of_;   // values with a tensor in the arena
  std::vector<int32_t> buffer_of_;  // by value: a root's index in buffers_
  std::vector<ArenaBuffer> buffers_;
  std::vector<std::pair<size_t, size_t>> scratches_;  // (step, buffer)
};

}  // namespace

Result<Plan> make_plan(const Graph& graph, const OpRegistry& ops) {
  std::vector<std::string> output_names;
  for (ValueId id : graph.outputs) output_names.push_back(graph.value(id).name);
  const Graph closed = copy_borrowed_outputs(graph);
  return Planner(closed, ops).plan(output_names);
}

}  // namespace kiln
