#include "op_test.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cpu/gemm_tile.h"

namespace kiln::test {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): tiny, seedable, the same everywhere.
uint64_t next_random(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Three "threads" that take the tiles backwards: shows up kernels whose bits depend on tile order or thread number.
const Parallel& reversed_parallel() {
  static const Parallel reversed{3, nullptr, [](void*, int num_tiles, void (*task)(void*, int, int), void* context) {
                                   for (int tile = num_tiles - 1; tile >= 0; --tile) task(context, tile, tile % 3);
                                 }};
  return reversed;
}

// Kernels made of cpu/gemm_tile.h.
bool runs_products(const KernelDef& kernel) {
  const std::string name = kernel.name;
  return name.find("gemm8") != name.npos || name.find("winograd") != name.npos || name.find("phases") != name.npos;
}

struct TileKernelChoice {
  const int32_t before = selected_tile_kernel();
  explicit TileKernelChoice(int32_t index) { select_tile_kernel(index); }
  ~TileKernelChoice() { select_tile_kernel(before); }
};

// A tensor laid into a larger parent with `gap` extra channels, so that rows are not adjacent.
struct ChannelView {
  Tensor parent;
  TensorRef ref;
  ChannelView(const TensorRef& dense, int gap) {
    Shape shape;
    for (int i = 0; i < dense.rank; ++i) shape.push_back(dense.dims[i]);
    const int last = dense.rank - 1;
    shape[last] += gap;
    parent = Tensor(dense.dtype, shape);
    std::memset(parent.data(), 0x5a, parent.bytes());
    ref = make_ref(parent);
    ref.dims[last] = dense.dims[last];
  }
  void copy(const TensorRef& dense, bool into_view) {
    const size_t item = dtype_bytes(dense.dtype);
    const size_t row = static_cast<size_t>(dense.dims[dense.rank - 1]) * item;
    const size_t pitch = static_cast<size_t>(dense.rank > 1 ? ref.strides[dense.rank - 2] : 0) * item;
    const int64_t rows = dense.num_elements() / std::max(1, dense.dims[dense.rank - 1]);
    for (int64_t r = 0; r < rows; ++r) {
      char* a = static_cast<char*>(ref.data) + static_cast<size_t>(r) * pitch;
      char* b = static_cast<char*>(dense.data) + static_cast<size_t>(r) * row;
      if (into_view)
        std::memcpy(a, b, row);
      else
        std::memcpy(b, a, row);
    }
  }
};

void compare(const Tensor& expected, const TensorRef& actual, double tolerance, const char* what) {
  REQUIRE(expected.dtype() == actual.dtype);
  const int64_t n = expected.num_elements();
  double largest = 1;
  for (int64_t i = 0; i < n; ++i) {
    const double e = element_as_f64(expected.dtype(), expected.data(), i);
    if (std::isfinite(e)) largest = std::max(largest, std::fabs(e));
  }
  int64_t worst = -1;
  double worst_error = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (!is_float(expected.dtype())) {
      if (element_as_i64(expected.dtype(), expected.data(), i) != element_as_i64(actual.dtype, actual.data, i)) {
        worst = i;
        worst_error = INFINITY;
        break;
      }
      continue;
    }
    const double e = element_as_f64(expected.dtype(), expected.data(), i);
    const double a = element_as_f64(actual.dtype, actual.data, i);
    if (std::isnan(e) && std::isnan(a)) continue;
    const double error = e == a ? 0 : std::fabs(e - a);
    if (!(error <= worst_error)) {
      worst_error = error;
      worst = i;
    }
  }
  if (worst < 0) return;
  INFO(what, ": worst element ", worst, " expected ", element_as_f64(expected.dtype(), expected.data(), worst), " got ",
       element_as_f64(actual.dtype, actual.data, worst));
  CHECK(worst_error <= tolerance * largest);
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kHasAsan = true;
#elif defined(__has_feature)
constexpr bool kHasAsan = __has_feature(address_sanitizer);
#else
constexpr bool kHasAsan = false;
#endif

// What a kernel makes of its weights at load, as long as it says. The kernel runs while this lives.
class Prepared {
 public:
  Prepared(const KernelDef& kernel, KernelArgs& args) {
    if (kernel.prepare == nullptr) return;
    const size_t bytes = (kernel.prepared_bytes(args) + 63) / 64 * 64;
    memory_.reset(std::aligned_alloc(64, bytes));
    args.prepared = memory_.get();
    kernel.prepare(args);
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
};

// An operand in an allocation of its own, exactly as long as its elements reach; guard bytes behind it where ASan does
// not watch.
struct GuardedOperand {
  static constexpr size_t kGuard = 64;
  TensorRef ref;
  std::unique_ptr<uint8_t[]> bytes;
  size_t size = 0;
  bool guarded = false;

  // False if it is too large to try.
  bool allocate(uint64_t& state) {
    int64_t reach = 1;
    for (int i = 0; i < ref.rank; ++i) {
      if (ref.dims[i] <= 0) reach = 0;
    }
    for (int i = 0; i < ref.rank && reach > 0; ++i) {
      if (ref.dims[i] == 1) continue;
      if (ref.dims[i] > 1 << 20 || ref.strides[i] > 1 << 20) return false;
      reach += static_cast<int64_t>(ref.dims[i] - 1) * ref.strides[i];
    }
    size = static_cast<size_t>(reach) * dtype_bytes(ref.dtype);
    if (size > 1 << 20) return false;
    const size_t guard = kHasAsan ? 0 : kGuard;
    guarded = guard > 0;
    bytes.reset(new uint8_t[size + guard]);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(next_random(state));
    std::memset(bytes.get() + size, 0xa5, guard);
    ref.data = bytes.get();
    return true;
  }
  bool guard_is_whole() const {
    for (size_t i = 0; guarded && i < kGuard; ++i) {
      if (bytes[size + i] != 0xa5) return false;
    }
    return true;
  }
};

// Row-major strides; as a channel view if `gap` > 0.
void set_strides(TensorRef& ref, int gap) {
  int64_t stride = 1;
  for (int i = ref.rank - 1; i >= 0; --i) {
    ref.strides[i] = static_cast<int32_t>(std::min<int64_t>(stride, INT32_MAX));
    stride = std::min<int64_t>(stride * std::max(0, ref.dims[i]), INT32_MAX);
    if (i == ref.rank - 1) stride += gap;
  }
}

int32_t hostile_number(uint64_t& state, int32_t old) {
  static constexpr int32_t kNumbers[] = {0, -1, 1, 2, 3, 4, 5, 7, 8, 1000, 65536, 1 << 30, INT32_MAX, INT32_MIN, -2};
  const uint64_t choice = next_random(state) % 20;
  if (choice < std::size(kNumbers)) return kNumbers[choice];
  if (choice < 17) return static_cast<int32_t>(static_cast<uint32_t>(old) + 1);
  if (choice < 19) return static_cast<int32_t>(static_cast<uint32_t>(old) - 1);
  return static_cast<int32_t>(next_random(state));
}

}  // namespace

Tensor random_tensor(const Shape& shape, uint64_t seed, double lo, double hi, DType dtype) {
  Tensor tensor(dtype, shape);
  uint64_t state = seed;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    const double unit = static_cast<double>(next_random(state) >> 11) * 0x1p-53;
    store_f64(dtype, tensor.data(), i, lo + unit * (hi - lo));
  }
  return tensor;
}

