#include "onnx/sniff.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>
#include <string_view>

namespace kiln {
namespace {

std::string_view as_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view skip_space(std::string_view text) {
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text[0]))) text.remove_prefix(1);
  return text;
}

bool starts_with_nocase(std::string_view text, std::string_view prefix) {
  if (text.size() < prefix.size()) return false;
  for (size_t i = 0; i < prefix.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(text[i])) != prefix[i]) return false;
  }
  return true;
}

bool is_printable(std::string_view text) {
  for (const char c : text.substr(0, 512)) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 0x20 && u != '\n' && u != '\r' && u != '\t') return false;
  }
  return true;
}

// The first characters of a text, on one line and in quotes.
std::string excerpt(std::span<const uint8_t> bytes) {
  constexpr size_t kLength = 48;
  const std::string_view text = skip_space(as_text(bytes));
  std::string line;
  for (const char c : text.substr(0, kLength)) line += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  if (text.size() > kLength) {
    while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0x80)) line.pop_back();
    line += "…";
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return "'" + line + "'";
}

// Fields of ModelProto: varints 1 and 5, the rest messages and strings.
bool is_model_field(uint64_t tag) {
  const uint64_t field = tag >> 3;
  const uint64_t wire = tag & 7;
  if (field == 1 || field == 5) return wire == 0;
  constexpr uint64_t kMessages[] = {2, 3, 4, 6, 7, 8, 14, 20, 25, 26};
  return wire == 2 && std::find(std::begin(kMessages), std::end(kMessages), field) != std::end(kMessages);
}

// Reads a base-128 number; false at the end of the bytes or after ten of them.
bool read_varint(std::span<const uint8_t> bytes, size_t& position, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 70 && position < bytes.size(); shift += 7) {
    const uint8_t byte = bytes[position++];
    if (shift < 64) *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

enum class Walk { kComplete, kCutOff, kForeign };

// Walks the top-level fields. `missing` is how many bytes the last field reaches beyond the end.
Walk walk_model(std::span<const uint8_t> bytes, uint64_t* missing) {
  size_t position = 0;
  *missing = 0;
  while (position < bytes.size()) {
    uint64_t tag = 0;
    uint64_t value = 0;
    if (!read_varint(bytes, position, &tag)) return position >= bytes.size() ? Walk::kCutOff : Walk::kForeign;
    if (!is_model_field(tag)) return Walk::kForeign;
    if (!read_varint(bytes, position, &value)) return position >= bytes.size() ? Walk::kCutOff : Walk::kForeign;
    if ((tag & 7) != 2) continue;
    if (value > (uint64_t{1} << 40)) return Walk::kForeign;
    if (value > bytes.size() - position) {
      *missing = value - (bytes.size() - position);
      return Walk::kCutOff;
    }
    position += static_cast<size_t>(value);
  }
  return Walk::kComplete;
}

}  // namespace

FileKind sniff_file(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return FileKind::kEmpty;
  const std::string_view raw = as_text(bytes);
  const std::string_view text = skip_space(raw);
  const auto at = [&](size_t offset, std::string_view magic) {
    return raw.size() >= offset + magic.size() && raw.substr(offset, magic.size()) == magic;
  };
  if (at(0, "KILN")) return FileKind::kBundle;
  if (starts_with_nocase(text, "<!doctype html") || starts_with_nocase(text, "<html") ||
      starts_with_nocase(text, "<head") || starts_with_nocase(text, "<body") || starts_with_nocase(text, "<script")) {
    return FileKind::kHtml;
  }
  if (at(0, "version https://git-lfs.github.com/spec/")) return FileKind::kLfsPointer;
  if (at(0, "PK\x03\x04")) return FileKind::kZip;
  if (at(0, "\x1f\x8b")) return FileKind::kGzip;
  if (at(4, "TFL3")) return FileKind::kTflite;
  if (at(0, "\x89HDF\r\n\x1a\n")) return FileKind::kHdf5;
  if (at(0, "\x93NUMPY")) return FileKind::kNpy;
  if (at(0, "\x89PNG\r\n\x1a\n") || at(0, "\xff\xd8\xff") || (at(0, "RIFF") && at(8, "WEBP"))) return FileKind::kImage;
  if (raw.size() > 2 && raw[0] == '\x80' && raw[1] >= 2 && raw[1] <= 5) return FileKind::kPickle;
  if (at(4, std::string_view("\0\0\0\0{\"", 6))) return FileKind::kSafetensors;
  if (is_printable(raw)) {  // a ModelProto has a control character among its first bytes
    if (!text.empty() && text[0] == '<') return FileKind::kXml;
    if (!text.empty() && (text[0] == '{' || text[0] == '[')) return FileKind::kJson;
    return FileKind::kText;
  }
  size_t position = 0;
  uint64_t tag = 0;
  if (read_varint(bytes, position, &tag) && is_model_field(tag)) return FileKind::kMaybeOnnx;
  return FileKind::kUnknown;
}

Status explain_not_onnx(std::span<const uint8_t> bytes) {
  const auto error = [](const std::string& message) { return Status(Code::kNotAModel, message); };
  switch (sniff_file(bytes)) {
    case FileKind::kEmpty:
      return {Code::kTruncated, "the file is empty"};
    case FileKind::kBundle:
      return error("this is a tilekiln bundle (.kiln), which is compiled already; expected an ONNX model");
    case FileKind::kHtml:
      return error("got HTML instead of a model (" + excerpt(bytes) +
                   "): the path or URL leads to a web page, often an error or index page");
    case FileKind::kLfsPointer:
      return error(
          "this is a git-LFS pointer, not the model itself: run `git lfs pull`, or download the file it stands for");
    case FileKind::kXml:
      return error("this is XML (" + excerpt(bytes) + "), not an ONNX model");
    case FileKind::kJson:
      return error("this is JSON (" + excerpt(bytes) + "), not an ONNX model");
    case FileKind::kZip:
      return error(
          "this is a zip archive: a PyTorch checkpoint, a Keras model or a packed ONNX model; unpack it, or export "
          "it to ONNX (torch.onnx.export)");
    case FileKind::kGzip:
      return error("this is a gzip file; unpack it first");
    case FileKind::kPickle:
      return error("this is a Python pickle, such as an old PyTorch checkpoint; export it with torch.onnx.export");
    case FileKind::kTflite:
      return error("this is a TensorFlow Lite model; convert it to ONNX (tf2onnx --tflite)");
    case FileKind::kHdf5:
      return error("this is an HDF5 file, such as a Keras model; convert it to ONNX (tf2onnx)");
    case FileKind::kSafetensors:
      return error("this is a safetensors file: weights without a graph; export the model to ONNX");
    case FileKind::kNpy:
      return error("this is a NumPy array, not an ONNX model");
    case FileKind::kImage:
      return error("this is an image, not an ONNX model");
    case FileKind::kText:
      return error("this is text (" + excerpt(bytes) + "), not an ONNX model");
    case FileKind::kMaybeOnnx: {
      uint64_t missing = 0;
      if (walk_model(bytes, &missing) == Walk::kCutOff) {
        return {Code::kTruncated,
                strf("the ONNX file is truncated: it has %zu bytes", bytes.size()) +
                    (missing > 0 ? strf(", at least %llu more are missing", static_cast<unsigned long long>(missing))
                                 : "")};
      }
      return error("the file starts like an ONNX model but is damaged: its protobuf fields do not parse");
    }
    case FileKind::kUnknown:
      break;
  }
  return error("the file is no ONNX model: its first bytes are no fields of a ModelProto");
}

}  // namespace kiln
