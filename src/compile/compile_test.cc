#include "compile/compile.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "base/sha256.h"
#include "compile/command.h"
#include "compile/json.h"
#include "compile/json_read.h"
#include "compile/preprocess_presets.h"
#include "compile/source_metadata.h"
#include "text_front_end.h"

namespace kiln::test {
namespace {

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string repeat(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

const std::string kModel = R"(graph "small" opset 13
meta "author" = "somebody"
input %x: f32[?, 3, 8, 8]
const %w: f32[8, 3, 3, 3] = random(1)
%c = Conv(%x, %w) pads=[1, 1, 1, 1] 'conv'
%r = Relu(%c) 'relu'
%m = GlobalAveragePool(%r) 'pool'
output %m
)";

}  // namespace

TEST_CASE("compiling_twice_gives_the_same_bytes") {
  CompileOptions options;
  options.dynamic_batch = {1, 3};
  CompileResult first, second;
  REQUIRE(compile_model(bytes_of(kModel), nullptr, tables_with_text(), options, first).ok());
  REQUIRE(compile_model(bytes_of(kModel), nullptr, tables_with_text(), options, second).ok());
  CHECK(first.bundle == second.bundle);
  CHECK(first.plan.profiles.size() == 2);
}

TEST_CASE("profiles_share_the_weights") {
  CompileOptions one, three;
  one.dynamic_batch = {1};
  three.dynamic_batch = {1, 2, 3};
  CompileResult single, several;
  REQUIRE(compile_model(bytes_of(kModel), nullptr, tables_with_text(), one, single).ok());
  REQUIRE(compile_model(bytes_of(kModel), nullptr, tables_with_text(), three, several).ok());
  CHECK(several.plan.weights.size() == single.plan.weights.size());
}

TEST_CASE("a_bundle_says_where_it_comes_from") {
  CompileOptions options;
  options.metadata = {{"task", "classify"}, {"labels", "a\nb"}};
  options.preprocess_preset = "raw";
  CompileResult result;
  REQUIRE(compile_model(bytes_of(kModel), nullptr, tables_with_text(), options, result).ok());
  auto& metadata = result.plan.metadata;
  CHECK(metadata["producer"] == "tilekiln 0.1.0");
  CHECK(metadata["source_sha256"] == sha256_hex(bytes_of(kModel)));
  CHECK(metadata["onnx.author"] == "somebody");
  CHECK(metadata["task"] == "classify");
  CHECK(metadata["labels"] == "a\nb");
  CHECK(metadata["preprocess"] == preprocess_preset("raw", 8));
}

TEST_CASE("every_stage_can_be_dumped") {
  const CompilerTables tables = tables_with_text();
  for (const std::string& stage : stage_names(tables)) {
    CompileOptions options;
    options.dump_stage = stage;
    CompileResult result;
    REQUIRE(compile_model(bytes_of(kModel), nullptr, tables, options, result).ok());
    CHECK_MESSAGE(!result.dump.empty(), stage);
  }
}

TEST_CASE("any_command_line_ends_with_an_exit_code_and_a_reason") {
  const std::vector<uint8_t> model(kModel.begin(), kModel.end());
  const FileReader files = [&](const std::string& name) { return name == "m" ? &model : nullptr; };
  const char* words[] = {"compile",
                         "inspect",
                         "tensor",
                         "m",
                         "missing",
                         "-o",
                         "--json",
                         "--check",
                         "--stage",
                         "plan",
                         "--input-shape",
                         "x:1,3,8,8",
                         ":",
                         "x:",
                         "--dynamic-batch",
                         "1,2",
                         "--dynamic-size",
                         "8,8",
                         ";",
                         "--labels",
                         "--task",
                         "classify",
                         "--preprocess",
                         "raw",
                         "--bind",
                         "x=m",
                         "=",
                         "--svg",
                         "",
                         "--sidecar",
                         "--input-layout",
                         "NHWC"};
  uint64_t state = 5;
  const auto next = [&](uint64_t n) {
    return ((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % n;
  };
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::string> args;
    if (next(4) > 0) args = {words[next(3)], "m"};
    for (uint64_t n = next(5); n > 0; --n) args.push_back(words[next(std::size(words))]);
    const CommandResult result = run_command(args, files, tables_with_text());
    CHECK((result.exit_code >= 0 && result.exit_code <= 2));
    if (result.exit_code != 0) CHECK(!result.problems.empty());
  }
}

TEST_CASE("json_strings_escape_and_mend_utf8") {
  CHECK(json_string("a\"b\\c\n\t\x01\x7f") == "\"a\\\"b\\\\c\\n\\t\\u0001\\u007f\"");
  CHECK(json_string("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") == "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
  const std::string mark = "\xef\xbf\xbd";
  CHECK(json_string("\xff") == "\"" + mark + "\"");
  CHECK(json_string("\xc3") == "\"" + mark + "\"");
  CHECK(json_string("\xc0\x80") == "\"" + repeat(mark, 2) + "\"");          // overlong
  CHECK(json_string("\xed\xa0\x80") == "\"" + repeat(mark, 3) + "\"");      // surrogate
  CHECK(json_string("\xf4\x90\x80\x80") == "\"" + repeat(mark, 4) + "\"");  // beyond U+10FFFF
  CHECK(json_string(std::string_view("\0", 1)) == "\"\\u0000\"");
}

TEST_CASE("json_numbers_have_one_form") {
  CHECK(json_number(0) == "0");
  CHECK(json_number(255) == "255");
  CHECK(json_number(-3) == "-3");
  CHECK(json_number(127.5) == "127.5");
  CHECK(json_number(0.1) == "0.1");
  CHECK(json_number(0.30000000000000004) == "0.30000000000000004");
  CHECK(json_number(NAN) == "null");
  CHECK(json_number(INFINITY) == "null");
}

TEST_CASE("json_is_read_back_as_written") {
  const Result<JsonValue> value = read_json(bytes_of(R"({"a": [1, -2.5e3, true, null], "b": {"c": "d\u00e9\n"}})"));
  REQUIRE(value.ok());
  CHECK(print_json(value.value()) == "{\"a\": [1, -2500, true, null], \"b\": {\"c\": \"d\xc3\xa9\\n\"}}");
  for (const char* wrong : {"", "{", "[1,]", "{\"a\":1,\"a\":2}", "nul", "\"\xff\"", "1 2"}) {
    CHECK_MESSAGE(!read_json(bytes_of(wrong)).ok(), wrong);
  }
  CHECK(!read_json(bytes_of(repeat("[", 100000))).ok());
}

TEST_CASE("class_names_of_python_and_json") {
  using Names = std::vector<std::string>;
  CHECK(parse_class_names("{0: 'person', 1: 'car'}") == Names{"person", "car"});
  CHECK(parse_class_names("{0: \"it's\", 1: 'a \\'b\\'', }") == Names{"it's", "a 'b'"});
  CHECK(parse_class_names("{\"1\": \"b\", \"0\": \"a\"}") == Names{"a", "b"});
  CHECK(parse_class_names("['a', \"b\"]") == Names{"a", "b"});
  CHECK(parse_class_names("{0: 'a', 2: 'c'}") == Names{"a", "1", "c"});
  CHECK(parse_class_names("{0: 'two\\nlines'}") == Names{"two lines"});
  for (const char* wrong :
       {"", "person", "{0: person}", "{0: 'a'", "{a: 'b'}", "{0 'a'}", "{99999999999: 'a'}", "['a' 'b']", "{0: 'a"}) {
    CHECK_MESSAGE(parse_class_names(wrong).empty(), wrong);
  }
}

TEST_CASE("image_sizes_of_exporters") {
  CHECK(exported_image_size({{"imgsz", "[480, 640]"}}) == std::vector<int64_t>{480, 640});
  CHECK(exported_image_size({{"imgsz", "320"}}) == std::vector<int64_t>{320, 320});
  CHECK(exported_image_size({{"imgsz", "[1, 2, 3]"}}).empty());
  CHECK(exported_image_size({{"imgsz", "[99999999999999999999]"}}).empty());
  CHECK(exported_image_size({}).empty());
}

TEST_CASE("presets_are_recipes_in_canonical_form") {
  for (const char* name : {"ultralytics", "ultralytics-classify", "yolox", "torchvision", "keras", "raw"}) {
    for (const int64_t height : {224, 416}) {
      const std::string text = preprocess_preset(name, height);
      const Result<std::string> again = parse_preprocess(bytes_of(text));
      REQUIRE_MESSAGE(again.ok(), again.status().message());
      CHECK(again.value() == text);
    }
  }
}

}  // namespace kiln::test
