#include "compile/graph_svg.h"

#include <algorithm>
#include <cmath>

#include "graph/text.h"

namespace kiln {
namespace {

constexpr int kRowHeight = 78;
constexpr int kBoxHeight = 40;
constexpr int kMinBoxWidth = 90;
constexpr int kCharWidth = 7;
constexpr int kPassageWidth = 8;
constexpr int kGap = 24;
constexpr int kMargin = 20;
constexpr size_t kLongestText = 36;
constexpr size_t kMostPassages = 100000;  // edges beyond pass behind boxes

// A place in a layer.
enum class Kind { kNode, kInput, kOutput, kPassage };  // kPassage: where a long edge passes

struct Box {
  Kind kind = Kind::kNode;
  std::string title;
  std::string detail;
  int layer = 0;
  double x = 0;  // centre
  int width = kMinBoxWidth;
};

struct Edge {
  size_t from = 0;
  size_t to = 0;
  std::string label;
};

struct Drawing {
  std::vector<Box> boxes;
  std::vector<Edge> edges;
  std::vector<std::vector<size_t>> layers;
};

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f)
      out += '?';
    else
      out += c;
  }
  return out;
}

std::string shorten(const std::string& text) {
  return text.size() <= kLongestText ? text : "..." + text.substr(text.size() - kLongestText + 3);
}

std::string constants_of(const Graph& graph, const Node& node) {
  std::string text;
  for (ValueId id : node.inputs) {
    if (graph.is_constant(id)) text += (text.empty() ? "" : " ") + print_shape(graph.value(id).shape);
  }
  return text;
}

Drawing make_boxes(const Graph& graph) {
  Drawing drawing;
  std::vector<int> source(graph.values.size(), -1);  // box that makes the value
  const auto add = [&](Kind kind, const std::string& title, const std::string& detail, int layer) {
    Box box{kind, shorten(title), shorten(detail), layer, 0, kMinBoxWidth};
    const size_t longest = std::max(box.title.size(), box.detail.size());
    box.width = std::max(kMinBoxWidth, static_cast<int>(longest) * kCharWidth + 16);
    drawing.boxes.push_back(box);
    return drawing.boxes.size() - 1;
  };
  const auto connect = [&](ValueId id, size_t to) {
    if (id == kNoValue || source[static_cast<size_t>(id)] < 0) return;
    const Value& value = graph.value(id);
    const auto from = static_cast<size_t>(source[static_cast<size_t>(id)]);
    drawing.edges.push_back({from, to, value.dtype == DType::kInvalid ? "" : print_shape(value.shape)});
    drawing.boxes[to].layer = std::max(drawing.boxes[to].layer, drawing.boxes[from].layer + 1);
  };
  for (ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    source[static_cast<size_t>(id)] = static_cast<int>(
        add(Kind::kInput, value.name, value.dtype == DType::kInvalid ? "" : print_type(value.dtype, value.shape), 0));
  }
  for (const Node& node : graph.nodes) {
    const std::string constants = constants_of(graph, node);
    const size_t box = add(Kind::kNode, node.domain.empty() ? node.op : node.domain + "." + node.op,
                           constants.empty() ? node.name : constants, 0);
    for (ValueId id : node.inputs) connect(id, box);
    for (ValueId id : node.outputs) {
      if (id != kNoValue) source[static_cast<size_t>(id)] = static_cast<int>(box);
    }
  }
  for (ValueId id : graph.outputs) {
    const Value& value = graph.value(id);
    connect(id, add(Kind::kOutput, value.name,
                    value.dtype == DType::kInvalid ? "" : print_type(value.dtype, value.shape), 0));
  }
  return drawing;
}

// Cuts edges that pass layers into pieces, with a passage in each layer between; the last piece keeps the label.
void add_passages(Drawing& drawing) {
  const std::vector<Edge> edges = std::move(drawing.edges);
  drawing.edges.clear();
  for (const Edge& edge : edges) {
    size_t from = edge.from;
    for (int layer = drawing.boxes[edge.from].layer + 1; layer < drawing.boxes[edge.to].layer; ++layer) {
      if (drawing.boxes.size() >= kMostPassages) break;
      drawing.boxes.push_back({Kind::kPassage, "", "", layer, 0, kPassageWidth});
      drawing.edges.push_back({from, drawing.boxes.size() - 1, ""});
      from = drawing.boxes.size() - 1;
    }
    drawing.edges.push_back({from, edge.to, edge.label});
  }
}

