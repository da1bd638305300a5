#include "passes/relayout.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "passes/match.h"
#include "passes/min_cut.h"
#include "passes/permute_node.h"

namespace kiln {
namespace {

int64_t bytes_of(const Value& value) {
  return value.shape.num_elements() * static_cast<int64_t>(dtype_bytes(value.dtype));
}

// Which form of a value somebody gives or needs.
enum class Form { kPlain, kPermuted, kByNode, kEither };

struct Side {
  Form form = Form::kPlain;
  int inner = -1;  // kByNode: index of the inner node that decides
};

class Region {
 public:
  Region(Rewriter& rewriter) : rewriter_(rewriter) {}

  void grow(ValueId seed, const Perm& perm) {
    add_value(seed, perm);
    for (size_t head = 0; head < values_.size(); ++head) {
      const ValueId id = values_[head].id;
      if (rewriter_.producer(id) >= 0) try_node(rewriter_.producer(id), id);
      const std::vector<int> readers = rewriter_.consumers(id);
      for (int n : readers) try_node(n, id);
    }
  }

  bool is_empty() const { return inner_.empty(); }

  void add_seeds(TriedSeeds& tried) const {
    for (const RegionValue& value : values_) tried.insert({value.id, value.perm});
  }

  // True if there is a choice of forms that costs less than plain for all; `permuted` is then that choice by inner node.
  bool solve(std::vector<bool>& permuted) {
    MinCut cut;
    std::vector<int> nodes;
    for (size_t i = 0; i < inner_.size(); ++i) nodes.push_back(cut.add_node());
    int64_t now = 0;
    for (const RegionValue& value : values_) {
      if (value.cost == 0) continue;
      const Side giver = producer_side(value);
      std::vector<Side> needs = consumer_sides(value);
      now += value.cost * cost_if_plain(giver, needs);
      const int from = cut_node(cut, nodes, giver);
      // Paid once if anybody needs the permuted form of a plain value, and the other way round.
      const int wants_permuted = needs.size() == 1 ? cut_node(cut, nodes, needs[0]) : cut.add_node();
      const int wants_plain = needs.size() == 1 ? wants_permuted : cut.add_node();
      cut.add_edge(wants_permuted, from, value.cost);
      cut.add_edge(from, wants_plain, value.cost);
      if (needs.size() == 1) continue;
      for (const Side& need : needs) {
        const int to = cut_node(cut, nodes, need);
        cut.add_edge(to, wants_permuted, MinCut::kInfinite);
        cut.add_edge(wants_plain, to, MinCut::kInfinite);
      }
    }
    if (now == 0 || cut.solve() >= now) return false;
    for (size_t i = 0; i < inner_.size(); ++i) permuted.push_back(cut.is_on_source_side(nodes[i]));
    return true;
  }

  void apply(const std::vector<bool>& permuted) {
    // Values first: who makes which form, and Transposes where the other one is needed too.
    std::unordered_map<ValueId, ValueId> other_form;
    for (const RegionValue& value : values_) {
      const int maker = inner_index(rewriter_.producer(value.id));
      const bool is_made_permuted = maker >= 0 && permuted[static_cast<size_t>(maker)];
      bool is_read_permuted = false;
      bool is_read_plain = rewriter_.is_output(value.id);
      for (int n : rewriter_.consumers(value.id)) {
        const int reader = inner_index(n);
        const bool wants_permuted = reader >= 0 && permuted[static_cast<size_t>(reader)];
        is_read_permuted = is_read_permuted || (wants_permuted && follows(reader, value.id));
        is_read_plain = is_read_plain || !wants_permuted || leaves(reader, value.id);
      }
      if (!is_made_permuted && !is_read_permuted) continue;
      const Value plain = rewriter_.value(value.id);
      const ValueId id = rewriter_.add_value(plain.name + ".permuted", plain.dtype, permute(plain.shape, value.perm));
      other_form[value.id] = id;
      if (!is_made_permuted) add_transpose(value.id, id, value.perm, rewriter_.producer(value.id));
      else if (is_read_plain) pending_.push_back({id, value.id, inverse(value.perm), inner_[static_cast<size_t>(maker)].n});
    }
    for (size_t i = 0; i < inner_.size(); ++i) {
      if (permuted[i]) change_node(inner_[i].n, inner_[i].perms, other_form);
    }
    for (const Pending& t : pending_) add_transpose(t.from, t.to, t.perm, t.anchor);
  }

 private:
  struct RegionValue {
    ValueId id;
    Perm perm;
    int64_t cost;  // bytes that a Transpose between the forms moves
  };
  struct Inner {
    int n;
    OperandPerms perms;
  };
  struct Pending {
    ValueId from;
    ValueId to;
    Perm perm;
    int anchor;
  };

  static bool has_perm(const Perm& perm) { return !perm.empty() && !is_identity(perm); }

