#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "graph/text.h"

namespace kiln {
namespace {

constexpr int64_t kMaxConstantElements = int64_t{1} << 28;

// Reads one line after the other; the first mistake is kept and everything after it is skipped.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Graph> parse() {
    while (!at_end() && peek() == '\n') ++position_;
    if (!accept_word("graph")) fail("expected: graph \"name\" [opset N]");
    graph_.name = string('"');
    if (accept_word("opset")) opset_ = static_cast<int>(integer());
    end_line();
    while (ok() && !at_end()) {
      statement();
      end_line();
    }
    if (!ok()) return error_;
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      if (!defined_[i]) {
        return Status(Code::kInvalidArgument,
                      "graph text: '" + graph_.values[i].name + "' is used but no input, const or node defines it");
      }
    }
    KILN_TRY(sort_nodes(graph_));
    return std::move(graph_);
  }

 private:
  bool ok() const { return error_.ok(); }

  void fail(const std::string& message) {
    if (ok()) {
      size_t line = 1;
      for (size_t i = 0; i < position_ && i < text_.size(); ++i) line += text_[i] == '\n';
      error_ = Status(Code::kInvalidArgument, strf("graph text, line %zu: ", line) + message);
    }
    position_ = text_.size();
  }

  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  void skip_blanks() {
    while (position_ < text_.size()) {
      const char c = text_[position_];
      if (c == '#') {
        while (position_ < text_.size() && text_[position_] != '\n') ++position_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++position_;
      } else {
        return;
      }
    }
  }

  bool at_end() {
    skip_blanks();
    return position_ >= text_.size();
  }

  void end_line() {
    skip_blanks();
    if (position_ < text_.size() && peek() != '\n') fail("unexpected '" + std::string(rest_of_line()) + "'");
    while (!at_end() && peek() == '\n') ++position_;
  }

  std::string_view rest_of_line() const {
    const size_t end = text_.find('\n', position_);
    return text_.substr(position_,
                        std::min<size_t>(40, (end == std::string_view::npos ? text_.size() : end) - position_));
  }

  bool accept(char c) {
    skip_blanks();
    if (peek() != c) return false;
    ++position_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(std::string("expected '") + c + "' before '" + std::string(rest_of_line()) + "'");
  }

  static bool is_bare(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || (c != '\0' && std::strchr("./:-_", c) != nullptr);
  }

  // A word of letters only, if it is the next thing.
  bool accept_word(const char* word) {
    skip_blanks();
    const size_t length = std::strlen(word);
    if (text_.substr(position_, length) != word) return false;
    if (position_ + length < text_.size() && is_bare(text_[position_ + length])) return false;
    position_ += length;
    return true;
  }

  std::string string(char mark) {
    expect(mark);
    std::string out;
    while (ok()) {
      const char c = peek();
      if (position_ >= text_.size() || c == '\n') {
        fail("the text has no closing quote");
        break;
      }
      ++position_;
      if (c == mark) break;
      if (c != '\\') {
        out += c;
        continue;
      }
      const char escaped = peek();
      position_ = std::min(position_ + 1, text_.size());
      if (escaped == 'n')
        out += '\n';
      else if (escaped == 't')
        out += '\t';
      else if (escaped == 'x') {
        out += static_cast<char>(std::strtoul(std::string(text_.substr(position_, 2)).c_str(), nullptr, 16));
        position_ += 2;
      } else {
        out += escaped;
      }
      position_ = std::min(position_, text_.size());
    }
    return out;
  }

  // A bare or quoted name; `stop` ends a bare one early. A colon at its end belongs to the type behind it.
  std::string name(const char* stop = "") {
    skip_blanks();
    if (peek() == '"') return string('"');
    const size_t begin = position_;
    const auto stops = [&] { return *stop != '\0' && text_.substr(position_, std::strlen(stop)) == stop; };
    while (position_ < text_.size() && is_bare(peek()) && !stops()) ++position_;
    if (position_ > begin && text_[position_ - 1] == ':') --position_;
    if (position_ == begin) fail("expected a name before '" + std::string(rest_of_line()) + "'");
    return std::string(text_.substr(begin, position_ - begin));
  }

  int64_t integer() {
    const std::string word = number_word();
    char* end = nullptr;
    const long long value = std::strtoll(word.c_str(), &end, 10);
    if (ok() && (word.empty() || *end != '\0')) fail("expected an integer, got '" + word + "'");
    return value;
  }

  std::string number_word() {
    skip_blanks();
    const size_t begin = position_;
    while (position_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(peek())) || std::strchr("+-.", peek()))) {
      ++position_;
    }
    if (position_ == begin) fail("expected a number before '" + std::string(rest_of_line()) + "'");
    return std::string(text_.substr(begin, position_ - begin));
  }

  static bool is_integer_word(const std::string& word) {
    return word.find_first_not_of("+-0123456789") == std::string::npos;
  }

  double real(const std::string& word) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (ok() && *end != '\0') fail("expected a number, got '" + word + "'");
    return value;
  }

  void store(Tensor& tensor, int64_t index, const std::string& word) {
    if (is_float(tensor.dtype())) {
      store_f64(tensor.dtype(), tensor.data(), index, real(word));
    } else if (tensor.dtype() == DType::kU64) {
      store_i64(tensor.dtype(), tensor.data(), index, static_cast<int64_t>(std::strtoull(word.c_str(), nullptr, 10)));
    } else if (!is_integer_word(word)) {
      fail("expected an integer, got '" + word + "'");
    } else {
      store_i64(tensor.dtype(), tensor.data(), index, std::strtoll(word.c_str(), nullptr, 10));
    }
  }

  ValueId value_id(const std::string& value_name) {
    const auto found = by_name_.find(value_name);
    if (found != by_name_.end()) return found->second;
    const ValueId id = graph_.add_value(value_name);
    by_name_[value_name] = id;
    defined_.push_back(false);
    return id;
  }

  ValueId operand() {
    skip_blanks();
    if (accept_word("_")) return kNoValue;
    expect('%');
    return ok() ? value_id(name()) : kNoValue;
  }

  bool type(DType* dtype, Shape* shape) {
    const std::string word = number_word();
    *dtype = parse_dtype(word.c_str());
    if (*dtype == DType::kInvalid) {
      fail("unknown dtype '" + word + "'");
      return false;
    }
    expect('[');
    *shape = {};
    while (ok() && !accept(']')) {
      if (shape->rank > 0) expect(',');
      if (shape->rank == kMaxRank) {
        fail(strf("more than %d dims", kMaxRank));
        return false;
      }
      shape->push_back(accept('?') ? kUnknownDim : integer());
      if (ok() && shape->dims[shape->rank - 1] < kUnknownDim) fail("negative dim");
    }
    return ok();
  }

  // {…}, splat(v), random(seed[, lo, hi]) for a tensor of the given type.
  TensorPtr elements(DType dtype, const Shape& shape) {
    const int64_t n = shape.num_elements();
    if (dtype == DType::kInvalid) {
      fail("a constant needs its type");
      return nullptr;
    }
    if (n < 0 || n > kMaxConstantElements) {
      fail("a constant of shape " + print_shape(shape) + " is not possible");
      return nullptr;
    }
    auto tensor = std::make_shared<Tensor>(dtype, shape);
    if (accept('{')) {
      int64_t count = 0;
      while (ok() && !accept('}')) {
        if (count > 0) expect(',');
        const std::string word = number_word();
        if (ok() && count < n) store(*tensor, count, word);
        ++count;
      }
      if (ok() && count != n)
        fail(strf("%lld elements for shape ", static_cast<long long>(count)) + print_shape(shape));
    } else if (accept_word("splat")) {
      expect('(');
      const std::string word = number_word();
      for (int64_t i = 0; ok() && i < n; ++i) store(*tensor, i, word);
      expect(')');
    } else if (accept_word("random")) {
      expect('(');
      const auto seed = static_cast<uint64_t>(integer());
      double lo = -1, hi = 1;
      if (accept(',')) {
        lo = real(number_word());
        expect(',');
        hi = real(number_word());
      }
      expect(')');
      fill_random(*tensor, seed, lo, hi);
    } else {
      fail("expected {…}, splat(v) or random(seed) before '" + std::string(rest_of_line()) + "'");
    }
    return tensor;
  }

  // SplitMix64 (Steele, Lea, Flood 2014), as tests/support has it.
  static void fill_random(Tensor& tensor, uint64_t seed, double lo, double hi) {
    for (int64_t i = 0; i < tensor.num_elements(); ++i) {
      uint64_t z = (seed += 0x9e3779b97f4a7c15u);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      z ^= z >> 31;
      store_f64(tensor.dtype(), tensor.data(), i, lo + static_cast<double>(z >> 11) * 0x1p-53 * (hi - lo));
    }
  }

  Attr attr() {
    skip_blanks();
    if (peek() == '"') return string('"');
    if (peek() == '[') return list();
    if (accept_word("ints")) return empty_list<int64_t>();
    if (accept_word("floats")) return empty_list<float>();
    if (accept_word("strings")) return empty_list<std::string>();
    const size_t begin = position_;
    const std::string word = number_word();
    if (peek() == '[') {
      position_ = begin;
      DType dtype;
      Shape shape;
      if (!type(&dtype, &shape)) return int64_t{0};
      return elements(dtype, shape);
    }
    if (is_integer_word(word)) return static_cast<int64_t>(std::strtoll(word.c_str(), nullptr, 10));
    return static_cast<float>(real(word));
  }

  template <typename T>
  std::vector<T> empty_list() {
    expect('[');
    expect(']');
    return {};
  }

  Attr list() {
    expect('[');
    std::vector<std::string> words;
    const bool strings = (skip_blanks(), peek() == '"');
    while (ok() && !accept(']')) {
      if (!words.empty()) expect(',');
      skip_blanks();
      words.push_back(strings ? string('"') : number_word());
    }
    if (strings) return words;
    bool integers = !words.empty();
    for (const std::string& word : words) integers = integers && is_integer_word(word);
    if (words.empty()) fail("an empty list needs its kind: ints[], floats[] or strings[]");
    if (integers) {
      std::vector<int64_t> values;
      for (const std::string& word : words) values.push_back(std::strtoll(word.c_str(), nullptr, 10));
      return values;
    }
    std::vector<float> values;
    for (const std::string& word : words) values.push_back(static_cast<float>(real(word)));
    return values;
  }

  // "%name[: type]", which must not be defined yet.
  ValueId definition() {
    const ValueId id = operand();
    if (!ok() || id == kNoValue) return id;
    if (defined_[static_cast<size_t>(id)]) {
      fail("'" + graph_.value(id).name + "' is defined twice");
      return id;
    }
    defined_[static_cast<size_t>(id)] = true;
    if (accept(':')) {
      Value& value = graph_.value(id);
      type(&value.dtype, &value.shape);
    }
    return id;
  }

  void statement() {
    if (accept_word("meta")) {
      const std::string key = string('"');
      expect('=');
      graph_.metadata[key] = string('"');
    } else if (accept_word("input")) {
      const ValueId id = definition();
      if (ok() && id != kNoValue) graph_.inputs.push_back(id);
    } else if (accept_word("const")) {
      const ValueId id = definition();
      expect('=');
      if (!ok() || id == kNoValue) return;
      Value& value = graph_.value(id);
      value.constant = elements(value.dtype, value.shape);
    } else if (accept_word("output")) {
      const ValueId id = operand();
      if (ok() && id != kNoValue) graph_.outputs.push_back(id);
    } else {
      node();
    }
  }

  void node() {
    Node node;
    do {
      node.outputs.push_back(definition());
    } while (ok() && accept(','));
    expect('=');
    node.op = name("::");
    if (text_.substr(position_, 2) == "::") {
      position_ += 2;
      node.domain = node.op;
      node.op = name();
    }
    node.opset = accept('@') ? static_cast<int>(integer()) : opset_;
    expect('(');
    while (ok() && !accept(')')) {
      if (!node.inputs.empty()) expect(',');
      node.inputs.push_back(operand());
    }
    while (ok()) {
      skip_blanks();
      if (at_end() || peek() == '\n') break;
      if (peek() == '\'') {
        node.name = string('\'');
        break;
      }
      const std::string attr_name = name();
      expect('=');
      if (ok()) node.attrs[attr_name] = attr();
    }
    if (ok()) graph_.nodes.push_back(std::move(node));
  }

  std::string_view text_;
  size_t position_ = 0;
  Status error_;
  Graph graph_;
  int opset_ = 0;
  std::map<std::string, ValueId> by_name_;
  std::vector<bool> defined_;
};

}  // namespace

Result<Graph> parse_graph(std::string_view text) { return Parser(text).parse(); }

}  // namespace kiln
