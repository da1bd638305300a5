#include "bundle/check_program.h"

#include <algorithm>
#include <cstring>

#include "bundle/format.h"
#include "bundle/read.h"

namespace kiln {
namespace {

Status corrupt(std::string message, const char* node = "") { return {Code::kCorrupt, std::move(message), node}; }

bool fits(uint64_t offset, uint64_t bytes, uint64_t limit) { return offset <= limit && bytes <= limit - offset; }

// Dims and strides: see the guarantees in read.h.
Status check_layout(const schema::Tensor& tensor) {
  const char* name = text_of(tensor.name());
  const size_t rank = size_of(tensor.dims());
  const size_t num_strides = size_of(tensor.strides());
  if (tensor.dtype() == 0 || tensor.dtype() >= kNumDTypes) {
    return corrupt(strf("tensor '%s' has the unknown dtype %d", name, tensor.dtype()));
  }
  if (rank > kMaxRank) return corrupt(strf("tensor '%s' has %zu dims; at most %d", name, rank, kMaxRank));
  if (num_strides != 0 && num_strides != rank) {
    return corrupt(strf("tensor '%s' has %zu dims, but %zu strides", name, rank, num_strides));
  }
  int64_t product = 1;
  int64_t span = 1;  // elements that the axes seen so far cover
  bool is_empty = false;
  for (size_t i = rank; i-- > 0;) {
    const int64_t dim = tensor.dims()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (dim < 0) return corrupt(strf("tensor '%s' has the dim %lld", name, static_cast<long long>(dim)));
    if (dim == 0) is_empty = true;
    if (dim <= 1) continue;
    product *= dim;
    if (product > format::kMaxElements) return corrupt(strf("tensor '%s' has too many elements", name));
    if (num_strides == 0 || is_empty) continue;
    const int64_t stride = tensor.strides()->Get(static_cast<flatbuffers::uoffset_t>(i));
    if (stride < span) {
      return corrupt(strf("tensor '%s' has the stride %lld on axis %zu, where elements would overlap", name,
                          static_cast<long long>(stride), i));
    }
    span += (dim - 1) * stride;  // both below 2^31
    if (span > format::kMaxElements) return corrupt(strf("tensor '%s' spans too many elements", name));
  }
  return {};
}

// Bytes of the places, in their order.
struct PlaceSizes {
  uint64_t bytes[3];
};

Status check_tensor(const schema::Tensor& tensor, const PlaceSizes& sizes) {
  KILN_TRY(check_layout(tensor));
  const char* name = text_of(tensor.name());
  if (tensor.place() > schema::Place::MAX) return corrupt(strf("tensor '%s' is in an unknown place", name));
  const uint64_t limit = sizes.bytes[static_cast<size_t>(tensor.place())];
  const TensorRef ref = read_tensor(tensor);
  if (!fits(tensor.offset(), span_bytes(ref), limit)) {
    return corrupt(strf("tensor '%s' (offset %llu, %llu bytes) reaches beyond the %s of %llu bytes", name,
                        static_cast<unsigned long long>(tensor.offset()),
                        static_cast<unsigned long long>(span_bytes(ref)), schema::EnumNamePlace(tensor.place()),
                        static_cast<unsigned long long>(limit)));
  }
  if (tensor.offset() % dtype_bytes(ref.dtype) != 0) return corrupt(strf("tensor '%s' is not aligned", name));
  if (tensor.place() == schema::Place::halves && ref.dtype != DType::kF32) {
    return corrupt(strf("tensor '%s' is stored as halves, but is %s", name, dtype_name(ref.dtype)));
  }
  return {};
}

// A tensor as rows of `width` bytes, `stride` apart (0: a single row).
struct Rows {
  uint64_t offset = 0;
  uint64_t width = 0;
  uint64_t stride = 0;
  uint64_t span = 0;
  bool uniform = true;
};

Rows rows_of(const schema::Tensor& tensor) {
  const TensorRef ref = read_tensor(tensor);
  const uint64_t item = dtype_bytes(ref.dtype);
  Rows rows;
  rows.offset = tensor.offset();
  rows.span = span_bytes(ref);
  int64_t width = 1;
  int axis = ref.rank - 1;
  for (; axis >= 0 && (ref.dims[axis] == 1 || ref.strides[axis] == width); --axis) width *= ref.dims[axis];
  int64_t expected = 0;
  for (; axis >= 0; --axis) {
    if (ref.dims[axis] == 1) continue;
    if (rows.stride == 0) {
      rows.stride = static_cast<uint64_t>(ref.strides[axis]) * item;
      expected = int64_t{ref.strides[axis]} * ref.dims[axis];
    } else {
      rows.uniform = rows.uniform && ref.strides[axis] == expected;
      expected = int64_t{ref.strides[axis]} * ref.dims[axis];
    }
  }
  rows.width = static_cast<uint64_t>(width) * item;
  return rows;
}

// Views of one buffer interleave: their spans overlap, their rows do not. Anything less regular counts as
// overlapping.
bool overlap(const Rows& a, const Rows& b) {
  if (a.span == 0 || b.span == 0) return false;
  if (a.offset + a.span <= b.offset || b.offset + b.span <= a.offset) return false;
  const uint64_t stride = std::max(a.stride, b.stride);
  if (stride == 0 || !a.uniform || !b.uniform) return true;
  if ((a.stride != 0 && a.stride != stride) || (b.stride != 0 && b.stride != stride)) return true;
  const uint64_t distance =
      b.offset >= a.offset ? (b.offset - a.offset) % stride : (stride - (a.offset - b.offset) % stride) % stride;
  return distance < a.width || distance + b.width > stride;
}

class ProfileChecker {
 public:
  ProfileChecker(const schema::Program& program, const schema::Profile& profile, uint64_t weights_bytes,
                 uint64_t halves_bytes)
      : program_(program), profile_(profile), sizes_{{profile.arena_bytes(), weights_bytes, halves_bytes}} {}

