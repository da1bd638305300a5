// Checks the program section of a bundle once FlatBuffers has verified its structure: every number in it.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "bundle_generated.h"

namespace kiln {

constexpr size_t kMaxStepOperands = 1024;  // inputs and outputs of one step

// What read_bundle promises (bundle/read.h), or kCorrupt. `program_bytes` bounds what the program may refer to,
// `halves_bytes` are those of the expanded halves.
Status check_program(const schema::Program& program, uint64_t program_bytes, uint64_t weights_bytes,
                     uint64_t halves_bytes);

// Optional fields: an absent text is "", an absent vector is empty.
inline const char* text_of(const flatbuffers::String* text) { return text != nullptr ? text->c_str() : ""; }
template <typename T>
size_t size_of(const flatbuffers::Vector<T>* vector) {
  return vector != nullptr ? vector->size() : 0;
}

}  // namespace kiln
