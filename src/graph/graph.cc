#include "graph/graph.h"

#include <algorithm>
#include <unordered_set>

namespace kiln {
namespace {

template <typename T>
const T* find_attr(const Node& node, const char* name) {
  const auto it = node.attrs.find(name);
  return it == node.attrs.end() ? nullptr : std::get_if<T>(&it->second);
}

}  // namespace

ValueId Graph::add_value(std::string value_name, DType dtype, const Shape& shape) {
  values.push_back({std::move(value_name), dtype, shape, nullptr, nullptr});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_constant(std::string value_name, Tensor tensor) {
  const ValueId id = add_value(std::move(value_name), tensor.dtype(), tensor.shape());
  value(id).constant = std::make_shared<const Tensor>(std::move(tensor));
  return id;
}

std::string Graph::unique_name(const std::string& base) const {
  std::unordered_set<std::string> taken;
  for (const Value& v : values) taken.insert(v.name);
  if (!taken.count(base)) return base;
  for (int i = 1;; ++i) {
    std::string candidate = base + "_" + std::to_string(i);
    if (!taken.count(candidate)) return candidate;
  }
}

Uses compute_uses(const Graph& graph) {
  Uses uses;
  uses.producer.assign(graph.values.size(), -1);
  uses.consumers.resize(graph.values.size());
  uses.is_output.assign(graph.values.size(), false);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId id : graph.nodes[n].inputs) {
      if (id != kNoValue) uses.consumers[static_cast<size_t>(id)].push_back(static_cast<int>(n));
    }
    for (ValueId id : graph.nodes[n].outputs) {
      if (id != kNoValue) uses.producer[static_cast<size_t>(id)] = static_cast<int>(n);
    }
  }
  for (ValueId id : graph.outputs) uses.is_output[static_cast<size_t>(id)] = true;
  return uses;
}

void replace_uses(Graph& graph, ValueId from, ValueId to) {
  for (Node& node : graph.nodes) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  std::replace(graph.outputs.begin(), graph.outputs.end(), from, to);
}

void erase_nodes(Graph& graph, const std::vector<bool>& dead) {
  size_t kept = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (i < dead.size() && dead[i]) continue;
    if (kept != i) graph.nodes[kept] = std::move(graph.nodes[i]);
    ++kept;
  }
  graph.nodes.resize(kept);
}

void compact_values(Graph& graph) {
  std::vector<bool> used(graph.values.size(), false);
  const auto mark = [&](const std::vector<ValueId>& ids) {
    for (ValueId id : ids) {
      if (id != kNoValue) used[static_cast<size_t>(id)] = true;
    }
  };
  mark(graph.inputs);
  mark(graph.outputs);
  for (const Node& node : graph.nodes) {
    mark(node.inputs);
    mark(node.outputs);
  }
  std::vector<ValueId> renumbered(graph.values.size(), kNoValue);
  std::vector<Value> kept;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!used[i]) continue;
    renumbered[i] = static_cast<ValueId>(kept.size());
    kept.push_back(std::move(graph.values[i]));
  }
  graph.values = std::move(kept);
  const auto renumber = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) {
      if (id != kNoValue) id = renumbered[static_cast<size_t>(id)];
    }
  };
  renumber(graph.inputs);
  renumber(graph.outputs);
  for (Node& node : graph.nodes) {
    renumber(node.inputs);
    renumber(node.outputs);
  }
}

