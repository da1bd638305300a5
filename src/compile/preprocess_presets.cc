#include "compile/preprocess_presets.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "compile/json.h"
#include "compile/json_read.h"

namespace kiln {
namespace {

struct Recipe {
  std::string resize;
  std::vector<int64_t> size;  // (h, w) or empty
  int64_t resize_shorter = 0;
  std::string position = "center";
  std::string rounding = "nearest";
  double pad_value = 114;
  std::string color = "RGB";
  double scale = 255;
  std::vector<double> mean = {0, 0, 0};
  std::vector<double> std = {1, 1, 1};
  bool antialias = false;
  bool round = false;
};

std::string print_numbers(const std::vector<double>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i > 0 ? ", " : "") + json_number(values[i]);
  return text + "]";
}

std::string print_recipe(const Recipe& recipe) {
  std::map<std::string, std::string> keys;
  keys["resize"] = json_string(recipe.resize);
  keys["color"] = json_string(recipe.color);
  keys["scale"] = json_number(recipe.scale);
  keys["mean"] = print_numbers(recipe.mean);
  keys["std"] = print_numbers(recipe.std);
  keys["antialias"] = recipe.antialias ? "true" : "false";
  keys["round"] = recipe.round ? "true" : "false";
  if (!recipe.size.empty()) keys["size"] = json_ints(recipe.size);
  if (recipe.resize_shorter > 0) keys["resize_shorter"] = std::to_string(recipe.resize_shorter);
  if (recipe.resize == "letterbox") {
    keys["position"] = json_string(recipe.position);
    keys["rounding"] = json_string(recipe.rounding);
    keys["pad_value"] = json_number(recipe.pad_value);
  }
  std::string text;
  for (const auto& [key, value] : keys) text += (text.empty() ? "{" : ", ") + json_string(key) + ": " + value;
  return text + "}";
}

// Reads one key after the other; the first that is wrong is kept.
struct RecipeReader {
  Recipe recipe;
  Status error;

  void wrong(const std::string& key, const JsonValue& value, const std::string& allowed) {
    if (error.ok()) {
      error = Status(Code::kInvalidArgument,
                     "preprocessing recipe: " + key + "=" + print_json(value) + "; allowed: " + allowed);
    }
  }

  void word(const std::string& key, const JsonValue& value, std::initializer_list<const char*> allowed,
            std::string& out) {
    std::string names;
    for (const char* name : allowed) {
      if (value.kind == JsonValue::kString && value.text == name) {
        out = name;
        return;
      }
      names += (names.empty() ? "\"" : ", \"") + std::string(name) + "\"";
    }
    wrong(key, value, names);
  }

  void flag(const std::string& key, const JsonValue& value, bool& out) {
    if (value.kind == JsonValue::kBool)
      out = value.number != 0;
    else
      wrong(key, value, "true, false");
  }

  void number(const std::string& key, const JsonValue& value, double low, double high, const char* allowed,
              double& out) {
    if (value.kind == JsonValue::kNumber && value.number >= low && value.number <= high)
      out = value.number;
    else
      wrong(key, value, allowed);
  }

  static bool is_size(const JsonValue& value) {
    return value.kind == JsonValue::kNumber && value.number >= 1 && value.number <= 32768 &&
           value.number == std::floor(value.number);
  }

  void three(const std::string& key, const JsonValue& value, bool zero_allowed, std::vector<double>& out) {
    std::vector<double> numbers;
    if (value.kind == JsonValue::kNumber) numbers.push_back(value.number);
    for (const JsonValue& item : value.items) {
      if (item.kind != JsonValue::kNumber)
        numbers.push_back(NAN);
      else
        numbers.push_back(item.number);
    }
    bool fine = numbers.size() == 1 || numbers.size() == 3;
    for (const double v : numbers) fine = fine && std::isfinite(v) && std::fabs(v) < 1e6 && (zero_allowed || v != 0);
    if (!fine) {
      wrong(key, value, zero_allowed ? "one or three numbers" : "one or three numbers that are not 0");
      return;
    }
    if (numbers.size() == 1) numbers = {numbers[0], numbers[0], numbers[0]};
    out = numbers;
  }

  void entry(const std::string& key, const JsonValue& value) {
    if (key == "resize") {
      word(key, value, {"letterbox", "stretch", "resize-crop"}, recipe.resize);
    } else if (key == "size" || key == "crop") {
      if (value.items.size() == 2 && is_size(value.items[0]) && is_size(value.items[1])) {
        const std::vector<int64_t> size = {static_cast<int64_t>(value.items[0].number),
                                           static_cast<int64_t>(value.items[1].number)};
        if (!recipe.size.empty() && recipe.size != size) wrong(key, value, "the same as the other of size and crop");
        recipe.size = size;
      } else {
        wrong(key, value, "[height, width], each 1 to 32768");
      }
    } else if (key == "resize_shorter") {
      if (is_size(value))
        recipe.resize_shorter = static_cast<int64_t>(value.number);
      else
        wrong(key, value, "a whole number, 1 to 32768");
    } else if (key == "position") {
      word(key, value, {"center", "top-left"}, recipe.position);
    } else if (key == "rounding") {
      word(key, value, {"nearest", "floor"}, recipe.rounding);
    } else if (key == "pad_value") {
      number(key, value, 0, 255, "a number, 0 to 255", recipe.pad_value);
    } else if (key == "color") {
      word(key, value, {"RGB", "BGR"}, recipe.color);
    } else if (key == "scale") {
      number(key, value, 1e-6, 1e6, "a number > 0", recipe.scale);
    } else if (key == "mean") {
      three(key, value, true, recipe.mean);
    } else if (key == "std") {
      three(key, value, false, recipe.std);
    } else if (key == "antialias") {
      flag(key, value, recipe.antialias);
    } else if (key == "round") {
      flag(key, value, recipe.round);
    } else if (error.ok()) {
      error = Status(Code::kInvalidArgument, "preprocessing recipe: unknown key '" + key +
                                                 "'; allowed: resize, size (or crop), resize_shorter, position, "
                                                 "rounding, pad_value, color, scale, mean, std, "
                                                 "antialias, round");
    }
  }
};

}  // namespace