Tensor make_tensor(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) store_f64(dtype, tensor.data(), static_cast<int64_t>(i), values[i]);
  return tensor;
}

OpTest::OpTest(std::string op, int opset, std::string domain) {
  Node node;
  node.op = std::move(op);
  node.domain = std::move(domain);
  node.opset = opset;
  node.name = "test";
  graph_.nodes.push_back(std::move(node));
}

OpTest& OpTest::attr(const std::string& name, Attr value) {
  graph_.nodes[0].attrs[name] = std::move(value);
  return *this;
}

OpTest& OpTest::input(Tensor tensor) {
  inputs_.push_back({false, false, std::move(tensor)});
  return *this;
}

OpTest& OpTest::constant(Tensor tensor) {
  inputs_.push_back({true, false, std::move(tensor)});
  return *this;
}

OpTest& OpTest::constant_i64(std::vector<int64_t> values) {
  return constant(make_i64_vector(values.data(), static_cast<int>(values.size())));
}

OpTest& OpTest::absent() {
  inputs_.push_back({false, true, {}});
  return *this;
}

OpTest& OpTest::outputs(int count) {
  num_outputs_ = count;
  return *this;
}

void OpTest::build() {
  if (built_) return;
  built_ = true;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const std::string name = "in" + std::to_string(i);
    if (inputs_[i].is_absent) {
      graph_.nodes[0].inputs.push_back(kNoValue);
    } else if (inputs_[i].is_constant) {
      graph_.nodes[0].inputs.push_back(graph_.add_constant(name, inputs_[i].tensor));
    } else {
      const ValueId id = graph_.add_value(name, inputs_[i].tensor.dtype(), inputs_[i].tensor.shape());
      graph_.nodes[0].inputs.push_back(id);
      graph_.inputs.push_back(id);
    }
  }
  for (int i = 0; i < num_outputs_; ++i) {
    const ValueId id = graph_.add_value("out" + std::to_string(i));
    graph_.nodes[0].outputs.push_back(id);
    graph_.outputs.push_back(id);
  }
}

