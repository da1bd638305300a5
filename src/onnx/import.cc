#include "onnx/import.h"

#include <onnx.pb.h>

#include <limits>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "onnx/attribute_proto.h"
#include "onnx/sniff.h"
#include "onnx/tensor_proto.h"

namespace kiln {
namespace {

// Attributes that passes put on nodes: an ONNX file must not smuggle them in.
constexpr const char* kReservedAttributes[] = {"layout",   "activation", "activation_a", "activation_b",
                                               "residual", "view",       "input_layout", "algorithm"};
constexpr const char* kReservedDomain = "kiln";

// Operators that passes give one input more than ONNX does: a residual, a bias.
struct InputLimit {
  const char* op;
  size_t inputs;
};
constexpr InputLimit kInputLimits[] = {{"Conv", 3}, {"ConvTranspose", 3}, {"Gemm", 3}, {"MatMul", 2}, {"Add", 2}};

std::string normal_domain(const std::string& domain) { return domain == "ai.onnx" ? std::string() : domain; }

// One import: fills `model` from `proto`, in the order of the member functions.
class Importer {
 public:
  Importer(const onnx::ModelProto& proto, const FileReader& files) : proto_(proto), files_(files) {}

  ImportedModel import() {
    model_.graph.name = proto_.graph().name();
    for (const auto& entry : proto_.metadata_props()) model_.graph.metadata[entry.key()] = entry.value();
    read_versions();
    read_initializers();
    read_inputs();
    read_nodes();
    read_outputs();
    check_operands();
    const Status sorted = sort_nodes(model_.graph);
    if (!sorted.ok()) report(sorted.code(), sorted.node(), "", "", sorted.message());
    return std::move(model_);
  }

 private:
  Graph& graph() { return model_.graph; }

  void report(Code code, const std::string& node, const std::string& attribute, const std::string& value,
              const std::string& message) {
    Problem problem;
    problem.code = code;
    problem.node = node;
    problem.attribute = attribute;
    problem.value = value;
    problem.message = message;
    model_.problems.push_back(std::move(problem));
  }

  // A problem at a node: "Conv 'stem' (opset 13): attribute=value is not supported; supported: …".
  void report_node(Code code, const Node& node, const std::string& attribute, const std::string& value,
                   const std::string& supported) {
    const std::string op = node.domain.empty() ? node.op : node.domain + "." + node.op;
    std::string message =
        (op.empty() ? "node" : op) + " '" + node.name + "'" + strf(" (opset %d): ", node.opset) + attribute;
    if (!value.empty()) message += "=" + value;
    message += (code == Code::kUnsupported ? " is not supported; supported: " : "; required: ") + supported;
    report(code, node.name, attribute, value, message);
    Problem& problem = model_.problems.back();
    problem.op = op;
    problem.opset = node.opset;
    problem.supported = supported;
  }

  void read_versions() {
    for (const auto& entry : proto_.opset_import()) {
      const int64_t version = entry.version();
      opsets_[normal_domain(entry.domain())] =
          static_cast<int>(std::min<int64_t>(std::max<int64_t>(version, 0), std::numeric_limits<int>::max()));
    }
    if (proto_.ir_version() > kMaxIrVersion) {
      model_.notices.push_back(
          strf("IR version %lld is newer than %lld, which tilekiln knows; operators are checked one by one",
               static_cast<long long>(proto_.ir_version()), static_cast<long long>(kMaxIrVersion)));
    }
    model_.description = strf("ONNX, IR version %lld", static_cast<long long>(proto_.ir_version()));
    for (const auto& [domain, version] : opsets_) {
      model_.description += ", opset " + (domain.empty() ? "" : domain + " ") + std::to_string(version);
    }
    if (!proto_.producer_name().empty()) model_.description += ", made by " + proto_.producer_name();
    if (!proto_.producer_version().empty()) model_.description += " " + proto_.producer_version();

    const auto onnx_opset = opsets_.find("");
    if (onnx_opset == opsets_.end()) return;  // read_nodes reports the nodes that need it
    if (onnx_opset->second < kMinOpset) {
      report(Code::kUnsupported, "", "opset_import", std::to_string(onnx_opset->second),
             strf("opset %d is not supported; supported: %d to %d (onnx.version_converter.convert_version raises it)",
                  onnx_opset->second, kMinOpset, kMaxOpset));
    } else if (onnx_opset->second > kMaxOpset) {
      model_.notices.push_back(
          strf("opset %d is newer than %d, which tilekiln knows; operators are read by the rules of "
               "opset %d",
               onnx_opset->second, kMaxOpset, kMaxOpset));
    }
  }