  // Adds the bytes that vectors of operands and parameters hold to *referred_bytes.
  Status check(uint64_t* referred_bytes) {
    if (profile_.arena_bytes() > format::kMaxArenaBytes) {
      return corrupt(strf("a profile wants an arena of %llu bytes; at most %llu",
                          static_cast<unsigned long long>(profile_.arena_bytes()),
                          static_cast<unsigned long long>(format::kMaxArenaBytes)));
    }
    const auto num_tensors = static_cast<flatbuffers::uoffset_t>(size_of(profile_.tensors()));
    for (flatbuffers::uoffset_t i = 0; i < num_tensors; ++i) {
      KILN_TRY(check_tensor(*profile_.tensors()->Get(i), sizes_));
    }
    const auto num_steps = static_cast<flatbuffers::uoffset_t>(size_of(profile_.steps()));
    for (flatbuffers::uoffset_t i = 0; i < num_steps; ++i) {
      const schema::Step& step = *profile_.steps()->Get(i);
      *referred_bytes += size_of(step.params()) + 4 * (size_of(step.inputs()) + size_of(step.outputs()));
      KILN_TRY(check_step(step));
    }
    KILN_TRY(check_ios(profile_.inputs(), "input"));
    return check_ios(profile_.outputs(), "output");
  }

 private:
  const schema::Tensor* tensor(int32_t index) const {
    if (index < 0 || static_cast<size_t>(index) >= size_of(profile_.tensors())) return nullptr;
    return profile_.tensors()->Get(static_cast<flatbuffers::uoffset_t>(index));
  }

  Status check_step(const schema::Step& step) {
    const char* name = text_of(step.name());
    if (step.kernel() >= size_of(program_.kernels())) {
      return corrupt(strf("step '%s' names kernel %u of %zu", name, step.kernel(), size_of(program_.kernels())), name);
    }
    if (size_of(step.inputs()) + size_of(step.outputs()) > kMaxStepOperands) {
      return corrupt(strf("step '%s' has more than %zu operands", name, kMaxStepOperands), name);
    }
    if (step.macs() < 0) return corrupt(strf("step '%s' has a negative number of MACs", name), name);
    if (!fits(step.scratch_offset(), step.scratch_bytes(), profile_.arena_bytes()) ||
        step.scratch_offset() % format::kAlignment != 0) {
      return corrupt(strf("step '%s' has scratch memory outside the arena", name), name);
    }
    Rows rows[kMaxStepOperands + 1];
    size_t num_written = 0;
    for (int32_t index : view(step.outputs())) {
      if (index == -1) continue;
      const schema::Tensor* output = tensor(index);
      if (output == nullptr) return corrupt(strf("step '%s' writes tensor %d, which is not there", name, index), name);
      if (output->place() != schema::Place::arena) {
        return corrupt(strf("step '%s' writes '%s', which lies in the weights", name, text_of(output->name())), name);
      }
      rows[num_written++] = rows_of(*output);
    }
    rows[num_written++] = {step.scratch_offset(), step.scratch_bytes(), 0, step.scratch_bytes(), true};
    for (size_t i = 0; i < num_written; ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (overlap(rows[i], rows[j])) return corrupt(strf("step '%s' has outputs that overlap", name), name);
      }
    }
    for (int32_t index : view(step.inputs())) {
      if (index == -1) continue;
      const schema::Tensor* input = tensor(index);
      if (input == nullptr) return corrupt(strf("step '%s' reads tensor %d, which is not there", name, index), name);
      if (input->place() != schema::Place::arena) continue;
      const Rows read = rows_of(*input);
      for (size_t i = 0; i < num_written; ++i) {
        if (overlap(read, rows[i])) {
          return corrupt(strf("step '%s' overwrites its input '%s'", name, text_of(input->name())), name);
        }
      }
    }
    return {};
  }

