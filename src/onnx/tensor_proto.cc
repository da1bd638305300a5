#include "onnx/tensor_proto.h"

#include <cstring>
#include <limits>

#include "onnx/tensor.h"

namespace kiln {
namespace {

Status invalid(const onnx::TensorProto& proto, const std::string& message) {
  return {Code::kInvalidModel, "tensor '" + proto.name() + "': " + message};
}

Result<Shape> decode_dims(const onnx::TensorProto& proto) {
  if (proto.dims_size() > kMaxRank) {
    return Status(Code::kUnsupported,
                  "tensor '" + proto.name() + strf("': %d dims; supported: up to %d", proto.dims_size(), kMaxRank));
  }
  Shape shape;
  for (const int64_t dim : proto.dims()) {
    if (dim < 0 || dim > std::numeric_limits<int32_t>::max()) {
      return invalid(proto, strf("dim %lld is not within [0, 2^31)", static_cast<long long>(dim)));
    }
    shape.push_back(dim);
  }
  if (shape.num_elements() < 0) return invalid(proto, "shape " + print_shape(shape) + " is too large");
  return shape;
}

// The file, offset and length that `external_data` gives.
struct ExternalData {
  std::string location;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool has_length = false;
};

bool parse_count(const std::string& text, uint64_t* value) {
  if (text.empty() || text.size() > 18) return false;
  *value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    *value = *value * 10 + static_cast<uint64_t>(c - '0');
  }
  return true;
}

// Files beside the model and below, nothing else.
bool stays_in_folder(const std::string& path) {
  if (path.empty() || path[0] == '/' || path.find('\\') != std::string::npos || path.find(':') != std::string::npos ||
      path.find('\0') != std::string::npos) {
    return false;
  }
  size_t begin = 0;
  while (begin <= path.size()) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (path.compare(begin, end - begin, "..") == 0) return false;
    begin = end + 1;
  }
  return true;
}

Result<ExternalData> decode_external(const onnx::TensorProto& proto) {
  ExternalData data;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") data.location = entry.value();
    if (entry.key() == "offset" && !parse_count(entry.value(), &data.offset)) {
      return invalid(proto, "external data offset='" + entry.value() + "' is no number of bytes");
    }
    if (entry.key() == "length") {
      data.has_length = true;
      if (!parse_count(entry.value(), &data.length)) {
        return invalid(proto, "external data length='" + entry.value() + "' is no number of bytes");
      }
    }
  }
  if (!stays_in_folder(data.location)) {
    return invalid(proto, "external data location='" + data.location +
                              "' is refused: it must be a relative path that does not leave the model's folder");
  }
  return data;
}

Status copy_external(const onnx::TensorProto& proto, const FileReader& files, Tensor& tensor) {
  KILN_ASSIGN(const ExternalData data, decode_external(proto));
  const std::vector<uint8_t>* file = files ? files(data.location) : nullptr;
  if (file == nullptr) {
    return {Code::kNotFound, "tensor '" + proto.name() + "': its external data file '" + data.location +
                                 "' was not found beside the model"};
  }
  if (data.has_length && data.length != tensor.bytes()) {
    return invalid(proto, strf("external data length=%llu, but shape ", static_cast<unsigned long long>(data.length)) +
                              print_shape(tensor.shape()) + " " + dtype_name(tensor.dtype()) +
                              strf(" needs %zu bytes", tensor.bytes()));
  }
  if (data.offset > file->size() || tensor.bytes() > file->size() - data.offset) {
    return {Code::kTruncated, "tensor '" + proto.name() + "': " +
                                  strf("bytes [%llu, %llu) of external data file '%s', which has only %zu",
                                       static_cast<unsigned long long>(data.offset),
                                       static_cast<unsigned long long>(data.offset + tensor.bytes()),
                                       data.location.c_str(), file->size())};
  }
  if (tensor.bytes() > 0) std::memcpy(tensor.data(), file->data() + data.offset, tensor.bytes());
  return {};
}

