#include "passes/reshape_axes.h"

namespace kiln {
namespace {

// Axes [from_begin, from_end) of one shape hold the elements of axes [to_begin, to_end) of the other; only
// those that are not 1 long count. As many groups as possible.
struct Group {
  std::vector<int> from;
  std::vector<int> to;
};

std::vector<int> long_axes(const Shape& shape) {
  std::vector<int> axes;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape[i] != 1) axes.push_back(i);
  }
  return axes;
}

std::vector<Group> match_axes(const Shape& from, const Shape& to) {
  const std::vector<int> a = long_axes(from);
  const std::vector<int> b = long_axes(to);
  std::vector<Group> groups;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    Group group;
    int64_t a_size = from[a[i]];
    int64_t b_size = to[b[j]];
    group.from.push_back(a[i++]);
    group.to.push_back(b[j++]);
    while (a_size != b_size) {
      if (a_size < b_size) {
        if (i == a.size()) return {};
        a_size *= from[a[i]];
        group.from.push_back(a[i++]);
      } else {
        if (j == b.size()) return {};
        b_size *= to[b[j]];
        group.to.push_back(b[j++]);
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace

std::optional<Perm> perm_across_reshape(const Shape& from, const Shape& to, const Perm& perm) {
  if (from.num_elements() < 1 || to.num_elements() != from.num_elements()) return std::nullopt;
  const std::vector<Group> groups = match_axes(from, to);
  if (groups.empty() && from.num_elements() != 1) return std::nullopt;
  std::vector<int> group_of(static_cast<size_t>(from.rank), -1);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (int axis : groups[g].from) group_of[static_cast<size_t>(axis)] = static_cast<int>(g);
  }
  // The long axes of `to` in their new order: group by group.
  std::vector<int> order;
  std::vector<int> long_perm;
  for (int axis : perm) {
    if (from[axis] != 1) long_perm.push_back(axis);
  }
  for (size_t k = 0; k < long_perm.size();) {
    const Group& group = groups[static_cast<size_t>(group_of[static_cast<size_t>(long_perm[k])])];
    for (int axis : group.from) {
      if (k == long_perm.size() || long_perm[k] != axis) return std::nullopt;
      ++k;
    }
    order.insert(order.end(), group.to.begin(), group.to.end());
  }
  Perm result;
  int axis = 0;
  for (; axis < to.rank && to[axis] == 1; ++axis) result.push_back(axis);
  for (int long_axis : order) {
    result.push_back(long_axis);
    for (int next = long_axis + 1; next < to.rank && to[next] == 1; ++next) result.push_back(next);
  }
  return result;
}

}  // namespace kiln
