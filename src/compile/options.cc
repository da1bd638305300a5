#include "compile/options.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/npy.h"
#include "compile/json_read.h"
#include "compile/preprocess_presets.h"
#include "compile/quant_files.h"
#include "onnx/tensor.h"

namespace kiln {
namespace {

constexpr const char* kTasks =
    "detect:yolov5, detect:yolov8, detect:yolox, detect:end2end, detect:tiny-yolov2, classify";
constexpr int64_t kMaxDim = INT32_MAX;

Status usage_error(const std::string& message) { return {Code::kInvalidArgument, message}; }

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

bool ends_with(const std::string& text, const char* end) {
  const std::string tail(end);
  return text.size() >= tail.size() && text.compare(text.size() - tail.size(), tail.size(), tail) == 0;
}

// A whole number in [low, high], or -1 where that is low; false otherwise.
bool parse_number(const std::string& text, int64_t low, int64_t high, int64_t* value) {
  if (text.empty() || text.size() > 12) return false;
  const size_t begin = text[0] == '-' ? 1 : 0;
  if (begin == text.size()) return false;
  *value = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    if (!std::isdigit(static_cast<unsigned char>(text[i]))) return false;
    *value = *value * 10 + (text[i] - '0');
  }
  if (begin == 1) *value = -*value;
  return *value >= low && *value <= high;
}

Result<InputShapeFlag> parse_input_shape(const std::string& text) {
  InputShapeFlag flag;
  const size_t colon = text.rfind(':');
  if (colon != std::string::npos) flag.input = text.substr(0, colon);
  for (const std::string& word : split(colon == std::string::npos ? text : text.substr(colon + 1), ',')) {
    int64_t dim = 0;
    if (!parse_number(word, -1, kMaxDim, &dim) || dim == 0 || flag.shape.rank == kMaxRank) {
      return usage_error("--input-shape " + text + ": wrong dim '" + word +
                         strf("'; allowed: NAME:D,D,… with 1 to %d numbers, each > 0, or -1 where --dynamic-batch or "
                              "--dynamic-size fills in",
                              kMaxRank));
    }
    flag.shape.push_back(dim);
  }
  return flag;
}

const std::vector<uint8_t>* find_file(const FileReader& files, const std::string& name) {
  return files ? files(name) : nullptr;
}

Status missing_file(const char* flag, const std::string& name) {
  return {Code::kNotFound, std::string(flag) + " " + name + ": there is no such file"};
}

Result<std::string> parse_labels(const std::string& name, const std::vector<uint8_t>& bytes) {
  std::string labels;
  int number = 0;
  bool blank = false;
  for (std::string line : split(std::string(bytes.begin(), bytes.end()), '\n')) {
    ++number;
    if (number == 1 && line.compare(0, 3, "\xef\xbb\xbf") == 0) line.erase(0, 3);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    if (line.empty()) {
      blank = true;
      continue;
    }
    if (blank) {
      return usage_error("--labels " + name + strf(": line %d is empty; allowed: one class name a line", number - 1));
    }
    labels += (labels.empty() ? "" : "\n") + line;
  }
  if (labels.empty()) return usage_error("--labels " + name + ": the file is empty; allowed: one class name a line");
  return labels;
}

Status check_task(const std::string& from, const std::string& task) {
  for (const std::string& allowed : split(kTasks, ',')) {
    if (allowed.substr(allowed[0] == ' ' ? 1 : 0) == task) return {};
  }
  return usage_error(from + " " + task + ": unknown task; allowed: " + kTasks);
}

class Parser {
 public:
  Parser(const std::vector<std::string>& args, const FileReader& files) : args_(args), files_(files) {}

