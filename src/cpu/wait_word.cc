#include "cpu/wait_word.h"

#ifdef __wasm__

namespace kiln {

bool wait_word(std::atomic<uint32_t>& word, uint32_t expected, int64_t limit_ns) {
  constexpr int kTimedOut = 2;
  return __builtin_wasm_memory_atomic_wait32(reinterpret_cast<int*>(&word), static_cast<int>(expected), limit_ns) !=
         kTimedOut;
}

void notify_word(std::atomic<uint32_t>& word, uint32_t count) {
  __builtin_wasm_memory_atomic_notify(reinterpret_cast<int*>(&word), count);
}

}  // namespace kiln

#else

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace kiln {
namespace {

// One for all words: native pools serve tests and tools, where a needless wake-up costs nothing.
struct Lot {
  std::mutex mutex;
  std::condition_variable changed;
};

Lot& lot() {
  static Lot all;
  return all;
}

}  // namespace

bool wait_word(std::atomic<uint32_t>& word, uint32_t expected, int64_t limit_ns) {
  std::unique_lock<std::mutex> lock(lot().mutex);
  if (word.load() != expected) return true;
  if (limit_ns == kNoLimit) {
    lot().changed.wait(lock);
    return true;
  }
  return lot().changed.wait_for(lock, std::chrono::nanoseconds(limit_ns)) == std::cv_status::no_timeout;
}

void notify_word(std::atomic<uint32_t>&, uint32_t) {
  { const std::lock_guard<std::mutex> lock(lot().mutex); }  // a sleeper between its look and its sleep ends that first
  lot().changed.notify_all();
}

}  // namespace kiln

#endif
