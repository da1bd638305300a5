#include "wasm/tile_abi.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/gemm.h"
#include "cpu/gemm_tile.h"

namespace {

using namespace kiln;

bool is_tile(int32_t tile) { return tile >= 0 && tile < kiln_num_tiles(); }

// Sizes that leave remainders everywhere.
constexpr int32_t kM = 29, kN = 43, kK = 37;
constexpr float kTolerance = 1e-5f;

// Numbers in [-1, 1) (linear congruential generator of Numerical Recipes).
void fill(std::vector<float>& values, uint32_t seed) {
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(seed)) * 0x1p-31f;
  }
}

}  // namespace

int32_t kiln_num_tiles() { return static_cast<int32_t>(tile_kernels().size()); }

const char* kiln_tile_name(int32_t tile) { return is_tile(tile) ? tile_kernels()[static_cast<size_t>(tile)].name : ""; }

double kiln_try_tile(int32_t tile, int32_t num_calls) {
  return is_tile(tile) ? static_cast<double>(try_tile_kernel(tile, num_calls)) : 0;
}

void kiln_select_tile(int32_t tile) { select_tile_kernel(tile); }

int32_t kiln_selected_tile() { return selected_tile_kernel(); }

uint32_t kiln_self_check() {
  std::vector<float> a(kM * kK), b(kN * kK), bias(kN), packed(static_cast<size_t>(packed_b_floats(kN, kK)));
  fill(a, 1);
  fill(b, 2);
  fill(bias, 3);
  SourceB source;
  source.data = b.data();
  source.n = kN;
  source.k_inner = kK;
  source.n_stride = kK;
  source.inner_stride = 1;
  source.bias = bias.data();
  pack_b(source, &serial_parallel(), packed.data());
  MatrixRows rows;
  rows.data = a.data();
  rows.row_stride = kK;
  Gemm gemm;
  gemm.m = kM;
  gemm.n = kN;
  gemm.k = kK;
  gemm.row_form = matrix_form(false);
  gemm.locate_rows = locate_matrix_rows;
  gemm.rows_context = &rows;
  gemm.b = packed.data();
  gemm.c_rows = make_plain_rows(kM, kN);
  gemm.activation.kind = static_cast<int32_t>(ActivationKind::kSilu);
  std::vector<char> scratch(gemm_scratch_bytes(1, kM, kN, kK, gemm.row_form) + 64);
  const auto aligned = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64;

  std::vector<float> first, c(kM * kN);
  const int32_t before = selected_tile_kernel();
  bool same = true;
  for (int32_t tile = 0; tile < kiln_num_tiles(); ++tile) {
    select_tile_kernel(tile);
    gemm.c = c.data();
    run_gemm(gemm, &serial_parallel(), reinterpret_cast<void*>(aligned));
    if (tile == 0) first = c;
    same = same && std::memcmp(first.data(), c.data(), c.size() * sizeof(float)) == 0;
  }
  select_tile_kernel(before);

  uint32_t hash = 2166136261u;  // FNV-1a over the words
  for (int32_t m = 0; m < kM; ++m) {
    for (int32_t n = 0; n < kN; ++n) {
      double sum = bias[static_cast<size_t>(n)];
      for (int32_t k = 0; k < kK; ++k)
        sum += double{a[static_cast<size_t>(m * kK + k)]} * b[static_cast<size_t>(n * kK + k)];
      const float value = c[static_cast<size_t>(m * kN + n)];
      same = same && std::fabs(static_cast<float>(apply_activation(gemm.activation, sum)) - value) <= kTolerance;
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      hash = (hash ^ bits) * 16777619u;
    }
  }
  return same ? (hash != 0 ? hash : 1) : 0;
}