  Result<CommandLine> parse() {
    if (args_.empty()) return usage_error("no command; allowed: compile, inspect, tensor, help, version");
    line_.command = args_[0];
    if (line_.command == "--help" || line_.command == "-h") line_.command = "help";
    if (line_.command == "--version") line_.command = "version";
    if (line_.command == "help" || line_.command == "version") return line_;
    if (line_.command != "compile" && line_.command != "inspect" && line_.command != "tensor") {
      return usage_error("unknown command '" + line_.command + "'; allowed: compile, inspect, tensor, help, version");
    }
    for (next_ = 1; next_ < args_.size();) KILN_TRY(argument());
    if (line_.model.empty()) return usage_error(line_.command + " needs a file");
    KILN_TRY(read_sidecar());
    KILN_TRY(check_quantisation());
    if (line_.command == "compile" && line_.output.empty()) {
      const std::string stem =
          ends_with(line_.model, ".onnx") ? line_.model.substr(0, line_.model.size() - 5) : line_.model;
      line_.output = stem + ".kiln";
    }
    return line_;
  }

 private:
  bool is(const char* command) const { return line_.command == command; }

  Status argument() {
    std::string flag = args_[next_++];
    if (flag.empty() || flag[0] != '-' || flag == "-") {
      if (!line_.model.empty())
        return usage_error(line_.command + " takes one file, but got '" + line_.model + "' and '" + flag + "'");
      line_.model = flag;
      return {};
    }
    const size_t equals = flag.compare(0, 2, "--") == 0 ? flag.find('=') : std::string::npos;
    has_inline_ = equals != std::string::npos;
    if (has_inline_) {
      inline_ = flag.substr(equals + 1);
      flag = flag.substr(0, equals);
    }
    if (is("inspect") && (flag == "--json" || flag == "--check")) {
      if (has_inline_) return usage_error(flag + " takes no value");
      (flag == "--json" ? line_.json : line_.check) = true;
      return {};
    }
    if (!is_allowed(flag)) {
      return usage_error("unknown option '" + flag + "' of " + line_.command + "; allowed: " + allowed_flags());
    }
    if (flag == "--observe" || flag == "--quantize-head" || flag == "--exact") {
      if (has_inline_) return usage_error(flag + " takes no value");
      if (flag == "--exact")
        line_.compile.exact = true;
      else
        (flag == "--observe" ? quant().observes : quant().quantizes_head) = true;
      return {};
    }
    std::string value;
    if (has_inline_)
      value = inline_;
    else if (next_ < args_.size())
      value = args_[next_++];
    else
      return usage_error(flag + " needs a value");
    return set(flag, value);
  }

  std::string allowed_flags() const {
    if (is("tensor")) return "-o FILE.npy";
    const std::string shapes =
        "--input-shape, --dynamic-batch, --dynamic-size, --input-layout, --output-layout, --bind, ";
    if (is("inspect")) return shapes + "--json, --stage, --check, --svg";
    return shapes +
           "--labels, --task, --preprocess, --sidecar, --precision, --calib-stats, "
           "--calib-method, --keep-float, --quantize-head, --quant-report, --observe, --exact, --prepared-budget, "
           "--dump, -o";
  }

  bool is_allowed(const std::string& flag) const {
    const std::string name = flag == "--output" ? "-o" : flag;
    for (const std::string& allowed : split(allowed_flags(), ',')) {
      const std::string trimmed = allowed.substr(allowed[0] == ' ' ? 1 : 0);
      if (trimmed.substr(0, trimmed.find(' ')) == name) return true;
    }
    return false;
  }

