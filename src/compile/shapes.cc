#include "compile/shapes.h"

#include <algorithm>

#include "compile/source_metadata.h"

namespace kiln {
namespace {

struct Resolver {
  const ImportedModel& model;
  const CompileOptions& options;
  ProfileShapes result;
  int complaints = 0;  // calls of problem(), of which each message is kept once

  void problem(const std::string& input, const std::string& value, const std::string& supported,
               const std::string& message) {
    ++complaints;
    for (const Problem& old : result.problems) {
      if (old.message == message) return;
    }
    Problem added;
    added.code = Code::kShape;
    added.attribute = input.empty() ? "--input-shape" : "input " + input;
    added.value = value;
    added.supported = supported;
    added.message = message;
    result.problems.push_back(std::move(added));
  }

  void notice(const std::string& text) {
    if (std::find(result.notices.begin(), result.notices.end(), text) == result.notices.end()) {
      result.notices.push_back(text);
    }
  }

  bool rank_is_known(const std::string& input) const { return model.dim_names.count(input) > 0; }

  std::string dim_name(const std::string& input, int axis) const {
    const auto found = model.dim_names.find(input);
    if (found == model.dim_names.end() || static_cast<size_t>(axis) >= found->second.size()) return {};
    return found->second[static_cast<size_t>(axis)];
  }

  // "[N, 3, height, ?]"
  std::string print_named(const std::string& input, const Shape& shape) const {
    std::string text = "[";
    for (int i = 0; i < shape.rank; ++i) {
      const std::string name = dim_name(input, i);
      text += i > 0 ? ", " : "";
      text += shape[i] >= 0 ? std::to_string(shape[i]) : (name.empty() ? "?" : name);
    }
    return text + "]";
  }

  std::string input_names() const {
    std::string names;
    for (ValueId id : model.graph.inputs) names += (names.empty() ? "'" : ", '") + model.graph.value(id).name + "'";
    return names.empty() ? "none" : names;
  }

  void run() {
    std::vector<std::vector<InputShapeFlag>> flags = options.profiles;
    if (flags.empty()) flags.emplace_back();
    std::vector<int64_t> batches = options.dynamic_batch;
    if (batches.empty()) batches.push_back(kUnknownDim);
    std::vector<std::pair<int64_t, int64_t>> sizes = options.dynamic_size;
    if (sizes.empty()) sizes.emplace_back(kUnknownDim, kUnknownDim);
    if (flags.size() * batches.size() * sizes.size() > kMaxProfiles) {
      problem("", std::to_string(flags.size() * batches.size() * sizes.size()), std::to_string(kMaxProfiles),
              strf("%zu profiles are asked for; supported: up to %zu", flags.size() * batches.size() * sizes.size(),
                   kMaxProfiles));
      return;
    }
    for (const auto& flag : flags) {
      for (const int64_t batch : batches) {
        for (const auto& size : sizes) add_profile(flag, batch, size.first, size.second);
      }
    }
  }

  void add_profile(const std::vector<InputShapeFlag>& flags, int64_t batch, int64_t height, int64_t width) {
    InputShapes shapes;
    for (ValueId id : model.graph.inputs) shapes[model.graph.value(id).name] = model.graph.value(id).shape;
    std::map<std::string, bool> flagged;
    const int old_complaints = complaints;
    for (const InputShapeFlag& flag : flags) apply_flag(flag, shapes, flagged);
    if (batch != kUnknownDim) fill_batch(batch, shapes);
    if (height != kUnknownDim) fill_size(height, width, shapes);
    share_named_dims(shapes);
    // After a flag that does not fit, dims that it may have meant are no problem of their own.
    const bool flags_fit = complaints == old_complaints;
    for (ValueId id : model.graph.inputs) {
      const Value& input = model.graph.value(id);
      if (input.dtype == DType::kInvalid || !flags_fit) continue;  // reported already
      finish_input(input.name, shapes[input.name], flagged[input.name]);
    }
    if (std::find(result.profiles.begin(), result.profiles.end(), shapes) == result.profiles.end()) {
      result.profiles.push_back(std::move(shapes));
    }
  }

  void apply_flag(const InputShapeFlag& flag, InputShapes& shapes, std::map<std::string, bool>& flagged) {
    std::string name = flag.input;
    if (name.empty() && model.graph.inputs.size() == 1) name = model.graph.value(model.graph.inputs[0]).name;
    const auto found = shapes.find(name);
    if (found == shapes.end()) {
      problem("", name, input_names(),
              name.empty()
                  ? "--input-shape needs the name of an input: " + input_names()
                  : "--input-shape names '" + name + "', which is no input of the model; its inputs: " + input_names());
      return;
    }
    flagged[name] = true;
    Shape& shape = found->second;
    if (!rank_is_known(name)) {
      shape = flag.shape;
      return;
    }
    if (shape.rank != flag.shape.rank) {
      problem(name, print_shape(flag.shape), print_named(name, shape),
              "--input-shape " + name +
                  strf(" gives %d dims, but the model's input has %d: ", flag.shape.rank, shape.rank) +
                  print_named(name, shape));
      return;
    }
    for (int i = 0; i < shape.rank; ++i) {
      if (flag.shape[i] < 0 || flag.shape[i] == shape[i]) continue;
      if (shape[i] >= 0) {
        problem(name, std::to_string(flag.shape[i]), std::to_string(shape[i]),
                "--input-shape " + name +
                    strf(": dim %d is %lld, but the model fixes it at %lld; its input is ", i,
                         static_cast<long long>(flag.shape[i]), static_cast<long long>(shape[i])) +
                    print_named(name, shape));
        return;
      }
      shape[i] = flag.shape[i];
    }
  }

