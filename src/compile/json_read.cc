#include "compile/json_read.h"

// Only the event parser is used: it reports errors by code.
#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include "compile/json.h"

namespace kiln {
namespace {

constexpr size_t kMaxDepth = 32;

// Builds the value from the parser's events; returning false stops the parser.
class Builder : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Builder> {
 public:
  bool Null() { return add({}); }
  bool Bool(bool b) { return add_number(JsonValue::kBool, b); }
  bool Int(int i) { return add_number(JsonValue::kNumber, i); }
  bool Uint(unsigned u) { return add_number(JsonValue::kNumber, u); }
  bool Int64(int64_t i) { return add_number(JsonValue::kNumber, static_cast<double>(i)); }
  bool Uint64(uint64_t u) { return add_number(JsonValue::kNumber, static_cast<double>(u)); }
  bool Double(double d) { return add_number(JsonValue::kNumber, d); }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    JsonValue value;
    value.kind = JsonValue::kString;
    value.text.assign(text, length);
    return add(std::move(value));
  }
  bool StartObject() { return open(JsonValue::kObject); }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    JsonValue& object = open_.back();
    std::string key(text, length);
    for (const std::string& old : object.keys) {
      if (old == key) {
        reason = "key \"" + key + "\" is given twice";
        return false;
      }
    }
    object.keys.push_back(std::move(key));
    return true;
  }
  bool EndObject(rapidjson::SizeType) { return close(); }
  bool StartArray() { return open(JsonValue::kArray); }
  bool EndArray(rapidjson::SizeType) { return close(); }

  JsonValue root;
  std::string reason;

 private:
  bool add_number(JsonValue::Kind kind, double number) {
    JsonValue value;
    value.kind = kind;
    value.number = number;
    return add(std::move(value));
  }
  bool add(JsonValue value) {
    if (open_.empty())
      root = std::move(value);
    else
      open_.back().items.push_back(std::move(value));
    return true;
  }
  bool open(JsonValue::Kind kind) {
    if (open_.size() >= kMaxDepth) {
      reason = strf("nested deeper than %zu", kMaxDepth);
      return false;
    }
    open_.emplace_back();
    open_.back().kind = kind;
    return true;
  }
  bool close() {
    JsonValue done = std::move(open_.back());
    open_.pop_back();
    return add(std::move(done));
  }

  std::vector<JsonValue> open_;
};

}  // namespace

const JsonValue* JsonValue::find(const char* key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

Result<JsonValue> read_json(std::span<const uint8_t> bytes) {
  rapidjson::MemoryStream stream(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  rapidjson::Reader reader;
  Builder builder;
  reader.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag |
               rapidjson::kParseFullPrecisionFlag>(stream, builder);
  if (!reader.HasParseError()) return std::move(builder.root);
  const std::string why =
      builder.reason.empty() ? rapidjson::GetParseError_En(reader.GetParseErrorCode()) : builder.reason;
  return Status(Code::kInvalidArgument, strf("not JSON (byte %zu): ", reader.GetErrorOffset()) + why);
}

std::string print_json(const JsonValue& value) {
  std::string text;
  switch (value.kind) {
    case JsonValue::kNull:
      return "null";
    case JsonValue::kBool:
      return value.number != 0 ? "true" : "false";
    case JsonValue::kNumber:
      return json_number(value.number);
    case JsonValue::kString:
      return json_string(value.text.substr(0, 100));
    case JsonValue::kArray:
      for (const JsonValue& item : value.items) text += (text.empty() ? "" : ", ") + print_json(item);
      return "[" + text.substr(0, 200) + "]";
    case JsonValue::kObject:
      for (size_t i = 0; i < value.items.size(); ++i) {
        text += (i > 0 ? ", " : "") + json_string(value.keys[i]) + ": " + print_json(value.items[i]);
      }
      return "{" + text.substr(0, 200) + "}";
  }
  return text;
}

}  // namespace kiln
