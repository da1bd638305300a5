// Bytes at a 64-byte boundary, as bundles must lie in memory; the block ends where the bytes do, so that ASan
// sees overruns.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

namespace kiln::test {

class AlignedBytes {
 public:
  explicit AlignedBytes(std::span<const uint8_t> bytes) : bytes_(bytes.size()) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, bytes_ > 0 ? bytes_ : 1) != 0) std::abort();
    memory_.reset(static_cast<uint8_t*>(memory));
    if (bytes_ > 0) std::memcpy(memory_.get(), bytes.data(), bytes_);
  }
  std::span<uint8_t> span() { return {memory_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  size_t bytes_;
  std::unique_ptr<uint8_t, Free> memory_;
};

}  // namespace kiln::test
