// The stack of a worker that has none of its own: a block in the heap, with a pattern at its end that an overflow
// destroys.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln {

// Stacks grow downwards: the pattern lies in the first kStackGuardBytes of the block.
constexpr size_t kStackGuardBytes = 256;

// `block` is 4-byte aligned and longer than the guard.
void write_stack_guard(void* block);
// False if something was written where no stack should reach.
bool is_stack_guard_whole(const void* block);

}  // namespace kiln
