// The outer layout of a bundle file: header, section table, sections. docs/bundle-format.md tells it in full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kiln::format {

constexpr uint8_t kMagic[4] = {'K', 'I', 'L', 'N'};
constexpr uint32_t kVersion = 1;
constexpr size_t kAlignment = 64;  // of the file in memory and of every section in the file

// All numbers are little-endian, as every machine that tilekiln runs on.
struct Header {
  uint8_t magic[4];
  uint32_t version;
  uint64_t file_bytes;
  uint64_t checksum;  // XXH64, seed 0, of everything behind this field
  uint32_t flags;     // features that a reader must know: a sum of Flag
  uint32_t num_sections;
};
static_assert(sizeof(Header) == 32);

enum Flag : uint32_t { kHasHalves = 1 };  // tensors may lie in the section kHalves
constexpr uint32_t kKnownFlags = kHasHalves;

enum SectionKind : uint32_t { kProgram = 1, kWeights = 2, kHalves = 3 };
constexpr uint32_t kMaxSectionKind = kHalves;

// The table follows the header. A reader skips kinds that it does not know.
struct Section {
  uint32_t kind;
  uint32_t reserved;
  uint64_t offset;  // from the start of the file
  uint64_t bytes;
};
static_assert(sizeof(Section) == 24);

constexpr size_t kChecksumBegin = 24;  // where the bytes that the checksum covers begin
uint64_t checksum(std::span<const uint8_t> bytes);

// Limits of what a reader takes, so that no bundle can ask for absurd amounts of memory or time.
constexpr uint32_t kMaxSections = 64;
constexpr uint32_t kMaxProfiles = 1024;
constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 31;
constexpr int64_t kMaxElements = (int64_t{1} << 31) - 1;

}  // namespace kiln::format