  Status check_ios(const flatbuffers::Vector<flatbuffers::Offset<schema::Io>>* ios, const char* what) {
    const auto count = static_cast<flatbuffers::uoffset_t>(size_of(ios));
    for (flatbuffers::uoffset_t i = 0; i < count; ++i) {
      const schema::Io& io = *ios->Get(i);
      const schema::Tensor* found = tensor(io.tensor());
      if (found == nullptr) return corrupt(strf("%s '%s' has no tensor", what, text_of(io.name())));
      if (found->place() != schema::Place::arena || !read_tensor(*found).is_contiguous()) {
        return corrupt(strf("%s '%s' is not a dense tensor in the arena", what, text_of(io.name())));
      }
      if (!io.batched()) continue;
      const int64_t rows = size_of(found->dims()) > 0 ? found->dims()->Get(0) : -1;
      if (rows < 0 || (rows_ >= 0 && rows != rows_)) {
        return corrupt(strf("%s '%s' has another batch than the rest", what, text_of(io.name())));
      }
      rows_ = rows;
    }
    return {};
  }

  static std::span<const int32_t> view(const flatbuffers::Vector<int32_t>* vector) {
    if (vector == nullptr) return {};
    return {vector->data(), vector->size()};
  }

  const schema::Program& program_;
  const schema::Profile& profile_;
  const PlaceSizes sizes_;
  int64_t rows_ = -1;  // of batched inputs and outputs
};

using Ios = flatbuffers::Vector<flatbuffers::Offset<schema::Io>>;

bool same_ios(const schema::Profile& a, const Ios* a_ios, const schema::Profile& b, const Ios* b_ios) {
  if (size_of(a_ios) != size_of(b_ios)) return false;
  for (flatbuffers::uoffset_t i = 0; i < size_of(a_ios); ++i) {
    const schema::Io& io_a = *a_ios->Get(i);
    const schema::Io& io_b = *b_ios->Get(i);
    if (std::strcmp(text_of(io_a.name()), text_of(io_b.name())) != 0 || io_a.batched() != io_b.batched()) return false;
    const auto tensor_a = static_cast<flatbuffers::uoffset_t>(io_a.tensor());
    const auto tensor_b = static_cast<flatbuffers::uoffset_t>(io_b.tensor());
    if (a.tensors()->Get(tensor_a)->dtype() != b.tensors()->Get(tensor_b)->dtype()) return false;
  }
  return true;
}

}  // namespace

Status check_program(const schema::Program& program, uint64_t program_bytes, uint64_t weights_bytes,
                     uint64_t halves_bytes) {
  const size_t num_profiles = size_of(program.profiles());
  if (num_profiles == 0) return corrupt("the bundle has no profile");
  if (num_profiles > format::kMaxProfiles) return corrupt(strf("the bundle has %zu profiles", num_profiles));
  uint64_t referred_bytes = 0;
  for (const schema::Profile* profile : *program.profiles()) {
    KILN_TRY(ProfileChecker(program, *profile, weights_bytes, halves_bytes).check(&referred_bytes));
    const schema::Profile& first = *program.profiles()->Get(0);
    if (!same_ios(first, first.inputs(), *profile, profile->inputs()) ||
        !same_ios(first, first.outputs(), *profile, profile->outputs())) {
      return corrupt("the bundle's profiles differ in the names, dtypes or batches of their inputs or outputs");
    }
    // Vectors of a FlatBuffer may be shared; shared a thousand times over they would fill memory at load.
    if (referred_bytes > program_bytes) return corrupt("the bundle's steps share parameters or operands");
  }
  return {};
}

}  // namespace kiln
