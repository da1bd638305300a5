#include "plan/weights.h"

#include <cstring>

#include "bundle/format.h"

namespace kiln {

uint64_t WeightsPool::add(const void* data, size_t bytes) {
  if (bytes == 0) return 0;
  const auto* begin = static_cast<const uint8_t*>(data);
  const uint64_t hash = format::checksum({begin, bytes});
  const auto [from, to] = by_hash_.equal_range(hash);
  for (auto it = from; it != to; ++it) {
    if (it->second.bytes == bytes && std::memcmp(bytes_.data() + it->second.offset, begin, bytes) == 0) {
      return it->second.offset;
    }
  }
  const size_t offset = (bytes_.size() + format::kAlignment - 1) / format::kAlignment * format::kAlignment;
  bytes_.resize(offset);
  bytes_.insert(bytes_.end(), begin, begin + bytes);
  by_hash_.insert({hash, {offset, bytes}});
  return offset;
}

}  // namespace kiln