Inference OpTest::infer() {
  build();
  Inference inference = infer_node(builtin_ops(), graph_, graph_.nodes[0]);
  if (inference.ok()) {
    for (int i = 0; i < num_outputs_; ++i) {
      graph_.value(graph_.outputs[size_t(i)]).dtype = inference.outputs[size_t(i)].dtype;
      graph_.value(graph_.outputs[size_t(i)]).shape = inference.outputs[size_t(i)].shape;
    }
  }
  return inference;
}

std::vector<Tensor> OpTest::run_reference() {
  std::vector<const Tensor*> in;
  for (const Input& input : inputs_) in.push_back(input.is_absent ? nullptr : &input.tensor);
  auto result = evaluate_node(builtin_ops(), graph_, graph_.nodes[0], in);
  REQUIRE_MESSAGE(result.ok(), result.status().message());
  return std::move(result).value();
}

void OpTest::expect_kernel_matches_reference(double tolerance) {
  Inference inference = infer();
  REQUIRE_MESSAGE(inference.ok(), (inference.ok() ? "" : inference.problems[0].message));
  const std::vector<Tensor> expected = run_reference();

  Lowering lowering;
  const Status lowered = lower_node(builtin_ops(), graph_, graph_.nodes[0], lowering);
  REQUIRE_MESSAGE(lowered.ok(), lowered.message());
  const KernelDef* kernel = builtin_kernels().find(lowering.kernel.c_str());
  REQUIRE_MESSAGE(kernel != nullptr, "no kernel named ", lowering.kernel);

  std::vector<TensorRef> in;
  for (const Operand& operand : lowering.inputs) {
    if (operand.packed)
      in.push_back(make_ref(*operand.packed));
    else if (operand.value == kNoValue)
      in.push_back({});
    else if (graph_.is_constant(operand.value))
      in.push_back(make_ref(*graph_.value(operand.value).constant));
    else {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        if (graph_.nodes[0].inputs[i] == operand.value) {
          in.push_back(make_ref(inputs_[i].tensor));
          break;
        }
      }
    }
  }
  REQUIRE(in.size() == lowering.inputs.size());
  Tensor scratch(DType::kU8, Shape{static_cast<int64_t>(lowering.scratch_bytes)});

  static constexpr const char* kModes[] = {"one thread", "three threads, tiles reversed", "channel views",
                                           "second register tile", "third register tile"};
  constexpr int kViews = 2;
  REQUIRE(tile_kernels().size() == 3);
  const bool has_views = kernel->strided_inputs || kernel->strided_outputs;
  std::vector<Tensor> first;  // the first mode's results, which all dense ones give to the bit
  for (int mode = 0; mode < 5; ++mode) {
    if ((mode == kViews && !has_views) || (mode > kViews && !runs_products(*kernel))) continue;
    const TileKernelChoice choice(std::max(0, mode - kViews));
    std::vector<Tensor> actual;
    std::vector<TensorRef> out;
    for (const Tensor& e : expected) {
      actual.emplace_back(e.dtype(), e.shape());
      std::memset(actual.back().data(), 0x5a, actual.back().bytes());
    }
    for (const Tensor& a : actual) out.push_back(a.dtype() == DType::kInvalid ? TensorRef{} : make_ref(a));
    std::memset(scratch.data(), 0x5a, scratch.bytes());

    std::vector<TensorRef> used_in = in;
    std::vector<TensorRef> used_out = out;
    std::vector<ChannelView> views;
    views.reserve(in.size() + out.size());
    if (mode == kViews) {
      for (size_t i = 0; kernel->strided_inputs && i < in.size(); ++i) {
        const bool at_run_time = lowering.inputs[i].value != kNoValue && !graph_.is_constant(lowering.inputs[i].value);
        if (!at_run_time || in[i].rank < 2) continue;
        views.emplace_back(in[i], 3);
        views.back().copy(in[i], true);
        used_in[i] = views.back().ref;
      }
      for (size_t i = 0; kernel->strided_outputs && i < out.size(); ++i) {
        if (out[i].rank < 2) continue;
        views.emplace_back(out[i], 5);
        used_out[i] = views.back().ref;
      }
    }
    KernelArgs args;
    args.params = lowering.params.data();
    args.params_bytes = lowering.params.size();
    args.in = used_in.data();
    args.num_in = static_cast<int>(used_in.size());
    args.out = used_out.data();
    args.num_out = static_cast<int>(used_out.size());
    args.scratch = scratch.data();
    args.scratch_bytes = lowering.scratch_bytes;
    args.parallel = mode == 1 ? &reversed_parallel() : &serial_parallel();
    const Status checked = kernel->check(args);
    REQUIRE_MESSAGE(checked.ok(), checked.message());
    const Prepared prepared(*kernel, args);
    kernel->run(args);
    if (mode == kViews) {
      size_t v = views.size();
      for (size_t i = out.size(); i-- > 0;) {
        if (kernel->strided_outputs && out[i].rank >= 2) views[--v].copy(out[i], false);
      }
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      if (out[i].present()) compare(expected[i], out[i], tolerance, kModes[mode]);
      if (mode == 0 || mode == kViews || !out[i].present()) continue;
      INFO(kernel->name, ": ", kModes[mode]);
      CHECK(std::memcmp(first[i].data(), actual[i].data(), actual[i].bytes()) == 0);
    }
    if (mode == 0) first = std::move(actual);
  }
}

