// A plan as text for people: inputs and outputs, steps, the map of the arena.
#pragma once

#include <string>

#include "graph/graph.h"
#include "plan/plan.h"

namespace kiln {

// Metadata (long values cut), then for each profile its inputs and outputs, the table of steps with what they read and
// write, MACs and the arena map.
std::string print_plan(const Plan& plan);

// Parts of it.
std::string print_metadata(const Plan& plan);
std::string print_io(const PlanProfile& profile);
std::string print_steps(const PlanProfile& profile);
// One line a tensor of the arena, by offset: where it lies, how large it is, in which steps it is alive.
std::string print_arena_map(const PlanProfile& profile);

// "3.66 MB", or "1.83 MB (1.80 MB of it f16)" where halves are stored.
std::string print_weights(const Plan& plan);

// "16 -> 12"
std::string print_channels(const Pruning::Layer& layer);

// Sum over the steps.
int64_t count_macs(const PlanProfile& profile);
// "3.66 MB", "12.3 KB", "64 B"
std::string print_bytes(uint64_t bytes);
// "1.08 G", "12.3 M", "640"
std::string print_count(int64_t count);

}  // namespace kiln
