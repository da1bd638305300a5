#include "compile/inspect.h"

#include <algorithm>

#include "compile/json.h"
#include "compile/print_plan.h"
#include "graph/text.h"

namespace kiln {
namespace {

struct OpCount {
  std::string op;
  int count = 0;
};

// Operators by falling count, then by name.
std::vector<OpCount> count_ops(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Node& node : graph.nodes) ++counts[node.domain.empty() ? node.op : node.domain + "." + node.op];
  std::vector<OpCount> list;
  for (const auto& [op, count] : counts) list.push_back({op, count});
  std::stable_sort(list.begin(), list.end(), [](const OpCount& a, const OpCount& b) { return a.count > b.count; });
  return list;
}

struct ConstantCount {
  int64_t count = 0;
  int64_t elements = 0;
  uint64_t bytes = 0;
};

// Constants that some node reads.
ConstantCount count_constants(const Graph& graph) {
  std::vector<bool> seen(graph.values.size(), false);
  ConstantCount total;
  for (const Node& node : graph.nodes) {
    for (ValueId id : node.inputs) {
      if (!graph.is_constant(id) || seen[static_cast<size_t>(id)]) continue;
      seen[static_cast<size_t>(id)] = true;
      ++total.count;
      total.elements += graph.value(id).constant->num_elements();
      total.bytes += graph.value(id).constant->bytes();
    }
  }
  return total;
}

std::string value_text(const Value& value) {
  return value.name + " " + (value.dtype == DType::kInvalid ? "?" : print_type(value.dtype, value.shape));
}

std::string shape_json(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank; ++i) text += (i > 0 ? ", " : "") + (shape[i] < 0 ? "null" : std::to_string(shape[i]));
  return text + "]";
}

std::string value_json(const Value& value) {
  const bool known = value.dtype != DType::kInvalid;
  return "{\"name\": " + json_string(value.name) +
         ", \"dtype\": " + (known ? json_string(dtype_name(value.dtype)) : "null") +
         ", \"shape\": " + (known ? shape_json(value.shape) : "null") + "}";
}

std::string values_json(const Graph& graph, const std::vector<ValueId>& ids) {
  std::string text = "[";
  for (size_t i = 0; i < ids.size(); ++i) text += (i > 0 ? ", " : "") + value_json(graph.value(ids[i]));
  return text + "]";
}

std::string metadata_json(const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  for (const auto& [key, value] : metadata)
    text += (text.size() > 1 ? ", " : "") + json_string(key) + ": " + json_string(value);
  return text + "}";
}

std::string strings_json(const std::vector<std::string>& list) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) text += (i > 0 ? ", " : "") + json_string(list[i]);
  return text + "]";
}

std::string pruning_json(const Pruning& pruning) {
  if (pruning.layers.empty()) return "null";
  std::string text = "{\"macs_before\": " + std::to_string(pruning.macs_before) +
                     ", \"macs_after\": " + std::to_string(pruning.macs_after) +
                     ", \"largest_removed\": " + strf("%.6g", pruning.largest_removed) + ", \"layers\": [";
  const char* mark = "";
  for (const Pruning::Layer& layer : pruning.layers) {
    text += mark + std::string("{\"name\": ") + json_string(layer.name) +
            ", \"channels\": " + std::to_string(layer.channels) + ", \"removed\": " + std::to_string(layer.removed) +
            "}";
    mark = ", ";
  }
  return text + "]}";
}

std::string io_json(const PlanProfile& profile, const std::vector<PlanIo>& list) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) {
    const PlanTensor& tensor = profile.tensors[static_cast<size_t>(list[i].tensor)];
    text += (i > 0 ? ", " : "") + std::string("{\"name\": ") + json_string(list[i].name) +
            ", \"dtype\": " + json_string(dtype_name(tensor.dtype)) + ", \"shape\": " + shape_json(tensor.shape) +
            ", \"layout\": " + json_string(list[i].layout) + "}";
  }
  return text + "]";
}

std::string steps_json(const PlanProfile& profile) {
  std::string text = "[";
  for (size_t s = 0; s < profile.steps.size(); ++s) {
    const PlanStep& step = profile.steps[s];
    const auto indices = [](const std::vector<int32_t>& list) { return json_ints({list.begin(), list.end()}); };
    text += (s > 0 ? ",\n    " : "\n    ") + std::string("{\"op\": ") + json_string(step.op) +
            ", \"name\": " + json_string(step.name) + ", \"kernel\": " + json_string(step.kernel) +
            ", \"inputs\": " + indices(step.inputs) + ", \"outputs\": " + indices(step.outputs) +
            ", \"macs\": " + std::to_string(step.macs) + ", \"scratch_bytes\": " + std::to_string(step.scratch_bytes) +
            "}";
  }
  return text + "]";
}

// Offset and bytes are those of the file; "stored" says how a tensor lies there if not in its own dtype.
std::string tensors_json(const PlanProfile& profile) {
  std::string text = "[";
  for (size_t i = 0; i < profile.tensors.size(); ++i) {
    const PlanTensor& tensor = profile.tensors[i];
    const bool is_half = tensor.storage == Storage::kHalves;
    const uint64_t share = is_half ? 2 : 1;
    text += (i > 0 ? ",\n    " : "\n    ") + std::string("{\"name\": ") + json_string(tensor.name) +
            ", \"dtype\": " + json_string(dtype_name(tensor.dtype)) + ", \"shape\": " + shape_json(tensor.shape) +
            ", \"strides\": " + json_ints({tensor.strides, tensor.strides + tensor.shape.rank}) +
            ", \"storage\": " + (tensor.storage == Storage::kArena ? "\"arena\"" : "\"weights\"") +
            (is_half ? ", \"stored\": \"f16\"" : "") + ", \"offset\": " + std::to_string(tensor.offset / share) +
            ", \"bytes\": " + std::to_string(tensor.bytes / share) + "}";
  }
  return text + "]";
}

}  // namespace