Status sort_nodes(Graph& graph) {
  // Kahn's algorithm; among the nodes that are ready the earliest in the old order comes first.
  const Uses uses = compute_uses(graph);
  const size_t num_nodes = graph.nodes.size();
  std::vector<int> missing(num_nodes, 0);
  for (size_t n = 0; n < num_nodes; ++n) {
    for (ValueId id : graph.nodes[n].inputs) {
      if (id != kNoValue && uses.producer[static_cast<size_t>(id)] >= 0) ++missing[n];
    }
  }
  std::vector<size_t> ready;  // a heap with the smallest index on top
  const auto later = [](size_t a, size_t b) { return a > b; };
  for (size_t n = 0; n < num_nodes; ++n) {
    if (missing[n] == 0) ready.push_back(n);
  }
  std::make_heap(ready.begin(), ready.end(), later);
  std::vector<size_t> order;
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), later);
    const size_t n = ready.back();
    ready.pop_back();
    order.push_back(n);
    for (ValueId id : graph.nodes[n].outputs) {
      if (id == kNoValue) continue;
      for (int consumer : uses.consumers[static_cast<size_t>(id)]) {
        if (--missing[static_cast<size_t>(consumer)] == 0) {
          ready.push_back(static_cast<size_t>(consumer));
          std::push_heap(ready.begin(), ready.end(), later);
        }
      }
    }
  }
  if (order.size() != num_nodes) {
    for (size_t n = 0; n < num_nodes; ++n) {
      if (missing[n] > 0) {
        return {Code::kInvalidModel, "the graph has a cycle through node '" + graph.nodes[n].name + "'",
                graph.nodes[n].name};
      }
    }
  }
  std::vector<Node> sorted;
  sorted.reserve(num_nodes);
  for (size_t n : order) sorted.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(sorted);
  return {};
}

Status verify_graph(const Graph& graph, bool inferred) {
  const auto num_values = static_cast<ValueId>(graph.values.size());
  std::vector<bool> defined(graph.values.size(), false);
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    defined[i] = value.constant != nullptr;
    if (!names.insert(value.name).second) {
      return {Code::kInternal, "two values are named '" + value.name + "'"};
    }
    if (value.constant && (value.constant->dtype() != value.dtype || !(value.constant->shape() == value.shape))) {
      return {Code::kInternal, "constant '" + value.name + "' does not have its value's type"};
    }
  }
  for (ValueId id : graph.inputs) {
    if (id < 0 || id >= num_values) return {Code::kInternal, "a graph input is out of range"};
    defined[static_cast<size_t>(id)] = true;
  }
  for (const Node& node : graph.nodes) {
    for (ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      if (id < 0 || id >= num_values) return {Code::kInternal, "an input is out of range", node.name};
      if (!defined[static_cast<size_t>(id)]) {
        return {Code::kInvalidModel,
                node.op + " '" + node.name + "' reads '" + graph.value(id).name + "' before anything produces it",
                node.name};
      }
    }
    for (ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      if (id < 0 || id >= num_values) return {Code::kInternal, "an output is out of range", node.name};
      if (defined[static_cast<size_t>(id)]) {
        return {Code::kInvalidModel,
                node.op + " '" + node.name + "' writes '" + graph.value(id).name + "', which already has a producer",
                node.name};
      }
      defined[static_cast<size_t>(id)] = true;
      const Value& value = graph.value(id);
      if (inferred && (value.dtype == DType::kInvalid || !value.shape.is_static())) {
        return {Code::kInternal, "the type of '" + value.name + "' is not known after inference", node.name};
      }
    }
  }
  for (ValueId id : graph.outputs) {
    if (id < 0 || id >= num_values || !defined[static_cast<size_t>(id)]) {
      return {Code::kInvalidModel, "a graph output is produced by nothing"};
    }
  }
  return {};
}

int64_t attr_int(const Node& node, const char* name, int64_t fallback) {
  const auto* found = find_attr<int64_t>(node, name);
  return found ? *found : fallback;
}

float attr_float(const Node& node, const char* name, float fallback) {
  const auto* found = find_attr<float>(node, name);
  return found ? *found : fallback;
}

std::string attr_string(const Node& node, const char* name, const char* fallback) {
  const auto* found = find_attr<std::string>(node, name);
  return found ? *found : std::string(fallback);
}

std::vector<int64_t> attr_ints(const Node& node, const char* name) {
  const auto* found = find_attr<std::vector<int64_t>>(node, name);
  return found ? *found : std::vector<int64_t>{};
}

std::vector<float> attr_floats(const Node& node, const char* name) {
  const auto* found = find_attr<std::vector<float>>(node, name);
  return found ? *found : std::vector<float>{};
}

TensorPtr attr_tensor(const Node& node, const char* name) {
  const auto* found = find_attr<TensorPtr>(node, name);
  return found ? *found : nullptr;
}

bool has_attr(const Node& node, const char* name) { return node.attrs.count(name) > 0; }

}  // namespace kiln