  Status set(const std::string& flag, const std::string& value) {
    CompileOptions& options = line_.compile;
    if (value.empty()) return usage_error(flag + " needs a value");
    if (flag == "-o" || flag == "--output")
      line_.output = value;
    else if (flag == "--svg")
      line_.svg = value;
    else if (flag == "--stage" || flag == "--dump")
      options.dump_stage = value;
    else if (flag == "--input-shape")
      return set_input_shape(value);
    else if (flag == "--dynamic-batch")
      return set_dynamic_batch(value);
    else if (flag == "--dynamic-size")
      return set_dynamic_size(value);
    else if (flag == "--input-layout")
      return set_layout(flag, value, options.input_layout);
    else if (flag == "--output-layout")
      return set_layout(flag, value, options.output_layout);
    else if (flag == "--labels")
      return set_labels(value);
    else if (flag == "--task")
      return set_task(value);
    else if (flag == "--preprocess")
      return set_preprocess(value);
    else if (flag == "--sidecar")
      sidecar_ = value;
    else if (flag == "--bind")
      return set_bind(value);
    else if (flag == "--prepared-budget")
      return set_prepared_budget(value);
    else if (flag == "--precision")
      return set_precision(value);
    else if (flag == "--calib-stats")
      return set_calibration(value);
    else if (flag == "--calib-method")
      return set_range_method(value);
    else if (flag == "--keep-float")
      quant().keep_float = split(value, ',');
    else if (flag == "--quant-report")
      line_.quant_report = value;
    return {};
  }

  QuantJob& quant() {
    if (quant_ == nullptr) quant_ = std::make_shared<QuantJob>();
    line_.compile.quant = quant_;
    return *quant_;
  }

  Status set_precision(const std::string& value) {
    if (value != "fp32" && value != "int8") return usage_error("--precision " + value + "; allowed: fp32, int8");
    if (value == "int8") quant().quantizes = true;
    return {};
  }

  Status set_calibration(const std::string& name) {
    const std::vector<uint8_t>* file = find_file(files_, name);
    if (file == nullptr) return missing_file("--calib-stats", name);
    Result<CalibrationStats> stats = read_calibration_stats(*file);
    if (!stats.ok()) return usage_error("--calib-stats " + name + ": " + stats.status().message());
    quant().stats = std::move(*stats);
    return {};
  }

  Status set_range_method(const std::string& value) {
    std::string names;
    for (size_t i = 0; i < std::size(kRangeMethods); ++i) {
      if (value == kRangeMethods[i]) {
        quant().method = static_cast<RangeMethod>(i);
        return {};
      }
      names += (names.empty() ? "" : ", ") + std::string(kRangeMethods[i]);
    }
    return usage_error("--calib-method " + value + "; allowed: " + names);
  }

  // Options of quantisation go together.
  Status check_quantisation() const {
    if (quant_ == nullptr) {
      if (!line_.quant_report.empty()) return usage_error("--quant-report needs --precision int8");
      return {};
    }
    if (quant_->quantizes && quant_->stats.values.empty()) {
      return usage_error(
          "--precision int8 needs --calib-stats FILE: what was seen over a calibration set (tilekiln "
          "compile --calibrate DIR makes it)");
    }
    if (!quant_->quantizes && !quant_->observes) {
      return usage_error("--calib-stats, --calib-method, --keep-float and --quantize-head need --precision int8");
    }
    return {};
  }

  Status set_input_shape(const std::string& value) {
    std::vector<InputShapeFlag> profile;
    for (const std::string& part : split(value, ';')) {
      KILN_ASSIGN(InputShapeFlag flag, parse_input_shape(part));
      for (const InputShapeFlag& other : profile) {
        if (other.input == flag.input)
          return usage_error("--input-shape " + value + ": input '" + flag.input + "' is given twice");
      }
      profile.push_back(std::move(flag));
    }
    line_.compile.profiles.push_back(std::move(profile));
    return {};
  }

  Status set_dynamic_batch(const std::string& value) {
    for (const std::string& word : split(value, ',')) {
      int64_t batch = 0;
      if (!parse_number(word, 1, 65536, &batch)) {
        return usage_error("--dynamic-batch " + value + ": wrong number '" + word +
                           "'; allowed: N,N,… each 1 to 65536");
      }
      line_.compile.dynamic_batch.push_back(batch);
    }
    return {};
  }