  void add_value(ValueId id, const Perm& perm) {
    const Value& value = rewriter_.value(id);
    index_[id] = values_.size();
    values_.push_back({id, perm, keeps_order(value.shape, perm) ? 0 : bytes_of(value)});
  }

  int inner_index(int n) const {
    const auto found = inner_index_.find(n);
    return found == inner_index_.end() ? -1 : found->second;
  }

  // Takes node `n`, which makes or reads `id`, into the region if all its operands agree.
  void try_node(int n, ValueId id) {
    if (inner_index(n) >= 0 || rewriter_.is_op(n, "Transpose")) return;
    const Perm& perm = values_[index_[id]].perm;
    const Node& node = rewriter_.node(n);
    const auto out = std::find(node.outputs.begin(), node.outputs.end(), id);
    std::optional<OperandPerms> perms;
    if (out != node.outputs.end()) {
      perms = permuted_by_output(rewriter_, n, static_cast<int>(out - node.outputs.begin()), perm);
    } else {
      const auto in = std::find(node.inputs.begin(), node.inputs.end(), id);
      perms = permuted_by_input(rewriter_, n, static_cast<int>(in - node.inputs.begin()), perm);
    }
    if (!perms) return;
    std::map<ValueId, Perm> operands;
    const auto agree = [&](const std::vector<ValueId>& ids, const std::vector<Perm>& wanted) {
      for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] == kNoValue || rewriter_.is_constant(ids[i]) || !has_perm(wanted[i])) continue;
        const auto known = index_.find(ids[i]);
        if (known != index_.end() && values_[known->second].perm != wanted[i]) return false;
        const auto [place, is_new] = operands.emplace(ids[i], wanted[i]);
        if (!is_new && place->second != wanted[i]) return false;
      }
      return true;
    };
    if (!agree(node.inputs, perms->inputs) || !agree(node.outputs, perms->outputs)) return;
    inner_index_[n] = static_cast<int>(inner_.size());
    inner_.push_back({n, std::move(*perms)});
    for (const auto& [operand, operand_perm] : operands) {
      if (index_.count(operand) == 0) add_value(operand, operand_perm);
    }
  }

  // The inner node reads the value in the form that it has itself, or (also) as it is, whatever form it has.
  bool follows(int inner, ValueId id) { return reads(inner, id, true); }
  bool leaves(int inner, ValueId id) { return reads(inner, id, false); }
  bool reads(int inner, ValueId id, bool permuted) {
    const Inner& in = inner_[static_cast<size_t>(inner)];
    const Node& node = rewriter_.node(in.n);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == id && has_perm(in.perms.inputs[i]) == permuted) return true;
    }
    return false;
  }

  // What a Transpose at the border prefers, given what it moves with either form.
  static Form preferred(bool plain_is_free, bool permuted_is_free) {
    if (plain_is_free == permuted_is_free) return Form::kEither;
    return plain_is_free ? Form::kPlain : Form::kPermuted;
  }

  Side producer_side(const RegionValue& value) {
    const int n = rewriter_.producer(value.id);
    if (n < 0) return {Form::kPlain};
    if (inner_index(n) >= 0) return {Form::kByNode, inner_index(n)};
    if (!rewriter_.is_op(n, "Transpose")) return {Form::kPlain};
    const Shape& from = rewriter_.value(rewriter_.input(n, 0)).shape;
    const Perm perm = perm_of(rewriter_.view(n));
    return {preferred(keeps_order(from, perm), keeps_order(from, compose(perm, value.perm)))};
  }

  // One entry a kind of reader is enough.
  std::vector<Side> consumer_sides(const RegionValue& value) {
    std::vector<Side> sides;
    bool is_plain = rewriter_.is_output(value.id);
    bool is_permuted = false;
    for (int n : rewriter_.consumers(value.id)) {
      const int inner = inner_index(n);
      if (inner >= 0) {
        if (follows(inner, value.id)) sides.push_back({Form::kByNode, inner});
        if (leaves(inner, value.id)) is_plain = true;
      } else if (rewriter_.is_op(n, "Transpose")) {
        const Shape& shape = rewriter_.value(value.id).shape;
        const Perm perm = perm_of(rewriter_.view(n));
        const bool merged_is_free = keeps_order(permute(shape, value.perm), compose(inverse(value.perm), perm));
        const Form form = preferred(keeps_order(shape, perm), merged_is_free);
        is_plain = is_plain || form == Form::kPlain;
        is_permuted = is_permuted || form == Form::kPermuted;
      } else {
        is_plain = true;
      }
    }
    if (is_plain) sides.push_back({Form::kPlain});
    if (is_permuted) sides.push_back({Form::kPermuted});
    return sides;
  }

  static int64_t cost_if_plain(const Side& giver, const std::vector<Side>& needs) {
    bool any_plain = false;
    bool any_permuted = false;
    for (const Side& need : needs) (need.form == Form::kPermuted ? any_permuted : any_plain) = true;
    if (giver.form == Form::kPermuted) return any_plain ? 1 : 0;
    if (giver.form == Form::kEither) return any_plain && any_permuted ? 1 : 0;
    return any_permuted ? 1 : 0;
  }

  static int cut_node(MinCut& cut, const std::vector<int>& nodes, const Side& side) {
    switch (side.form) {
      case Form::kPlain:
        return MinCut::kSink;
      case Form::kPermuted:
        return MinCut::kSource;
      case Form::kByNode:
        return nodes[static_cast<size_t>(side.inner)];
      case Form::kEither:
        return cut.add_node();
    }
    return MinCut::kSink;
  }

  void add_transpose(ValueId from, ValueId to, const Perm& perm, int anchor) {
    if (anchor < 0) anchor = rewriter_.consumers(from)[0];
    Node node = make_node("Transpose", 13, rewriter_.value(to).name + ".transpose", {from}, to);
    node.attrs["perm"] = std::vector<int64_t>(perm.begin(), perm.end());
    rewriter_.add_node_after(anchor, std::move(node));
  }

  void change_node(int n, const OperandPerms& perms, const std::unordered_map<ValueId, ValueId>& other_form) {
    for (size_t i = 0; i < perms.outputs.size(); ++i) {
      const auto found = other_form.find(rewriter_.output(n, i));
      if (found != other_form.end() && has_perm(perms.outputs[i])) rewriter_.set_output(n, i, found->second);
    }
    for (size_t i = 0; i < perms.inputs.size(); ++i) {
      const auto found = other_form.find(rewriter_.input(n, i));
      if (found != other_form.end() && has_perm(perms.inputs[i])) rewriter_.set_input(n, i, found->second);
    }
    permute_node(rewriter_, n, perms);
  }

  Rewriter& rewriter_;
  std::vector<RegionValue> values_;
  std::unordered_map<ValueId, size_t> index_;
  std::vector<Inner> inner_;
  std::unordered_map<int, int> inner_index_;
  std::vector<Pending> pending_;
};

