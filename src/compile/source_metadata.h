// What exporters write into ONNX metadata_props, turned into the bundle's task, labels and preprocessing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace kiln {

// The class names of ultralytics' `names`: a Python or JSON dict ({0: 'person', 1: 'car'}) or list. Empty if it is
// neither; an index that is left out gets its number as name.
std::vector<std::string> parse_class_names(const std::string& text);

// The [height, width] of `imgsz`, or empty.
std::vector<int64_t> exported_image_size(const std::map<std::string, std::string>& metadata);

// "task", "labels" (one a line) and "preset" as far as metadata and output shapes tell for sure. `graph` is inferred.
std::map<std::string, std::string> describe_source(const Graph& graph);

}  // namespace kiln