  // The value of this name, made if need be. Names are unique within a graph.
  ValueId value_of(const std::string& name) {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    const ValueId id = graph().add_value(name);
    values_[name] = id;
    defined_.push_back(false);
    return id;
  }

  // Makes the value `name` defined; false (with a problem) if it is so already.
  bool define(const std::string& name, const char* what) {
    const ValueId id = value_of(name);
    if (defined_[static_cast<size_t>(id)]) {
      report(Code::kInvalidModel, "", what, name, std::string(what) + " '" + name + "' is defined twice");
      return false;
    }
    defined_[static_cast<size_t>(id)] = true;
    return true;
  }

  void set_constant(const std::string& name, Tensor tensor) {
    Value& value = graph().value(value_of(name));
    value.dtype = tensor.dtype();
    value.shape = tensor.shape();
    value.constant = std::make_shared<const Tensor>(std::move(tensor));
  }

  void read_initializers() {
    for (const auto& initializer : proto_.graph().initializer()) {
      const std::string& name = initializer.name();
      if (name.empty()) {
        report(Code::kInvalidModel, "", "initializer", "", "an initialiser has no name");
        continue;
      }
      if (!define(name, "initialiser")) continue;
      Result<Tensor> tensor = decode_tensor(initializer, files_);
      if (tensor.ok())
        set_constant(name, std::move(*tensor));
      else if (tensor.status().code() == Code::kNotFound)
        report_missing_file(initializer, tensor.status());
      else
        report(tensor.status().code(), "", "initializer", name, tensor.status().message());
    }
    for (const auto& sparse : proto_.graph().sparse_initializer()) {
      const std::string& name = sparse.values().name();
      if (name.empty() || !define(name, "initialiser")) continue;
      report(Code::kUnsupported, "", "sparse_initializer", name,
             "initialiser '" + name + "': sparse tensors are not supported; supported: dense ones");
    }
  }

  // One problem a file, however many tensors lie in it.
  void report_missing_file(const onnx::TensorProto& proto, const Status& status) {
    const std::string location = external_location(proto);
    if (missing_files_.insert(location).second) report(status.code(), "", "external_data", location, status.message());
  }

  void read_inputs() {
    for (const auto& input : proto_.graph().input()) {
      const auto found = values_.find(input.name());
      // Before IR version 4 every initialiser had to be listed as an input too.
      if (found != values_.end() && !is_graph_input(found->second)) continue;
      if (input.name().empty()) {
        report(Code::kInvalidModel, "", "input", "", "a graph input has no name");
        continue;
      }
      if (!define(input.name(), "graph input")) continue;
      const ValueId id = value_of(input.name());
      graph().inputs.push_back(id);
      if (!input.type().has_tensor_type()) {
        report(Code::kUnsupported, "", "input", input.name(),
               "input '" + input.name() + "': its type is no tensor; supported: tensors");
        continue;
      }
      const auto& type = input.type().tensor_type();
      const DType dtype = dtype_from_onnx(type.elem_type());
      if (dtype == DType::kInvalid) {
        report(Code::kUnsupported, "", "input", input.name(),
               "input '" + input.name() + "': element type " + onnx_type_name(type.elem_type()) + " is not supported");
        continue;
      }
      if (type.has_shape() && !read_shape(input.name(), type.shape(), graph().value(id).shape)) continue;
      graph().value(id).dtype = dtype;
    }
  }

  bool is_graph_input(ValueId id) const {
    for (ValueId input : model_.graph.inputs) {
      if (input == id) return true;
    }
    return false;
  }

  bool read_shape(const std::string& input, const onnx::TensorShapeProto& proto, Shape& shape) {
    if (proto.dim_size() > kMaxRank) {
      report(Code::kUnsupported, "", "input", input,
             "input '" + input + strf("': %d dims; supported: up to %d", proto.dim_size(), kMaxRank));
      return false;
    }
    std::vector<std::string> names;
    for (const auto& dim : proto.dim()) {
      names.push_back(dim.dim_param());
      const int64_t size = dim.has_dim_value() ? dim.dim_value() : kUnknownDim;
      if (size < kUnknownDim || size > std::numeric_limits<int32_t>::max()) {
        report(Code::kInvalidModel, "", "input", input,
               "input '" + input + strf("': dim %lld is not within [0, 2^31)", static_cast<long long>(size)));
        return false;
      }
      shape.push_back(size);  // some exporters write -1 for a free dim
    }
    model_.dim_names[input] = std::move(names);
    return true;
  }

