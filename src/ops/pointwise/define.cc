#include <cmath>
#include <limits>

#include "ops/activation.h"
#include "ops/definition.h"
#include "ops/pointwise/pointwise.h"

namespace kiln::ops::pointwise {

void unary_any(const KernelArgs& args);
void binary_any(const KernelArgs& args);
void variadic_any(const KernelArgs& args);

namespace {

// Which element types an operator takes.
enum class Takes { kAnything, kNumbers, kSigned, kFloats, kUnsigned, kBool };

bool takes(Takes what, DType dtype) {
  switch (what) {
    case Takes::kAnything:
      return dtype != DType::kInvalid;
    case Takes::kNumbers:
      return is_float(dtype) || is_integer(dtype);
    case Takes::kSigned:
      return is_float(dtype) || (is_integer(dtype) && !is_unsigned(dtype));
    case Takes::kFloats:
      return is_float(dtype);
    case Takes::kUnsigned:
      return is_unsigned(dtype);
    case Takes::kBool:
      return dtype == DType::kBool;
  }
  return false;
}

const char* print_takes(Takes what) {
  static constexpr const char* kTexts[] = {"every dtype but strings",
                                           "f16, bf16, f32, f64, i8 to i64, u8 to u64",
                                           "f16, bf16, f32, f64, i8 to i64",
                                           "f16, bf16, f32, f64",
                                           "u8, u16, u32, u64",
                                           "bool"};
  return kTexts[static_cast<int>(what)];
}

bool check_takes(const NodeView& node, Inference& out, int input, Takes what) {
  if (!node.has_input(input) || takes(what, node.input_dtype(input))) return true;
  out.unsupported(strf("dtype of input '%s'", node.input(input).name.c_str()).c_str(),
                  dtype_name(node.input_dtype(input)), print_takes(what));
  return false;
}

struct UnaryRow {
  const char* name;
  UnaryOp op;
  Takes takes;
  const char* a_name = nullptr;  // attributes and their defaults
  float a = 0;
  const char* b_name = nullptr;
  float b = 0;
};

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr float kHighest = std::numeric_limits<float>::infinity();

constexpr UnaryRow kUnaryRows[] = {
    {"Identity", UnaryOp::kIdentity, Takes::kAnything},
    {"Dropout", UnaryOp::kIdentity, Takes::kAnything},
    {"Relu", UnaryOp::kRelu, Takes::kSigned},
    {"Clip", UnaryOp::kClip, Takes::kNumbers, "min", kLowest, "max", kHighest},
    {"Sigmoid", UnaryOp::kSigmoid, Takes::kFloats},
    {"Silu", UnaryOp::kSilu, Takes::kFloats},
    {"Tanh", UnaryOp::kTanh, Takes::kFloats},
    {"LeakyRelu", UnaryOp::kLeakyRelu, Takes::kFloats, "alpha", 0.01f},
    {"HardSigmoid", UnaryOp::kHardSigmoid, Takes::kFloats, "alpha", 0.2f, "beta", 0.5f},
    {"HardSwish", UnaryOp::kHardSwish, Takes::kFloats},
    {"Elu", UnaryOp::kElu, Takes::kFloats, "alpha", 1.0f},
    {"Selu", UnaryOp::kSelu, Takes::kFloats, "alpha", 1.67326319217681884765625f, "gamma", 1.05070102214813232421875f},
    {"Celu", UnaryOp::kCelu, Takes::kFloats, "alpha", 1.0f},
    {"ThresholdedRelu", UnaryOp::kThresholdedRelu, Takes::kFloats, "alpha", 1.0f},
    {"Softplus", UnaryOp::kSoftplus, Takes::kFloats},
    {"Softsign", UnaryOp::kSoftsign, Takes::kFloats},
    {"Gelu", UnaryOp::kGelu, Takes::kFloats},
    {"Mish", UnaryOp::kMish, Takes::kFloats},
    {"Erf", UnaryOp::kErf, Takes::kFloats},
    {"Exp", UnaryOp::kExp, Takes::kFloats},
    {"Log", UnaryOp::kLog, Takes::kFloats},
    {"Sqrt", UnaryOp::kSqrt, Takes::kFloats},
    {"Abs", UnaryOp::kAbs, Takes::kNumbers},
    {"Neg", UnaryOp::kNeg, Takes::kSigned},
    {"Reciprocal", UnaryOp::kReciprocal, Takes::kFloats},
    {"Floor", UnaryOp::kFloor, Takes::kFloats},
    {"Ceil", UnaryOp::kCeil, Takes::kFloats},
    {"Round", UnaryOp::kRound, Takes::kFloats},
    {"Sign", UnaryOp::kSign, Takes::kNumbers},
    {"Sin", UnaryOp::kSin, Takes::kFloats},
    {"Cos", UnaryOp::kCos, Takes::kFloats},
    {"Tan", UnaryOp::kTan, Takes::kFloats},
    {"Asin", UnaryOp::kAsin, Takes::kFloats},
    {"Acos", UnaryOp::kAcos, Takes::kFloats},
    {"Atan", UnaryOp::kAtan, Takes::kFloats},
    {"Sinh", UnaryOp::kSinh, Takes::kFloats},
    {"Cosh", UnaryOp::kCosh, Takes::kFloats},
    {"Asinh", UnaryOp::kAsinh, Takes::kFloats},
    {"Acosh", UnaryOp::kAcosh, Takes::kFloats},
    {"Atanh", UnaryOp::kAtanh, Takes::kFloats},
    {"Not", UnaryOp::kNot, Takes::kBool},
    {"IsNaN", UnaryOp::kIsNan, Takes::kFloats},
    {"IsInf", UnaryOp::kIsInf, Takes::kFloats},
};

const UnaryRow& unary_row(const NodeView& node) {
  for (const UnaryRow& row : kUnaryRows) {
    if (node.node().op == row.name) return row;
  }
  return kUnaryRows[0];  // not reached: definitions() lists these names
}

void infer_unary(const NodeView& node, Inference& out) {
  const UnaryRow& row = unary_row(node);
  if (!out.check_inputs(1, 1) || !check_takes(node, out, 0, row.takes)) return;
  if (row.op == UnaryOp::kGelu) {
    const std::string approximate = node.attr_string("approximate", "none");
    if (approximate != "none" && approximate != "tanh") out.invalid("approximate", approximate, "none or tanh");
  }
  const bool is_test = row.op == UnaryOp::kIsNan || row.op == UnaryOp::kIsInf;
  out.set_output(0, is_test ? DType::kBool : node.input_dtype(0), node.input_shape(0));
}

bool has_bound_inputs(const NodeView& node) { return node.opset() >= 11; }

void infer_clip(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, has_bound_inputs(node) ? 3 : 1) || !check_takes(node, out, 0, Takes::kNumbers)) return;
  for (int i = 1; i < node.num_inputs(); ++i) {
    if (!node.has_input(i)) continue;
    const char* bound = i == 1 ? "min" : "max";
    if (node.input_dtype(i) != node.input_dtype(0)) {
      out.invalid(bound, dtype_name(node.input_dtype(i)),
                  strf("dtype %s as the input", dtype_name(node.input_dtype(0))));
    }
    if (node.input_shape(i).num_elements() != 1) {
      out.invalid(bound, print_shape(node.input_shape(i)), "a scalar");
    }
  }
  out.set_output(0, node.input_dtype(0), node.input_shape(0));
}

