#include "runtime/session.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bundle/check_program.h"
#include "bundle/read.h"
#include "bundle_generated.h"
#include "cpu/expand_halves.h"
#include "runtime/memory_guard.h"

namespace kiln {
namespace {

constexpr size_t kAlignment = 64;

struct StepRun {
  KernelFn run = nullptr;
  KernelArgs args;
  const schema::Step* step = nullptr;
};

struct LoadedProfile {
  std::vector<StepRun> steps;
  std::vector<TensorRef> operands;  // of all steps, each step's inputs before its outputs
  std::vector<uint64_t> params;     // of all steps, each 8-byte aligned
  std::vector<IoInfo> inputs, outputs;
  std::vector<TensorRef> input_refs, output_refs;
};

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

// A block at a 64-byte boundary.
struct Block {
  std::unique_ptr<void, FreeMemory> memory;
  uint8_t* data = nullptr;

  Status allocate(uint64_t bytes, bool is_zeroed, const char* what) {
    if (bytes <= SIZE_MAX - kAlignment) {
      const size_t size = static_cast<size_t>(bytes) + kAlignment;
      // calloc: memory fresh from the system is zero already and is not touched.
      memory.reset(is_zeroed ? std::calloc(1, size) : std::malloc(size));
    }
    if (memory == nullptr) {
      return {Code::kOutOfMemory, strf("no memory for %s: %llu bytes", what, static_cast<unsigned long long>(bytes))};
    }
    const auto address = reinterpret_cast<uintptr_t>(memory.get());
    data = reinterpret_cast<uint8_t*>((address + kAlignment - 1) / kAlignment * kAlignment);
    return {};
  }
};

}  // namespace

struct Session::Impl {
  BundleView bundle;
  std::vector<const KernelDef*> kernels;  // by index in the bundle
  std::vector<LoadedProfile> profiles;
  Block arena;
  Block expanded;  // the bundle's halves
  Block prepared;
  uint64_t prepared_bytes = 0;
  uint64_t arena_bytes = 0;
  int profile = 0;

  const schema::Profile& schema_profile(int index) const {
    return *bundle.program->profiles()->Get(static_cast<flatbuffers::uoffset_t>(index));
  }

  Status allocate_arena() {
    for (const schema::Profile* each : *bundle.program->profiles()) {
      arena_bytes = std::max(arena_bytes, each->arena_bytes());
    }
    return arena.allocate(arena_bytes, true, "the model's tensors");
  }

  // Once for all profiles; kernels see f32.
  Status expand_weights() {
    if (bundle.halves.empty()) return {};
    KILN_TRY(expanded.allocate(bundle.expanded_bytes(), false, "weights stored as halves"));
    expand_halves(bundle.halves.data(), bundle.halves.size() / 2, reinterpret_cast<float*>(expanded.data));
    return {};
  }

  Status find_kernels(const KernelRegistry& registry) {
    for (flatbuffers::uoffset_t i = 0; i < size_of(bundle.program->kernels()); ++i) {
      const char* name = text_of(bundle.program->kernels()->Get(i));
      kernels.push_back(registry.find(name));
      if (kernels.back() == nullptr) {
        return {Code::kVersion, strf("the bundle needs a newer runtime: this one has no kernel '%s'", name)};
      }
    }
    return {};
  }

  // The tensor with its pointer if that is a constant's; arena pointers come later.
  TensorRef resolve(const schema::Profile& from, int32_t index) const {
    if (index < 0) return {};
    const schema::Tensor& tensor = *from.tensors()->Get(static_cast<flatbuffers::uoffset_t>(index));
    TensorRef ref = read_tensor(tensor);
    if (tensor.place() == schema::Place::weights) {
      ref.data = const_cast<uint8_t*>(bundle.weights.data() + tensor.offset());
    } else if (tensor.place() == schema::Place::halves) {
      ref.data = expanded.data + tensor.offset();
    }
    return ref;
  }

  void place_in_arena(const schema::Profile& from, int32_t index, TensorRef* ref) const {
    if (index < 0) return;
    const schema::Tensor& tensor = *from.tensors()->Get(static_cast<flatbuffers::uoffset_t>(index));
    if (tensor.place() == schema::Place::arena) ref->data = arena.data + tensor.offset();
  }

  Status check_step(const KernelDef& kernel, const StepRun& run) const {
    const KernelArgs& args = run.args;
    Status status;
    for (int i = 0; i < args.num_in + args.num_out && status.ok(); ++i) {
      const bool is_input = i < args.num_in;
      const TensorRef& operand = is_input ? args.in[i] : args.out[i - args.num_in];
      if (!operand.present() || operand.is_contiguous()) continue;
      if (!(is_input ? kernel.strided_inputs : kernel.strided_outputs)) {
        status = {Code::kCorrupt, strf("%s %d is not dense, which this kernel does not take",
                                       is_input ? "input" : "output", is_input ? i : i - args.num_in)};
      }
    }
    if (status.ok()) status = kernel.check(args);
    if (status.ok()) return status;
    const char* name = text_of(run.step->name());
    return {status.code(), strf("%s '%s' (kernel %s): ", text_of(run.step->op()), name, kernel.name) + status.message(),
            name};
  }

