// The part of the runtime's C ABI that chooses a register tile (cpu/gemm_tile.h): JS has the clock.
#pragma once

#include "wasm/runtime_abi.h"

extern "C" {

KILN_EXPORT int32_t kiln_num_tiles();
KILN_EXPORT const char* kiln_tile_name(int32_t tile);  // "6x8"; empty for a bad index
// Runs a candidate num_calls times on numbers of its own. Multiply-adds done, 0 for a bad index.
KILN_EXPORT double kiln_try_tile(int32_t tile, int32_t num_calls);
// Not while a model runs. Bad indices are ignored.
KILN_EXPORT void kiln_select_tile(int32_t tile);
KILN_EXPORT int32_t kiln_selected_tile();

// Products through every candidate, with activations behind them: 0 if their bits differ or are not near plain loops,
// else a hash of the bits. Two instances of one artefact must agree, whatever the engine made of them.
KILN_EXPORT uint32_t kiln_self_check();
}
