// Sessions behind the C ABI of runtime_abi.h: handles and indices are checked, errors are kept for
// kiln_error_*().
#include "wasm/runtime_abi.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include "runtime/session.h"
#include "wasm/last_error.h"
#include "wasm/threads.h"

using kiln::Code;
using kiln::IoInfo;
using kiln::Session;

namespace {

struct Loaded {
  std::unique_ptr<Session> session;
  void* bundle = nullptr;
};

// Handle n is entry n - 1; entries of unloaded sessions are used again.
std::vector<Loaded>& loaded() {
  static std::vector<Loaded> all;
  return all;
}

Session* find(int32_t handle) {
  if (handle < 1 || static_cast<size_t>(handle) > loaded().size()) return nullptr;
  return loaded()[static_cast<size_t>(handle - 1)].session.get();
}

int32_t bad_handle() { return kiln::set_last_error({Code::kInvalidArgument, "no such session"}); }

// An input or output of a profile, or null.
const IoInfo* find_io(int32_t handle, int32_t profile, int32_t io, int32_t index) {
  const Session* session = find(handle);
  if (session == nullptr || profile < 0 || profile >= session->num_profiles()) return nullptr;
  const std::vector<IoInfo>& infos = io == 0 ? session->inputs(profile) : session->outputs(profile);
  if (io < 0 || io > 1 || index < 0 || static_cast<size_t>(index) >= infos.size()) return nullptr;
  return &infos[static_cast<size_t>(index)];
}

bool has_step(const Session* session, int32_t step) {
  return session != nullptr && step >= 0 && step < session->num_steps();
}

bool has_metadata(const Session* session, int32_t index) {
  return session != nullptr && index >= 0 && index < session->num_metadata();
}

}  // namespace

uint32_t kiln_abi_version() { return 1; }

void* kiln_alloc(size_t bytes) {
  constexpr size_t kAlignment = 64;
  if (bytes > SIZE_MAX - 2 * kAlignment) return nullptr;
  return std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment);
}

void kiln_free(void* pointer) { std::free(pointer); }

int32_t kiln_error_code() { return static_cast<int32_t>(kiln::last_error().code()); }
const char* kiln_error_message() { return kiln::last_error().message().c_str(); }
const char* kiln_error_node() { return kiln::last_error().node().c_str(); }

int32_t kiln_load(void* bundle, size_t bytes) {
  auto session =
      Session::load({static_cast<const uint8_t*>(bundle), bytes}, kiln::builtin_kernels(), kiln::runtime_parallel());
  if (!session.ok()) {
    kiln::set_last_error(session.status());
    return 0;
  }
  Loaded entry{std::move(session).value(), bundle};
  for (size_t i = 0; i < loaded().size(); ++i) {
    if (loaded()[i].session != nullptr) continue;
    loaded()[i] = std::move(entry);
    return static_cast<int32_t>(i + 1);
  }
  loaded().push_back(std::move(entry));
  return static_cast<int32_t>(loaded().size());
}

void kiln_unload(int32_t handle) {
  if (find(handle) == nullptr) return;
  Loaded& entry = loaded()[static_cast<size_t>(handle - 1)];
  entry.session.reset();
  std::free(entry.bundle);
  entry.bundle = nullptr;
}

double kiln_count(int32_t handle, int32_t what) {
  const Session* session = find(handle);
  if (session == nullptr) {
    bad_handle();
    return -1;
  }
  switch (what) {
    case 0:
      return session->num_profiles();
    case 1:
      return static_cast<double>(session->inputs(session->profile()).size());
    case 2:
      return static_cast<double>(session->outputs(session->profile()).size());
    case 3:
      return session->num_steps();
    case 4:
      return session->num_metadata();
    case 5:
      return session->profile();
    case 6:
      return static_cast<double>(session->memory().weights_bytes);
    case 7:
      return static_cast<double>(session->memory().arena_bytes);
    case 8:
      return static_cast<double>(session->memory().peak_live_bytes);
    case 9:
      return static_cast<double>(session->memory().prepared_bytes);
  }
  kiln::set_last_error({Code::kInvalidArgument, "kiln_count: no such number"});
  return -1;
}

