// Protobuf text format to wire format for the messages of onnx.proto, by a table of their fields.
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "golden.h"

namespace kiln::test {
namespace {

struct Field {
  const char* message;
  const char* name;
  int number;
  char kind;         // v varint, f float, d double, s bytes, m message
  const char* type;  // message type
};

constexpr Field kFields[] = {
    {"ModelProto", "ir_version", 1, 'v', ""},
    {"ModelProto", "producer_name", 2, 's', ""},
    {"ModelProto", "producer_version", 3, 's', ""},
    {"ModelProto", "domain", 4, 's', ""},
    {"ModelProto", "model_version", 5, 'v', ""},
    {"ModelProto", "doc_string", 6, 's', ""},
    {"ModelProto", "graph", 7, 'm', "GraphProto"},
    {"ModelProto", "opset_import", 8, 'm', "OperatorSetIdProto"},
    {"ModelProto", "metadata_props", 14, 'm', "StringStringEntryProto"},
    {"ModelProto", "functions", 25, 'm', "FunctionProto"},
    {"OperatorSetIdProto", "domain", 1, 's', ""},
    {"OperatorSetIdProto", "version", 2, 'v', ""},
    {"StringStringEntryProto", "key", 1, 's', ""},
    {"StringStringEntryProto", "value", 2, 's', ""},
    {"FunctionProto", "name", 1, 's', ""},
    {"FunctionProto", "domain", 10, 's', ""},
    {"FunctionProto", "node", 7, 'm', "NodeProto"},
    {"GraphProto", "node", 1, 'm', "NodeProto"},
    {"GraphProto", "name", 2, 's', ""},
    {"GraphProto", "initializer", 5, 'm', "TensorProto"},
    {"GraphProto", "doc_string", 10, 's', ""},
    {"GraphProto", "input", 11, 'm', "ValueInfoProto"},
    {"GraphProto", "output", 12, 'm', "ValueInfoProto"},
    {"GraphProto", "value_info", 13, 'm', "ValueInfoProto"},
    {"GraphProto", "sparse_initializer", 15, 'm', "SparseTensorProto"},
    {"SparseTensorProto", "values", 1, 'm', "TensorProto"},
    {"SparseTensorProto", "indices", 2, 'm', "TensorProto"},
    {"SparseTensorProto", "dims", 3, 'v', ""},
    {"NodeProto", "input", 1, 's', ""},
    {"NodeProto", "output", 2, 's', ""},
    {"NodeProto", "name", 3, 's', ""},
    {"NodeProto", "op_type", 4, 's', ""},
    {"NodeProto", "attribute", 5, 'm', "AttributeProto"},
    {"NodeProto", "doc_string", 6, 's', ""},
    {"NodeProto", "domain", 7, 's', ""},
    {"AttributeProto", "name", 1, 's', ""},
    {"AttributeProto", "f", 2, 'f', ""},
    {"AttributeProto", "i", 3, 'v', ""},
    {"AttributeProto", "s", 4, 's', ""},
    {"AttributeProto", "t", 5, 'm', "TensorProto"},
    {"AttributeProto", "g", 6, 'm', "GraphProto"},
    {"AttributeProto", "floats", 7, 'f', ""},
    {"AttributeProto", "ints", 8, 'v', ""},
    {"AttributeProto", "strings", 9, 's', ""},
    {"AttributeProto", "tensors", 10, 'm', "TensorProto"},
    {"AttributeProto", "type", 20, 'v', ""},
    {"AttributeProto", "ref_attr_name", 21, 's', ""},
    {"TensorProto", "dims", 1, 'v', ""},
    {"TensorProto", "data_type", 2, 'v', ""},
    {"TensorProto", "float_data", 4, 'f', ""},
    {"TensorProto", "int32_data", 5, 'v', ""},
    {"TensorProto", "string_data", 6, 's', ""},
    {"TensorProto", "int64_data", 7, 'v', ""},
    {"TensorProto", "name", 8, 's', ""},
    {"TensorProto", "raw_data", 9, 's', ""},
    {"TensorProto", "double_data", 10, 'd', ""},
    {"TensorProto", "uint64_data", 11, 'v', ""},
    {"TensorProto", "external_data", 13, 'm', "StringStringEntryProto"},
    {"TensorProto", "data_location", 14, 'v', ""},
    {"ValueInfoProto", "name", 1, 's', ""},
    {"ValueInfoProto", "type", 2, 'm', "TypeProto"},
    {"ValueInfoProto", "doc_string", 3, 's', ""},
    {"TypeProto", "tensor_type", 1, 'm', "Tensor"},
    {"TypeProto", "sequence_type", 4, 'm', "Sequence"},
    {"Sequence", "elem_type", 1, 'm', "TypeProto"},
    {"Tensor", "elem_type", 1, 'v', ""},
    {"Tensor", "shape", 2, 'm', "TensorShapeProto"},
    {"TensorShapeProto", "dim", 1, 'm', "Dimension"},
    {"Dimension", "dim_value", 1, 'v', ""},
    {"Dimension", "dim_param", 2, 's', ""},
};

const Field* find_field(const std::string& message, const std::string& name) {
  for (const Field& field : kFields) {
    if (message == field.message && name == field.name) return &field;
  }
  return nullptr;
}

class Encoder {
 public:
  Encoder(const std::string& text, std::string& error) : text_(text), error_(error) {}

