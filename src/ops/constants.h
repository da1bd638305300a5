// How shape rules read constant operands and attributes: vectors of numbers, axes.
#pragma once

#include <string>
#include <vector>

#include "ops/definition.h"

namespace kiln {

// The elements of a constant, converted.
inline std::vector<int64_t> constant_ints(const Tensor& tensor) {
  std::vector<int64_t> values(static_cast<size_t>(tensor.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = element_as_i64(tensor.dtype(), tensor.data(), static_cast<int64_t>(i));
  }
  return values;
}

inline std::vector<double> constant_floats(const Tensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = element_as_f64(tensor.dtype(), tensor.data(), static_cast<int64_t>(i));
  }
  return values;
}

// The integers of attribute `name`, or of constant input `i` if there is such an input; empty if neither is there or
// the input is not constant.
inline std::vector<int64_t> attr_or_input_ints(const NodeView& node, const char* name, int i) {
  if (const Tensor* tensor = node.constant(i)) return constant_ints(*tensor);
  return node.attr_ints(name);
}

inline std::string print_ints(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

// Makes axes positive. Reports and returns false if one is outside the rank or given twice.
inline bool normalize_axes(std::vector<int64_t>& axes, int rank, Inference& out, const char* name = "axes") {
  bool seen[kMaxRank] = {};
  for (int64_t& axis : axes) {
    int normal = 0;
    if (!normalize_axis(axis, rank, &normal) || seen[normal]) {
      out.invalid(name, print_ints(axes), strf("different axes within [-%d, %d)", rank, rank));
      return false;
    }
    seen[normal] = true;
    axis = normal;
  }
  return true;
}

// Sets the output's type; a tensor of 2^31 or more elements is refused.
inline void set_sized_output(Inference& out, int i, DType dtype, const Shape& shape) {
  const int64_t n = shape.num_elements();
  if (n < 0 || n > INT32_MAX) {
    out.unsupported("output shape", print_shape(shape), "fewer than 2^31 elements");
    return;
  }
  out.set_output(i, dtype, shape);
}

// A lowering that keeps only some inputs as operands (the others went into the parameters).
inline Status lower_to(const NodeView& node, Lowering& out, const char* kernel, ParamBytes params,
                       std::initializer_list<int> inputs) {
  out.kernel = kernel;
  out.params = std::move(params);
  for (int i : inputs) {
    if (i < node.num_inputs()) out.inputs.push_back({node.node().inputs[static_cast<size_t>(i)], nullptr});
  }
  out.outputs = node.node().outputs;
  return {};
}

}  // namespace kiln