// The first element of a constant; `fallback` if it is not constant or empty.
double constant_or(const Tensor* tensor, double fallback) {
  if (tensor == nullptr || tensor->num_elements() == 0) return fallback;
  return element_as_f64(tensor->dtype(), tensor->data(), 0);
}

void infer_dropout(const NodeView& node, Inference& out) {
  if (!out.check_inputs(1, node.opset() >= 12 ? 3 : 1) || !check_takes(node, out, 0, Takes::kFloats)) return;
  if (node.has_input(2)) {
    const Tensor* training = out.need_constant(2, "training_mode");
    if (training == nullptr) return;
    const bool is_training = constant_or(training, 0) != 0;
    if (is_training && (node.has_input(1) ? constant_or(node.constant(1), 1) : 0.5) != 0) {
      out.unsupported("training_mode", "1", "0, or a constant ratio of 0: export the model for inference");
      return;
    }
  }
  out.set_output(0, node.input_dtype(0), node.input_shape(0));
  if (node.has_output(1)) {
    out.set_output(1, node.opset() >= 10 ? DType::kBool : node.input_dtype(0), node.input_shape(0));
  }
}

// A bound of Clip: the constant input, or the attribute, or none.
float clip_bound(const NodeView& node, int input, const char* name, float fallback) {
  if (!has_bound_inputs(node)) return node.attr_float(name, fallback);
  const Tensor* bound = node.constant(input);
  return bound ? static_cast<float>(element_as_f64(bound->dtype(), bound->data(), 0)) : fallback;
}

