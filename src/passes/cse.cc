#include "passes/cse.h"

#include <cstring>
#include <unordered_map>

#include "passes/rewriter.h"

namespace kiln {
namespace {

// FNV-1a over 8-byte words (Fowler, Noll, Vo), folded: only picks candidates, which are then compared.
uint64_t hash_bytes(const void* data, size_t bytes, uint64_t hash = 0xcbf29ce484222325u) {
  const auto* p = static_cast<const uint8_t*>(data);
  const auto mix = [&](uint64_t word) {
    hash = (hash ^ word) * 0x100000001b3u;
    hash ^= hash >> 29;
  };
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    mix(word);
  }
  uint64_t rest = bytes;
  if (bytes > 0) std::memcpy(&rest, p, bytes);  // an empty list has no address
  mix(rest + (uint64_t{bytes} << 56));
  return hash;
}

uint64_t hash_tensor(const Tensor& tensor) {
  const uint64_t type = static_cast<uint64_t>(tensor.dtype()) * 31 + static_cast<uint64_t>(tensor.shape().rank);
  uint64_t hash = hash_bytes(&type, sizeof(type));
  hash = hash_bytes(tensor.shape().dims, sizeof(int64_t) * static_cast<size_t>(tensor.shape().rank), hash);
  return hash_bytes(tensor.data(), tensor.bytes(), hash);
}

uint64_t hash_node(const Node& node) {
  uint64_t hash = hash_bytes(node.op.data(), node.op.size());
  hash = hash_bytes(node.inputs.data(), node.inputs.size() * sizeof(ValueId), hash);
  for (const auto& [name, attr] : node.attrs) {
    hash = hash_bytes(name.data(), name.size(), hash);
    if (const auto* number = std::get_if<int64_t>(&attr)) hash = hash_bytes(number, sizeof(*number), hash);
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&attr)) {
      hash = hash_bytes(ints->data(), ints->size() * sizeof(int64_t), hash);
    }
  }
  return hash;
}

bool equal_attrs(const Node& a, const Node& b) {
  if (a.attrs.size() != b.attrs.size()) return false;
  for (auto i = a.attrs.begin(), j = b.attrs.begin(); i != a.attrs.end(); ++i, ++j) {
    if (i->first != j->first) return false;
    const auto* x = std::get_if<TensorPtr>(&i->second);
    const auto* y = std::get_if<TensorPtr>(&j->second);
    if (x != nullptr && y != nullptr && *x != nullptr && *y != nullptr) {
      if (!(**x == **y)) return false;
    } else if (i->second != j->second) {
      return false;
    }
  }
  return true;
}

bool equal_nodes(const Node& a, const Node& b) {
  if (a.op != b.op || a.domain != b.domain || a.opset != b.opset || a.inputs != b.inputs) return false;
  if (a.outputs.size() != b.outputs.size()) return false;
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    if ((a.outputs[i] == kNoValue) != (b.outputs[i] == kNoValue)) return false;
  }
  return equal_attrs(a, b);
}

int share_constants(Rewriter& rewriter) {
  std::unordered_multimap<uint64_t, ValueId> seen;
  int changes = 0;
  const auto num_values = static_cast<ValueId>(rewriter.graph().values.size());
  for (ValueId id = 0; id < num_values; ++id) {
    if (!rewriter.is_constant(id) || rewriter.is_output(id) || rewriter.consumers(id).empty()) continue;
    const Tensor& tensor = *rewriter.value(id).constant;
    const uint64_t hash = hash_tensor(tensor);
    ValueId same = kNoValue;
    const auto [begin, end] = seen.equal_range(hash);
    for (auto i = begin; i != end; ++i) {
      if (*rewriter.value(i->second).constant == tensor) same = i->second;
    }
    if (same == kNoValue) {
      seen.emplace(hash, id);
      continue;
    }
    // The same numbers: what either was made of, both are.
    if (rewriter.value(same).quantized == nullptr) rewriter.value(same).quantized = rewriter.value(id).quantized;
    rewriter.replace_uses(id, same);
    ++changes;
  }
  return changes;
}

}  // namespace

Result<int> cse(Graph& graph, const OpRegistry& ops) {
  Rewriter rewriter(graph, ops);
  int changes = share_constants(rewriter);
  std::unordered_multimap<uint64_t, int> seen;
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    const uint64_t hash = hash_node(rewriter.node(n));
    int same = -1;
    const auto [begin, end] = seen.equal_range(hash);
    for (auto i = begin; i != end; ++i) {
      const int other = i->second;  // in no particular order
      if ((same < 0 || other < same) && equal_nodes(rewriter.node(other), rewriter.node(n))) same = other;
    }
    const auto& outputs = rewriter.node(n).outputs;
    bool can_go = same >= 0;
    for (ValueId id : outputs) can_go = can_go && (id == kNoValue || !rewriter.is_output(id));
    if (!can_go) {
      seen.emplace(hash, n);
      continue;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] != kNoValue) rewriter.replace_uses(outputs[i], rewriter.node(same).outputs[i]);
    }
    rewriter.remove(n);
    ++changes;
  }
  KILN_TRY(rewriter.finish());
  return changes;
}

}  // namespace kiln
