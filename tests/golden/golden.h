// Golden files: a command, its input files and the expected output in one text that a person reads and edits.
//
//   # What the case shows, in a sentence.
//   $ pass fold_batch_norm model.txt
//   --- model.txt
//   graph "g" opset 13
//   …
//   --- expected
//   …
//
// Commands are those of the native tool (compile, inspect, tensor), which reads graphs as text too, and
//   pass NAME[,NAME…] FILE   reads a graph as text, infers and folds, runs these passes, prints the graph; "pass infer
//   FILE"
//                            only infers. The graphs before and after are evaluated with reference kernels on seeded
//                            random inputs, and must agree.
//   parse FILE               reads a graph as text and prints it
// A file named *.onnx or *.pb is protobuf text format (the field names of onnx.proto) and is encoded; *.hex is
// hexadecimal and loses the ending. Several lines "$ …" are run one after the other, each printed before its output;
// what one writes the next can read. The output is stdout, then stderr, then "exit N" where N is not 0, then "wrote
// FILE" for each file (and what an .svg holds). In a case whose name begins with bad- every command must exit with
// something else than 0, in others with 0.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace kiln::test {

struct GoldenCase {
  std::string head;                                           // everything before the first section
  std::vector<std::string> commands;                          // without "$ "
  std::vector<std::pair<std::string, std::string>> sections;  // file name -> text, without "expected"
  std::string expected;
};

struct GoldenOutput {
  std::string text;
  std::vector<int> exit_codes;  // by command
};

GoldenCase parse_golden(const std::string& text);
std::string print_golden(const GoldenCase& golden);
GoldenOutput run_golden(const GoldenCase& golden);

// Protobuf text format to bytes for `message` of onnx.proto ("ModelProto", "TensorProto"); false with `error` set if
// the text is wrong. Takes what the golden files need: nested messages, strings with escapes, numbers, enum numbers.
bool encode_onnx_text(const std::string& text, const std::string& message, std::vector<uint8_t>& bytes,
                      std::string& error);

}  // namespace kiln::test