  Status load_steps(const schema::Profile& from, const Parallel* parallel, LoadedProfile* out) {
    const auto num_steps = static_cast<flatbuffers::uoffset_t>(size_of(from.steps()));
    size_t num_operands = 0, num_words = 0;
    for (flatbuffers::uoffset_t s = 0; s < num_steps; ++s) {
      const schema::Step& step = *from.steps()->Get(s);
      num_operands += size_of(step.inputs()) + size_of(step.outputs());
      num_words += (size_of(step.params()) + 7) / 8;
    }
    // Sized once: the steps keep pointers into both.
    out->operands.resize(num_operands);
    out->params.resize(num_words);
    out->steps.resize(num_steps);
    TensorRef* operand = out->operands.data();
    uint64_t* words = out->params.data();
    for (flatbuffers::uoffset_t s = 0; s < num_steps; ++s) {
      const schema::Step& step = *from.steps()->Get(s);
      StepRun& run = out->steps[s];
      run.step = &step;
      KernelArgs& args = run.args;
      args.params = words;
      args.params_bytes = size_of(step.params());
      if (args.params_bytes > 0) std::memcpy(words, step.params()->data(), args.params_bytes);
      words += (args.params_bytes + 7) / 8;
      args.num_in = static_cast<int>(size_of(step.inputs()));
      args.num_out = static_cast<int>(size_of(step.outputs()));
      args.in = operand;
      args.out = operand + args.num_in;
      for (flatbuffers::uoffset_t i = 0; i < size_of(step.inputs()); ++i)
        *operand++ = resolve(from, step.inputs()->Get(i));
      for (flatbuffers::uoffset_t i = 0; i < size_of(step.outputs()); ++i) {
        *operand++ = resolve(from, step.outputs()->Get(i));
      }
      args.scratch_bytes = static_cast<size_t>(step.scratch_bytes());
      args.parallel = parallel;
      const KernelDef& kernel = *kernels[step.kernel()];
      run.run = kernel.run;
      KILN_TRY(check_step(kernel, run));
    }
    return {};
  }

  // Fills in the pointers that checks are not to see.
  void place_steps(const schema::Profile& from, LoadedProfile* profile) const {
    TensorRef* operand = profile->operands.data();
    for (StepRun& run : profile->steps) {
      for (flatbuffers::uoffset_t i = 0; i < size_of(run.step->inputs()); ++i) {
        place_in_arena(from, run.step->inputs()->Get(i), operand++);
      }
      for (flatbuffers::uoffset_t i = 0; i < size_of(run.step->outputs()); ++i) {
        place_in_arena(from, run.step->outputs()->Get(i), operand++);
      }
      run.args.scratch = arena.data + run.step->scratch_offset();
    }
  }

  // Weights in the form that kernels want them, each made once.
  Status prepare_steps() {
    struct Shared {
      const KernelDef* kernel;
      const void* source;
      uint64_t bytes;
      uint64_t offset;
    };
    std::vector<Shared> all;
    const auto find = [&](const KernelDef& kernel, const KernelArgs& args) {
      const uint64_t bytes = kernel.prepared_bytes(args);
      for (Shared& each : all) {
        if (each.kernel == &kernel && each.source == args.in[1].data && each.bytes == bytes) return &each;
      }
      all.push_back({&kernel, args.in[1].data, bytes, prepared_bytes});
      prepared_bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      return &all.back();
    };
    const auto for_each = [&](auto&& body) {
      for (LoadedProfile& loaded : profiles) {
        for (StepRun& run : loaded.steps) {
          const KernelDef& kernel = *kernels[run.step->kernel()];
          if (kernel.prepare != nullptr) body(kernel, run);
        }
      }
    };
    for_each([&](const KernelDef& kernel, StepRun& run) { find(kernel, run.args); });
    if (prepared_bytes == 0) return {};
    KILN_TRY(prepared.allocate(prepared_bytes, false, "prepared weights"));
    std::vector<bool> is_made(all.size(), false);
    for_each([&](const KernelDef& kernel, StepRun& run) {
      const Shared* shared = find(kernel, run.args);
      const auto index = static_cast<size_t>(shared - all.data());
      run.args.prepared = prepared.data + shared->offset;
      if (!is_made[index]) kernel.prepare(run.args);
      is_made[index] = true;
    });
    return {};
  }

  void load_ios(const schema::Profile& from, const flatbuffers::Vector<flatbuffers::Offset<schema::Io>>* ios,
                std::vector<IoInfo>* infos, std::vector<TensorRef>* refs) const {
    for (flatbuffers::uoffset_t i = 0; i < size_of(ios); ++i) {
      const schema::Io& io = *ios->Get(i);
      TensorRef ref = resolve(from, io.tensor());
      place_in_arena(from, io.tensor(), &ref);
      refs->push_back(ref);
      IoInfo info;
      info.name = text_of(io.name());
      info.dtype = ref.dtype;
      info.shape.assign(ref.dims, ref.dims + ref.rank);
      info.layout = text_of(io.layout());
      info.batched = io.batched();
      infos->push_back(std::move(info));
    }
  }