void OpTest::expect_check_guards(int rounds, uint64_t seed) {
  Inference inference = infer();
  REQUIRE_MESSAGE(inference.ok(), (inference.ok() ? "" : inference.problems[0].message));
  Lowering lowering;
  const Status lowered = lower_node(builtin_ops(), graph_, graph_.nodes[0], lowering);
  REQUIRE_MESSAGE(lowered.ok(), lowered.message());
  const KernelDef* kernel = builtin_kernels().find(lowering.kernel.c_str());
  REQUIRE_MESSAGE(kernel != nullptr, "no kernel named ", lowering.kernel);
  const auto type_of = [&](ValueId id) {
    TensorRef ref;
    if (id == kNoValue) return ref;
    ref = make_ref(Tensor(graph_.value(id).dtype, graph_.value(id).shape));
    ref.data = nullptr;
    return ref;
  };
  int accepted = 0;
  uint64_t state = seed;
  for (int round = 0; round < rounds; ++round) {
    INFO("kernel ", lowering.kernel, ", seed ", seed, ", round ", round);
    std::vector<GuardedOperand> operands;
    std::vector<Tensor> tables(lowering.inputs.size());
    for (const Operand& operand : lowering.inputs) {
      const Tensor* constant = operand.packed                      ? operand.packed.get()
                               : graph_.is_constant(operand.value) ? graph_.value(operand.value).constant.get()
                                                                   : nullptr;
      GuardedOperand guarded;
      if (constant != nullptr) {
        Tensor& table = tables[operands.size()];
        table = *constant;
        guarded.ref = make_ref(table);
        // Now and then one element of a table changes.
        if (table.bytes() >= 4 && next_random(state) % 4 == 0) {
          const int64_t at = static_cast<int64_t>(next_random(state) % (table.bytes() / 4));
          int32_t& word = table.as<int32_t>()[at];
          word = hostile_number(state, word);
        }
      } else {
        guarded.ref = type_of(operand.value);
      }
      operands.push_back(std::move(guarded));
    }
    const size_t num_in = operands.size();
    for (ValueId id : lowering.outputs) {
      operands.emplace_back();
      operands.back().ref = type_of(id);
    }
    // Parameters in an allocation of their exact size.
    size_t params_bytes = lowering.params.size();
    std::unique_ptr<uint64_t[]> params(new uint64_t[(params_bytes + 7) / 8]);
    if (params_bytes > 0) std::memcpy(params.get(), lowering.params.data(), params_bytes);
    size_t scratch_bytes = lowering.scratch_bytes;

    for (uint64_t change = next_random(state) % 3 + (round > 0 ? 1 : 0); change-- > 0;) {
      switch (next_random(state) % 8) {
        case 0:
        case 1:
        case 2:
          if (params_bytes >= 4) {
            auto* words = reinterpret_cast<char*>(params.get()) + next_random(state) % (params_bytes / 4) * 4;
            int32_t word;
            std::memcpy(&word, words, 4);
            word = hostile_number(state, word);
            std::memcpy(words, &word, 4);
          }
          break;
        case 3:
        case 4:
        case 5: {
          TensorRef& ref = operands[next_random(state) % operands.size()].ref;
          if (ref.rank == 0) break;
          int32_t& dim = ref.dims[next_random(state) % ref.rank];
          dim = std::max(0, hostile_number(state, dim));
          break;
        }
        case 6: {
          TensorRef& ref = operands[next_random(state) % operands.size()].ref;
          if (next_random(state) % 2 == 0) {
            ref.dtype = static_cast<DType>(next_random(state) % kNumDTypes);
          } else {
            ref.rank = static_cast<uint8_t>(next_random(state) % (kMaxRank + 1));
            for (int i = 0; i < ref.rank; ++i) ref.dims[i] = std::max(ref.dims[i], 1);
          }
          break;
        }
        default:
          if (next_random(state) % 2 == 0)
            scratch_bytes = next_random(state) % (scratch_bytes + 1);
          else if (params_bytes > 0)
            params_bytes = next_random(state) % params_bytes;
          break;
      }
    }
    // What bundle and session guarantee (bundle/read.h): dense tensors or views, fewer than 2^31 elements, operands
    // strided only where the kernel takes it, the contents of constants known at load.
    bool possible = true;
    std::vector<TensorRef> refs;
    for (size_t i = 0; i < operands.size(); ++i) {
      TensorRef& ref = operands[i].ref;
      int64_t n = 1;
      for (int k = 0; k < ref.rank; ++k) n = std::min<int64_t>(n * std::max(1, ref.dims[k]), int64_t{1} << 31);
      possible = possible && n < int64_t{1} << 31;
      const bool may_stride = i < num_in ? kernel->strided_inputs : kernel->strided_outputs;
      if (ref.data != nullptr) {  // a table: its elements, or none if the dims no longer fit it
        const Tensor& table = tables[i];
        if (n * static_cast<int64_t>(dtype_bytes(ref.dtype)) > static_cast<int64_t>(table.bytes())) ref.data = nullptr;
        set_strides(ref, 0);
      } else {
        set_strides(ref, may_stride && next_random(state) % 4 == 0 ? 3 : 0);
      }
      refs.push_back(ref);
    }
    if (!possible) continue;
    KernelArgs args;
    args.params = params.get();
    args.params_bytes = params_bytes;
    args.in = refs.data();
    args.num_in = static_cast<int>(num_in);
    args.out = refs.data() + num_in;
    args.num_out = static_cast<int>(refs.size() - num_in);
    args.scratch_bytes = scratch_bytes;
    args.parallel = &serial_parallel();
    if (!kernel->check(args).ok()) continue;

    for (size_t i = 0; i < operands.size() && possible; ++i) {
      GuardedOperand& operand = operands[i];
      const bool is_table = i < num_in && tables[i].dtype() != DType::kInvalid;
      if (!operand.ref.present() || (is_table && operand.ref.data != nullptr)) continue;
      possible = operand.allocate(state);
      refs[i] = operand.ref;
    }
    if (!possible) continue;
    std::unique_ptr<uint8_t[]> scratch(new uint8_t[scratch_bytes]);
    args.scratch = scratch.get();
    const Prepared prepared(*kernel, args);
    kernel->run(args);
    ++accepted;
    for (const GuardedOperand& operand : operands) {
      if (operand.bytes) CHECK(operand.guard_is_whole());
    }
  }
  CHECK(accepted > 0);
}