int32_t kiln_select_profile(int32_t handle, int32_t profile) {
  Session* session = find(handle);
  if (session == nullptr) return bad_handle();
  const kiln::Status status = session->select_profile(profile);
  return status.ok() ? 0 : kiln::set_last_error(status);
}

const char* kiln_io_name(int32_t handle, int32_t io, int32_t index) {
  const IoInfo* info = find_io(handle, 0, io, index);
  return info != nullptr ? info->name.c_str() : nullptr;
}

const char* kiln_io_layout(int32_t handle, int32_t io, int32_t index) {
  const IoInfo* info = find_io(handle, 0, io, index);
  return info != nullptr ? info->layout.c_str() : nullptr;
}

int32_t kiln_io_batched(int32_t handle, int32_t io, int32_t index) {
  const IoInfo* info = find_io(handle, 0, io, index);
  return info != nullptr && info->batched ? 1 : 0;
}

int32_t kiln_io_dtype(int32_t handle, int32_t io, int32_t index) {
  const IoInfo* info = find_io(handle, 0, io, index);
  return info != nullptr ? static_cast<int32_t>(info->dtype) : 0;
}

int32_t kiln_io_rank(int32_t handle, int32_t profile, int32_t io, int32_t index) {
  const IoInfo* info = find_io(handle, profile, io, index);
  return info != nullptr ? static_cast<int32_t>(info->shape.size()) : -1;
}

int32_t kiln_io_dim(int32_t handle, int32_t profile, int32_t io, int32_t index, int32_t axis) {
  const IoInfo* info = find_io(handle, profile, io, index);
  if (info == nullptr || axis < 0 || static_cast<size_t>(axis) >= info->shape.size()) return -1;
  return static_cast<int32_t>(info->shape[static_cast<size_t>(axis)]);
}

void* kiln_io_data(int32_t handle, int32_t io, int32_t index) {
  if (find_io(handle, 0, io, index) == nullptr) return nullptr;
  Session* session = find(handle);
  return (io == 0 ? session->input(index) : session->output(index)).data;
}

const char* kiln_metadata_key(int32_t handle, int32_t index) {
  const Session* session = find(handle);
  return has_metadata(session, index) ? session->metadata_key(index) : nullptr;
}

const char* kiln_metadata_value(int32_t handle, int32_t index) {
  const Session* session = find(handle);
  return has_metadata(session, index) ? session->metadata_value(index) : nullptr;
}

int32_t kiln_run(int32_t handle, int32_t begin, int32_t end) {
  Session* session = find(handle);
  if (session == nullptr) return bad_handle();
  const int32_t last = end == -1 ? session->num_steps() : end;
  if (begin < 0 || begin > last || last > session->num_steps()) {
    return kiln::set_last_error(
        {Code::kInvalidArgument, kiln::strf("steps %d to %d of %d", begin, end, session->num_steps())});
  }
  kiln::begin_threaded_run();
  session->run_steps(begin, last);
  const kiln::Status status = kiln::end_threaded_run();
  return status.ok() ? 0 : kiln::set_last_error(status);
}

const char* kiln_step_text(int32_t handle, int32_t step, int32_t what) {
  const Session* session = find(handle);
  if (!has_step(session, step)) return nullptr;
  const kiln::StepInfo info = session->step(step);
  switch (what) {
    case 0:
      return info.op;
    case 1:
      return info.name;
    case 2:
      return info.kernel;
  }
  return nullptr;
}

double kiln_step_macs(int32_t handle, int32_t step) {
  const Session* session = find(handle);
  return has_step(session, step) ? static_cast<double>(session->step(step).macs) : -1;
}