template <typename Field>
Status check_count(const onnx::TensorProto& proto, const Field& field, const Shape& shape, const char* name) {
  if (field.size() == shape.num_elements()) return {};
  return invalid(proto, strf("%s has %d elements, but shape ", name, field.size()) + print_shape(shape) +
                            strf(" needs %lld", static_cast<long long>(shape.num_elements())));
}

// Half precision is stored as bits in int32_data, unlike all others.
bool holds_bits(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

Status copy_typed(const onnx::TensorProto& proto, Tensor& tensor) {
  const Shape& shape = tensor.shape();
  const DType dtype = tensor.dtype();
  switch (dtype) {
    case DType::kF32:
      KILN_TRY(check_count(proto, proto.float_data(), shape, "float_data"));
      for (int i = 0; i < proto.float_data_size(); ++i) tensor.as<float>()[i] = proto.float_data(i);
      return {};
    case DType::kF64:
      KILN_TRY(check_count(proto, proto.double_data(), shape, "double_data"));
      for (int i = 0; i < proto.double_data_size(); ++i) tensor.as<double>()[i] = proto.double_data(i);
      return {};
    case DType::kI64:
      KILN_TRY(check_count(proto, proto.int64_data(), shape, "int64_data"));
      for (int i = 0; i < proto.int64_data_size(); ++i) tensor.as<int64_t>()[i] = proto.int64_data(i);
      return {};
    case DType::kU32:
    case DType::kU64:
      KILN_TRY(check_count(proto, proto.uint64_data(), shape, "uint64_data"));
      for (int i = 0; i < proto.uint64_data_size(); ++i) {
        store_i64(dtype, tensor.data(), i, static_cast<int64_t>(proto.uint64_data(i)));
      }
      return {};
    default:
      KILN_TRY(check_count(proto, proto.int32_data(), shape, "int32_data"));
      for (int i = 0; i < proto.int32_data_size(); ++i) {
        if (holds_bits(dtype))
          tensor.as<uint16_t>()[i] = static_cast<uint16_t>(proto.int32_data(i));
        else
          store_i64(dtype, tensor.data(), i, proto.int32_data(i));
      }
      return {};
  }
}

int64_t typed_count(const onnx::TensorProto& proto) {
  return int64_t{0} + proto.float_data_size() + proto.double_data_size() + proto.int64_data_size() +
         proto.uint64_data_size() + proto.int32_data_size();
}

bool is_external(const onnx::TensorProto& proto) {
  return proto.has_data_location() && proto.data_location() == onnx::TensorProto::EXTERNAL;
}

// Whether the elements are there at all, before memory is taken for them.
Status check_size(const onnx::TensorProto& proto, DType dtype, const Shape& shape, const FileReader& files) {
  const uint64_t bytes = static_cast<uint64_t>(shape.num_elements()) * dtype_bytes(dtype);
  if (is_external(proto)) {
    KILN_ASSIGN(const ExternalData data, decode_external(proto));
    const std::vector<uint8_t>* file = files ? files(data.location) : nullptr;
    if (file != nullptr && bytes > file->size()) {
      return {Code::kTruncated, "tensor '" + proto.name() + "': " + print_shape(shape) + " " + dtype_name(dtype) +
                                    strf(" needs %llu bytes, but external data file '%s' has only %zu",
                                         static_cast<unsigned long long>(bytes), data.location.c_str(), file->size())};
    }
    return {};
  }
  if (proto.has_raw_data() && (typed_count(proto) == 0 || !proto.raw_data().empty())) {
    if (proto.raw_data().size() == bytes) return {};
    return invalid(proto, "shape " + print_shape(shape) + " " + dtype_name(dtype) +
                              strf(" needs %llu bytes, but raw_data has %zu", static_cast<unsigned long long>(bytes),
                                   proto.raw_data().size()));
  }
  if (shape.num_elements() > typed_count(proto)) {
    return invalid(
        proto, "shape " + print_shape(shape) + " " + dtype_name(dtype) +
                   strf(" needs %lld elements, but the tensor holds %lld", static_cast<long long>(shape.num_elements()),
                        static_cast<long long>(typed_count(proto))));
  }
  return {};
}

}  // namespace