ParamBytes unary_params(const NodeView& node) {
  const UnaryRow& row = unary_row(node);
  UnaryParams params;
  params.op = static_cast<int32_t>(row.op);
  if (row.a_name != nullptr) params.a = node.attr_float(row.a_name, row.a);
  if (row.b_name != nullptr) params.b = node.attr_float(row.b_name, row.b);
  if (row.op == UnaryOp::kClip) {
    params.a = clip_bound(node, 1, "min", kLowest);
    params.b = clip_bound(node, 2, "max", kHighest);
  } else if (row.op == UnaryOp::kIsInf) {
    params.a = static_cast<float>(node.attr_int("detect_positive", 1));
    params.b = static_cast<float>(node.attr_int("detect_negative", 1));
  } else if (row.op == UnaryOp::kGelu && node.attr_string("approximate", "none") == "tanh") {
    params.op = static_cast<int32_t>(UnaryOp::kGeluTanh);
  }
  return pack_params(params);
}

// One input suffices unless Clip has bounds that only the any kernel can read.
Status lower_unary(const NodeView& node, Lowering& out) {
  const UnaryRow& row = unary_row(node);
  const DType dtype = node.input_dtype(0);
  bool run_time_bounds = false;
  if (row.op == UnaryOp::kClip) {
    for (int i = 1; i < node.num_inputs(); ++i) {
      run_time_bounds = run_time_bounds || (node.has_input(i) && (node.constant(i) == nullptr || dtype != DType::kF32));
    }
  }
  const bool fast = dtype == DType::kF32 && has_vector_form(row.op) && !run_time_bounds && !node.has_output(1);
  out.kernel = fast ? "unary_f32" : "unary_any";
  out.params = unary_params(node);
  const int num_inputs = run_time_bounds ? node.num_inputs() : 1;
  for (int i = 0; i < num_inputs; ++i) out.inputs.push_back({node.node().inputs[static_cast<size_t>(i)], nullptr});
  out.outputs = node.node().outputs;
  if (!node.has_output(1)) out.outputs.resize(1);
  return {};
}

struct BinaryRow {
  const char* name;
  BinaryOp op;
  Takes takes;
  bool is_comparison = false;
};

constexpr BinaryRow kBinaryRows[] = {
    {"Add", BinaryOp::kAdd, Takes::kNumbers},
    {"Sub", BinaryOp::kSub, Takes::kNumbers},
    {"Mul", BinaryOp::kMul, Takes::kNumbers},
    {"Div", BinaryOp::kDiv, Takes::kNumbers},
    {"PRelu", BinaryOp::kPRelu, Takes::kNumbers},
    {"Pow", BinaryOp::kPow, Takes::kNumbers},
    {"Mod", BinaryOp::kMod, Takes::kNumbers},
    {"Equal", BinaryOp::kEqual, Takes::kAnything, true},
    {"Less", BinaryOp::kLess, Takes::kNumbers, true},
    {"LessOrEqual", BinaryOp::kLessOrEqual, Takes::kNumbers, true},
    {"Greater", BinaryOp::kGreater, Takes::kNumbers, true},
    {"GreaterOrEqual", BinaryOp::kGreaterOrEqual, Takes::kNumbers, true},
    {"And", BinaryOp::kAnd, Takes::kBool},
    {"Or", BinaryOp::kOr, Takes::kBool},
    {"Xor", BinaryOp::kXor, Takes::kBool},
    {"BitShift", BinaryOp::kShiftLeft, Takes::kUnsigned},
    {"Max", BinaryOp::kMax, Takes::kNumbers},
    {"Min", BinaryOp::kMin, Takes::kNumbers},
    {"Sum", BinaryOp::kAdd, Takes::kNumbers},
    {"Mean", BinaryOp::kMean, Takes::kFloats},
};