// The Transpose's source with all Transposes before it skipped.
std::pair<ValueId, Perm> find_source(Rewriter& rewriter, int n) {
  Perm perm = perm_of(rewriter.view(n));
  ValueId source = rewriter.input(n, 0);
  while (rewriter.is_op(rewriter.producer(source), "Transpose")) {
    const int before = rewriter.producer(source);
    perm = compose(perm_of(rewriter.view(before)), perm);
    source = rewriter.input(before, 0);
  }
  return {source, perm};
}

}  // namespace

bool relayout(Rewriter& rewriter, ValueId seed, const Perm& perm, TriedSeeds& tried) {
  if (tried.count({seed, perm}) > 0) return false;
  Region region(rewriter);
  region.grow(seed, perm);
  std::vector<bool> permuted;
  if (region.is_empty() || !region.solve(permuted)) {
    region.add_seeds(tried);
    return false;
  }
  region.apply(permuted);
  return true;
}

int merge_transposes(Rewriter& rewriter) {
  int changes = 0;
  std::map<std::pair<ValueId, Perm>, int> made;  // the Transpose that makes this of that
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (!rewriter.is_op(n, "Transpose")) continue;
    const auto [source, perm] = find_source(rewriter, n);
    if (source != rewriter.input(n, 0)) {
      rewriter.set_input(n, 0, source);
      rewriter.node(n).attrs["perm"] = std::vector<int64_t>(perm.begin(), perm.end());
      ++changes;
    }
    if (is_identity(perm)) {
      if (rewriter.bypass(n)) ++changes;
      continue;
    }
    const auto [place, is_new] = made.emplace(std::pair(source, perm), n);
    if (is_new) continue;
    // A graph output must stay; the other one's readers can read it.
    int kept = place->second;
    int dropped = n;
    if (rewriter.is_dead(kept)) {
      place->second = n;
      continue;
    }
    if (rewriter.is_output(rewriter.output(dropped))) std::swap(kept, dropped);
    if (rewriter.is_output(rewriter.output(dropped))) continue;
    rewriter.replace_uses(rewriter.output(dropped), rewriter.output(kept));
    rewriter.remove(dropped);
    place->second = kept;
    ++changes;
  }
  for (bool again = true; again;) {
    again = false;
    for (int n = 0; n < rewriter.num_nodes(); ++n) {
      if (!rewriter.is_op(n, "Transpose")) continue;
      const ValueId out = rewriter.output(n);
      if (!rewriter.consumers(out).empty() || rewriter.is_output(out)) continue;
      rewriter.remove(n);
      ++changes;
      again = true;
    }
  }
  return changes;
}

int64_t transposed_bytes(Rewriter& rewriter, int n) {
  const Value& in = rewriter.value(rewriter.input(n, 0));
  return keeps_order(in.shape, perm_of(rewriter.view(n))) ? 0 : bytes_of(in);
}

}  // namespace kiln
