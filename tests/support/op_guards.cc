// OpTest::expect_check_guards: what a kernel's check lets through must run within its operands.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "op_run.h"
#include "op_test.h"

namespace kiln::test {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kHasAsan = true;
#elif defined(__has_feature)
constexpr bool kHasAsan = __has_feature(address_sanitizer);
#else
constexpr bool kHasAsan = false;
#endif

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
    const TileKernelChoice tile(static_cast<int32_t>(round % static_cast<int>(tile_kernels().size())));
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

}  // namespace kiln::test
