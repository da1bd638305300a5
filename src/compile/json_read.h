// Reads JSON files that users write: preprocessing recipes and sidecars.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace kiln {

struct JsonValue {
  enum Kind { kNull, kBool, kNumber, kString, kArray, kObject };
  Kind kind = kNull;
  double number = 0;              // of a number; 0 or 1 of a bool
  std::string text;               // of a string
  std::vector<std::string> keys;  // of an object, in the file's order
  std::vector<JsonValue> items;   // of an array or object

  const JsonValue* find(const char* key) const;
};

// kInvalidArgument with the place if the text is no JSON, is nested deeper than 32 or has a key twice.
Result<JsonValue> read_json(std::span<const uint8_t> bytes);

// Compact JSON again, for messages; long values are cut.
std::string print_json(const JsonValue& value);

}  // namespace kiln
