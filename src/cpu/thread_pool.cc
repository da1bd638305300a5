#include "cpu/thread_pool.h"

#include <algorithm>

#include "cpu/wait_word.h"

namespace kiln {
namespace {

constexpr uint32_t kPollsBetweenLooks = 64;  // at flags that change seldom
constexpr uint32_t kSliceMs = 100;           // of the caller's sleep: a machine that was suspended counts as one
constexpr uint64_t kPollsPerMs = 1'000'000;  // about, where there is no clock

thread_local int tile_thread = -1;  // the thread number while this thread is inside a tile

// The word of a fork: its number in 32 bits, then the shares [begin, end) that nobody has taken, 16 bits each.
constexpr uint32_t kMostShares = 0xffff;
uint32_t begin_of(uint64_t work) { return static_cast<uint32_t>(work >> 16) & kMostShares; }
uint32_t end_of(uint64_t work) { return static_cast<uint32_t>(work) & kMostShares; }
uint32_t shares_left(uint64_t work) { return end_of(work) - begin_of(work); }
constexpr uint64_t kOneFromBegin = uint64_t{1} << 16;

void poll_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

struct alignas(64) ThreadPool::Worker {
  enum : uint32_t { kAbsent, kJoined, kLeft };
  std::atomic<uint32_t> state{kAbsent};
  std::atomic<uint32_t> taken{0};  // shares taken and not yet counted as finished
};

ThreadPool::ThreadPool(int num_threads, const ThreadPoolOptions& options)
    : num_threads_(std::clamp(num_threads, 1, kMaxThreads)),
      options_(options),
      parallel_{num_threads_, this,
                [](void* self, int num_tiles, Task task, void* context) {
                  static_cast<ThreadPool*>(self)->fork(num_tiles, task, context);
                }},
      workers_(new Worker[static_cast<size_t>(num_threads_)]) {}

ThreadPool::~ThreadPool() = default;

void ThreadPool::begin_run() {
  died_.store(false);
  in_run_.store(true);
}

Status ThreadPool::end_run() {
  in_run_.store(false);
  if (lost_.load()) {
    return {Code::kInternal,
            "a worker thread has not answered for a long time; dispose of the model and load it again"};
  }
  if (died_.load()) {
    return {Code::kInternal, strf("a worker thread died in this run, its results are lost; later runs have %d thread%s",
                                  num_running(), num_running() == 1 ? "" : "s")};
  }
  return {};
}

void ThreadPool::fork(int num_tiles, Task task, void* context) {
  const bool is_nested = tile_thread >= 0;
  if (is_nested || joined_.load() == 0 || lost_.load() || busy_.exchange(true)) {
    const int thread = is_nested ? tile_thread : 0;
    for (int tile = 0; tile < num_tiles; ++tile) task(context, tile, thread);
    return;
  }
  task_ = task;
  context_ = context;
  num_tiles_ = num_tiles;
  tiles_of_share_ = (num_tiles - 1) / static_cast<int>(kMostShares) + 1;
  const auto num_shares = static_cast<uint32_t>((num_tiles - 1) / tiles_of_share_ + 1);
  unfinished_.store(num_shares);
  const uint64_t number = (work_.load() >> 32) + 1;
  work_.store(number << 32 | num_shares);
  wake(num_shares);
  take_tiles(0);
  join();
  busy_.store(false);
}

void ThreadPool::wake(uint32_t num_shares) {
  bell_.fetch_add(1);
  const uint32_t sleepers = sleepers_.load();
  if (sleepers == 0) return;
  const uint32_t joined = joined_.load();
  const uint32_t awake = joined > sleepers ? joined - sleepers : 0;
  if (num_shares - 1 > awake) notify_word(bell_, std::min(num_shares - 1 - awake, sleepers));
}

void ThreadPool::take_tiles(int thread) {
  Worker* worker = thread > 0 ? &workers_[static_cast<size_t>(thread)] : nullptr;
  uint32_t taken = 0;
  uint64_t work = work_.load();
  while (shares_left(work) != 0) {
    delay();
    const uint64_t rest = worker == nullptr ? work + kOneFromBegin : work - 1;
    const uint64_t before = work;
    if (!work_.compare_exchange_weak(work, rest)) continue;
    ++taken;
    if (worker != nullptr) worker->taken.store(taken, std::memory_order_relaxed);
    const auto share = static_cast<int>(worker == nullptr ? begin_of(before) : end_of(rest));
    const int first = share * tiles_of_share_;
    const int count = std::min(tiles_of_share_, num_tiles_ - first);
    tile_thread = thread;
    for (int i = 0; i < count; ++i) task_(context_, first + i, thread);
    tile_thread = -1;
    work = work_.load();
  }
  if (taken == 0) return;
  delay();
  if (worker != nullptr) worker->taken.store(0, std::memory_order_relaxed);
  finish_shares(taken);
}

void ThreadPool::finish_shares(uint32_t count) {
  if (unfinished_.fetch_sub(count) == count && caller_sleeps_.load() != 0) notify_word(unfinished_, 1);
}

// Waits until the tiles in flight are done.
void ThreadPool::join() {
  const bool may_sleep = options_.caller_may_sleep;
  const uint64_t polls = may_sleep ? options_.polls_to_join : kPollsPerMs * options_.give_up_ms;
  for (uint64_t i = 0; i < polls; ++i) {
    if (unfinished_.load() == 0) return;
    poll_pause();
  }
  if (may_sleep) {
    caller_sleeps_.store(1);
    uint32_t slices = std::max(1u, options_.give_up_ms / kSliceMs);
    for (uint32_t left; slices > 0 && (left = unfinished_.load()) != 0;) {
      if (!wait_word(unfinished_, left, kSliceMs * 1'000'000ll)) --slices;
    }
    caller_sleeps_.store(0);
  }
  if (unfinished_.load() != 0) lost_.store(true);
}

bool ThreadPool::work(int thread) {
  if (thread < 1 || thread >= num_threads_) return false;
  Worker& worker = workers_[static_cast<size_t>(thread)];
  uint32_t absent = Worker::kAbsent;
  if (!worker.state.compare_exchange_strong(absent, Worker::kJoined)) return false;
  joined_.fetch_add(1);
  while (!stopped_.load()) {
    take_tiles(thread);
    rest();
  }
  if (worker.state.exchange(Worker::kLeft) == Worker::kJoined) joined_.fetch_sub(1);
  return true;
}

// Returns when there may be something to do.
void ThreadPool::rest() {
  for (uint32_t polls = 0; polls < (in_run_.load() ? options_.polls_in_run : options_.polls_after_run);
       polls += kPollsBetweenLooks) {
    if (stopped_.load()) return;
    for (uint32_t i = 0; i < kPollsBetweenLooks; ++i) {
      if (shares_left(work_.load()) != 0) return;
      poll_pause();
    }
  }
  delay();
  const uint32_t bell = bell_.load();
  sleepers_.fetch_add(1);
  delay();
  // A fork that these looks miss rings after the bell was read, or sees this sleeper.
  if (shares_left(work_.load()) == 0 && !stopped_.load()) wait_word(bell_, bell, kNoLimit);
  sleepers_.fetch_sub(1);
}

void ThreadPool::worker_died(int thread) {
  if (thread < 1 || thread >= num_threads_) return;
  Worker& worker = workers_[static_cast<size_t>(thread)];
  const uint32_t state = worker.state.exchange(Worker::kLeft);
  if (state != Worker::kJoined) return;  // it never came: nobody will miss it
  joined_.fetch_sub(1);
  const uint32_t taken = worker.taken.exchange(0);
  if (taken == 0 || lost_.load()) return;
  died_.store(true);
  finish_shares(taken);
}

void ThreadPool::stop() {
  stopped_.store(true);
  bell_.fetch_add(1);
  notify_word(bell_, kMaxThreads);
}

void ThreadPool::delay() {
  if (delays_.load(std::memory_order_relaxed) == 0) return;
  uint32_t random = delays_.fetch_add(0x9e3779b8u) * 0x21f0aaadu;  // the step is even: an odd seed never becomes 0
  random ^= random >> 15;
  const uint32_t polls = random % 8 == 0 ? (random >> 8) % 100'000 : (random >> 8) % 500;
  for (uint32_t i = 0; i < polls && !stopped_.load(); ++i) poll_pause();
}

}  // namespace kiln
