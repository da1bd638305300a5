// Minimum cut of a small directed graph: chooses a side for every node at the least cost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kiln {

// Ford and Fulkerson's theorem: the least sum of capacities of edges from the source's side to the sink's
// equals the largest flow. The flow is found by augmenting along shortest paths (Edmonds and Karp 1972): O(V
// E^2) at worst, near linear on the graphs of layout problems, which have few and short paths.
class MinCut {
 public:
  static constexpr int kSource = 0;
  static constexpr int kSink = 1;
  static constexpr int64_t kInfinite = int64_t{1} << 60;

  MinCut() : edges_of_(2) {}
  int add_node() {
    edges_of_.emplace_back();
    return static_cast<int>(edges_of_.size()) - 1;
  }
  // Costs `capacity` if `from` ends up on the source's side and `to` on the sink's.
  void add_edge(int from, int to, int64_t capacity);
  // The cost of the best choice.
  int64_t solve();
  // After solve(): of all best choices the one with the fewest nodes on the source's side.
  bool is_on_source_side(int node) const { return reached_[static_cast<size_t>(node)] >= -1; }

 private:
  struct Edge {
    int to;
    int64_t room;  // capacity that is left; the edge back is the next or the one before
  };
  bool find_path();

  std::vector<Edge> edges_;
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> reached_;  // by node: the edge over which the search came; -1 the source, -2 not reached
};

}  // namespace kiln