std::string describe_model(const CompileResult& result) {
  const Graph& graph = result.graph;
  const ConstantCount constants = count_constants(graph);
  std::string text = "model: " + graph.name + "\nformat: " + result.description + "\n";
  for (ValueId id : graph.inputs) text += "input: " + value_text(graph.value(id)) + "\n";
  for (ValueId id : graph.outputs) text += "output: " + value_text(graph.value(id)) + "\n";
  text += strf("nodes: %zu", graph.nodes.size());
  const char* mark = ": ";
  for (const OpCount& op : count_ops(graph)) {
    text += mark + op.op + " " + std::to_string(op.count);
    mark = ", ";
  }
  text += "\nconstants: " + std::to_string(constants.count) + ", " + print_count(constants.elements) + " elements, " +
          print_bytes(constants.bytes) + "\n";
  for (const auto& [key, value] : graph.metadata) text += "metadata: " + key + " = " + value.substr(0, 200) + "\n";
  for (size_t p = 0; p < result.plan.profiles.size() && !result.bundle.empty(); ++p) {
    const PlanProfile& profile = result.plan.profiles[p];
    text += strf("compiled profile %zu: %zu steps, ", p, profile.steps.size()) + print_count(count_macs(profile)) +
            " MACs, weights " + print_weights(result.plan) + ", arena " + print_bytes(profile.arena_bytes) + "\n" +
            print_io(profile);
  }
  if (!result.pruning.layers.empty()) {
    text += "pruned: MACs " + print_count(result.pruning.macs_before) + " -> " +
            print_count(result.pruning.macs_after) + "\n";
    for (const Pruning::Layer& layer : result.pruning.layers) {
      text += "  " + layer.name + ": channels " + print_channels(layer) + "\n";
    }
  }
  text += strf("problems: %zu\n", result.problems.size());
  for (const Problem& problem : result.problems) {
    text += std::string("  ") + code_name(problem.code) + ": " + problem.message + "\n";
  }
  return text;
}

std::string describe_model_json(const CompileResult& result) {
  const Graph& graph = result.graph;
  const ConstantCount constants = count_constants(graph);
  std::string text = "{\"format\": \"onnx\", \"description\": " + json_string(result.description) +
                     ",\n \"name\": " + json_string(graph.name) +
                     ",\n \"inputs\": " + values_json(graph, graph.inputs) +
                     ",\n \"outputs\": " + values_json(graph, graph.outputs) +
                     ",\n \"nodes\": " + std::to_string(graph.nodes.size()) + ",\n \"operators\": {";
  const char* mark = "";
  for (const OpCount& op : count_ops(graph)) {
    text += mark + json_string(op.op) + ": " + std::to_string(op.count);
    mark = ", ";
  }
  text += "},\n \"parameters\": " + std::to_string(constants.elements) +
          ",\n \"constants_bytes\": " + std::to_string(constants.bytes) +
          ",\n \"metadata\": " + metadata_json(graph.metadata) + ",\n \"profiles\": [";
  for (size_t p = 0; p < result.plan.profiles.size() && !result.bundle.empty(); ++p) {
    const PlanProfile& profile = result.plan.profiles[p];
    text += (p > 0 ? ",\n  " : "\n  ") + std::string("{\"inputs\": ") + io_json(profile, profile.inputs) +
            ", \"outputs\": " + io_json(profile, profile.outputs) +
            ", \"steps\": " + std::to_string(profile.steps.size()) +
            ", \"macs\": " + std::to_string(count_macs(profile)) +
            ", \"arena_bytes\": " + std::to_string(profile.arena_bytes) + "}";
  }
  text += "],\n \"pruning\": " + pruning_json(result.pruning) + ",\n \"notices\": " + strings_json(result.notices) +
          ",\n \"problems\": " + json_problems(result.problems) + "}\n";
  return text;
}

std::string describe_bundle(const Plan& plan, uint64_t file_bytes) {
  return "bundle: " + print_bytes(file_bytes) + "\n" + print_plan(plan);
}

std::string describe_bundle_json(const Plan& plan, uint64_t file_bytes) {
  std::string text = "{\"format\": \"kiln\", \"file_bytes\": " + std::to_string(file_bytes) +
                     ",\n \"weights_bytes\": " + std::to_string(plan.weights.size() + plan.halves.size()) +
                     ",\n \"weights_f16_bytes\": " + std::to_string(plan.halves.size()) +
                     ",\n \"metadata\": " + metadata_json(plan.metadata) + ",\n \"profiles\": [";
  for (size_t p = 0; p < plan.profiles.size(); ++p) {
    const PlanProfile& profile = plan.profiles[p];
    text += (p > 0 ? ",\n  " : "\n  ") + std::string("{\"inputs\": ") + io_json(profile, profile.inputs) +
            ",\n   \"outputs\": " + io_json(profile, profile.outputs) +
            ",\n   \"arena_bytes\": " + std::to_string(profile.arena_bytes) +
            ", \"peak_live_bytes\": " + std::to_string(profile.peak_live_bytes) +
            ", \"macs\": " + std::to_string(count_macs(profile)) + ",\n   \"steps\": " + steps_json(profile) +
            ",\n   \"tensors\": " + tensors_json(profile) + "}";
  }
  return text + "]}\n";
}

}  // namespace kiln
