// Sleeping until a word changes: wasm's wait and notify instructions; natively a condition variable.
#pragma once

#include <atomic>
#include <cstdint>

namespace kiln {

constexpr int64_t kNoLimit = -1;

// Sleeps while `word` is `expected`, until a notify_word on it or for limit_ns (kNoLimit: for ever); false if
// the time is over. May return true without reason: callers loop. Not to be called on a browser's main thread.
bool wait_word(std::atomic<uint32_t>& word, uint32_t expected, int64_t limit_ns);

// Wakes at least min(count, sleeping) of those that sleep on `word`. Whoever changes the word before this and
// sees a sleeper announced wakes it: no wake-up is lost.
void notify_word(std::atomic<uint32_t>& word, uint32_t count);

}  // namespace kiln
