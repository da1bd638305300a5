#include "onnx/attribute_proto.h"

#include <cstring>

#include "onnx/tensor_proto.h"

namespace kiln {
namespace {

using onnx::AttributeProto;

// The kind of each attribute of ONNX's own domain; a name has the same kind in all operators that take part here.
struct Kind {
  const char* name;
  AttributeProto::AttributeType type;
};
constexpr Kind kKinds[] = {
    {"allowzero", AttributeProto::INT},
    {"alpha", AttributeProto::FLOAT},
    {"antialias", AttributeProto::INT},
    {"auto_pad", AttributeProto::STRING},
    {"axes", AttributeProto::INTS},
    {"axis", AttributeProto::INT},
    {"batch_dims", AttributeProto::INT},
    {"beta", AttributeProto::FLOAT},
    {"blocksize", AttributeProto::INT},
    {"ceil_mode", AttributeProto::INT},
    {"center_point_box", AttributeProto::INT},
    {"coordinate_transformation_mode", AttributeProto::STRING},
    {"count_include_pad", AttributeProto::INT},
    {"cubic_coeff_a", AttributeProto::FLOAT},
    {"dilations", AttributeProto::INTS},
    {"ends", AttributeProto::INTS},
    {"end", AttributeProto::INT},
    {"epsilon", AttributeProto::FLOAT},
    {"exclude_outside", AttributeProto::INT},
    {"extrapolation_value", AttributeProto::FLOAT},
    {"gamma", AttributeProto::FLOAT},
    {"group", AttributeProto::INT},
    {"height_scale", AttributeProto::FLOAT},
    {"keep_aspect_ratio_policy", AttributeProto::STRING},
    {"keepdims", AttributeProto::INT},
    {"kernel_shape", AttributeProto::INTS},
    {"largest", AttributeProto::INT},
    {"mode", AttributeProto::STRING},
    {"momentum", AttributeProto::FLOAT},
    {"nearest_mode", AttributeProto::STRING},
    {"noop_with_empty_axes", AttributeProto::INT},
    {"num_outputs", AttributeProto::INT},
    {"output_padding", AttributeProto::INTS},
    {"output_shape", AttributeProto::INTS},
    {"pads", AttributeProto::INTS},
    {"perm", AttributeProto::INTS},
    {"ratio", AttributeProto::FLOAT},
    {"select_last_index", AttributeProto::INT},
    {"sorted", AttributeProto::INT},
    {"spatial", AttributeProto::INT},
    {"split", AttributeProto::INTS},
    {"start", AttributeProto::INT},
    {"starts", AttributeProto::INTS},
    {"storage_order", AttributeProto::INT},
    {"strides", AttributeProto::INTS},
    {"to", AttributeProto::INT},
    {"training_mode", AttributeProto::INT},
    {"transA", AttributeProto::INT},
    {"transB", AttributeProto::INT},
    {"width_scale", AttributeProto::FLOAT},
};

const char* type_name(AttributeProto::AttributeType type) {
  static constexpr const char* kNames[] = {"no value",
                                           "a float",
                                           "an int",
                                           "a string",
                                           "a tensor",
                                           "a subgraph",
                                           "a list of floats",
                                           "a list of ints",
                                           "a list of strings",
                                           "a list of tensors",
                                           "a list of subgraphs",
                                           "a sparse tensor",
                                           "a list of sparse tensors",
                                           "a type",
                                           "a list of types"};
  return type >= 0 && type <= AttributeProto::TYPE_PROTOS ? kNames[type] : "an unknown kind";
}

// Files of IR version 1 have no `type`: the field that is there tells.
AttributeProto::AttributeType type_of(const AttributeProto& proto) {
  if (proto.type() != AttributeProto::UNDEFINED) return proto.type();
  if (proto.has_f()) return AttributeProto::FLOAT;
  if (proto.has_i()) return AttributeProto::INT;
  if (proto.has_s()) return AttributeProto::STRING;
  if (proto.has_t()) return AttributeProto::TENSOR;
  if (proto.has_g()) return AttributeProto::GRAPH;
  if (proto.floats_size() > 0) return AttributeProto::FLOATS;
  if (proto.ints_size() > 0) return AttributeProto::INTS;
  if (proto.strings_size() > 0) return AttributeProto::STRINGS;
  if (proto.tensors_size() > 0) return AttributeProto::TENSORS;
  if (proto.graphs_size() > 0) return AttributeProto::GRAPHS;
  return AttributeProto::UNDEFINED;
}

}  // namespace

Result<Attr> decode_attribute(const AttributeProto& proto, bool is_onnx_domain, const FileReader& files) {
  const auto type = type_of(proto);
  if (proto.has_ref_attr_name() && !proto.ref_attr_name().empty()) {
    return Status(Code::kUnsupported, "a reference to function attribute '" + proto.ref_attr_name() + "'");
  }
  if (is_onnx_domain) {
    for (const Kind& kind : kKinds) {
      if (proto.name() == kind.name && type != kind.type) {
        return Status(Code::kInvalidModel, std::string(type_name(type)) + " instead of " + type_name(kind.type));
      }
    }
  }
  switch (type) {
    case AttributeProto::FLOAT:
      return Attr(proto.f());
    case AttributeProto::INT:
      return Attr(int64_t{proto.i()});
    case AttributeProto::STRING:
      return Attr(proto.s());
    case AttributeProto::TENSOR: {
      KILN_ASSIGN(Tensor tensor, decode_tensor(proto.t(), files));
      return Attr(TensorPtr(std::make_shared<const Tensor>(std::move(tensor))));
    }
    case AttributeProto::FLOATS:
      return Attr(std::vector<float>(proto.floats().begin(), proto.floats().end()));
    case AttributeProto::INTS:
      return Attr(std::vector<int64_t>(proto.ints().begin(), proto.ints().end()));
    case AttributeProto::STRINGS:
      return Attr(std::vector<std::string>(proto.strings().begin(), proto.strings().end()));
    case AttributeProto::UNDEFINED:
      return Status(Code::kInvalidModel, type_name(type));
    default:
      return Status(Code::kUnsupported, type_name(type));
  }
}

}  // namespace kiln