void OpTest::expect_reference(int index, const Shape& shape, const std::vector<double>& values, double tolerance) {
  Inference inference = infer();
  REQUIRE_MESSAGE(inference.ok(), (inference.ok() ? "" : inference.problems[0].message));
  const std::vector<Tensor> outputs = run_reference();
  const Tensor& out = outputs[static_cast<size_t>(index)];
  REQUIRE_MESSAGE(out.shape() == shape, print_shape(out.shape()));
  compare(make_tensor(out.dtype(), shape, values), make_ref(out), tolerance, "reference");
}

void OpTest::expect_problem(const std::string& part) {
  const Inference inference = infer();
  REQUIRE(!inference.ok());
  bool found = false;
  for (const Problem& problem : inference.problems) found = found || problem.message.find(part) != std::string::npos;
  CHECK_MESSAGE(found, inference.problems[0].message);
}

Shape OpTest::output_shape(int index) {
  Inference inference = infer();
  REQUIRE_MESSAGE(inference.ok(), (inference.ok() ? "" : inference.problems[0].message));
  return inference.outputs[static_cast<size_t>(index)].shape;
}

std::string OpTest::kernel_name() {
  Inference inference = infer();
  REQUIRE(inference.ok());
  Lowering lowering;
  const Status status = lower_node(builtin_ops(), graph_, graph_.nodes[0], lowering);
  REQUIRE_MESSAGE(status.ok(), status.message());
  return lowering.kernel;
}

}  // namespace kiln::test
