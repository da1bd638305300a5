#include "bundle/read.h"

#include <cstring>

#include "bundle/check_program.h"
#include "bundle/format.h"
#include "bundle/sniff.h"
#include "bundle_generated.h"

namespace kiln {
namespace {

using format::Header;
using format::Section;

unsigned long long ull(uint64_t number) { return number; }

Status check_header(std::span<const uint8_t> bytes, Header* header) {
  KILN_TRY(check_is_bundle(bytes));
  if (bytes.size() < sizeof(Header)) {
    return {Code::kTruncated,
            strf("the bundle is truncated: %zu bytes, its header alone has %zu", bytes.size(), sizeof(Header))};
  }
  std::memcpy(header, bytes.data(), sizeof(Header));
  if (header->version != format::kVersion) {
    const bool newer = header->version > format::kVersion;
    return {Code::kVersion, strf("the bundle has format version %u, this runtime reads version %u: %s", header->version,
                                 format::kVersion, newer ? "use a newer runtime" : "compile the model again")};
  }
  if (bytes.size() < header->file_bytes) {
    return {Code::kTruncated, strf("the bundle is truncated: %zu of %llu bytes, %llu are missing", bytes.size(),
                                   ull(header->file_bytes), ull(header->file_bytes - bytes.size()))};
  }
  if (bytes.size() > header->file_bytes) {
    return {Code::kCorrupt, strf("the bundle has %llu bytes, but the file %zu", ull(header->file_bytes), bytes.size())};
  }
  if ((header->flags & ~format::kKnownFlags) != 0) {
    return {Code::kVersion, strf("the bundle needs features (flags %#x) of a newer runtime", header->flags)};
  }
  return {};
}

// The sections that this version knows, by kind; empty where there is none.
struct Sections {
  std::span<const uint8_t> by_kind[format::kMaxSectionKind + 1];
};

Status read_sections(std::span<const uint8_t> bytes, const Header& header, Sections* out) {
  const size_t table_end = sizeof(Header) + size_t{header.num_sections} * sizeof(Section);
  if (header.num_sections > format::kMaxSections || table_end > bytes.size()) {
    return {Code::kCorrupt, strf("the bundle claims to have %u sections", header.num_sections)};
  }
  bool seen[format::kMaxSectionKind + 1] = {};
  for (uint32_t i = 0; i < header.num_sections; ++i) {
    Section section;
    std::memcpy(&section, bytes.data() + sizeof(Header) + i * sizeof(Section), sizeof(section));
    if (section.offset < table_end || section.offset > bytes.size() || section.bytes > bytes.size() - section.offset ||
        section.offset % format::kAlignment != 0) {
      return {Code::kCorrupt, strf("section %u of the bundle (offset %llu, %llu bytes) lies outside the file", i,
                                   ull(section.offset), ull(section.bytes))};
    }
    if (section.kind == 0 || section.kind > format::kMaxSectionKind) continue;
    if (seen[section.kind]) return {Code::kCorrupt, strf("the bundle has two sections of kind %u", section.kind)};
    seen[section.kind] = true;
    out->by_kind[section.kind] = bytes.subspan(static_cast<size_t>(section.offset), static_cast<size_t>(section.bytes));
  }
  return {};
}

}  // namespace

Result<BundleView> read_bundle(std::span<const uint8_t> bytes) {
  Header header;
  KILN_TRY(check_header(bytes, &header));
  if (reinterpret_cast<uintptr_t>(bytes.data()) % format::kAlignment != 0) {
    return Status(Code::kInvalidArgument, "the bundle's bytes must lie at a 64-byte boundary");
  }
  if (header.checksum != format::checksum(bytes.subspan(format::kChecksumBegin))) {
    return Status(Code::kCorrupt, "the bundle's checksum does not match: the file was damaged on its way");
  }
  BundleView bundle;
  Sections sections;
  KILN_TRY(read_sections(bytes, header, &sections));
  const std::span<const uint8_t> program = sections.by_kind[format::kProgram];
  bundle.weights = sections.by_kind[format::kWeights];
  bundle.halves = sections.by_kind[format::kHalves];
  flatbuffers::Verifier verifier(program.data(), program.size(), /*max_depth=*/8, /*max_tables=*/1 << 20);
  // The smallest FlatBuffer with an identifier: root offset, identifier, and a table's offset to its (empty)
  // vtable.
  if (program.size() < 16 || !schema::VerifyProgramBuffer(verifier)) {
    return Status(Code::kCorrupt, "the bundle's program section is malformed");
  }
  bundle.program = schema::GetProgram(program.data());
  KILN_TRY(check_program(*bundle.program, program.size(), bundle.weights.size(), bundle.expanded_bytes()));
  return bundle;
}

TensorRef read_tensor(const schema::Tensor& tensor) {
  TensorRef ref;
  ref.dtype = static_cast<DType>(tensor.dtype());
  ref.rank = static_cast<uint8_t>(size_of(tensor.dims()));
  const bool has_strides = size_of(tensor.strides()) > 0;
  bool is_empty = false;
  for (uint8_t i = 0; i < ref.rank; ++i) {
    ref.dims[i] = tensor.dims()->Get(i);
    ref.strides[i] = has_strides ? tensor.strides()->Get(i) : 0;
    is_empty = is_empty || ref.dims[i] == 0;
  }
  if (has_strides && !is_empty && !ref.is_contiguous()) return ref;
  int64_t stride = 1;
  for (int i = ref.rank - 1; i >= 0; --i) {
    ref.strides[i] = static_cast<int32_t>(stride);
    stride *= ref.dims[i];
  }
  return ref;
}

uint64_t span_bytes(const TensorRef& tensor) {
  uint64_t last = 0;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.dims[i] == 0) return 0;
    last += static_cast<uint64_t>(tensor.dims[i] - 1) * static_cast<uint64_t>(tensor.strides[i]);
  }
  return (last + 1) * dtype_bytes(tensor.dtype);
}