  Status set_dynamic_size(const std::string& value) {
    for (const std::string& word : split(value, ';')) {
      const std::vector<std::string> pair = split(word, ',');
      int64_t height = 0, width = 0;
      if (pair.size() != 2 || !parse_number(pair[0], 1, 65536, &height) || !parse_number(pair[1], 1, 65536, &width)) {
        return usage_error("--dynamic-size " + value + ": wrong size '" + word +
                           "'; allowed: H,W;H,W… each 1 to 65536");
      }
      line_.compile.dynamic_size.emplace_back(height, width);
    }
    return {};
  }

  Status set_prepared_budget(const std::string& value) {
    char* end = nullptr;
    const double budget = std::strtod(value.c_str(), &end);
    if (*end != '\0' || !(budget >= 0 && budget <= 100)) {
      return usage_error("--prepared-budget " + value + "; allowed: 0 to 100, times the weights' bytes");
    }
    line_.compile.prepared_budget = budget;
    return {};
  }

  static Status set_layout(const std::string& flag, const std::string& value, std::string& out) {
    if (value != "NCHW" && value != "NHWC") return usage_error(flag + " " + value + "; allowed: NCHW, NHWC");
    out = value;
    return {};
  }

  Status set_labels(const std::string& name) {
    const std::vector<uint8_t>* file = find_file(files_, name);
    if (file == nullptr) return missing_file("--labels", name);
    KILN_ASSIGN(line_.compile.metadata["labels"], parse_labels(name, *file));
    return {};
  }

  Status set_task(const std::string& value) {
    KILN_TRY(check_task("--task", value));
    line_.compile.metadata["task"] = value;
    return {};
  }

  Status set_preprocess(const std::string& value) {
    line_.compile.metadata.erase("preprocess");
    line_.compile.preprocess_preset.clear();
    if (is_preprocess_preset(value)) {
      line_.compile.preprocess_preset = value;
      return {};
    }
    const std::vector<uint8_t>* file = find_file(files_, value);
    if (file == nullptr) {
      return usage_error("--preprocess " + value + ": no preset and no file; allowed: " + preprocess_preset_names() +
                         ", or a JSON file");
    }
    Result<std::string> recipe = parse_preprocess(*file);
    if (!recipe.ok()) return usage_error("--preprocess " + value + ": " + recipe.status().message());
    line_.compile.metadata["preprocess"] = *recipe;
    return {};
  }

  Status set_bind(const std::string& value) {
    const size_t equals = value.rfind('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == value.size()) {
      return usage_error("--bind " + value + "; allowed: INPUT=FILE.npy or INPUT=FILE.pb");
    }
    const std::string input = value.substr(0, equals);
    const std::string name = value.substr(equals + 1);
    const std::vector<uint8_t>* file = find_file(files_, name);
    if (file == nullptr) return missing_file("--bind", name);
    Result<Tensor> tensor = ends_with(name, ".pb") ? read_tensor_proto(*file) : read_npy(*file);
    if (!tensor.ok()) return {tensor.status().code(), "--bind " + value + ": " + tensor.status().message()};
    line_.compile.bind[input] = std::move(*tensor);
    return {};
  }

