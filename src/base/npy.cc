#include "base/npy.h"

#include <cctype>
#include <cstdlib>
#include <cstring>

namespace kiln {
namespace {

struct NpyType {
  const char* descr;
  DType dtype;
};
constexpr NpyType kTypes[] = {
    {"<f4", DType::kF32}, {"<f2", DType::kF16},  {"<f8", DType::kF64}, {"|i1", DType::kI8},  {"|u1", DType::kU8},
    {"<i2", DType::kI16}, {"<u2", DType::kU16},  {"<i4", DType::kI32}, {"<u4", DType::kU32}, {"<i8", DType::kI64},
    {"<u8", DType::kU64}, {"|b1", DType::kBool}, {"<i1", DType::kI8},  {"<u1", DType::kU8},  {"<b1", DType::kBool},
};
constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;

// What stands behind 'key': in the header's Python dict; the rest of the header, or "".
std::string after_key(const std::string& header, const char* key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = quote + std::string(key) + quote;
    size_t at = header.find(quoted);
    if (at == std::string::npos) continue;
    at = header.find(':', at + quoted.size());
    if (at == std::string::npos) return {};
    ++at;
    while (at < header.size() && header[at] == ' ') ++at;
    return header.substr(at);
  }
  return {};
}

bool parse_shape(const std::string& text, Shape* shape) {
  if (text.empty() || text[0] != '(') return false;
  const char* p = text.c_str() + 1;
  for (;;) {
    while (*p == ' ' || *p == ',') ++p;
    if (*p == ')') return true;
    if (!std::isdigit(static_cast<unsigned char>(*p)) || shape->rank == kMaxRank) return false;
    char* end = nullptr;
    shape->push_back(std::strtoll(p, &end, 10));
    p = end;
  }
}

}  // namespace

std::vector<uint8_t> write_npy(const Tensor& tensor) {
  if (tensor.dtype() == DType::kBF16) {
    Tensor wide(DType::kF32, tensor.shape());
    for (int64_t i = 0; i < tensor.num_elements(); ++i) wide.as<float>()[i] = bf16_to_f32(tensor.as<uint16_t>()[i]);
    return write_npy(wide);
  }
  const char* descr = "";
  for (const NpyType& type : kTypes) {
    if (type.dtype == tensor.dtype()) {
      descr = type.descr;
      break;
    }
  }
  std::string dims;
  for (int i = 0; i < tensor.shape().rank; ++i) {
    dims += std::to_string(tensor.shape()[i]) + (i + 1 < tensor.shape().rank ? ", " : (i == 0 ? "," : ""));
  }
  std::string header = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (" + dims + "), }";
  while ((kMagicBytes + 4 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::vector<uint8_t> bytes(kMagicBytes + 4 + header.size() + tensor.bytes());
  std::memcpy(bytes.data(), kMagic, kMagicBytes);
  bytes[6] = 1;
  bytes[8] = static_cast<uint8_t>(header.size() & 255);
  bytes[9] = static_cast<uint8_t>(header.size() >> 8);
  std::memcpy(bytes.data() + 10, header.data(), header.size());
  if (tensor.bytes() > 0) std::memcpy(bytes.data() + 10 + header.size(), tensor.data(), tensor.bytes());
  return bytes;
}

Result<Tensor> read_npy(std::span<const uint8_t> bytes) {
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic, kMagicBytes) != 0) {
    return Status(Code::kNotAModel, "the file is no .npy file");
  }
  const bool is_v1 = bytes[6] == 1;
  size_t begin = is_v1 ? 10 : 12;
  if (bytes.size() < begin) return Status(Code::kTruncated, "the .npy file ends in its header");
  size_t length = bytes[8] | size_t{bytes[9]} << 8;
  if (!is_v1) length |= size_t{bytes[10]} << 16 | size_t{bytes[11]} << 24;
  if (length > bytes.size() - begin) return Status(Code::kTruncated, "the .npy file ends in its header");
  const std::string header(reinterpret_cast<const char*>(bytes.data()) + begin, length);
  begin += length;

  const std::string descr = after_key(header, "descr").substr(0, 5);
  DType dtype = DType::kInvalid;
  for (const NpyType& type : kTypes) {
    if (descr.size() == 5 && descr.compare(1, 3, type.descr) == 0 && descr[4] == descr[0]) dtype = type.dtype;
  }
  if (dtype == DType::kInvalid) {
    return Status(Code::kUnsupported, ".npy: dtype " + descr + "; supported: little-endian floats, integers, bool");
  }
  if (after_key(header, "fortran_order").compare(0, 5, "False") != 0) {
    return Status(Code::kUnsupported, ".npy: Fortran order; supported: C order (numpy.ascontiguousarray)");
  }
  Shape shape;
  if (!parse_shape(after_key(header, "shape"), &shape)) {
    return Status(Code::kUnsupported, strf(".npy: its shape is not one of up to %d dims", kMaxRank));
  }
  const int64_t n = shape.num_elements();
  if (n < 0) return Status(Code::kUnsupported, ".npy: shape " + print_shape(shape) + " is too large");
  const uint64_t needed = static_cast<uint64_t>(n) * dtype_bytes(dtype);
  if (needed > bytes.size() - begin) {
    return Status(Code::kTruncated, strf("the .npy file is truncated: %llu bytes of elements are needed, %zu are there",
                                         static_cast<unsigned long long>(needed), bytes.size() - begin));
  }
  Tensor tensor(dtype, shape);
  if (tensor.data() == nullptr) return Status(Code::kOutOfMemory, "no memory for the .npy file");
  if (needed > 0) std::memcpy(tensor.data(), bytes.data() + begin, static_cast<size_t>(needed));
  return tensor;
}

}  // namespace kiln
