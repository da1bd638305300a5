#include "compile/json.h"

#include <cmath>
#include <cstdlib>

namespace kiln {
namespace {

// Bytes of the well-formed UTF-8 sequence at `text`, or 0 (Unicode 15, table 3-7).
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto is_tail = [&](size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xc2 && b <= 0xdf) return is_tail(1) ? 2 : 0;
  if (b >= 0xe0 && b <= 0xef) {
    if (b == 0xe0 && byte(1) < 0xa0) return 0;
    if (b == 0xed && byte(1) > 0x9f) return 0;
    return is_tail(1) && is_tail(2) ? 3 : 0;
  }
  if (b >= 0xf0 && b <= 0xf4) {
    if (b == 0xf0 && byte(1) < 0x90) return 0;
    if (b == 0xf4 && byte(1) > 0x8f) return 0;
    return is_tail(1) && is_tail(2) && is_tail(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const char c = text[0];
    if (length == 0)
      out += "\xef\xbf\xbd";
    else if (length > 1)
      out += text.substr(0, length);
    else if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += strf("\\u%04x", static_cast<unsigned>(c));
    else
      out += c;
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + "\"";
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  if (value == std::floor(value) && std::fabs(value) < 1e15) return strf("%.0f", value);
  for (int precision = 1; precision < 17; ++precision) {
    const std::string text = strf("%.*g", precision, value);
    if (std::strtod(text.c_str(), nullptr) == value) return text;
  }
  return strf("%.17g", value);
}

std::string json_strings(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) out += (out.size() > 1 ? "," : "") + json_string(text);
  return out + "]";
}

std::string json_ints(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

std::string json_problems(const std::vector<Problem>& problems) {
  std::string text = "[";
  for (size_t i = 0; i < problems.size(); ++i) {
    const Problem& problem = problems[i];
    text += i > 0 ? ",\n " : "";
    text += "{\"code\": " + json_string(code_name(problem.code)) + ", \"node\": " + json_string(problem.node) +
            ", \"op\": " + json_string(problem.op) + ", \"opset\": " + std::to_string(problem.opset) +
            ", \"attribute\": " + json_string(problem.attribute) + ", \"value\": " + json_string(problem.value) +
            ", \"supported\": " + json_string(problem.supported) + ", \"message\": " + json_string(problem.message) +
            "}";
  }
  return text + "]";
}

}  // namespace kiln
