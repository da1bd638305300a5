// Preprocessing recipes: how an image becomes the model's input, as JSON in the bundle's metadata.
//
// input = (pixel / scale - mean) / std for each channel, pixels 0…255. Keys:
//   resize          "letterbox", "stretch" or "resize-crop" (shorter side to resize_shorter, then the centre); required
//   size            [height, width]; default: the model's input
//   resize_shorter  for resize-crop; default: the shorter side of size
//   position        letterbox: "center" or "top-left"
//   rounding        letterbox: the scaled size rounds to "nearest" or "floor"
//   pad_value       0…255, before the normalisation
//   color           "RGB" or "BGR"
//   scale           a number > 0
//   mean, std       one or three numbers; std not 0
//   antialias       true: triangle filter as wide as the scale (Pillow); false: two taps (OpenCV)
//   round           true: resized pixels are rounded to whole numbers
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compile/json_read.h"

namespace kiln {

// "ultralytics, yolox, torchvision, keras, raw": what --preprocess takes.
const char* preprocess_preset_names();
bool is_preprocess_preset(const std::string& name);

// The canonical text of a preset ("ultralytics-classify" is one more, for metadata only). `height` is that of the
// model's input: torchvision resizes to 256 for 224 and in proportion for other sizes; 0 = not known.
std::string preprocess_preset(const std::string& name, int64_t height);

// Checks a recipe and prints it in canonical form: every key that matters, sorted, numbers in one form.
// kInvalidArgument says which key, value and what is allowed.
Result<std::string> parse_preprocess(std::span<const uint8_t> json);
Result<std::string> parse_preprocess(const JsonValue& json);

// Whether a recipe in canonical form can serve one of the model's image inputs, (height, width) of each profile: its
// size is theirs, and resize_shorter leaves enough to cut them out. kInvalidArgument otherwise.
Status check_preprocess_fits(const std::string& recipe, const std::vector<std::pair<int64_t, int64_t>>& inputs);

}  // namespace kiln
