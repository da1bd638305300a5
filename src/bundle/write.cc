#include "bundle/write.h"

#include <cstring>
#include <map>
#include <string>

#include "bundle/format.h"
#include "bundle_generated.h"

namespace kiln {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

template <typename T>
using TableVector = std::vector<Offset<T>>;

// Short texts repeat ("Conv", "NCHW"): one copy each. 0 (left out) for an empty one.
Offset<flatbuffers::String> make_text(FlatBufferBuilder& builder, const std::string& text) {
  return text.empty() ? 0 : builder.CreateSharedString(text);
}

Offset<schema::Tensor> make_tensor(FlatBufferBuilder& builder, const PlanTensor& tensor) {
  const Shape& shape = tensor.shape;
  int64_t dense[kMaxRank];
  contiguous_strides(shape, dense);
  bool is_dense = true;
  std::vector<int32_t> dims, strides;
  for (int i = 0; i < shape.rank; ++i) {
    is_dense = is_dense && tensor.strides[i] == dense[i];
    dims.push_back(static_cast<int32_t>(shape.dims[i]));
    strides.push_back(static_cast<int32_t>(tensor.strides[i]));
  }
  const auto name = make_text(builder, tensor.name);
  const auto dims_vector = builder.CreateVector(dims);
  const Offset<flatbuffers::Vector<int32_t>> strides_vector = is_dense ? 0 : builder.CreateVector(strides);
  return schema::CreateTensor(builder, name, static_cast<uint8_t>(tensor.dtype),
                              static_cast<schema::Place>(tensor.storage), tensor.offset, dims_vector, strides_vector);
}

Offset<schema::Step> make_step(FlatBufferBuilder& builder, const PlanStep& step, uint32_t kernel) {
  const auto op = make_text(builder, step.op);
  const auto name = make_text(builder, step.name);
  const auto params = builder.CreateVector(step.params);
  const auto inputs = builder.CreateVector(step.inputs);
  const auto outputs = builder.CreateVector(step.outputs);
  return schema::CreateStep(builder, kernel, op, name, params, inputs, outputs, step.scratch_offset, step.scratch_bytes,
                            step.macs);
}

TableVector<schema::Io> make_ios(FlatBufferBuilder& builder, const std::vector<PlanIo>& ios) {
  TableVector<schema::Io> tables;
  for (const PlanIo& io : ios) {
    const auto name = make_text(builder, io.name);
    const auto layout = make_text(builder, io.layout);
    tables.push_back(schema::CreateIo(builder, name, io.tensor, layout, io.batched));
  }
  return tables;
}

Offset<schema::Profile> make_profile(FlatBufferBuilder& builder, const PlanProfile& profile,
                                     const std::map<std::string, uint32_t>& kernel_index) {
  TableVector<schema::Tensor> tensors;
  for (const PlanTensor& tensor : profile.tensors) tensors.push_back(make_tensor(builder, tensor));
  TableVector<schema::Step> steps;
  for (const PlanStep& step : profile.steps) steps.push_back(make_step(builder, step, kernel_index.at(step.kernel)));
  const auto tensor_vector = builder.CreateVector(tensors);
  const auto step_vector = builder.CreateVector(steps);
  const auto inputs = builder.CreateVector(make_ios(builder, profile.inputs));
  const auto outputs = builder.CreateVector(make_ios(builder, profile.outputs));
  return schema::CreateProfile(builder, tensor_vector, step_vector, inputs, outputs, profile.arena_bytes,
                               profile.peak_live_bytes);
}

void build_program(FlatBufferBuilder& builder, const Plan& plan) {
  builder.ForceDefaults(false);
  std::map<std::string, uint32_t> kernel_index;
  std::vector<Offset<flatbuffers::String>> kernels;
  for (const PlanProfile& profile : plan.profiles) {
    for (const PlanStep& step : profile.steps) {
      if (!kernel_index.try_emplace(step.kernel, static_cast<uint32_t>(kernels.size())).second) continue;
      kernels.push_back(builder.CreateString(step.kernel));
    }
  }
  TableVector<schema::Profile> profiles;
  for (const PlanProfile& profile : plan.profiles) profiles.push_back(make_profile(builder, profile, kernel_index));
  TableVector<schema::Entry> metadata;
  for (const auto& [key, value] : plan.metadata) {
    const auto key_text = builder.CreateString(key);
    const auto value_text = builder.CreateString(value);
    metadata.push_back(schema::CreateEntry(builder, key_text, value_text));
  }
  const auto kernel_vector = builder.CreateVector(kernels);
  const auto profile_vector = builder.CreateVector(profiles);
  const auto metadata_vector = builder.CreateVector(metadata);
  builder.Finish(schema::CreateProgram(builder, kernel_vector, profile_vector, metadata_vector),
                 schema::ProgramIdentifier());
}

uint64_t align_up(uint64_t offset) {
  return (offset + format::kAlignment - 1) / format::kAlignment * format::kAlignment;
}

}  // namespace

std::vector<uint8_t> write_bundle(const Plan& plan) {
  FlatBufferBuilder builder(64 * 1024);
  build_program(builder, plan);

  struct Content {
    format::SectionKind kind;
    const uint8_t* data;
    size_t bytes;
  };
  std::vector<Content> contents = {{format::kProgram, builder.GetBufferPointer(), builder.GetSize()},
                                   {format::kWeights, plan.weights.data(), plan.weights.size()}};
  if (!plan.halves.empty()) contents.push_back({format::kHalves, plan.halves.data(), plan.halves.size()});

  std::vector<format::Section> sections;
  uint64_t end = sizeof(format::Header) + contents.size() * sizeof(format::Section);
  for (const Content& content : contents) {
    sections.push_back({content.kind, 0, align_up(end), content.bytes});
    end = sections.back().offset + content.bytes;
  }

  format::Header header = {};
  std::memcpy(header.magic, format::kMagic, sizeof(header.magic));
  header.version = format::kVersion;
  header.file_bytes = end;
  header.flags = plan.halves.empty() ? 0 : format::kHasHalves;
  header.num_sections = static_cast<uint32_t>(sections.size());

  std::vector<uint8_t> bytes(header.file_bytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), sections.data(), sections.size() * sizeof(format::Section));
  for (size_t i = 0; i < contents.size(); ++i) {
    if (contents[i].bytes > 0) std::memcpy(bytes.data() + sections[i].offset, contents[i].data, contents[i].bytes);
  }
  header.checksum = format::checksum(std::span(bytes).subspan(format::kChecksumBegin));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

}  // namespace kiln