DType dtype_from_onnx(int data_type) {
  switch (data_type) {
    case onnx::TensorProto::FLOAT:
      return DType::kF32;
    case onnx::TensorProto::UINT8:
      return DType::kU8;
    case onnx::TensorProto::INT8:
      return DType::kI8;
    case onnx::TensorProto::UINT16:
      return DType::kU16;
    case onnx::TensorProto::INT16:
      return DType::kI16;
    case onnx::TensorProto::INT32:
      return DType::kI32;
    case onnx::TensorProto::INT64:
      return DType::kI64;
    case onnx::TensorProto::BOOL:
      return DType::kBool;
    case onnx::TensorProto::FLOAT16:
      return DType::kF16;
    case onnx::TensorProto::DOUBLE:
      return DType::kF64;
    case onnx::TensorProto::UINT32:
      return DType::kU32;
    case onnx::TensorProto::UINT64:
      return DType::kU64;
    case onnx::TensorProto::BFLOAT16:
      return DType::kBF16;
    default:
      return DType::kInvalid;
  }
}

std::string onnx_type_name(int data_type) {
  static constexpr const char* kNames[] = {
      "UNDEFINED", "FLOAT",      "UINT8",      "INT8",         "UINT16",         "INT16",      "INT32",
      "INT64",     "STRING",     "BOOL",       "FLOAT16",      "DOUBLE",         "UINT32",     "UINT64",
      "COMPLEX64", "COMPLEX128", "BFLOAT16",   "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ",
      "UINT4",     "INT4",       "FLOAT4E2M1", "FLOAT8E8M0"};
  constexpr int kCount = sizeof(kNames) / sizeof(kNames[0]);
  return data_type >= 0 && data_type < kCount ? kNames[data_type] : std::to_string(data_type);
}

std::string external_location(const onnx::TensorProto& proto) {
  if (!is_external(proto)) return {};
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") return entry.value();
  }
  return {};
}

Result<Tensor> decode_tensor(const onnx::TensorProto& proto, const FileReader& files) {
  const DType dtype = dtype_from_onnx(proto.data_type());
  if (dtype == DType::kInvalid) {
    return Status(Code::kUnsupported, "tensor '" + proto.name() + "': element type " +
                                          onnx_type_name(proto.data_type()) +
                                          " is not supported; supported: FLOAT, FLOAT16, BFLOAT16, DOUBLE, (U)INT8 to "
                                          "(U)INT64, BOOL");
  }
  if (proto.has_segment()) return Status(Code::kUnsupported, "tensor '" + proto.name() + "': stored in segments");
  KILN_ASSIGN(const Shape shape, decode_dims(proto));
  KILN_TRY(check_size(proto, dtype, shape, files));
  Tensor tensor(dtype, shape);
  if (tensor.data() == nullptr) return Status(Code::kOutOfMemory, "no memory for tensor '" + proto.name() + "'");
  if (is_external(proto)) {
    KILN_TRY(copy_external(proto, files, tensor));
  } else if (proto.has_raw_data() && proto.raw_data().size() == tensor.bytes()) {
    if (tensor.bytes() > 0) std::memcpy(tensor.data(), proto.raw_data().data(), tensor.bytes());
  } else {
    KILN_TRY(copy_typed(proto, tensor));
  }
  if (dtype == DType::kBool) {
    for (size_t i = 0; i < tensor.bytes(); ++i) tensor.as<uint8_t>()[i] = tensor.as<uint8_t>()[i] != 0;
  }
  return tensor;
}

Result<Tensor> read_tensor_proto(std::span<const uint8_t> bytes) {
  onnx::TensorProto proto;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !proto.has_data_type()) {
    return Status(Code::kNotAModel, "the file is no TensorProto");
  }
  return decode_tensor(proto, nullptr);
}

}  // namespace kiln