const char* preprocess_preset_names() { return "ultralytics, yolox, torchvision, keras, raw"; }

bool is_preprocess_preset(const std::string& name) {
  return name == "ultralytics" || name == "yolox" || name == "torchvision" || name == "keras" || name == "raw";
}

std::string preprocess_preset(const std::string& name, int64_t height) {
  Recipe recipe;
  recipe.resize = "stretch";
  if (name == "ultralytics") {  // ultralytics LetterBox: OpenCV bilinear, centred, /255
    recipe.resize = "letterbox";
    recipe.round = true;
  } else if (name == "ultralytics-classify") {  // ultralytics classify_transforms: Resize(size), CenterCrop, ToTensor
    recipe.resize = "resize-crop";
    recipe.resize_shorter = height;
    recipe.antialias = true;
    recipe.round = true;
  } else if (name == "yolox") {  // YOLOX preproc: at the top left, BGR, 0…255
    recipe.resize = "letterbox";
    recipe.position = "top-left";
    recipe.rounding = "floor";
    recipe.color = "BGR";
    recipe.scale = 1;
    recipe.round = true;
  } else if (name == "torchvision") {  // torchvision ImageClassification presets: Pillow bilinear, ImageNet statistics
    recipe.resize = "resize-crop";
    recipe.resize_shorter =
        height > 0 ? static_cast<int64_t>(std::lround(static_cast<double>(height) * 256 / 224)) : 256;
    recipe.antialias = true;
    recipe.round = true;
    recipe.mean = {0.485, 0.456, 0.406};
    recipe.std = {0.229, 0.224, 0.225};
  } else if (name == "keras") {  // keras.applications, mode "tf": x / 127.5 - 1
    recipe.scale = 127.5;
    recipe.mean = {1, 1, 1};
  } else {  // raw: 0…255 as they are
    recipe.scale = 1;
  }
  return print_recipe(recipe);
}

Result<std::string> parse_preprocess(std::span<const uint8_t> json) {
  KILN_ASSIGN(const JsonValue root, read_json(json));
  return parse_preprocess(root);
}

Result<std::string> parse_preprocess(const JsonValue& root) {
  if (root.kind != JsonValue::kObject) return Status(Code::kInvalidArgument, "preprocessing recipe: not a JSON object");
  RecipeReader reader;
  for (size_t i = 0; i < root.items.size(); ++i) reader.entry(root.keys[i], root.items[i]);
  for (const std::string& key : root.keys) {
    const bool is_letterbox_only = key == "position" || key == "rounding";
    if (is_letterbox_only && !reader.recipe.resize.empty() && reader.recipe.resize != "letterbox" &&
        reader.error.ok()) {
      reader.error =
          Status(Code::kInvalidArgument, "preprocessing recipe: " + key + " goes with resize=\"letterbox\" only");
    }
  }
  if (!reader.error.ok()) return reader.error;
  if (reader.recipe.resize.empty()) {
    return Status(Code::kInvalidArgument,
                  "preprocessing recipe: resize is missing; allowed: \"letterbox\", \"stretch\", \"resize-crop\"");
  }
  if (reader.recipe.resize_shorter > 0 && reader.recipe.resize != "resize-crop") {
    return Status(Code::kInvalidArgument, "preprocessing recipe: resize_shorter goes with resize=\"resize-crop\" only");
  }
  return print_recipe(reader.recipe);
}

Status check_preprocess_fits(const std::string& recipe, const std::vector<std::pair<int64_t, int64_t>>& inputs) {
  if (inputs.empty()) return {};
  const auto* bytes = reinterpret_cast<const uint8_t*>(recipe.data());
  KILN_ASSIGN(const JsonValue root, read_json({bytes, recipe.size()}));
  RecipeReader reader;
  for (size_t i = 0; i < root.items.size(); ++i) reader.entry(root.keys[i], root.items[i]);
  const Recipe& read = reader.recipe;
  std::string sizes;
  bool size_fits = read.size.empty();
  bool crop_fits = read.resize != "resize-crop" || read.resize_shorter == 0;
  for (const auto& [height, width] : inputs) {
    sizes += (sizes.empty() ? "" : ", ") + json_ints({height, width});
    size_fits = size_fits || (read.size[0] == height && read.size[1] == width);
    crop_fits = crop_fits || read.resize_shorter >= std::min(height, width);
  }
  if (!size_fits) {
    return {Code::kInvalidArgument, "preprocessing recipe: size=" + json_ints(read.size) +
                                        " is not the model's input; allowed: " + sizes + ", or no size"};
  }
  if (!crop_fits) {
    return {Code::kInvalidArgument, strf("preprocessing recipe: resize_shorter=%lld is smaller than the model's input ",
                                         static_cast<long long>(read.resize_shorter)) +
                                        sizes + ", which is to be cut out of it"};
  }
  return {};
}

}  // namespace kiln
