// Builds a one-node graph, runs its reference and its runtime kernel, and compares: the harness of every operator test.
#pragma once

#include <string>
#include <vector>

#include "ops/definition.h"

namespace kiln::test {

// Deterministic uniform numbers in [lo, hi); the seed is printed when a check fails.
Tensor random_tensor(const Shape& shape, uint64_t seed, double lo = -1, double hi = 1, DType dtype = DType::kF32);
Tensor make_tensor(DType dtype, const Shape& shape, const std::vector<double>& values);

class OpTest {
 public:
  explicit OpTest(std::string op, int opset = 17, std::string domain = "");

  OpTest& attr(const std::string& name, Attr value);
  OpTest& ints(const std::string& name, std::vector<int64_t> values) { return attr(name, std::move(values)); }
  OpTest& input(Tensor tensor);     // known only at run time
  OpTest& constant(Tensor tensor);  // an initialiser
  OpTest& constant_i64(std::vector<int64_t> values);
  OpTest& absent();  // an optional input that is ''
  OpTest& outputs(int count);

  // Infers, runs the reference and the lowered kernel (after its check; with 1 and with 3 simulated threads, tiles in
  // reverse order) and compares: |kernel - reference| <= tolerance * max(1, largest |reference|), ints exactly.
  // Also runs the kernel on channel views of inputs and outputs if it declares strided operands.
  void expect_kernel_matches_reference(double tolerance = 1e-6);
  // A hostile bundle: changes parameters, dims, dtypes, views and tables of the lowered step at random. What the
  // kernel's check lets through must run, and touch nothing outside its operands (guard bytes here, ASan where it is
  // on).
  void expect_check_guards(int rounds = 500, uint64_t seed = 1);
  // The reference's output `index` equals `values` within `tolerance`.
  void expect_reference(int index, const Shape& shape, const std::vector<double>& values, double tolerance = 1e-6);
  // Inference reports a problem whose message contains `part`.
  void expect_problem(const std::string& part);
  // The inferred shape of an output.
  Shape output_shape(int index = 0);
  // The kernel name that lowering chooses.
  std::string kernel_name();

 private:
  struct Input {
    bool is_constant = false;
    bool is_absent = false;
    Tensor tensor;
  };
  Inference infer();
  std::vector<Tensor> run_reference();
  Graph graph_;
  std::vector<Input> inputs_;
  int num_outputs_ = 1;
  bool built_ = false;
  void build();
};

}  // namespace kiln::test
