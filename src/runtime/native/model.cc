// The public C++ API over Session.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "runtime/session.h"
#include "tilekiln/runtime.h"

namespace tilekiln {
namespace {

struct FreeBytes {
  void operator()(void* bytes) const { std::free(bytes); }
};
using Bytes = std::unique_ptr<void, FreeBytes>;

Bytes allocate(size_t bytes) {
  constexpr size_t kAlignment = 64;  // what Session wants
  return Bytes(std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment));
}

std::unique_ptr<Model> fail(const kiln::Status& status, Error* error) {
  if (error != nullptr) *error = {kiln::code_name(status.code()), status.message(), status.node()};
  return nullptr;
}

kiln::Status no_memory(size_t bytes) {
  return {kiln::Code::kOutOfMemory, kiln::strf("no memory for a bundle of %zu bytes", bytes)};
}

std::vector<TensorInfo> describe(const std::vector<kiln::IoInfo>& infos) {
  std::vector<TensorInfo> described;
  for (const kiln::IoInfo& info : infos) {
    described.push_back({info.name, static_cast<DType>(info.dtype), info.shape, info.layout});
  }
  return described;
}

size_t bytes_of(const kiln::TensorRef& tensor) {
  return static_cast<size_t>(tensor.num_elements()) * kiln::dtype_bytes(tensor.dtype);
}

}  // namespace

struct Model::Impl {
  Bytes bundle;
  std::unique_ptr<kiln::Session> session;
  std::vector<std::vector<TensorInfo>> inputs, outputs;  // by profile

  kiln::Status load(size_t bytes) {
    auto loaded = kiln::Session::load({static_cast<const uint8_t*>(bundle.get()), bytes}, kiln::builtin_kernels());
    if (!loaded.ok()) return loaded.status();
    session = std::move(loaded).value();
    for (int profile = 0; profile < session->num_profiles(); ++profile) {
      inputs.push_back(describe(session->inputs(profile)));
      outputs.push_back(describe(session->outputs(profile)));
    }
    return {};
  }
};

Model::Model() : impl_(new Impl) {}
Model::~Model() = default;

std::unique_ptr<Model> Model::load(const void* bundle, size_t bytes, Error* error) {
  std::unique_ptr<Model> model(new Model);
  model->impl_->bundle = allocate(bytes);
  if (model->impl_->bundle == nullptr) return fail(no_memory(bytes), error);
  if (bytes > 0) std::memcpy(model->impl_->bundle.get(), bundle, bytes);
  const kiln::Status status = model->impl_->load(bytes);
  return status.ok() ? std::move(model) : fail(status, error);
}

std::unique_ptr<Model> Model::load_file(const std::string& path, Error* error) {
  std::error_code no_size;
  const uintmax_t bytes = std::filesystem::file_size(path, no_size);
  if (no_size) return fail({kiln::Code::kNotFound, path + ": " + no_size.message()}, error);
  std::unique_ptr<Model> model(new Model);
  model->impl_->bundle = allocate(bytes);
  if (model->impl_->bundle == nullptr) return fail(no_memory(bytes), error);
  std::FILE* file = std::fopen(path.c_str(), "rb");
  const size_t got = file != nullptr ? std::fread(model->impl_->bundle.get(), 1, bytes, file) : 0;
  const bool failed = file == nullptr || std::ferror(file) != 0;
  if (file != nullptr) std::fclose(file);
  if (failed) return fail({kiln::Code::kNotFound, path + ": cannot be read"}, error);
  const kiln::Status status = model->impl_->load(got);
  if (status.ok()) return model;
  return fail({status.code(), path + ": " + status.message(), status.node()}, error);
}

int Model::num_profiles() const { return impl_->session->num_profiles(); }
int Model::profile() const { return impl_->session->profile(); }
bool Model::select_profile(int index) { return impl_->session->select_profile(index).ok(); }

const std::vector<TensorInfo>& Model::inputs() const { return impl_->inputs[static_cast<size_t>(profile())]; }

const std::vector<TensorInfo>& Model::outputs() const { return impl_->outputs[static_cast<size_t>(profile())]; }

void* Model::input(size_t index) { return impl_->session->input(static_cast<int>(index)).data; }
const void* Model::output(size_t index) const { return impl_->session->output(static_cast<int>(index)).data; }

size_t Model::input_bytes(size_t index) const { return bytes_of(impl_->session->input(static_cast<int>(index))); }

size_t Model::output_bytes(size_t index) const { return bytes_of(impl_->session->output(static_cast<int>(index))); }

void Model::run() { impl_->session->run(); }

const char* Model::metadata(const char* key) const { return impl_->session->metadata(key); }

}  // namespace tilekiln