  void fill_batch(int64_t batch, InputShapes& shapes) {
    bool any = false;
    for (auto& [name, shape] : shapes) {
      if (shape.rank < 1 || shape[0] >= 0) continue;
      shape[0] = batch;
      any = true;
    }
    if (!any)
      problem("", "--dynamic-batch", "a free dim 0",
              "--dynamic-batch: no input has a free batch dim (dim 0)" + all_shapes());
  }

  void fill_size(int64_t height, int64_t width, InputShapes& shapes) {
    bool any = false;
    for (auto& [name, shape] : shapes) {
      std::vector<int> free;
      for (int i = 1; i < shape.rank; ++i) {
        if (shape[i] < 0) free.push_back(i);
      }
      if (shape.rank != 4 || free.size() != 2) continue;
      shape[free[0]] = height;
      shape[free[1]] = width;
      any = true;
    }
    if (!any) {
      problem("", "--dynamic-size", "two free dims of a 4-D input",
              "--dynamic-size: no 4-D input has two free dims (height, width)" + all_shapes());
    }
  }

  std::string all_shapes() const {
    std::string text;
    for (ValueId id : model.graph.inputs) {
      const Value& input = model.graph.value(id);
      text += (text.empty() ? "; inputs: '" : ", '") + input.name + "' " + print_named(input.name, input.shape);
    }
    return text;
  }

  // Dims of the same name are the same number.
  void share_named_dims(InputShapes& shapes) {
    std::map<std::string, int64_t> numbers;
    for (const auto& [name, shape] : shapes) {
      for (int i = 0; i < shape.rank; ++i) {
        const std::string dim = dim_name(name, i);
        if (dim.empty() || shape[i] < 0) continue;
        const auto [found, is_new] = numbers.emplace(dim, shape[i]);
        if (is_new || found->second == shape[i]) continue;
        problem(name, std::to_string(shape[i]), std::to_string(found->second),
                "dim '" + dim +
                    strf("' is %lld in one input and %lld in input '%s'", static_cast<long long>(found->second),
                         static_cast<long long>(shape[i]), name.c_str()));
      }
    }
    for (auto& [name, shape] : shapes) {
      for (int i = 0; i < shape.rank; ++i) {
        const auto found = numbers.find(dim_name(name, i));
        if (shape[i] < 0 && found != numbers.end() && !found->first.empty()) shape[i] = found->second;
      }
    }
  }

  void finish_input(const std::string& name, Shape& shape, bool flagged) {
    if (!rank_is_known(name) && !flagged) {
      problem(name, "no shape", "a shape",
              "input '" + name + "' has no shape in the model: add --input-shape " + name + ":DIM,DIM,…");
      return;
    }
    bool free = false;
    for (int i = shape.rank == 1 ? 0 : 1; i < shape.rank; ++i) free = free || shape[i] < 0;
    if (free) {
      problem(name, print_named(name, shape), "static dims",
              "input '" + name + "' " + print_named(name, shape) + " has free dims: add --input-shape " +
                  suggestion(name, shape));
      return;
    }
    if (shape.rank > 1 && shape[0] < 0) {
      const std::string before = print_named(name, shape);
      shape[0] = 1;
      notice("input '" + name + "' " + before + ": the batch is free and was not set, 1 is used (--input-shape " +
             flag_text(name, shape) + " or --dynamic-batch says otherwise)");
    }
    if (shape.num_elements() < 0 || shape.num_elements() > INT32_MAX) {
      problem(name, print_shape(shape), "less than 2^31 elements",
              "input '" + name + "' " + print_shape(shape) + " is too large");
    }
  }

  static std::string flag_text(const std::string& name, const Shape& shape) {
    std::string text = name + ":";
    for (int i = 0; i < shape.rank; ++i) text += (i > 0 ? "," : "") + std::to_string(shape[i]);
    return text;
  }

  // The flag with the size that the exporter noted, or with the names of the free dims to replace.
  std::string suggestion(const std::string& name, const Shape& shape) const {
    Shape filled = shape;
    if (filled.rank > 1 && filled[0] < 0) filled[0] = 1;
    std::vector<int> free;
    for (int i = 0; i < filled.rank; ++i) {
      if (filled[i] < 0) free.push_back(i);
    }
    const std::vector<int64_t> imgsz = exported_image_size(model.graph.metadata);
    if (shape.rank == 4 && free.size() == 2 && imgsz.size() == 2) {
      filled[free[0]] = imgsz[0];
      filled[free[1]] = imgsz[1];
      return flag_text(name, filled);
    }
    std::string text = name + ":";
    std::string names;
    for (int i = 0; i < filled.rank; ++i) {
      text += i > 0 ? "," : "";
      if (filled[i] >= 0) {
        text += std::to_string(filled[i]);
        continue;
      }
      std::string dim = dim_name(name, i);
      if (dim.empty()) dim = strf("D%d", i);
      text += dim;
      names += (names.empty() ? "" : ", ") + dim;
    }
    return text + " with a number in place of " + names;
  }
};

}  // namespace

ProfileShapes resolve_shapes(const ImportedModel& model, const CompileOptions& options) {
  Resolver resolver{model, options, {}, 0};
  resolver.run();
  return std::move(resolver.result);
}

}  // namespace kiln
