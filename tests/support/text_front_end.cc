#include "text_front_end.h"

#include "graph/text.h"

namespace kiln::test {
namespace {

std::string_view as_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_graph_text(std::span<const uint8_t> bytes) {
  std::string_view text = as_text(bytes);
  while (!text.empty() && text[0] == '#') {
    const size_t end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return text.substr(0, 7) == "graph \"";
}

Result<ImportedModel> import_graph_text(std::span<const uint8_t> bytes, const FileReader&) {
  ImportedModel model;
  KILN_ASSIGN(model.graph, parse_graph(as_text(bytes)));
  model.description = "text";
  for (ValueId id : model.graph.inputs) {
    const Value& input = model.graph.value(id);
    model.dim_names[input.name] = std::vector<std::string>(static_cast<size_t>(input.shape.rank));
  }
  return model;
}

}  // namespace

FrontEnd text_front_end() { return {"text", is_graph_text, import_graph_text}; }

CompilerTables tables_with_text() {
  CompilerTables tables = builtin_tables();
  tables.front_ends.push_back(text_front_end());
  return tables;
}

}  // namespace kiln::test
