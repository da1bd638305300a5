#include "wasm/threads_abi.h"

#include <cstdlib>
#include <memory>
#include <vector>

#include "cpu/thread_pool.h"
#include "cpu/worker_stack.h"
#include "wasm/last_error.h"
#include "wasm/threads.h"

namespace {

constexpr size_t kStackBytes = 256 * 1024;  // as the caller's
constexpr size_t kAlignment = 64;

size_t padded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// A worker's memory: guard, stack, thread-local storage.
struct FreeBlock {
  void operator()(uint8_t* block) const { std::free(block); }
};
using Block = std::unique_ptr<uint8_t, FreeBlock>;

struct Threads {
  std::unique_ptr<kiln::ThreadPool> pool;
  std::vector<Block> blocks;  // of worker i + 1
};

Threads& threads() {
  static Threads all;
  return all;
}

uint8_t* block_of(int32_t thread) {
  const std::vector<Block>& blocks = threads().blocks;
  return thread >= 1 && static_cast<size_t>(thread) <= blocks.size() ? blocks[static_cast<size_t>(thread - 1)].get()
                                                                     : nullptr;
}

}  // namespace

namespace kiln {

const Parallel* runtime_parallel() {
  return threads().pool != nullptr ? &threads().pool->parallel() : &serial_parallel();
}

void begin_threaded_run() {
  if (threads().pool != nullptr) threads().pool->begin_run();
}

Status end_threaded_run() {
  if (threads().pool == nullptr) return {};
  KILN_TRY(threads().pool->end_run());
  for (size_t i = 0; i < threads().blocks.size(); ++i) {
    if (is_stack_guard_whole(threads().blocks[i].get())) continue;
    return {Code::kInternal, strf("the stack of worker thread %d overflowed: memory is damaged, dispose of the model",
                                  static_cast<int>(i + 1))};
  }
  return {};
}

}  // namespace kiln

int32_t kiln_threads_start(int32_t num_threads, int32_t num_cores, int32_t may_sleep) {
  if (num_threads < 1 || num_threads > kiln::ThreadPool::kMaxThreads || threads().pool != nullptr) {
    return kiln::set_last_error({kiln::Code::kInvalidArgument, kiln::strf("a pool of %d threads", num_threads)});
  }
  const size_t bytes = kiln::kStackGuardBytes + kStackBytes + padded(__builtin_wasm_tls_size());
  for (int32_t thread = 1; thread < num_threads; ++thread) {
    Block block(static_cast<uint8_t*>(std::aligned_alloc(kAlignment, padded(bytes))));
    if (block == nullptr) {
      return kiln::set_last_error(
          {kiln::Code::kOutOfMemory, kiln::strf("no memory for the stacks of %d threads", num_threads)});
    }
    kiln::write_stack_guard(block.get());
    threads().blocks.push_back(std::move(block));
  }
  kiln::ThreadPoolOptions options;
  options.caller_may_sleep = may_sleep != 0;
  if (num_threads > num_cores) {  // who polls would keep another thread from its tile
    options.polls_in_run = options.polls_after_run = 20'000;
    options.polls_to_join = 2'000;
  }
  threads().pool = std::make_unique<kiln::ThreadPool>(num_threads, options);
  return 0;
}

void* kiln_thread_stack(int32_t thread) {
  uint8_t* block = block_of(thread);
  return block != nullptr ? block + kiln::kStackGuardBytes + kStackBytes : nullptr;
}

void* kiln_thread_tls(int32_t thread) { return kiln_thread_stack(thread); }  // the stack grows down from it

void kiln_thread_work(int32_t thread) { threads().pool->work(thread); }

void kiln_thread_died(int32_t thread) { threads().pool->worker_died(thread); }

int32_t kiln_threads_running() { return threads().pool != nullptr ? threads().pool->num_running() : 1; }

void kiln_threads_stop() {
  if (threads().pool != nullptr) threads().pool->stop();
}

void kiln_threads_delay(uint32_t seed) {
  if (threads().pool != nullptr) threads().pool->set_delays(seed);
}

// libc asks for memory by this when malloc has none left; without it, it would ask JS.
extern "C" int emscripten_resize_heap(size_t bytes) {
  constexpr size_t kPage = 65536;
  const size_t now = __builtin_wasm_memory_size(0) * kPage;
  if (bytes <= now) return 1;
  const size_t pages = (bytes - now + kPage - 1) / kPage;
  return __builtin_wasm_memory_grow(0, pages) != SIZE_MAX ? 1 : 0;
}

// What abort() comes down to.
extern "C" [[noreturn]] void _abort_js() { __builtin_trap(); }