// Puts the boxes of a layer side by side, centred on 0, in their present order.
void spread(Drawing& drawing, const std::vector<size_t>& layer) {
  double total = -kGap;
  for (size_t b : layer) total += drawing.boxes[b].width + kGap;
  double x = -total / 2;
  for (size_t b : layer) {
    drawing.boxes[b].x = x + drawing.boxes[b].width / 2.0;
    x += drawing.boxes[b].width + kGap;
  }
}

void order_layers(Drawing& drawing) {
  std::vector<std::vector<size_t>> up(drawing.boxes.size()), down(drawing.boxes.size());
  for (const Edge& edge : drawing.edges) {
    up[edge.to].push_back(edge.from);
    down[edge.from].push_back(edge.to);
  }
  int deepest = 0;
  for (const Box& box : drawing.boxes) deepest = std::max(deepest, box.layer);
  drawing.layers.resize(static_cast<size_t>(deepest) + 1);
  for (size_t b = 0; b < drawing.boxes.size(); ++b)
    drawing.layers[static_cast<size_t>(drawing.boxes[b].layer)].push_back(b);
  for (const auto& layer : drawing.layers) spread(drawing, layer);
  for (int sweep = 0; sweep < 4; ++sweep) {
    const auto& neighbours = sweep % 2 == 0 ? up : down;
    for (size_t i = 0; i < drawing.layers.size(); ++i) {
      auto& layer = drawing.layers[sweep % 2 == 0 ? i : drawing.layers.size() - 1 - i];
      std::vector<std::pair<double, size_t>> keyed;
      for (size_t b : layer) {
        double sum = 0;
        for (size_t other : neighbours[b]) sum += drawing.boxes[other].x;
        keyed.emplace_back(neighbours[b].empty() ? drawing.boxes[b].x : sum / static_cast<double>(neighbours[b].size()),
                           b);
      }
      std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (size_t k = 0; k < keyed.size(); ++k) layer[k] = keyed[k].second;
      spread(drawing, layer);
    }
  }
}

}  // namespace

std::string draw_graph(const Graph& graph) {
  Drawing drawing = make_boxes(graph);
  add_passages(drawing);
  order_layers(drawing);
  double left = 0, right = 0;
  for (const Box& box : drawing.boxes) {
    left = std::min(left, box.x - box.width / 2.0);
    right = std::max(right, box.x + box.width / 2.0);
  }
  const auto x_of = [&](double x) { return static_cast<int>(std::lround(x - left)) + kMargin; };
  const auto y_of = [&](const Box& box) { return kMargin + box.layer * kRowHeight; };
  const int width = x_of(right) + kMargin;
  const int height = 2 * kMargin + static_cast<int>(drawing.layers.size()) * kRowHeight;

  std::string svg = strf(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
      "font-family=\"monospace\" font-size=\"11\">\n",
      width, height, width, height);
  svg += "<title>" + escape(graph.name) + "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  for (const Edge& edge : drawing.edges) {
    const Box& from = drawing.boxes[edge.from];
    const Box& to = drawing.boxes[edge.to];
    const int x1 = x_of(from.x), y1 = y_of(from) + kBoxHeight, x2 = x_of(to.x), y2 = y_of(to);
    svg += strf("<path d=\"M%d %d C%d %d %d %d %d %d\" fill=\"none\" stroke=\"#888\"/>\n", x1, y1, x1, y1 + 24, x2,
                y2 - 24, x2, y2);
    if (!edge.label.empty()) {
      svg += strf("<text x=\"%d\" y=\"%d\" fill=\"#999\" font-size=\"9\">", x2 + 4, y2 - 6) + escape(edge.label) +
             "</text>\n";
    }
  }
  for (const Box& box : drawing.boxes) {
    const int x = x_of(box.x), y = y_of(box);
    if (box.kind == Kind::kPassage) {
      svg += strf("<path d=\"M%d %d V%d\" stroke=\"#888\"/>\n", x, y, y + kBoxHeight);
      continue;
    }
    const char* fill = box.kind == Kind::kInput ? "#d7ecd9" : (box.kind == Kind::kOutput ? "#f6dcd6" : "#dde6f3");
    svg += strf("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\" fill=\"%s\" stroke=\"#556\"/>\n",
                x - box.width / 2, y, box.width, kBoxHeight, fill);
    svg += strf("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" font-weight=\"bold\">", x, y + 16) + escape(box.title) +
           "</text>\n";
    svg += strf("<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"#445\" font-size=\"10\">", x, y + 32) +
           escape(box.detail) + "</text>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace kiln
