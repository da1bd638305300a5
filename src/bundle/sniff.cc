#include "bundle/sniff.h"

#include <algorithm>
#include <cstring>

#include "bundle/format.h"

namespace kiln {
namespace {

bool starts_with(std::span<const uint8_t> bytes, const char* prefix) {
  const size_t length = std::strlen(prefix);
  if (bytes.size() < length) return false;
  for (size_t i = 0; i < length; ++i) {
    const uint8_t c = bytes[i] >= 'A' && bytes[i] <= 'Z' ? bytes[i] + ('a' - 'A') : bytes[i];
    if (c != static_cast<uint8_t>(prefix[i])) return false;
  }
  return true;
}

bool is_space(uint8_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// A ModelProto begins with field 1 (ir_version, a small varint) or, from some writers, with another of its
// fields.
bool looks_like_onnx(std::span<const uint8_t> bytes) {
  return bytes.size() > 16 && bytes[0] == 0x08 && bytes[1] < 64 && (bytes[2] & 7) <= 2 && bytes[2] != 0;
}

}  // namespace

Status check_is_bundle(std::span<const uint8_t> bytes) {
  const size_t common = std::min(bytes.size(), sizeof(format::kMagic));
  if (bytes.empty()) return {Code::kTruncated, "the file is empty"};
  if (std::memcmp(bytes.data(), format::kMagic, common) == 0) {
    if (common == sizeof(format::kMagic)) return {};
    return {Code::kTruncated, "the file ends within its first four bytes"};
  }
  std::span<const uint8_t> text = bytes;
  if (text.size() >= 3 && text[0] == 0xef && text[1] == 0xbb && text[2] == 0xbf) text = text.subspan(3);
  while (!text.empty() && is_space(text[0])) text = text.subspan(1);
  const char* what = "the bytes are no .kiln bundle (one begins with \"KILN\")";
  if (starts_with(text, "<!doctype") || starts_with(text, "<html") || starts_with(text, "<?xml") ||
      starts_with(text, "<head")) {
    what =
        "got HTML instead of a bundle: the server answered with a page (often index.html for an unknown "
        "path)";
  } else if (starts_with(text, "version https://git-lfs")) {
    what = "got a git-LFS pointer instead of the file itself: run `git lfs pull` where it comes from";
  } else if (bytes.size() >= 4 && bytes[0] == 'P' && bytes[1] == 'K' && bytes[2] == 3 && bytes[3] == 4) {
    what = "got a zip archive (a PyTorch checkpoint is one): export it to ONNX and compile that";
  } else if (bytes.size() >= 8 && std::memcmp(bytes.data() + 4, "TFL3", 4) == 0) {
    what = "got a TensorFlow Lite model: tilekiln compiles ONNX";
  } else if (looks_like_onnx(bytes)) {
    what = "got an ONNX model, not a bundle: compile it first (`tilekiln compile`, or compile() of the package)";
  } else if (starts_with(text, "{")) {
    what = "got JSON instead of a bundle";
  }
  return {Code::kNotAModel, what};
}

}  // namespace kiln
