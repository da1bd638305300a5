// The ONNX front end: bytes of a ModelProto to a Graph. The only folder that knows protobuf.
#pragma once

#include <span>

#include "compile/compile.h"

namespace kiln {

constexpr int kMinOpset = 7;
constexpr int kMaxOpset = 23;          // of ONNX's own domain; newer ones are read with a notice
constexpr int64_t kMaxIrVersion = 13;  // newer ones are read with a notice

// True if the bytes may be a ModelProto; sniff_file says what they are if not.
bool looks_like_onnx(std::span<const uint8_t> bytes);

// Reads a model. An error only where the file cannot be read at all (see sniff.h for what it is then); everything that
// is wrong inside it becomes a Problem, so that all of them are known at once.
//
// The graph: nodes sorted; node names unique, "#12" for the 12th node if it has none; `Constant` nodes and initialisers
// are constants, also those that are graph inputs as well; absent operands kNoValue; domain "ai.onnx" is "";
// metadata_props in graph.metadata; doc strings and value_info dropped. dim_names has an entry for each input whose
// rank is known. A value that a Problem concerns has neither type nor constant; infer_and_fold passes over its readers.
//
// `files` gives external data by the `location` that the model names; null if there are no files. A file that it has
// not is a Problem with code kNotFound, attribute "external_data" and the location as value, so that a caller can fetch
// it.
Result<ImportedModel> import_onnx(std::span<const uint8_t> bytes, const FileReader& files);

FrontEnd onnx_front_end();

}  // namespace kiln
