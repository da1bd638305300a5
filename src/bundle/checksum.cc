#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "bundle/format.h"

namespace kiln::format {
namespace {

// In pieces and out of line: engines replace a function by its optimised form only when it is called anew, and a large
// bundle in one call would be read by slow code to the end.
constexpr size_t kPiece = 64 << 10;

[[gnu::noinline]] void update(XXH64_state_t* state, const uint8_t* bytes, size_t count) {
  XXH64_update(state, bytes, count);
}

}  // namespace

uint64_t checksum(std::span<const uint8_t> bytes) {
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    update(&state, bytes.data() + at, std::min(kPiece, bytes.size() - at));
  }
  return XXH64_digest(&state);
}

}  // namespace kiln::format
