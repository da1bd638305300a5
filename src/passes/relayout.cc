#include "passes/relayout.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "passes/match.h"
#include "passes/min_cut.h"
#include "passes/permute_node.h"

namespace kiln {
namespace {

int64_t bytes_of(const Value& value) {
  return value.shape.num_elements() * static_cast<int64_t>(dtype_bytes(value.dtype));
}

// The axes that are not 1 long in the order in which `perm` brings them: what a Transpose does to elements in
// memory.
Perm order_of(const Shape& shape, const Perm& perm) {
  Perm order;
  for (int axis : perm) {
    if (shape[axis] != 1) order.push_back(axis);
  }
  return order;
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

  // True if there is a choice of forms that costs less than plain for all; `permuted` is then that choice by
  // inner node.
  bool solve(std::vector<bool>& permuted) {
    if (!propose(permuted)) return false;
    // A Transpose between two values of the region may have been counted for both: count what there really
    // would be.
    return exact_cost(permuted) < exact_cost(std::vector<bool>(inner_.size(), false));
  }

  bool propose(std::vector<bool>& permuted) {
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
      const int maker = maker_of(value.id);
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
      if (!is_made_permuted)
        add_transpose(value.id, id, value.perm, rewriter_.producer(value.id));
      else if (is_read_plain)
        pending_.push_back({id, value.id, inverse(value.perm), inner_[static_cast<size_t>(maker)].n});
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

  // The inner node that makes the value in the form that it has itself; -1 if none does.
  int maker_of(ValueId id) const {
    const int n = rewriter_.producer(id);
    const int inner = n < 0 ? -1 : inner_index(n);
    if (inner < 0) return -1;
    const std::vector<ValueId>& outputs = rewriter_.node(n).outputs;
    const auto place = std::find(outputs.begin(), outputs.end(), id) - outputs.begin();
    return has_perm(inner_[static_cast<size_t>(inner)].perms.outputs[static_cast<size_t>(place)]) ? inner : -1;
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
    if (maker_of(value.id) >= 0) return {Form::kByNode, maker_of(value.id)};
    if (n < 0 || !rewriter_.is_op(n, "Transpose")) return {Form::kPlain};
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
        Form form = preferred(keeps_order(shape, perm), merged_is_free);
        if (index_.count(rewriter_.output(n)) > 0) form = Form::kEither;  // its output's producer_side counts it
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

  // What Transposes move once they are merged: for each value that no Transpose makes, the different forms of
  // it that are needed, directly or through Transposes, and that are not the one it is made in.
  int64_t exact_cost(const std::vector<bool>& permuted) {
    std::map<ValueId, std::set<Perm>> needed;
    for (const RegionValue& value : values_) {
      ValueId root = value.id;
      while (rewriter_.is_op(rewriter_.producer(root), "Transpose"))
        root = rewriter_.input(rewriter_.producer(root), 0);
      if (needed.count(root) > 0) continue;
      collect_forms(root, identity_perm(rewriter_.value(root).shape.rank), permuted, needed[root]);
    }
    int64_t cost = 0;
    for (const auto& [root, forms] : needed) {
      const Value& value = rewriter_.value(root);
      const int maker = maker_of(root);
      const bool is_made_permuted = maker >= 0 && permuted[static_cast<size_t>(maker)];
      const Perm made = is_made_permuted ? values_[index_[root]].perm : identity_perm(value.shape.rank);
      std::set<Perm> orders;
      for (const Perm& form : forms) orders.insert(order_of(value.shape, form));
      orders.erase(order_of(value.shape, made));
      cost += bytes_of(value) * static_cast<int64_t>(orders.size());
    }
    return cost;
  }

  // Adds the forms in which `id`, itself its root permuted by `perm`, is needed.
  void collect_forms(ValueId id, const Perm& perm, const std::vector<bool>& permuted, std::set<Perm>& forms) {
    if (rewriter_.is_output(id)) forms.insert(perm);
    const auto known = index_.find(id);
    for (int n : rewriter_.consumers(id)) {
      const int inner = inner_index(n);
      if (inner >= 0 && permuted[static_cast<size_t>(inner)] && known != index_.end()) {
        if (follows(inner, id)) forms.insert(compose(perm, values_[known->second].perm));
        if (leaves(inner, id)) forms.insert(perm);
      } else if (rewriter_.is_op(n, "Transpose")) {
        collect_forms(rewriter_.output(n), compose(perm, perm_of(rewriter_.view(n))), permuted, forms);
      } else {
        forms.insert(perm);
      }
    }
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
    permute_node(rewriter_, n, perms);
    for (size_t i = 0; i < perms.outputs.size(); ++i) {
      const auto found = other_form.find(rewriter_.output(n, i));
      if (found != other_form.end() && has_perm(perms.outputs[i])) rewriter_.set_output(n, i, found->second);
    }
    for (size_t i = 0; i < perms.inputs.size(); ++i) {
      const auto found = other_form.find(rewriter_.input(n, i));
      if (found != other_form.end() && has_perm(perms.inputs[i])) rewriter_.set_input(n, i, found->second);
    }
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
  const auto set_transpose = [&](int n, ValueId source, const Perm& perm) {
    if (source == rewriter.input(n, 0)) return;
    rewriter.set_input(n, 0, source);
    rewriter.node(n).attrs["perm"] = std::vector<int64_t>(perm.begin(), perm.end());
    ++changes;
  };
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (!rewriter.is_op(n, "Transpose")) continue;
    const auto [source, perm] = find_source(rewriter, n);
    if (!is_identity(perm)) continue;
    set_transpose(n, source, perm);
    if (rewriter.bypass(n)) ++changes;
  }
  std::map<std::pair<ValueId, Perm>, int> made;  // the Transpose that brings this value's elements into this order
  for (int n = 0; n < rewriter.num_nodes(); ++n) {
    if (!rewriter.is_op(n, "Transpose")) continue;
    const auto [source, perm] = find_source(rewriter, n);
    const Shape& shape = rewriter.value(source).shape;
    if (keeps_order(shape, perm)) {
      set_transpose(n, source, perm);
      continue;
    }
    int& same = made.emplace(std::pair(source, order_of(shape, perm)), n).first->second;
    if (rewriter.is_dead(same)) same = n;
    if (same == n) {
      set_transpose(n, source, perm);
      continue;
    }
    const Perm other = perm_of(rewriter.view(same));
    if (other != perm) {
      set_transpose(n, rewriter.output(same), compose(inverse(other), perm));
      continue;
    }
    // Equal ones: a graph output must stay; the other one's readers can read it.
    const bool swap = rewriter.is_output(rewriter.output(n));
    const int kept = swap ? n : same;
    const int dropped = swap ? same : n;
    if (rewriter.is_output(rewriter.output(dropped))) continue;
    set_transpose(kept, source, perm);
    rewriter.replace_uses(rewriter.output(dropped), rewriter.output(kept));
    rewriter.remove(dropped);
    same = kept;
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