const BinaryRow& binary_row(const NodeView& node) {
  for (const BinaryRow& row : kBinaryRows) {
    if (node.node().op == row.name) return row;
  }
  return kBinaryRows[0];  // not reached: definitions() lists these names
}

// Broadcasts input i into `shape`; the first input starts it.
bool broadcast_input(const NodeView& node, Inference& out, int i, Shape* shape) {
  if (i == 0) {
    *shape = node.input_shape(0);
    return true;
  }
  if (broadcast_shapes(*shape, node.input_shape(i), shape)) return true;
  const bool is_legacy = node.opset() < 7 && (node.has_attr("axis") || node.attr_int("broadcast", 0) != 0);
  if (is_legacy) {
    out.unsupported("broadcast", "1 of opset 6 and older", "NumPy broadcasting; convert the model to opset 7 or newer");
  } else {
    out.invalid("shape of input", print_shape(node.input_shape(i)), "one that broadcasts with " + print_shape(*shape));
  }
  return false;
}

void infer_binary(const NodeView& node, Inference& out) {
  const BinaryRow& row = binary_row(node);
  if (!out.check_inputs(2, 2)) return;
  if (!check_takes(node, out, 0, row.takes) || !check_takes(node, out, 1, row.takes)) return;
  const DType dtype = node.input_dtype(0);
  if (node.input_dtype(1) != dtype && row.op != BinaryOp::kPow) {
    out.invalid("dtype of input 1", dtype_name(node.input_dtype(1)), strf("%s as input 0", dtype_name(dtype)));
    return;
  }
  if (node.opset() < 7 && node.attr_int("axis", 0) != 0) {
    out.unsupported("axis", std::to_string(node.attr_int("axis", 0)),
                    "NumPy broadcasting; convert the model to opset 7 or newer");
    return;
  }
  if (row.op == BinaryOp::kMod && is_float(dtype) && node.attr_int("fmod", 0) == 0) {
    out.invalid("fmod", "0", "1 for floats");
  }
  if (row.op == BinaryOp::kShiftLeft) {
    const std::string direction = node.attr_string("direction", "");
    if (direction != "LEFT" && direction != "RIGHT") out.invalid("direction", direction, "LEFT or RIGHT");
  }
  Shape shape;
  if (!broadcast_input(node, out, 0, &shape) || !broadcast_input(node, out, 1, &shape)) return;
  if (row.op == BinaryOp::kPRelu && !(shape == node.input_shape(0))) {
    out.invalid("slope", print_shape(node.input_shape(1)),
                "a shape that broadcasts to " + print_shape(node.input_shape(0)));
    return;
  }
  out.set_output(0, row.is_comparison ? DType::kBool : dtype, shape);
}

void infer_variadic(const NodeView& node, Inference& out) {
  const BinaryRow& row = binary_row(node);
  if (node.num_inputs() < 1) {
    out.invalid("number of inputs", "0", "1 or more");
    return;
  }
  if (!out.check_inputs(node.num_inputs(), node.num_inputs())) return;
  Shape shape;
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (!check_takes(node, out, i, row.takes)) return;
    if (node.input_dtype(i) != node.input_dtype(0)) {
      out.invalid(strf("dtype of input %d", i).c_str(), dtype_name(node.input_dtype(i)),
                  strf("%s as input 0", dtype_name(node.input_dtype(0))));
      return;
    }
    if (!broadcast_input(node, out, i, &shape)) return;
  }
  out.set_output(0, node.input_dtype(0), shape);
}

ParamBytes binary_params(const NodeView& node) {
  BinaryParams params;
  BinaryOp op = binary_row(node).op;
  if (op == BinaryOp::kMod && node.attr_int("fmod", 0) != 0) op = BinaryOp::kFmod;
  if (op == BinaryOp::kShiftLeft && node.attr_string("direction", "") == "RIGHT") op = BinaryOp::kShiftRight;
  params.op = static_cast<int32_t>(op);
  params.activation = read_activation(node.node());
  return pack_params(params);
}