namespace {

PlanTensor unpack_tensor(const schema::Tensor& tensor) {
  const TensorRef ref = read_tensor(tensor);
  PlanTensor out;
  out.name = text_of(tensor.name());
  out.dtype = ref.dtype;
  for (int i = 0; i < ref.rank; ++i) {
    out.shape.push_back(ref.dims[i]);
    out.strides[i] = ref.strides[i];
  }
  out.storage = static_cast<Storage>(tensor.place());
  out.offset = tensor.offset();
  out.bytes = span_bytes(ref);
  return out;
}

template <typename T>
std::vector<T> copy_of(const flatbuffers::Vector<T>* vector) {
  if (vector == nullptr) return {};
  return std::vector<T>(vector->begin(), vector->end());
}

std::vector<PlanIo> unpack_ios(const flatbuffers::Vector<flatbuffers::Offset<schema::Io>>* ios) {
  std::vector<PlanIo> out;
  if (ios == nullptr) return out;
  for (const schema::Io* io : *ios) {
    out.push_back({text_of(io->name()), io->tensor(), text_of(io->layout()), io->batched()});
  }
  return out;
}

PlanProfile unpack_profile(const schema::Program& program, const schema::Profile& profile) {
  PlanProfile out;
  if (profile.tensors() != nullptr) {
    for (const schema::Tensor* tensor : *profile.tensors()) out.tensors.push_back(unpack_tensor(*tensor));
  }
  if (profile.steps() != nullptr) {
    for (const schema::Step* step : *profile.steps()) {
      out.steps.push_back({text_of(program.kernels()->Get(step->kernel())), text_of(step->op()), text_of(step->name()),
                           copy_of(step->params()), copy_of(step->inputs()), copy_of(step->outputs()),
                           step->scratch_offset(), step->scratch_bytes(), step->macs()});
    }
  }
  out.inputs = unpack_ios(profile.inputs());
  out.outputs = unpack_ios(profile.outputs());
  out.arena_bytes = profile.arena_bytes();
  out.peak_live_bytes = profile.peak_live_bytes();
  return out;
}

}  // namespace

Plan unpack_bundle(const BundleView& bundle) {
  Plan plan;
  for (const schema::Profile* profile : *bundle.program->profiles()) {
    plan.profiles.push_back(unpack_profile(*bundle.program, *profile));
  }
  plan.weights.assign(bundle.weights.begin(), bundle.weights.end());
  plan.halves.assign(bundle.halves.begin(), bundle.halves.end());
  if (bundle.program->metadata() != nullptr) {
    for (const schema::Entry* entry : *bundle.program->metadata()) {
      plan.metadata[text_of(entry->key())] = text_of(entry->value());
    }
  }
  return plan;
}

}  // namespace kiln