  std::string message(const std::string& type, char end) {
    std::string bytes;
    while (error_.empty()) {
      skip_blanks();
      if (peek() == end) {
        ++position_;
        break;
      }
      std::string name;
      while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_') name += text_[position_++];
      const Field* field = find_field(type, name);
      if (field == nullptr) {
        fail(type + " has no field '" + name + "'");
        break;
      }
      skip_blanks();
      if (peek() == ':') ++position_;
      skip_blanks();
      if (peek() != '[') {
        value(*field, bytes);
        continue;
      }
      do {
        ++position_;
        value(*field, bytes);
        skip_blanks();
      } while (peek() == ',');
      if (peek() != ']') fail("expected ]");
      ++position_;
    }
    return bytes;
  }

 private:
  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  void fail(const std::string& what) {
    size_t line = 1;
    for (size_t i = 0; i < position_ && i < text_.size(); ++i) line += text_[i] == '\n';
    if (error_.empty()) error_ = "line " + std::to_string(line) + ": " + what;
  }

  void skip_blanks() {
    for (; position_ < text_.size(); ++position_) {
      if (peek() == '#') {
        while (position_ < text_.size() && peek() != '\n') ++position_;
      } else if (!std::isspace(static_cast<unsigned char>(peek()))) {
        return;
      }
    }
  }

  static void put_varint(std::string& bytes, uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
    bytes += static_cast<char>(value);
  }

  std::string number() {
    std::string word;
    while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '-' || peek() == '+' || peek() == '.') {
      word += text_[position_++];
    }
    if (word.empty()) fail("expected a number");
    return word;
  }

  std::string string() {
    std::string out;
    if (peek() != '"') fail("expected a string");
    for (++position_; position_ < text_.size() && peek() != '"'; ++position_) {
      if (peek() != '\\') {
        out += peek();
        continue;
      }
      ++position_;
      if (peek() == 'x') {
        out += static_cast<char>(std::strtol(text_.substr(position_ + 1, 2).c_str(), nullptr, 16));
        position_ += 2;
      } else {
        out += peek() == 'n' ? '\n' : peek();
      }
    }
    ++position_;
    return out;
  }

  void value(const Field& field, std::string& bytes) {
    skip_blanks();
    const auto tag = [&](int wire) {
      put_varint(bytes, static_cast<uint64_t>(field.number) << 3 | static_cast<uint64_t>(wire));
    };
    if (field.kind == 'm') {
      if (peek() != '{') fail("expected {");
      ++position_;
      const std::string nested = message(field.type, '}');
      tag(2);
      put_varint(bytes, nested.size());
      bytes += nested;
    } else if (field.kind == 's') {
      const std::string text = string();
      tag(2);
      put_varint(bytes, text.size());
      bytes += text;
    } else if (field.kind == 'v') {
      const std::string word = number();
      tag(0);
      put_varint(bytes, word[0] == '-' ? static_cast<uint64_t>(std::strtoll(word.c_str(), nullptr, 10))
                                       : std::strtoull(word.c_str(), nullptr, 10));
    } else {
      const double real = std::strtod(number().c_str(), nullptr);
      const auto single = static_cast<float>(real);
      tag(field.kind == 'f' ? 5 : 1);
      bytes.append(field.kind == 'f' ? reinterpret_cast<const char*>(&single) : reinterpret_cast<const char*>(&real),
                   field.kind == 'f' ? 4 : 8);
    }
  }

  const std::string& text_;
  std::string& error_;
  size_t position_ = 0;
};

}  // namespace

bool encode_onnx_text(const std::string& text, const std::string& message, std::vector<uint8_t>& bytes,
                      std::string& error) {
  error.clear();
  const std::string encoded = Encoder(text, error).message(message, '\0');
  bytes.assign(encoded.begin(), encoded.end());
  return error.empty();
}

}  // namespace kiln::test
