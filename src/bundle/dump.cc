#include "bundle/dump.h"

#include <algorithm>
#include <vector>

#include "base/status.h"

namespace kiln {
namespace {

unsigned long long ull(uint64_t number) { return number; }

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string print_tensor(const PlanTensor& tensor) {
  std::string text = tensor.name + ": " + dtype_name(tensor.dtype) + print_shape(tensor.shape);
  int64_t dense[kMaxRank];
  contiguous_strides(tensor.shape, dense);
  if (!std::equal(dense, dense + tensor.shape.rank, tensor.strides)) {
    text += " strides [";
    for (int i = 0; i < tensor.shape.rank; ++i) text += (i > 0 ? ", " : "") + std::to_string(tensor.strides[i]);
    text += "]";
  }
  return text + (tensor.storage == Storage::kWeights ? " w+" : " @") + std::to_string(tensor.offset);
}

std::string print_operands(const PlanProfile& profile, const std::vector<int32_t>& operands) {
  std::string text;
  for (int32_t index : operands) {
    text += text.empty() ? "" : "; ";
    text += index < 0 ? "_" : print_tensor(profile.tensors[static_cast<size_t>(index)]);
  }
  return text;
}

// When a tensor or scratch area is in use: [first, last], as in plan/arena.h.
struct Life {
  std::string name;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  int first = INT32_MAX;
  int last = -1;
};

std::vector<Life> find_lives(const PlanProfile& profile) {
  const int num_steps = static_cast<int>(profile.steps.size());
  std::vector<Life> lives;
  for (const PlanTensor& tensor : profile.tensors) lives.push_back({tensor.name, tensor.offset, tensor.bytes});
  const auto use = [&](int32_t index, int time) {
    if (index < 0) return;
    Life& life = lives[static_cast<size_t>(index)];
    life.first = std::min(life.first, time);
    life.last = std::max(life.last, time);
  };
  for (const PlanIo& io : profile.inputs) use(io.tensor, -1);
  for (int s = 0; s < num_steps; ++s) {
    for (int32_t index : profile.steps[static_cast<size_t>(s)].inputs) use(index, s);
    for (int32_t index : profile.steps[static_cast<size_t>(s)].outputs) use(index, s);
  }
  for (const PlanIo& io : profile.outputs) use(io.tensor, num_steps);
  for (size_t i = 0; i < profile.tensors.size(); ++i) {
    if (profile.tensors[i].storage == Storage::kWeights) lives[i].first = INT32_MAX;
  }
  std::erase_if(lives, [](const Life& life) { return life.first == INT32_MAX; });
  for (int s = 0; s < num_steps; ++s) {
    const PlanStep& step = profile.steps[static_cast<size_t>(s)];
    if (step.scratch_bytes == 0) continue;
    lives.push_back({"scratch of " + (step.name.empty() ? step.op : step.name), step.scratch_offset,
                     step.scratch_bytes, s, s});
  }
  return lives;
}

std::string print_profile(const PlanProfile& profile, size_t number) {
  int64_t macs = 0;
  for (const PlanStep& step : profile.steps) macs += step.macs;
  std::string text = strf("profile %zu: %zu steps, %lld MACs, arena %llu bytes, largest live set %llu bytes\n", number,
                          profile.steps.size(), static_cast<long long>(macs), ull(profile.arena_bytes),
                          ull(profile.peak_live_bytes));
  const auto print_ios = [&](const std::vector<PlanIo>& ios, const char* what) {
    for (const PlanIo& io : ios) {
      const PlanTensor& tensor = profile.tensors[static_cast<size_t>(io.tensor)];
      text += std::string("  ") + what + " " + quoted(io.name) + ": " + dtype_name(tensor.dtype) +
              print_shape(tensor.shape) + (io.layout.empty() ? "" : " " + io.layout) + " @" +
              std::to_string(tensor.offset) + "\n";
    }
  };
  print_ios(profile.inputs, "input");
  print_ios(profile.outputs, "output");
  for (size_t s = 0; s < profile.steps.size(); ++s) {
    const PlanStep& step = profile.steps[s];
    text += strf("  step %zu: %s '%s' by %s", s, step.op.c_str(), step.name.c_str(), step.kernel.c_str());
    if (step.macs > 0) text += strf(", %lld MACs", static_cast<long long>(step.macs));
    if (step.scratch_bytes > 0) text += strf(", scratch %llu @%llu", ull(step.scratch_bytes), ull(step.scratch_offset));
    text += "\n    in  " + print_operands(profile, step.inputs);
    text += "\n    out " + print_operands(profile, step.outputs) + "\n";
  }
  return text;
}

}  // namespace

std::string print_arena_map(const PlanProfile& profile) {
  constexpr int kColumns = 50;
  const int num_steps = static_cast<int>(profile.steps.size());
  const int columns = std::clamp(num_steps, 1, kColumns);
  std::vector<Life> lives = find_lives(profile);
  std::stable_sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.first < b.first;
  });
  size_t width = 4;
  for (const Life& life : lives) width = std::max(width, std::min<size_t>(life.name.size(), 32));
  std::string text = strf("%10s %10s  %-11s  name\n", "offset", "bytes", "steps");
  for (const Life& life : lives) {
    std::string bar(static_cast<size_t>(columns), '.');
    for (int c = 0; c < columns; ++c) {
      const int begin = c * num_steps / columns;  // the steps that this column stands for
      const int end = std::max(begin + 1, (c + 1) * num_steps / columns);
      if (life.first < end && life.last >= begin) bar[static_cast<size_t>(c)] = '#';
    }
    const std::string first = life.first < 0 ? "in" : std::to_string(life.first);
    const std::string last = life.last < 0 ? "in" : life.last >= num_steps ? "out" : std::to_string(life.last);
    std::string name = life.name;
    if (name.size() > width) name = ".." + name.substr(name.size() - width + 2);
    text += strf("%10llu %10llu  %-11s  %-*s  %s\n", ull(life.offset), ull(life.bytes), (first + "-" + last).c_str(),
                 static_cast<int>(width), name.c_str(), bar.c_str());
  }
  return text;
}

std::string print_plan(const Plan& plan) {
  std::string text = strf("%zu profile%s, weights %zu bytes\n", plan.profiles.size(),
                          plan.profiles.size() == 1 ? "" : "s", plan.weights.size());
  for (const auto& [key, value] : plan.metadata) text += "meta " + quoted(key) + " = " + quoted(value) + "\n";
  for (size_t p = 0; p < plan.profiles.size(); ++p) {
    text += print_profile(plan.profiles[p], p);
    text += "  arena\n";
    const std::string map = print_arena_map(plan.profiles[p]);
    for (size_t begin = 0; begin < map.size();) {
      const size_t end = map.find('\n', begin);
      text += "  " + map.substr(begin, end - begin) + "\n";
      begin = end + 1;
    }
  }
  return text;
}

}  // namespace kiln
