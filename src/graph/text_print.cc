#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/sha256.h"
#include "graph/text.h"

namespace kiln {
namespace {

bool is_bare(const std::string& name) {
  if (name.empty() || name == "_" || name.back() == ':') return false;
  for (const char c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::strchr("./:-_", c) == nullptr) return false;
  }
  return true;
}

std::string quote(const std::string& text, char mark) {
  std::string out(1, mark);
  for (const char c : text) {
    if (c == mark || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += strf("\\x%02x", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + mark;
}

std::string bare_or_quoted(const std::string& name) { return is_bare(name) ? name : quote(name, '"'); }

// A domain or an operator: '::' is what parts them.
std::string bare_or_quoted_part(const std::string& name) {
  return name.find("::") == std::string::npos ? bare_or_quoted(name) : quote(name, '"');
}

std::string print_float(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // The shortest form that reads back the same.
  std::string text;
  for (int precision = 6; precision <= digits; precision += digits - 6) {
    text = strf("%.*g", precision, value);
    if (digits == 9 ? std::strtof(text.c_str(), nullptr) == static_cast<float>(value)
                    : std::strtod(text.c_str(), nullptr) == value) {
      break;
    }
  }
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string print_element(const Tensor& tensor, int64_t i) {
  if (tensor.dtype() == DType::kF64) return print_float(tensor.as<double>()[i], 17);
  if (is_float(tensor.dtype())) return print_float(element_as_f64(tensor.dtype(), tensor.data(), i), 9);
  const int64_t value = element_as_i64(tensor.dtype(), tensor.data(), i);
  if (tensor.dtype() == DType::kU64) return strf("%llu", static_cast<unsigned long long>(value));
  return std::to_string(value);
}

bool is_splat(const Tensor& tensor) {
  const size_t item = dtype_bytes(tensor.dtype());
  return tensor.bytes() > item &&
         std::memcmp(tensor.data(), static_cast<const char*>(tensor.data()) + item, tensor.bytes() - item) == 0;
}

std::string print_elements(const Tensor& tensor, const PrintOptions& options) {
  const int64_t n = tensor.num_elements();
  if (n <= options.inline_elements) {
    std::string text = "{";
    for (int64_t i = 0; i < n; ++i) text += (i > 0 ? ", " : "") + print_element(tensor, i);
    return text + "}";
  }
  if (is_splat(tensor)) return "splat(" + print_element(tensor, 0) + ")";
  const auto* bytes = tensor.as<uint8_t>();
  return "sha256:" + sha256_hex({bytes, tensor.bytes()}).substr(0, 16);
}

std::string print_typed_name(const Graph& graph, ValueId id) {
  if (id == kNoValue) return "_";
  const Value& value = graph.value(id);
  const std::string name = print_value_name(graph, id);
  return value.dtype == DType::kInvalid ? name : name + ": " + print_type(value.dtype, value.shape);
}

int header_opset(const Graph& graph) {
  for (const Node& node : graph.nodes) {
    if (node.domain.empty()) return node.opset;
  }
  return 0;
}

std::string print_node(const Graph& graph, const Node& node, int default_opset, const PrintOptions& options) {
  std::string line;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    line += (i > 0 ? ", " : "") + print_typed_name(graph, node.outputs[i]);
  }
  line += " = ";
  if (!node.domain.empty()) line += bare_or_quoted_part(node.domain) + "::";
  line += bare_or_quoted_part(node.op);
  if (!node.domain.empty() || node.opset != default_opset) line += "@" + std::to_string(node.opset);
  line += "(";
  for (size_t i = 0; i < node.inputs.size(); ++i) line += (i > 0 ? ", " : "") + print_value_name(graph, node.inputs[i]);
  line += ")";
  for (const auto& [name, attr] : node.attrs) line += " " + bare_or_quoted(name) + "=" + print_attr(attr, options);
  if (!node.name.empty()) line += " " + quote(node.name, '\'');
  return line + "\n";
}

template <typename T, typename Print>
std::string print_list(const std::vector<T>& list, const char* empty, Print print) {
  if (list.empty()) return empty;
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) text += (i > 0 ? ", " : "") + print(list[i]);
  return text + "]";
}

struct AttrPrinter {
  const PrintOptions& options;
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(float value) const { return print_float(value, 9); }
  std::string operator()(const std::string& value) const { return quote(value, '"'); }
  std::string operator()(const std::vector<int64_t>& list) const {
    return print_list(list, "ints[]", [](int64_t value) { return std::to_string(value); });
  }
  std::string operator()(const std::vector<float>& list) const {
    return print_list(list, "floats[]", [](float value) { return print_float(value, 9); });
  }
  std::string operator()(const std::vector<std::string>& list) const {
    return print_list(list, "strings[]", [](const std::string& value) { return quote(value, '"'); });
  }
  std::string operator()(const TensorPtr& tensor) const {
    return print_type(tensor->dtype(), tensor->shape()) + print_elements(*tensor, options);
  }
};

}  // namespace

std::string print_value_name(const Graph& graph, ValueId id) {
  return id == kNoValue ? "_" : "%" + bare_or_quoted(graph.value(id).name);
}

std::string print_type(DType dtype, const Shape& shape) { return dtype_name(dtype) + print_shape(shape); }

std::string print_attr(const Attr& attr, const PrintOptions& options) { return std::visit(AttrPrinter{options}, attr); }

std::string print_graph(const Graph& graph, const PrintOptions& options) {
  const int opset = header_opset(graph);
  std::string text = "graph " + quote(graph.name, '"');
  text += opset > 0 ? strf(" opset %d\n", opset) : "\n";
  for (const auto& [key, value] : graph.metadata) text += "meta " + quote(key, '"') + " = " + quote(value, '"') + "\n";
  for (ValueId id : graph.inputs) text += "input " + print_typed_name(graph, id) + "\n";

  std::vector<bool> printed(graph.values.size(), false);
  const auto print_constant = [&](ValueId id) {
    if (!graph.is_constant(id) || printed[static_cast<size_t>(id)]) return;
    printed[static_cast<size_t>(id)] = true;
    text += "const " + print_typed_name(graph, id) + " = " + print_elements(*graph.value(id).constant, options) + "\n";
  };
  for (const Node& node : graph.nodes) {
    for (ValueId id : node.inputs) print_constant(id);
    text += print_node(graph, node, opset, options);
  }
  for (ValueId id : graph.outputs) print_constant(id);
  for (ValueId id : graph.outputs) text += "output " + print_value_name(graph, id) + "\n";
  return text;
}

}  // namespace kiln