Status lower_as_unary(const NodeView& node, UnaryOp op, Lowering& out) {
  UnaryParams params;
  params.op = static_cast<int32_t>(op);
  out.kernel = node.input_dtype(0) == DType::kF32 ? "unary_f32" : "unary_any";
  out.params = pack_params(params);
  out.inputs = {{node.node().inputs[0], nullptr}};
  out.outputs = node.node().outputs;
  return {};
}

Status lower_binary(const NodeView& node, Lowering& out) {
  const BinaryOp op = binary_row(node).op;
  const bool all_f32 = node.input_dtype(0) == DType::kF32 && node.input_dtype(1) == DType::kF32;
  out.outputs = node.node().outputs;
  if (op == BinaryOp::kPow && node.input_dtype(0) == DType::kF32 && node.constant(1) != nullptr &&
      node.constant(1)->num_elements() == 1 && node.input_shape(0) == node.output(0).shape &&
      !node.has_attr("activation")) {
    const double exponent = element_as_f64(node.input_dtype(1), node.constant(1)->data(), 0);
    if (exponent == 1) return lower_as_unary(node, UnaryOp::kIdentity, out);
    if (exponent == 3) return lower_as_unary(node, UnaryOp::kCube, out);
    if (exponent == -1) return lower_as_unary(node, UnaryOp::kReciprocal, out);
    if (exponent == 2) {
      BinaryParams params;
      params.op = static_cast<int32_t>(BinaryOp::kMul);
      out.kernel = "binary_f32";
      out.params = pack_params(params);
      out.inputs = {{node.node().inputs[0], nullptr}, {node.node().inputs[0], nullptr}};
      return {};
    }
  }
  out.kernel = all_f32 && has_vector_form(op) ? "binary_f32" : "binary_any";
  out.params = binary_params(node);
  out.inputs = {{node.node().inputs[0], nullptr}, {node.node().inputs[1], nullptr}};
  return {};
}

Status lower_variadic(const NodeView& node, Lowering& out) {
  const BinaryOp op = binary_row(node).op;
  if (node.num_inputs() == 1 && !node.has_attr("activation")) return lower_as_unary(node, UnaryOp::kIdentity, out);
  const bool fast = node.input_dtype(0) == DType::kF32 && has_vector_form(op) && node.num_inputs() > 1;
  out.kernel = fast ? "binary_f32" : "variadic_any";
  out.params = binary_params(node);
  for (ValueId id : node.node().inputs) out.inputs.push_back({id, nullptr});
  out.outputs = node.node().outputs;
  return {};
}

constexpr OpDef unary(const char* op, const char* summary, const char* domain = "",
                      void (*infer)(const NodeView&, Inference&) = infer_unary) {
  return {op, domain, 1, summary, infer, unary_params, unary_any, nullptr, lower_unary, true};
}

constexpr OpDef binary(const char* op, const char* summary) {
  return {op, "", 1, summary, infer_binary, binary_params, binary_any, nullptr, lower_binary, true};
}

constexpr OpDef variadic(const char* op, const char* summary) {
  return {op, "", 1, summary, infer_variadic, binary_params, variadic_any, nullptr, lower_variadic, true};
}

}  // namespace

