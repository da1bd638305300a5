#include "compile/print_plan.h"

#include <algorithm>

#include "base/status.h"

namespace kiln {
namespace {

constexpr size_t kLongestValue = 200;

std::string tensor_text(const PlanProfile& profile, int32_t index) {
  if (index < 0) return "_";
  return profile.tensors[static_cast<size_t>(index)].name;
}

std::string type_text(const PlanTensor& tensor) { return dtype_name(tensor.dtype) + print_shape(tensor.shape); }

// Whether the elements do not follow each other without gaps.
bool is_view(const PlanTensor& tensor) {
  int64_t strides[kMaxRank];
  contiguous_strides(tensor.shape, strides);
  for (int i = 0; i < tensor.shape.rank; ++i) {
    if (tensor.shape[i] > 1 && tensor.strides[i] != strides[i]) return true;
  }
  return false;
}

std::string pad(std::string text, size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

// First and last step in which each tensor is used; inputs start at -1, outputs end at the number of steps.
struct Life {
  int first = INT32_MAX;
  int last = -1;
};

std::vector<Life> find_lives(const PlanProfile& profile) {
  std::vector<Life> lives(profile.tensors.size());
  const auto use = [&](int32_t tensor, int step) {
    if (tensor < 0) return;
    Life& life = lives[static_cast<size_t>(tensor)];
    life.first = std::min(life.first, step);
    life.last = std::max(life.last, step);
  };
  const int num_steps = static_cast<int>(profile.steps.size());
  for (const PlanIo& input : profile.inputs) use(input.tensor, -1);
  for (int s = 0; s < num_steps; ++s) {
    for (int32_t tensor : profile.steps[static_cast<size_t>(s)].inputs) use(tensor, s);
    for (int32_t tensor : profile.steps[static_cast<size_t>(s)].outputs) use(tensor, s);
  }
  for (const PlanIo& output : profile.outputs) use(output.tensor, num_steps);
  return lives;
}

}  // namespace

int64_t count_macs(const PlanProfile& profile) {
  int64_t macs = 0;
  for (const PlanStep& step : profile.steps) macs += step.macs;
  return macs;
}

std::string print_bytes(uint64_t bytes) {
  if (bytes < 1000) return strf("%llu B", static_cast<unsigned long long>(bytes));
  if (bytes < 1000000) return strf("%.1f KB", static_cast<double>(bytes) / 1e3);
  return strf("%.2f MB", static_cast<double>(bytes) / 1e6);
}

std::string print_count(int64_t count) {
  if (count < 1000000) return strf("%lld", static_cast<long long>(count));
  if (count < 1000000000) return strf("%.1f M", static_cast<double>(count) / 1e6);
  return strf("%.2f G", static_cast<double>(count) / 1e9);
}

std::string print_channels(const Pruning::Layer& layer) {
  return std::to_string(layer.channels) + " -> " + std::to_string(layer.channels - layer.removed);
}

std::string print_weights(const Plan& plan) {
  const std::string all = print_bytes(plan.weights.size() + plan.halves.size());
  return plan.halves.empty() ? all : all + " (" + print_bytes(plan.halves.size()) + " of it f16)";
}

std::string print_metadata(const Plan& plan) {
  std::string text;
  for (const auto& [key, value] : plan.metadata) {
    std::string line;
    for (const char c : value.substr(0, kLongestValue)) line += c == '\n' ? std::string(" | ") : std::string(1, c);
    text += "  " + key + ": " + line + (value.size() > kLongestValue ? "…" : "") + "\n";
  }
  return text.empty() ? text : "metadata:\n" + text;
}

std::string print_io(const PlanProfile& profile) {
  std::string text;
  const auto print = [&](const char* what, const std::vector<PlanIo>& list) {
    for (const PlanIo& io : list) {
      text += std::string(what) + io.name + " " + type_text(profile.tensors[static_cast<size_t>(io.tensor)]);
      text += (io.layout.empty() ? "" : " " + io.layout) + (io.batched ? " batched" : "") + "\n";
    }
  };
  print("  input  ", profile.inputs);
  print("  output ", profile.outputs);
  return text;
}

std::string print_steps(const PlanProfile& profile) {
  size_t kernel_width = 6, op_width = 2;
  for (const PlanStep& step : profile.steps) {
    kernel_width = std::max(kernel_width, step.kernel.size());
    op_width = std::max(op_width, step.op.size());
  }
  std::string text =
      "  step  " + pad("op", op_width) + "  " + pad("kernel", kernel_width) + "  MACs      node: reads -> writes\n";
  for (size_t s = 0; s < profile.steps.size(); ++s) {
    const PlanStep& step = profile.steps[s];
    text += strf("  %4zu  ", s) + pad(step.op, op_width) + "  " + pad(step.kernel, kernel_width) + "  " +
            pad(step.macs > 0 ? print_count(step.macs) : "-", 8) + "  " + step.name + ":";
    for (int32_t tensor : step.inputs) text += " " + tensor_text(profile, tensor);
    text += " ->";
    for (int32_t tensor : step.outputs) text += " " + tensor_text(profile, tensor);
    if (step.scratch_bytes > 0) text += ", scratch " + print_bytes(step.scratch_bytes);
    text += "\n";
  }
  return text;
}

std::string print_arena_map(const PlanProfile& profile) {
  const std::vector<Life> lives = find_lives(profile);
  std::vector<size_t> order;
  for (size_t i = 0; i < profile.tensors.size(); ++i) {
    if (profile.tensors[i].storage == Storage::kArena) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const PlanTensor& x = profile.tensors[a];
    const PlanTensor& y = profile.tensors[b];
    return x.offset != y.offset ? x.offset < y.offset
                                : (lives[a].first != lives[b].first ? lives[a].first < lives[b].first : a < b);
  });
  const int num_steps = static_cast<int>(profile.steps.size());
  std::string text = "  offset      bytes       steps        tensor\n";
  for (size_t i : order) {
    const PlanTensor& tensor = profile.tensors[i];
    const Life& life = lives[i];
    std::string steps = life.first > life.last ? "unused" : (life.first < 0 ? "in" : std::to_string(life.first));
    if (life.first <= life.last)
      steps += "-" + (life.last == num_steps ? std::string("out") : (life.last < 0 ? "in" : std::to_string(life.last)));
    text += "  " + pad(std::to_string(tensor.offset), 10) + "  " + pad(std::to_string(tensor.bytes), 10) + "  " +
            pad(steps, 11) + "  " + tensor.name + " " + type_text(tensor) + (is_view(tensor) ? " view" : "") + "\n";
  }
  return text;
}

std::string print_plan(const Plan& plan) {
  std::string text = print_metadata(plan) + "weights: " + print_weights(plan) + "\n";
  for (size_t p = 0; p < plan.profiles.size(); ++p) {
    const PlanProfile& profile = plan.profiles[p];
    text += strf("profile %zu: %zu steps, ", p, profile.steps.size()) + print_count(count_macs(profile)) +
            " MACs, arena " + print_bytes(profile.arena_bytes) + ", largest live set " +
            print_bytes(profile.peak_live_bytes) + "\n" + print_io(profile) + print_steps(profile) + "  arena:\n" +
            print_arena_map(profile);
  }
  return text;
}

}  // namespace kiln