  std::string unique_node_name(const std::string& wanted, int index) {
    std::string name = wanted.empty() ? strf("#%d", index + 1) : wanted;
    for (int i = 1; !node_names_.insert(name).second; ++i)
      name = (wanted.empty() ? "#" : wanted + "_") + std::to_string(i);
    return name;
  }

  void read_nodes() {
    std::set<std::pair<std::string, std::string>> functions;
    std::vector<std::string> training_norms;
    for (const auto& function : proto_.functions())
      functions.insert({normal_domain(function.domain()), function.name()});
    // Names that are there come first, so that "#3" of a nameless node never takes one away.
    for (int i = 0; i < proto_.graph().node_size(); ++i) {
      const onnx::NodeProto& proto = proto_.graph().node(i);
      Node node;
      node.op = proto.op_type();
      node.domain = normal_domain(proto.domain());
      node.name = unique_node_name(proto.name(), i);
      const auto opset = opsets_.find(node.domain);
      node.opset = opset == opsets_.end() ? 0 : opset->second;
      if (node.op.empty())
        report_node(Code::kInvalidModel, node, "op_type", "''", "the name of an operator");
      else if (node.domain == kReservedDomain)
        report_node(Code::kUnknownOperator, node, "domain", kReservedDomain, "another domain");
      else if (opset == opsets_.end()) {
        report_node(Code::kInvalidModel, node, "domain", "'" + node.domain + "'", "an entry of opset_import for it");
      } else if (functions.count({node.domain, node.op})) {
        report_node(Code::kUnsupported, node, "a call of the model's own function", "",
                    "operators (onnx.inliner.inline_local_functions puts the bodies in place)");
      }
      read_operands(proto, node);
      if (node.domain.empty() && node.op == "Constant") {
        read_constant(proto, node);
        continue;
      }
      read_attributes(proto, node);
      if (node.domain.empty() && node.op == "BatchNormalization" && node.opset < 14 && node.outputs.size() > 1) {
        training_norms.push_back(node.name);
      }
      graph().nodes.push_back(std::move(node));
    }
    if (!training_norms.empty()) {
      model_.notices.push_back(
          strf("BatchNormalization '%s'%s: exported for training, run as inference with the "
               "running statistics",
               training_norms[0].c_str(),
               training_norms.size() > 1 ? strf(" and %zu more", training_norms.size() - 1).c_str() : ""));
    }
  }

  void read_operands(const onnx::NodeProto& proto, Node& node) {
    for (const std::string& name : proto.input()) node.inputs.push_back(name.empty() ? kNoValue : value_of(name));
    while (!node.inputs.empty() && node.inputs.back() == kNoValue) node.inputs.pop_back();
    bool any = false;
    for (const std::string& name : proto.output()) {
      if (name.empty()) {
        node.outputs.push_back(kNoValue);
        continue;
      }
      any = true;
      ValueId id = value_of(name);
      if (defined_[static_cast<size_t>(id)]) {
        report_node(Code::kInvalidModel, node, "output", "'" + name + "', which is defined already",
                    "a name of its own");
        id = graph().add_value(graph().unique_name(name));
        defined_.push_back(true);
      }
      defined_[static_cast<size_t>(id)] = true;
      node.outputs.push_back(id);
    }
    while (node.outputs.size() > 1 && node.outputs.back() == kNoValue) node.outputs.pop_back();
    if (!any) report_node(Code::kInvalidModel, node, "number of outputs", "0", "at least 1");
    for (const InputLimit& limit : kInputLimits) {
      if (!node.domain.empty() || node.op != limit.op || node.inputs.size() <= limit.inputs) continue;
      report_node(Code::kInvalidModel, node, "number of inputs", std::to_string(node.inputs.size()),
                  strf("at most %zu", limit.inputs));
    }
  }

  void read_attributes(const onnx::NodeProto& proto, Node& node) {
    for (const auto& attribute : proto.attribute()) {
      const std::string& name = attribute.name();
      if (node.attrs.count(name)) {
        report_node(Code::kInvalidModel, node, "attribute " + name, "given twice", "one value");
        continue;
      }
      for (const char* reserved : kReservedAttributes) {
        if (node.domain.empty() && name == reserved) {
          report_node(Code::kInvalidModel, node, "attribute " + name, "…", "attributes that ONNX defines");
        }
      }
      Result<Attr> attr = decode_attribute(attribute, node.domain.empty(), files_);
      if (attr.ok()) {
        node.attrs[name] = std::move(*attr);
        continue;
      }
      const Status& status = attr.status();
      report_node(status.code(), node, name, status.message(),
                  attribute.has_g() ? "models without control flow (simplify the model, or export it "
                                      "for fixed sizes)"
                  : status.code() == Code::kUnsupported ? "numbers, strings, lists of them and dense tensors"
                                                        : "the kind that ONNX defines");
    }
  }