std::span<const OpDef> definitions() {
  static constexpr OpDef kDefs[] = {
      unary("Identity", "y = x; every dtype"),
      unary("Dropout", "y = x, mask all true; not in training_mode, but with ratio 0; floats", "", infer_dropout),
      unary("Relu", "y = max(x, 0); floats, signed integers"),
      unary("Clip", "y = min(max(x, min), max), either bound missing, constant or not; floats, integers", "",
            infer_clip),
      unary("Sigmoid", "y = 1 / (1 + e^-x); floats"),
      unary("Silu", "y = x * sigmoid(x); floats", "kiln"),
      unary("Tanh", "y = tanh(x); floats"),
      unary("LeakyRelu", "y = x < 0 ? alpha * x : x; floats"),
      unary("HardSigmoid", "y = max(0, min(1, alpha * x + beta)); floats"),
      unary("HardSwish", "y = x * max(0, min(1, x / 6 + 0.5)); floats"),
      unary("Elu", "y = x < 0 ? alpha * (e^x - 1) : x; floats"),
      unary("Selu", "y = gamma * (x <= 0 ? alpha * (e^x - 1) : x); floats"),
      unary("Celu", "y = max(0, x) + min(0, alpha * (e^(x / alpha) - 1)); floats"),
      unary("ThresholdedRelu", "y = x > alpha ? x : 0; floats"),
      unary("Softplus", "y = log(1 + e^x); floats"),
      unary("Softsign", "y = x / (1 + |x|); floats"),
      unary("Gelu", "y = x / 2 * (1 + erf(x / sqrt 2)), or its tanh form by approximate; floats"),
      unary("Gelu", "y = x / 2 * (1 + erf(x / sqrt 2)); floats", "com.microsoft"),
      unary("Mish", "y = x * tanh(log(1 + e^x)); floats"),
      unary("Erf", "y = erf(x); floats"),
      unary("Exp", "y = e^x; floats"),
      unary("Log", "y = log(x); floats"),
      unary("Sqrt", "y = sqrt(x); floats"),
      unary("Abs", "y = |x|; floats, integers"),
      unary("Neg", "y = -x; floats, signed integers"),
      unary("Reciprocal", "y = 1 / x; floats"),
      unary("Floor", "y = floor(x); floats"),
      unary("Ceil", "y = ceil(x); floats"),
      unary("Round", "y = x rounded, halves to even; floats"),
      unary("Sign", "y = -1, 0 or 1; floats, integers"),
      unary("Sin", "y = sin(x); floats"),
      unary("Cos", "y = cos(x); floats"),
      unary("Tan", "y = tan(x); floats"),
      unary("Asin", "y = asin(x); floats"),
      unary("Acos", "y = acos(x); floats"),
      unary("Atan", "y = atan(x); floats"),
      unary("Sinh", "y = sinh(x); floats"),
      unary("Cosh", "y = cosh(x); floats"),
      unary("Asinh", "y = asinh(x); floats"),
      unary("Acosh", "y = acosh(x); floats"),
      unary("Atanh", "y = atanh(x); floats"),
      unary("Not", "y = !x; bool"),
      unary("IsNaN", "y = x is NaN; floats to bool"),
      unary("IsInf", "y = x is infinite, by detect_positive, detect_negative; floats to bool"),
      binary("Add", "y = a + b, NumPy broadcasting; floats, integers (wrapping); a fused activation"),
      binary("Sub", "y = a - b, NumPy broadcasting; floats, integers (wrapping); a fused activation"),
      binary("Mul", "y = a * b, NumPy broadcasting; floats, integers (wrapping); a fused activation"),
      binary("Div", "y = a / b, NumPy broadcasting; floats, integers (truncating, x / 0 = 0); a fused activation"),
      binary("PRelu", "y = x < 0 ? slope * x : x, slope broadcast to x; floats, integers"),
      binary("Pow", "y = a ^ b, NumPy broadcasting, dtypes may differ; floats, integers"),
      binary("Mod", "y = a mod b: sign of b, or of a with fmod = 1 (which floats need); floats, integers"),
      binary("Equal", "y = a == b, NumPy broadcasting; every dtype to bool"),
      binary("Less", "y = a < b, NumPy broadcasting; floats, integers to bool"),
      binary("LessOrEqual", "y = a <= b, NumPy broadcasting; floats, integers to bool"),
      binary("Greater", "y = a > b, NumPy broadcasting; floats, integers to bool"),
      binary("GreaterOrEqual", "y = a >= b, NumPy broadcasting; floats, integers to bool"),
      binary("And", "y = a && b, NumPy broadcasting; bool"),
      binary("Or", "y = a || b, NumPy broadcasting; bool"),
      binary("Xor", "y = a != b, NumPy broadcasting; bool"),
      binary("BitShift", "y = a << b or a >> b by direction, NumPy broadcasting; unsigned integers"),
      variadic("Max", "y = max(x_0, x_1, …), NumPy broadcasting, NaN wins; floats, integers"),
      variadic("Min", "y = min(x_0, x_1, …), NumPy broadcasting, NaN wins; floats, integers"),
      variadic("Sum", "y = x_0 + x_1 + …, NumPy broadcasting; floats, integers"),
      variadic("Mean", "y = (x_0 + x_1 + …) / n, NumPy broadcasting; floats"),
  };
  return kDefs;
}

}  // namespace kiln::ops::pointwise
