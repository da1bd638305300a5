// Collects the constants of a plan into one block of bytes, each content once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace kiln {

class WeightsPool {
 public:
  // `expected_bytes` is set aside at once, so that growing to that size moves nothing.
  explicit WeightsPool(size_t expected_bytes) { bytes_.reserve(expected_bytes); }

  // The 64-byte aligned offset of these bytes; the same for equal contents. 0 for no bytes.
  uint64_t add(const void* data, size_t bytes);

  std::vector<uint8_t> take() { return std::move(bytes_); }

 private:
  struct Entry {
    uint64_t offset;
    size_t bytes;
  };
  std::vector<uint8_t> bytes_;
  std::multimap<uint64_t, Entry> by_hash_;
};

}  // namespace kiln
