// Tells what a file is that is no ONNX model: an HTML page, a git-LFS pointer, a truncated download, another format.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"

namespace kiln {

enum class FileKind {
  kUnknown,
  kMaybeOnnx,  // starts like a ModelProto
  kEmpty,
  kBundle,  // .kiln
  kHtml,
  kLfsPointer,
  kXml,
  kJson,
  kZip,  // also PyTorch checkpoints and Keras archives
  kGzip,
  kPickle,
  kTflite,
  kHdf5,
  kSafetensors,
  kNpy,
  kImage,
  kText,
};

FileKind sniff_file(std::span<const uint8_t> bytes);

// The error for bytes that did not parse: kTruncated where a protobuf field reaches beyond the end, else kNotAModel
// with what the file is and what to do.
Status explain_not_onnx(std::span<const uint8_t> bytes);

}  // namespace kiln