  // A JSON file with "task", "labels" and "preprocess"; flags of these names go before it.
  Status read_sidecar() {
    if (sidecar_.empty()) return {};
    const std::vector<uint8_t>* file = find_file(files_, sidecar_);
    if (file == nullptr) return missing_file("--sidecar", sidecar_);
    const auto wrong = [&](const std::string& why) { return usage_error("--sidecar " + sidecar_ + ": " + why); };
    Result<JsonValue> root = read_json(*file);
    if (!root.ok()) return wrong(root.status().message());
    if (root->kind != JsonValue::kObject) return wrong("not a JSON object");
    auto& metadata = line_.compile.metadata;
    if (const JsonValue* task = root->find("task"); task != nullptr && metadata.count("task") == 0) {
      KILN_TRY(check_task("--sidecar " + sidecar_ + ": task", task->text));
      metadata["task"] = task->text;
    }
    if (const JsonValue* labels = root->find("labels"); labels != nullptr && metadata.count("labels") == 0) {
      std::string text;
      for (const JsonValue& label : labels->items) {
        if (label.kind != JsonValue::kString || label.text.empty() || label.text.find('\n') != std::string::npos) {
          return wrong("labels: wrong entry " + print_json(label) + "; allowed: texts of one line");
        }
        text += (text.empty() ? "" : "\n") + label.text;
      }
      if (text.empty()) return wrong("labels=" + print_json(*labels) + "; allowed: a list of texts");
      metadata["labels"] = text;
    }
    const JsonValue* preprocess = root->find("preprocess");
    if (preprocess == nullptr || metadata.count("preprocess") > 0 || !line_.compile.preprocess_preset.empty())
      return {};
    if (preprocess->kind == JsonValue::kString) {
      if (!is_preprocess_preset(preprocess->text)) {
        return wrong("preprocess=" + print_json(*preprocess) + "; allowed: " + preprocess_preset_names() +
                     ", or a recipe");
      }
      line_.compile.preprocess_preset = preprocess->text;
      return {};
    }
    Result<std::string> recipe = parse_preprocess(*preprocess);
    if (!recipe.ok()) return wrong(recipe.status().message());
    metadata["preprocess"] = *recipe;
    return {};
  }

  const std::vector<std::string>& args_;
  const FileReader& files_;
  size_t next_ = 0;
  bool has_inline_ = false;
  std::string inline_;
  std::string sidecar_;
  std::shared_ptr<QuantJob> quant_;
  CommandLine line_;
};

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& args, const FileReader& files) {
  return Parser(args, files).parse();
}

const char* command_line_help() {
  return R"(tilekiln-compiler: compiles ONNX models to tilekiln bundles

compile MODEL.onnx [-o MODEL.kiln]
    --input-shape NAME:D,D,…[;NAME:D,D,…]   shapes of inputs; one flag is one profile of the bundle
    --dynamic-batch N,N,…                   a profile for each batch, where dim 0 is free
    --dynamic-size H,W;H,W…                 a profile for each size, where two dims of a 4-D input are free
    --input-layout NCHW|NHWC, --output-layout NCHW|NHWC
    --bind INPUT=FILE.npy|FILE.pb           an input becomes a constant
    --labels FILE                           class names, one a line
    --task TASK                             detect:yolov5, detect:yolov8, detect:yolox, detect:end2end,
                                            detect:tiny-yolov2 or classify
    --preprocess PRESET|FILE.json           ultralytics, yolox, torchvision, keras, raw, or a recipe
    --sidecar FILE.json                     {"task": …, "labels": […], "preprocess": …} where flags do not say
    --precision fp32|int8                   int8: 8-bit numbers where that is known to be right and faster
    --calib-stats FILE.json                 what was seen over a calibration set; --precision int8 needs it
    --calib-method METHOD                   ranges of activations: search (default), minmax, percentile, entropy, mse
    --keep-float NODE,NODE…                 these convolutions and products stay float
    --quantize-head                         so do the last ones before outputs of rank 3 and more, without this
    --quant-report FILE.json                what became of each layer
    --observe                               what calibration wants to see becomes outputs of the bundle
    --exact                                 models that are quantised already: computed as ONNX defines it, in float
    --prepared-budget X                     weights that are transformed at load, for faster convolutions, may take X
                                            times the weights' bytes of memory; default 1
    --dump STAGE                            prints the graph after a stage
inspect MODEL.onnx|MODEL.kiln
    --json          JSON only
    --stage STAGE   the graph after a stage: import, infer, a pass, final, plan
    --check         lists every problem; exit code 1 if there is one
    --svg OUT.svg   draws the graph (after --stage, else as inferred)
    and the options for shapes, layouts and --bind of compile
tensor FILE.pb -o OUT.npy                   a TensorProto as a NumPy file

Exit codes: 0 done, 1 failed, 2 wrong usage.
)";
}

}  // namespace kiln
