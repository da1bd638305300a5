// Decodes the attributes of ONNX nodes.
#pragma once

#include <onnx.pb.h>

#include "compile/compile.h"
#include "graph/graph.h"

namespace kiln {

// kUnsupported for subgraphs, sparse tensors, types and lists of tensors; kInvalidModel where the kind is not the one
// that ONNX gives this attribute name in its own domain. The message is "subgraph" and the like: what stands there.
Result<Attr> decode_attribute(const onnx::AttributeProto& proto, bool is_onnx_domain, const FileReader& files);

}  // namespace kiln
