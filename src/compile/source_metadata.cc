#include "compile/source_metadata.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace kiln {
namespace {

constexpr size_t kMaxClasses = 100000;

// A quoted text of Python or JSON at `position`; false if there is none.
bool read_quoted(const std::string& text, size_t& position, std::string& out) {
  const char mark = position < text.size() ? text[position] : '\0';
  if (mark != '\'' && mark != '"') return false;
  out.clear();
  for (++position; position < text.size(); ++position) {
    if (text[position] == mark) {
      ++position;
      return true;
    }
    if (text[position] == '\\' && position + 1 < text.size()) {
      ++position;
      out += text[position] == 'n' || text[position] == 't' ? ' ' : text[position];
    } else {
      out += text[position] == '\n' ? ' ' : text[position];  // labels are stored one a line
    }
  }
  return false;
}

void skip_blanks(const std::string& text, size_t& position) {
  while (position < text.size() && std::isspace(static_cast<unsigned char>(text[position]))) ++position;
}

std::string value_of(const std::map<std::string, std::string>& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? std::string() : found->second;
}

// Which YOLO decoder the output's shape is made for, given the number of classes; "" if it fits none for sure.
std::string detector_of_shape(const Shape& shape, int64_t num_classes, bool end_to_end) {
  if (shape.rank != 3) return {};
  const int64_t rows = shape[1];
  const int64_t columns = shape[2];
  if (end_to_end) return columns == 6 ? "detect:end2end" : "";
  // (x1, y1, x2, y2, score, class) of the best 300, whatever the metadata says. No YOLOv5 of one class has so few rows:
  // three anchors on grids of stride 8, 16 and 32 make 252, 378, …
  if (columns == 6 && (num_classes != 1 || rows == 300) && rows <= 1000) return "detect:end2end";
  if (rows == 4 + num_classes && columns > rows) return "detect:yolov8";
  if (columns == 5 + num_classes && rows > columns) return "detect:yolov5";
  return {};
}

}  // namespace

std::vector<std::string> parse_class_names(const std::string& text) {
  size_t position = 0;
  skip_blanks(text, position);
  const char open = position < text.size() ? text[position] : '\0';
  if (open != '{' && open != '[') return {};
  const char close = open == '{' ? '}' : ']';
  ++position;
  std::vector<std::string> names;
  for (;;) {
    skip_blanks(text, position);
    if (position < text.size() && text[position] == close) return names;
    size_t index = names.size();
    std::string word;
    if (open == '{') {
      if (!read_quoted(text, position, word)) {
        while (position < text.size() && std::isdigit(static_cast<unsigned char>(text[position])))
          word += text[position++];
      }
      char* end = nullptr;
      index = std::strtoul(word.c_str(), &end, 10);
      if (word.empty() || *end != '\0' || index >= kMaxClasses) return {};
      skip_blanks(text, position);
      if (position >= text.size() || text[position] != ':') return {};
      ++position;
      skip_blanks(text, position);
    }
    if (!read_quoted(text, position, word) || index >= kMaxClasses) return {};
    while (names.size() <= index) names.push_back(std::to_string(names.size()));
    names[index] = word;
    skip_blanks(text, position);
    if (position < text.size() && text[position] == ',')
      ++position;
    else if (position >= text.size() || text[position] != close)
      return {};
  }
}

std::vector<int64_t> exported_image_size(const std::map<std::string, std::string>& metadata) {
  const std::string text = value_of(metadata, "imgsz");
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < text.size();) {
    if (!std::isdigit(static_cast<unsigned char>(text[i]))) {
      ++i;
      continue;
    }
    char* end = nullptr;
    const long long number = std::strtoll(text.c_str() + i, &end, 10);
    if (number <= 0 || number > 65536) return {};
    numbers.push_back(number);
    i = static_cast<size_t>(end - text.c_str());
  }
  if (numbers.size() == 1) numbers.push_back(numbers[0]);
  return numbers.size() == 2 ? numbers : std::vector<int64_t>{};
}

std::map<std::string, std::string> describe_source(const Graph& graph) {
  std::map<std::string, std::string> result;
  const std::vector<std::string> names = parse_class_names(value_of(graph.metadata, "names"));
  if (names.empty()) return result;
  for (const std::string& name : names) result["labels"] += (result["labels"].empty() ? "" : "\n") + name;
  const std::string task = value_of(graph.metadata, "task");
  const std::string end_to_end = value_of(graph.metadata, "end2end");
  const auto num_classes = static_cast<int64_t>(names.size());
  for (ValueId id : graph.outputs) {
    const Shape& shape = graph.value(id).shape;
    if (task == "classify" && shape.rank == 2 && shape[1] == num_classes) {
      result["task"] = "classify";
      result["preset"] = "ultralytics-classify";
    }
    if (task == "detect" || task.empty()) {
      const std::string detector = detector_of_shape(shape, num_classes, end_to_end == "True" || end_to_end == "true");
      if (detector.empty() || result.count("task")) continue;
      result["task"] = detector;
      result["preset"] = "ultralytics";
    }
  }
  return result;
}

}  // namespace kiln
