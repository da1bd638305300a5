#include "passes/min_cut.h"

#include <algorithm>

namespace kiln {

void MinCut::add_edge(int from, int to, int64_t capacity) {
  if (from == to || capacity == 0) return;
  edges_of_[static_cast<size_t>(from)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, capacity});
  edges_of_[static_cast<size_t>(to)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MinCut::find_path() {
  reached_.assign(edges_of_.size(), -2);
  reached_[kSource] = -1;
  std::vector<int> queue = {kSource};
  for (size_t head = 0; head < queue.size(); ++head) {
    for (int e : edges_of_[static_cast<size_t>(queue[head])]) {
      const Edge& edge = edges_[static_cast<size_t>(e)];
      if (edge.room == 0 || reached_[static_cast<size_t>(edge.to)] != -2) continue;
      reached_[static_cast<size_t>(edge.to)] = e;
      if (edge.to == kSink) return true;
      queue.push_back(edge.to);
    }
  }
  return false;
}

int64_t MinCut::solve() {
  int64_t flow = 0;
  while (find_path()) {
    int64_t room = kInfinite;
    for (int node = kSink; node != kSource;) {
      const int e = reached_[static_cast<size_t>(node)];
      room = std::min(room, edges_[static_cast<size_t>(e)].room);
      node = edges_[static_cast<size_t>(e ^ 1)].to;
    }
    for (int node = kSink; node != kSource;) {
      const int e = reached_[static_cast<size_t>(node)];
      edges_[static_cast<size_t>(e)].room -= room;
      edges_[static_cast<size_t>(e ^ 1)].room += room;
      node = edges_[static_cast<size_t>(e ^ 1)].to;
    }
    flow += room;
  }
  return flow;
}

}  // namespace kiln
