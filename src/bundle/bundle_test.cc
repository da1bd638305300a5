#include <doctest/doctest.h>

#include <random>

#include "aligned_bytes.h"
#include "bundle/format.h"
#include "bundle/read.h"
#include "bundle/sniff.h"
#include "bundle/write.h"
#include "bundle_generated.h"
#include "soak.h"

namespace kiln {
namespace {

PlanTensor dense(const char* name, DType dtype, const Shape& shape, uint64_t offset,
                 Storage storage = Storage::kArena) {
  PlanTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = shape;
  contiguous_strides(shape, tensor.strides);
  tensor.storage = storage;
  tensor.offset = offset;
  tensor.bytes = static_cast<uint64_t>(shape.num_elements()) * dtype_bytes(dtype);
  return tensor;
}

// x (1, 3, 4) -> two steps; `view` is a channel view of `wide`; a constant; scratch.
Plan make_sample() {
  Plan plan;
  PlanProfile profile;
  profile.tensors = {dense("x", DType::kF32, {1, 3, 4}, 0), dense("w", DType::kF32, {4}, 64, Storage::kWeights),
                     dense("wide", DType::kF32, {1, 3, 8}, 64), dense("view", DType::kF32, {1, 3, 4}, 64 + 16),
                     dense("rest", DType::kF32, {1, 3, 4}, 64)};
  for (size_t i : {size_t{3}, size_t{4}}) {
    profile.tensors[i].strides[0] = 24;
    profile.tensors[i].strides[1] = 8;
    profile.tensors[i].bytes = (2 * 8 + 4) * 4;
  }
  profile.steps = {{"scale_f32", "Mul", "first", {1, 2, 3, 4, 5, 6, 7, 8}, {0, 1, -1}, {3}, 192, 64, 12},
                   {"copy_f32", "Identity", "second", {}, {3}, {4}, 0, 0, 0}};
  profile.inputs = {{"x", 0, "NHWC"}};
  profile.outputs = {{"y", 2, ""}};
  profile.arena_bytes = 256;
  profile.peak_live_bytes = 200;
  plan.profiles = {profile};
  plan.weights.resize(80);
  for (size_t i = 0; i < plan.weights.size(); ++i) plan.weights[i] = static_cast<uint8_t>(i);
  plan.metadata = {{"task", "classify"}, {"labels", "cat\ndog"}, {"empty", ""}};
  return plan;
}

// The same with the constant stored as halves, which begin 64 bytes into their section.
Plan make_halved_sample() {
  Plan plan = make_sample();
  plan.profiles[0].tensors[1].storage = Storage::kHalves;
  plan.profiles[0].tensors[1].offset = 128;
  plan.halves.resize(64 + 4 * 2);
  for (size_t i = 0; i < plan.halves.size(); ++i) plan.halves[i] = static_cast<uint8_t>(i);
  return plan;
}

void fix_checksum(std::span<uint8_t> bytes) {
  const uint64_t sum = format::checksum(bytes.subspan(format::kChecksumBegin));
  std::memcpy(bytes.data() + 16, &sum, sizeof(sum));
}

Status status_of(std::span<const uint8_t> bytes) {
  test::AlignedBytes aligned(bytes);
  return read_bundle(aligned.span()).status();
}

Status status_of_text(const std::string& text) {
  return status_of({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

void check_error(const Status& status, Code code, const char* part) {
  CHECK_MESSAGE(status.code() == code, code_name(status.code()) << ": " << status.message());
  CHECK_MESSAGE(status.message().find(part) != std::string::npos, status.message());
}

TEST_CASE("bundle_round_trip_keeps_everything") {
  const Plan plan = make_sample();
  test::AlignedBytes bytes(write_bundle(plan));
  const auto bundle = read_bundle(bytes.span());
  REQUIRE_MESSAGE(bundle.ok(), bundle.status().message());
  const Plan again = unpack_bundle(bundle.value());
  CHECK(again.weights == plan.weights);
  CHECK(again.metadata == plan.metadata);
  REQUIRE(again.profiles.size() == 1);
  const PlanProfile& a = again.profiles[0];
  const PlanProfile& b = plan.profiles[0];
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const PlanTensor& x = a.tensors[i];
    const PlanTensor& y = b.tensors[i];
    CAPTURE(y.name);
    CHECK(x.name == y.name);
    CHECK(x.dtype == y.dtype);
    CHECK(x.shape == y.shape);
    CHECK(std::equal(x.strides, x.strides + x.shape.rank, y.strides));
    CHECK(x.storage == y.storage);
    CHECK(x.offset == y.offset);
    CHECK(x.bytes == y.bytes);
  }
  REQUIRE(a.steps.size() == b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const PlanStep& x = a.steps[i];
    const PlanStep& y = b.steps[i];
    CHECK(x.kernel == y.kernel);
    CHECK(x.op == y.op);
    CHECK(x.name == y.name);
    CHECK(x.params == y.params);
    CHECK(x.inputs == y.inputs);
    CHECK(x.outputs == y.outputs);
    CHECK(x.scratch_offset == y.scratch_offset);
    CHECK(x.scratch_bytes == y.scratch_bytes);
    CHECK(x.macs == y.macs);
  }
  CHECK(a.inputs[0].name == "x");
  CHECK(a.inputs[0].layout == "NHWC");
  CHECK(a.inputs[0].tensor == 0);
  CHECK(a.outputs[0].name == "y");
  CHECK(a.outputs[0].layout == "");
  CHECK(a.outputs[0].tensor == 2);
  CHECK(a.arena_bytes == b.arena_bytes);
  CHECK(a.peak_live_bytes == b.peak_live_bytes);
  CHECK(write_bundle(again) == write_bundle(plan));
  CHECK(reinterpret_cast<uintptr_t>(bundle.value().weights.data()) % 64 == 0);
}

TEST_CASE("bundle_halves_round_trip") {
  const Plan plan = make_halved_sample();
  const std::vector<uint8_t> written = write_bundle(plan);
  CHECK(written[24] == format::kHasHalves);
  CHECK(write_bundle(make_sample())[24] == 0);  // runtimes that know no halves read it
  test::AlignedBytes bytes(written);
  const auto bundle = read_bundle(bytes.span());
  REQUIRE_MESSAGE(bundle.ok(), bundle.status().message());
  CHECK(bundle.value().expanded_bytes() == 144);
  const Plan again = unpack_bundle(bundle.value());
  CHECK(again.halves == plan.halves);
  CHECK(again.profiles[0].tensors[1].storage == Storage::kHalves);
  CHECK(again.profiles[0].tensors[1].offset == 128);
  CHECK(write_bundle(again) == written);
}

TEST_CASE("bundle_bad_halves_are_refused") {
  const auto changed = [](auto change) {
    Plan plan = make_halved_sample();
    change(plan, plan.profiles[0].tensors[1]);
    return status_of(write_bundle(plan));
  };
  CHECK(changed([](Plan&, PlanTensor&) {}).ok());
  check_error(changed([](Plan& p, PlanTensor&) { p.halves.resize(71); }), Code::kCorrupt, "beyond the halves of 140");
  check_error(changed([](Plan& p, PlanTensor&) { p.halves.clear(); }), Code::kCorrupt, "beyond the halves of 0");
  check_error(changed([](Plan&, PlanTensor& t) { t.offset = 132; }), Code::kCorrupt, "beyond the halves");
  check_error(changed([](Plan&, PlanTensor& t) { t.offset = UINT64_MAX - 15; }), Code::kCorrupt, "beyond the halves");
  check_error(changed([](Plan&, PlanTensor& t) { t.offset = 126; }), Code::kCorrupt, "not aligned");
  check_error(changed([](Plan&, PlanTensor& t) { t.dtype = DType::kI32; }), Code::kCorrupt,
              "stored as halves, but is i32");
  check_error(changed([](Plan&, PlanTensor& t) { t.storage = static_cast<Storage>(3); }), Code::kCorrupt,
              "unknown place");
  check_error(changed([](Plan& p, PlanTensor&) { p.profiles[0].steps[0].outputs[0] = 1; }), Code::kCorrupt,
              "in the weights");
  check_error(changed([](Plan& p, PlanTensor&) { p.profiles[0].inputs[0].tensor = 1; }), Code::kCorrupt,
              "dense tensor in the arena");
  // Any tensors may share them: they are expanded once.
  CHECK(changed([](Plan&, PlanTensor& t) { t.offset = 64; }).ok());
}

TEST_CASE("bundle_bad_files_are_told_apart") {
  check_error(status_of_text(""), Code::kTruncated, "empty");
  check_error(status_of_text("KI"), Code::kTruncated, "four bytes");
  check_error(status_of_text("KILN\x01"), Code::kTruncated, "header");
  check_error(status_of_text("\n <!DOCTYPE html><html></html>"), Code::kNotAModel, "HTML");
  check_error(status_of_text("\xef\xbb\xbf<html>"), Code::kNotAModel, "HTML");
  check_error(status_of_text("version https://git-lfs.github.com/spec/v1\noid sha256:0"), Code::kNotAModel, "git-LFS");
  check_error(status_of_text("PK\x03\x04rest of a checkpoint"), Code::kNotAModel, "zip");
  check_error(status_of_text("abcdTFL3 and more"), Code::kNotAModel, "TensorFlow Lite");
  check_error(status_of_text("{\"json\": 1}"), Code::kNotAModel, "JSON");
  check_error(status_of_text("just some text"), Code::kNotAModel, "KILN");
  check_error(status_of_text(std::string("\x08\x07\x12\x07pytorch\x1a\x05"
                                         "2.1.0:\x01\x02\x03\x04",
                                         24)),
              Code::kNotAModel, "ONNX");
}

TEST_CASE("bundle_damage_is_told_apart") {
  const std::vector<uint8_t> good = write_bundle(make_sample());
  const auto changed = [&](auto change) {
    std::vector<uint8_t> bytes = good;
    change(bytes);
    return status_of(bytes);
  };
  const auto put = [](std::vector<uint8_t>& bytes, size_t at, auto number) {
    std::memcpy(bytes.data() + at, &number, sizeof(number));
  };
  check_error(changed([](auto& b) { b.resize(b.size() - 100); }), Code::kTruncated, "100 are missing");
  check_error(changed([](auto& b) { b.resize(40); }), Code::kTruncated, "are missing");
  check_error(changed([](auto& b) { b.push_back(0); }), Code::kCorrupt, "but the file");
  check_error(changed([&](auto& b) { put(b, 4, uint32_t{2}); }), Code::kVersion, "newer runtime");
  check_error(changed([&](auto& b) { put(b, 4, uint32_t{0}); }), Code::kVersion, "compile the model again");
  check_error(changed([&](auto& b) { put(b, 24, uint32_t{2}); }), Code::kVersion, "features");
  check_error(changed([](auto& b) { b.back() ^= 1; }), Code::kCorrupt, "checksum");
  check_error(changed([](auto& b) { b[17] ^= 1; }), Code::kCorrupt, "checksum");
  const auto fixed = [&](auto change) {
    return changed([&](auto& b) {
      change(b);
      fix_checksum(b);
    });
  };
  check_error(fixed([&](auto& b) { put(b, 28, uint32_t{65}); }), Code::kCorrupt, "65 sections");
  check_error(fixed([&](auto& b) { put(b, 28, uint32_t{0}); }), Code::kCorrupt, "malformed");
  check_error(fixed([&](auto& b) { put(b, 40, uint64_t{1} << 63); }), Code::kCorrupt, "outside the file");
  check_error(fixed([&](auto& b) { put(b, 48, UINT64_MAX); }), Code::kCorrupt, "outside the file");
  check_error(fixed([&](auto& b) { put(b, 40, uint64_t{68}); }), Code::kCorrupt, "outside the file");
  check_error(fixed([&](auto& b) { put(b, 56, uint32_t{format::kProgram}); }), Code::kCorrupt, "two sections");
  CHECK(fixed([&](auto& b) { put(b, 56, uint32_t{77}); }).code() == Code::kCorrupt);  // no weights: w is out of bounds

  test::AlignedBytes aligned(good);
  std::vector<uint8_t> room(good.size() + 128);
  const size_t shift = (64 - reinterpret_cast<uintptr_t>(room.data()) % 64) % 64 + 8;
  std::copy(good.begin(), good.end(), room.begin() + static_cast<ptrdiff_t>(shift));
  CHECK(read_bundle({room.data() + shift, good.size()}).status().code() == Code::kInvalidArgument);
}

TEST_CASE("bundle_inconsistent_programs_are_refused") {
  const auto changed = [](auto change) {
    Plan plan = make_sample();
    change(plan, plan.profiles[0]);
    return status_of(write_bundle(plan));
  };
  const auto tensor = [&](auto change) {
    return changed([&](Plan&, PlanProfile& profile) { change(profile.tensors[0]); });
  };
  CHECK(changed([](Plan&, PlanProfile&) {}).ok());
  check_error(tensor([](PlanTensor& t) { t.dtype = static_cast<DType>(99); }), Code::kCorrupt, "dtype");
  check_error(tensor([](PlanTensor& t) { t.dtype = DType::kInvalid; }), Code::kCorrupt, "dtype");
  check_error(tensor([](PlanTensor& t) { t.shape[1] = -3; }), Code::kCorrupt, "the dim -3");
  check_error(tensor([](PlanTensor& t) { t.shape[1] = 1 << 30; }), Code::kCorrupt, "too many elements");
  check_error(tensor([](PlanTensor& t) { t.shape = Shape{0, INT32_MAX, INT32_MAX}; }), Code::kCorrupt, "too many");
  check_error(tensor([](PlanTensor& t) { t.offset = 212; }), Code::kCorrupt, "beyond the arena");
  check_error(tensor([](PlanTensor& t) { t.offset = UINT64_MAX - 3; }), Code::kCorrupt, "beyond the arena");
  check_error(tensor([](PlanTensor& t) { t.offset = 2; }), Code::kCorrupt, "not aligned");
  check_error(tensor([](PlanTensor& t) { t.strides[1] = 3; }), Code::kCorrupt, "overlap");
  check_error(tensor([](PlanTensor& t) { t.strides[1] = -4; }), Code::kCorrupt, "overlap");
  check_error(tensor([](PlanTensor& t) { t.strides[1] = INT32_MAX; }), Code::kCorrupt, "spans too many");
  check_error(tensor([](PlanTensor& t) {
                t.storage = Storage::kWeights;
                t.offset = 64;
              }),
              Code::kCorrupt, "beyond the weights");
  check_error(changed([](Plan& plan, PlanProfile&) { plan.weights.resize(79); }), Code::kCorrupt, "beyond the weights");

  const auto step = [&](auto change) {
    return changed([&](Plan&, PlanProfile& profile) { change(profile.steps[0]); });
  };
  check_error(step([](PlanStep& s) { s.inputs[0] = 5; }), Code::kCorrupt, "reads tensor 5");
  check_error(step([](PlanStep& s) { s.inputs[0] = -2; }), Code::kCorrupt, "reads tensor -2");
  check_error(step([](PlanStep& s) { s.outputs[0] = 5; }), Code::kCorrupt, "writes tensor 5");
  check_error(step([](PlanStep& s) { s.outputs[0] = 1; }), Code::kCorrupt, "in the weights");
  check_error(step([](PlanStep& s) { s.outputs[0] = 0; }), Code::kCorrupt, "overwrites its input");
  check_error(step([](PlanStep& s) { s.outputs = {3, 2}; }), Code::kCorrupt, "overlap");
  check_error(step([](PlanStep& s) { s.scratch_offset = 128; }), Code::kCorrupt, "overlap");
  check_error(step([](PlanStep& s) { s.scratch_offset = 0; }), Code::kCorrupt, "overwrites its input");
  check_error(step([](PlanStep& s) { s.scratch_bytes = 65; }), Code::kCorrupt, "scratch");
  check_error(step([](PlanStep& s) {
                s.scratch_offset = 200;
                s.scratch_bytes = 8;
              }),
              Code::kCorrupt, "scratch");
  check_error(step([](PlanStep& s) { s.macs = -1; }), Code::kCorrupt, "MACs");
  check_error(step([](PlanStep& s) { s.inputs.assign(2000, 0); }), Code::kCorrupt, "operands");
  CHECK(step([](PlanStep& s) { s.outputs = {3, 4}; }).ok());  // interleaved views are apart
  check_error(changed([](Plan&, PlanProfile& p) { p.tensors[4].offset = 72; }), Code::kCorrupt, "overwrites its input");

  check_error(changed([](Plan& plan, PlanProfile&) { plan.profiles.clear(); }), Code::kCorrupt, "no profile");
  check_error(changed([](Plan&, PlanProfile& p) { p.arena_bytes = uint64_t{1} << 33; }), Code::kCorrupt, "arena");
  check_error(changed([](Plan&, PlanProfile& p) { p.inputs[0].tensor = 1; }), Code::kCorrupt, "dense tensor");
  check_error(changed([](Plan&, PlanProfile& p) { p.inputs[0].tensor = 9; }), Code::kCorrupt, "no tensor");
  check_error(changed([](Plan&, PlanProfile& p) { p.outputs[0].tensor = 3; }), Code::kCorrupt, "dense tensor");
  check_error(changed([](Plan& plan, PlanProfile&) {
                plan.profiles.push_back(plan.profiles[0]);
                plan.profiles[1].inputs[0].name = "z";
              }),
              Code::kCorrupt, "profiles differ");
}

// A FlatBuffer may refer to one vector from many tables, which must not blow up what a session allocates.
TEST_CASE("bundle_shared_vectors_are_refused") {
  flatbuffers::FlatBufferBuilder builder;
  const auto params = builder.CreateVector(std::vector<uint8_t>(100000));
  schema::StepBuilder step_builder(builder);
  step_builder.add_params(params);
  const auto step = step_builder.Finish();
  const auto steps = builder.CreateVector(std::vector<flatbuffers::Offset<schema::Step>>(10000, step));
  schema::ProfileBuilder profile_builder(builder);
  profile_builder.add_steps(steps);
  const auto profile = profile_builder.Finish();
  const auto profiles = builder.CreateVector(&profile, 1);
  const auto kernel = builder.CreateString("copy_f32");
  const auto kernels = builder.CreateVector(&kernel, 1);
  builder.Finish(schema::CreateProgram(builder, kernels, profiles), schema::ProgramIdentifier());

  const format::Section section = {format::kProgram, 0, 64, builder.GetSize()};
  format::Header header = {};
  std::memcpy(header.magic, format::kMagic, 4);
  header.version = format::kVersion;
  header.file_bytes = 64 + section.bytes;
  header.num_sections = 1;
  std::vector<uint8_t> bytes(header.file_bytes);
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), &section, sizeof(section));
  std::memcpy(bytes.data() + 64, builder.GetBufferPointer(), section.bytes);
  fix_checksum(bytes);
  check_error(status_of(bytes), Code::kCorrupt, "share parameters");
}

TEST_CASE("bundle_random_damage_never_gets_through_unnoticed_or_crashes" * doctest::test_suite("random")) {
  for (const Plan& plan : {make_sample(), make_halved_sample()}) {
    const std::vector<uint8_t> good = write_bundle(plan);
    for (size_t at = 0; at < good.size(); ++at) {
      std::vector<uint8_t> bytes = good;
      bytes[at] ^= 0x41;
      CHECK_MESSAGE(!status_of(bytes).ok(), "byte " << at);
    }
    int accepted = 0;
    for (uint32_t seed = 0; seed < test::soak_cases(3000); ++seed) {
      std::mt19937 random(seed);
      std::vector<uint8_t> bytes = good;
      for (uint32_t i = 0; i <= random() % 3; ++i)
        bytes[24 + random() % (bytes.size() - 24)] = static_cast<uint8_t>(random());
      fix_checksum(bytes);
      test::AlignedBytes aligned(bytes);
      const auto bundle = read_bundle(aligned.span());
      if (!bundle.ok()) continue;
      ++accepted;
      CHECK(unpack_bundle(bundle.value()).profiles.size() > 0);
    }
    CHECK(accepted > 100);
    for (size_t bytes = 0; bytes < good.size(); ++bytes) {
      const Status status = status_of(std::span(good).first(bytes));
      CHECK(status.code() == Code::kTruncated);
    }
  }
}

}  // namespace
}  // namespace kiln