  // Constant is the one operator that ends here: its output becomes a constant.
  void read_constant(const onnx::NodeProto& proto, const Node& node) {
    if (node.outputs.size() > 1) {
      report_node(Code::kInvalidModel, node, "number of outputs", std::to_string(node.outputs.size()), "1");
    }
    if (node.outputs.size() != 1 || node.outputs[0] == kNoValue) return;
    const std::string& name = proto.output(0);
    if (proto.attribute_size() != 1) {
      report_node(Code::kInvalidModel, node, "number of attributes", std::to_string(proto.attribute_size()), "1");
      return;
    }
    const auto& attribute = proto.attribute(0);
    Result<Attr> attr = decode_attribute(attribute, true, files_);
    if (attr.status().code() == Code::kNotFound) {
      report_missing_file(attribute.t(), attr.status());
      return;
    }
    if (!attr.ok()) {
      report_node(attr.status().code(), node, attribute.name(), attr.status().message(),
                  "value, value_float(s), value_int(s)");
      return;
    }
    if (const auto* tensor = std::get_if<TensorPtr>(&*attr)) {
      set_constant(name, **tensor);
    } else if (const auto* f = std::get_if<float>(&*attr)) {
      set_constant(name, make_f32_scalar(*f));
    } else if (const auto* i = std::get_if<int64_t>(&*attr)) {
      Tensor scalar(DType::kI64, Shape{});
      *scalar.as<int64_t>() = *i;
      set_constant(name, std::move(scalar));
    } else if (const auto* ints = std::get_if<std::vector<int64_t>>(&*attr)) {
      set_constant(name, make_i64_vector(ints->data(), static_cast<int>(ints->size())));
    } else if (const auto* floats = std::get_if<std::vector<float>>(&*attr)) {
      Tensor vector(DType::kF32, Shape{static_cast<int64_t>(floats->size())});
      for (size_t k = 0; k < floats->size(); ++k) vector.as<float>()[k] = (*floats)[k];
      set_constant(name, std::move(vector));
    } else {
      report_node(Code::kUnsupported, node, attribute.name(), "strings", "value, value_float(s), value_int(s)");
    }
  }

  void read_outputs() {
    for (const auto& output : proto_.graph().output()) {
      const auto found = values_.find(output.name());
      if (found == values_.end() || !defined_[static_cast<size_t>(found->second)]) {
        report(Code::kInvalidModel, "", "output", output.name(),
               "graph output '" + output.name() + "' is produced by nothing");
        continue;
      }
      graph().outputs.push_back(found->second);
    }
    if (proto_.graph().output_size() == 0) {
      report(Code::kInvalidModel, "", "output", "", "the graph has no outputs");
    }
  }

  void check_operands() {
    for (const Node& node : graph().nodes) {
      for (ValueId id : node.inputs) {
        if (id == kNoValue || defined_[static_cast<size_t>(id)]) continue;
        report_node(Code::kInvalidModel, node, "input", "'" + graph().value(id).name + "', which nothing produces",
                    "a graph input, an initialiser or an output of another node");
      }
    }
  }

  const onnx::ModelProto& proto_;
  const FileReader& files_;
  ImportedModel model_;
  std::map<std::string, int> opsets_;
  std::unordered_map<std::string, ValueId> values_;
  std::vector<bool> defined_;
  std::unordered_set<std::string> node_names_;
  std::set<std::string> missing_files_;
};

Result<onnx::ModelProto> parse_model(std::span<const uint8_t> bytes) {
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    return Status(Code::kUnsupported,
                  strf("the model file has %zu bytes; supported: less than 2 GiB, with larger weights as "
                       "external data",
                       bytes.size()));
  }
  onnx::ModelProto proto;
  if (!looks_like_onnx(bytes) || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return explain_not_onnx(bytes);
  }
  if (!proto.has_graph()) {
    return Status(Code::kNotAModel,
                  "the file parses as protobuf but has no graph: it is no ONNX model, or it ends too early");
  }
  return proto;
}

}  // namespace

bool looks_like_onnx(std::span<const uint8_t> bytes) { return sniff_file(bytes) == FileKind::kMaybeOnnx; }

Result<ImportedModel> import_onnx(std::span<const uint8_t> bytes, const FileReader& files) {
  KILN_ASSIGN(const onnx::ModelProto proto, parse_model(bytes));
  return Importer(proto, files).import();
}

FrontEnd onnx_front_end() { return {"onnx", looks_like_onnx, import_onnx}; }

}  // namespace kiln