  Status load(const KernelRegistry& registry, const Parallel* parallel) {
    KILN_TRY(find_kernels(registry));
    KILN_TRY(expand_weights());
    const int num_profiles = static_cast<int>(bundle.program->profiles()->size());
    profiles.resize(static_cast<size_t>(num_profiles));
    for (int i = 0; i < num_profiles; ++i) {
      KILN_TRY(load_steps(schema_profile(i), parallel, &profiles[static_cast<size_t>(i)]));
    }
    KILN_TRY(prepare_steps());
    KILN_TRY(allocate_arena());
    for (int i = 0; i < num_profiles; ++i) {
      const schema::Profile& from = schema_profile(i);
      LoadedProfile& loaded = profiles[static_cast<size_t>(i)];
      place_steps(from, &loaded);
      load_ios(from, from.inputs(), &loaded.inputs, &loaded.input_refs);
      load_ios(from, from.outputs(), &loaded.outputs, &loaded.output_refs);
    }
    return {};
  }

  const LoadedProfile& current() const { return profiles[static_cast<size_t>(profile)]; }
};

Session::Session() : impl_(new Impl) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::load(std::span<const uint8_t> bundle, const KernelRegistry& kernels,
                                               const Parallel* parallel) {
  KILN_ASSIGN(const BundleView view, read_bundle(bundle));
  std::unique_ptr<Session> session(new Session);
  session->impl_->bundle = view;
  KILN_TRY(session->impl_->load(kernels, parallel != nullptr ? parallel : &serial_parallel()));
  return session;
}

int Session::num_profiles() const { return static_cast<int>(impl_->profiles.size()); }

int Session::profile() const { return impl_->profile; }

Status Session::select_profile(int index) {
  if (index < 0 || index >= num_profiles()) {
    return {Code::kInvalidArgument, strf("profile %d of a bundle with %d", index, num_profiles())};
  }
  impl_->profile = index;
  return {};
}

const std::vector<IoInfo>& Session::inputs(int profile_index) const {
  return impl_->profiles[static_cast<size_t>(profile_index)].inputs;
}

const std::vector<IoInfo>& Session::outputs(int profile_index) const {
  return impl_->profiles[static_cast<size_t>(profile_index)].outputs;
}

TensorRef Session::input(int index) { return impl_->current().input_refs[static_cast<size_t>(index)]; }

TensorRef Session::output(int index) { return impl_->current().output_refs[static_cast<size_t>(index)]; }

void Session::run() { run_steps(0, num_steps()); }

int Session::num_steps() const { return static_cast<int>(impl_->current().steps.size()); }

StepInfo Session::step(int index) const {
  const StepRun& run = impl_->current().steps[static_cast<size_t>(index)];
  return {text_of(run.step->op()), text_of(run.step->name()),
          text_of(impl_->bundle.program->kernels()->Get(run.step->kernel())), run.step->macs()};
}

void Session::run_steps(int begin, int end) {
  const std::vector<StepRun>& steps = impl_->current().steps;
  const MemoryGuard guard({impl_->arena.data, static_cast<size_t>(impl_->arena_bytes)}, impl_->bundle.weights,
                          {impl_->expanded.data, static_cast<size_t>(impl_->bundle.expanded_bytes())});
  for (int i = begin; i < end; ++i) {
    const StepRun& step = steps[static_cast<size_t>(i)];
    guard.open(step.args);
    step.run(step.args);
    guard.close(step.args);
  }
}

SessionMemory Session::memory() const {
  SessionMemory memory;
  memory.weights_bytes = impl_->bundle.weights.size() + impl_->bundle.halves.size();
  memory.arena_bytes = impl_->arena_bytes;
  memory.prepared_bytes = impl_->prepared_bytes + impl_->bundle.expanded_bytes();
  for (const schema::Profile* profile : *impl_->bundle.program->profiles()) {
    memory.peak_live_bytes = std::max(memory.peak_live_bytes, profile->peak_live_bytes());
  }
  return memory;
}

int Session::num_metadata() const { return static_cast<int>(size_of(impl_->bundle.program->metadata())); }

const char* Session::metadata_key(int index) const {
  return text_of(impl_->bundle.program->metadata()->Get(static_cast<flatbuffers::uoffset_t>(index))->key());
}

const char* Session::metadata_value(int index) const {
  return text_of(impl_->bundle.program->metadata()->Get(static_cast<flatbuffers::uoffset_t>(index))->value());
}

const char* Session::metadata(const char* key) const {
  for (int i = 0; i < num_metadata(); ++i) {
    if (std::strcmp(metadata_key(i), key) == 0) return metadata_value(i);
  }
  return nullptr;
}

}  // namespace kiln
