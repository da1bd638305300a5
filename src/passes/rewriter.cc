#include "passes/rewriter.h"

#include <algorithm>
#include <numeric>

namespace kiln {

namespace {
constexpr int64_t kOrderStep = int64_t{1} << 32;
}  // namespace

Rewriter::Rewriter(Graph& graph, const OpRegistry& ops) : graph_(graph), ops_(ops) {
  Uses uses = compute_uses(graph);
  producer_ = std::move(uses.producer);
  consumers_ = std::move(uses.consumers);
  is_output_ = std::move(uses.is_output);
  dead_.assign(graph.nodes.size(), false);
  for (size_t n = 0; n < graph.nodes.size(); ++n) order_.push_back(static_cast<int64_t>(n) * kOrderStep);
}

bool Rewriter::is_op(int n, const char* op, const char* domain) {
  return n >= 0 && !is_dead(n) && node(n).op == op && node(n).domain == domain;
}

ValueId Rewriter::input(int n, size_t i) { return i < node(n).inputs.size() ? node(n).inputs[i] : kNoValue; }
ValueId Rewriter::output(int n, size_t i) { return i < node(n).outputs.size() ? node(n).outputs[i] : kNoValue; }

int Rewriter::sole_producer(ValueId id, const char* op, const char* domain) {
  if (id == kNoValue || !has_one_use(id)) return -1;
  return is_op(producer(id), op, domain) ? producer(id) : -1;
}

int Rewriter::sole_consumer(ValueId id, const char* op, const char* domain) {
  if (id == kNoValue || !has_one_use(id)) return -1;
  const int n = consumers(id)[0];
  return is_op(n, op, domain) ? n : -1;
}

void Rewriter::drop_use(ValueId id, int n) {
  if (id == kNoValue) return;
  std::vector<int>& users = consumers_[static_cast<size_t>(id)];
  const auto found = std::find(users.begin(), users.end(), n);
  if (found != users.end()) users.erase(found);
}

void Rewriter::add_use(ValueId id, int n) {
  if (id != kNoValue) consumers_[static_cast<size_t>(id)].push_back(n);
}

void Rewriter::set_input(int n, size_t i, ValueId id) {
  std::vector<ValueId>& inputs = node(n).inputs;
  if (inputs.size() <= i) inputs.resize(i + 1, kNoValue);
  drop_use(inputs[i], n);
  inputs[i] = id;
  add_use(id, n);
}

void Rewriter::set_inputs(int n, std::vector<ValueId> ids) {
  for (ValueId id : node(n).inputs) drop_use(id, n);
  node(n).inputs = std::move(ids);
  for (ValueId id : node(n).inputs) add_use(id, n);
}

void Rewriter::set_output(int n, size_t i, ValueId id) {
  const ValueId old = node(n).outputs[i];
  if (old != kNoValue && producer(old) == n) producer_[static_cast<size_t>(old)] = -1;
  node(n).outputs[i] = id;
  if (id != kNoValue) producer_[static_cast<size_t>(id)] = n;
}

void Rewriter::replace_uses(ValueId from, ValueId to) {
  if (from == to) return;
  std::vector<int> users = std::move(consumers_[static_cast<size_t>(from)]);
  consumers_[static_cast<size_t>(from)].clear();
  for (int n : users) {
    // One entry a use: a node that reads the value twice comes twice, and the first time changes both.
    std::vector<ValueId>& inputs = node(n).inputs;
    std::replace(inputs.begin(), inputs.end(), from, to);
    consumers_[static_cast<size_t>(to)].push_back(n);
  }
}

bool Rewriter::bypass(int n, size_t i) {
  const ValueId from = input(n, i);
  const ValueId to = output(n);
  if (!is_output(to)) {
    remove(n);
    replace_uses(to, from);
    return true;
  }
  const int maker = producer(from);
  if (maker < 0 || is_output(from)) return false;
  remove(n);
  for (size_t k = 0; k < node(maker).outputs.size(); ++k) {
    if (node(maker).outputs[k] == from) set_output(maker, k, to);
  }
  replace_uses(from, to);
  return true;
}

int Rewriter::add(int anchor, Node added, int64_t shift) {
  const int n = num_nodes();
  graph_.nodes.push_back(std::move(added));
  dead_.push_back(false);
  order_.push_back(order_[static_cast<size_t>(anchor)] + shift);
  for (ValueId id : node(n).inputs) add_use(id, n);
  for (ValueId id : node(n).outputs) {
    if (id != kNoValue) producer_[static_cast<size_t>(id)] = n;
  }
  return n;
}

void Rewriter::remove(int n) {
  dead_[static_cast<size_t>(n)] = true;
  for (ValueId id : node(n).inputs) drop_use(id, n);
  for (ValueId id : node(n).outputs) {
    if (id != kNoValue && producer(id) == n) producer_[static_cast<size_t>(id)] = -1;
  }
}

std::string Rewriter::unique_name(const std::string& name) {
  if (names_.empty()) {
    for (const Value& v : graph_.values) names_.emplace(v.name, 1);
  }
  const auto found = names_.find(name);
  if (found == names_.end()) {
    names_.emplace(name, 1);
    return name;
  }
  for (;;) {
    std::string candidate = name + "_" + std::to_string(found->second++);
    if (names_.emplace(candidate, 1).second) return candidate;
  }
}

ValueId Rewriter::add_value(const std::string& name, DType dtype, const Shape& shape) {
  producer_.push_back(-1);
  consumers_.emplace_back();
  is_output_.push_back(false);
  return graph_.add_value(unique_name(name), dtype, shape);
}

ValueId Rewriter::add_constant(const std::string& name, Tensor tensor) {
  const ValueId id = add_value(name, tensor.dtype(), tensor.shape());
  value(id).constant = std::make_shared<const Tensor>(std::move(tensor));
  return id;
}

ValueId Rewriter::add_i64_constant(const std::string& name, const std::vector<int64_t>& values) {
  return add_constant(name, make_i64_vector(values.data(), static_cast<int>(values.size())));
}

Status Rewriter::infer(int n) {
  const Inference inference = infer_node(ops_, graph_, node(n));
  if (!inference.ok()) return {Code::kInternal, inference.problems[0].message, node(n).name};
  for (size_t i = 0; i < node(n).outputs.size(); ++i) {
    if (node(n).outputs[i] == kNoValue) continue;
    Value& out = value(node(n).outputs[i]);
    out.dtype = inference.outputs[i].dtype;
    out.shape = inference.outputs[i].shape;
  }
  return {};
}

Status Rewriter::finish() {
  std::vector<int> order;
  for (int n = 0; n < num_nodes(); ++n) {
    if (!is_dead(n)) order.push_back(n);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return order_[static_cast<size_t>(a)] < order_[static_cast<size_t>(b)]; });
  std::vector<Node> nodes;
  nodes.reserve(order.size());
  for (int n : order) nodes.push_back(std::move(node(n)));
  graph_.nodes = std::move(nodes);
  KILN_TRY(sort_nodes(graph_));
  compact_values(graph_);
  return {};
}

}  // namespace kiln
