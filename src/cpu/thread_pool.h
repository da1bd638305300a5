// A fork-join pool behind `Parallel`: the tiles of a fork are taken by the caller and by the workers that have come.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "cpu/parallel.h"

namespace kiln {

// The pool starts no thread: somebody's threads call work(), std::thread natively and Workers in wasm.
//
// A fork publishes one 64-bit word, (number of the fork, begin and end of the tiles left). Who shortens them by
// compare-and-swap owns a tile, reads the fork's task and runs it: a worker that comes late or never takes nothing, and
// the caller takes tiles itself until none is left. The caller takes from the beginning and workers from the end: from
// kernel to kernel a core works on the same part of the image, which its cache still holds. Only tiles in flight are
// waited for, so the fork's task and its context outlive every reader, and a stale word never matches. Workers with
// nothing to take poll for a while and then sleep; a fork rings for as many sleepers as it has tiles for.
//
// A worker whose code traps tells by worker_died(): what it held counts as done, and the run has failed. One that
// disappears with a tile and cannot tell makes the caller give up after `give_up_ms`; since it may still write,
// the pool then never forks again.
struct ThreadPoolOptions {
  // Polls of an idle worker before it sleeps: between forks of a run, and after one. A poll takes half a nanosecond to
  // some: waking up takes a hundred thousand, and the kernels between two forks may take millions.
  uint32_t polls_in_run = 5'000'000;
  uint32_t polls_after_run = 200'000;
  // Polls of the caller for tiles in flight before it sleeps.
  uint32_t polls_to_join = 500'000;
  bool caller_may_sleep = true;  // false on a browser's main thread, which polls instead
  uint32_t give_up_ms = 60'000;
};

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 64;

  // The caller is thread 0; num_threads in [1, kMaxThreads].
  explicit ThreadPool(int num_threads, const ThreadPoolOptions& options = {});
  // No worker may be in work() any more.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Forks on this pool. A fork from inside a tile, and one while another caller's is under way, runs on its caller
  // alone. Lives as long as the pool.
  const Parallel& parallel() const { return parallel_; }

  // Around the steps of a run, by the caller. end_run: kInternal if a worker died or was given up since begin_run;
  // what the run computed is then lost.
  void begin_run();
  Status end_run();

  // The caller and the workers that have come and are alive.
  int num_running() const { return 1 + static_cast<int>(joined_.load()); }

  // The life of worker `thread` in [1, num_threads): takes tiles until stop(). False, at once, if there is no such
  // thread or it has come before.
  bool work(int thread);
  // Worker `thread` has stopped in the middle of work() and will touch nothing any more. Any thread may say so,
  // and more than once.
  void worker_died(int thread);
  // Makes the workers return from work(). No fork may be under way or follow.
  void stop();

  // For tests: random pauses where threads meet; 0 is none.
  void set_delays(uint32_t seed) { delays_.store(seed != 0 ? seed | 1 : 0); }

 private:
  using Task = void (*)(void* context, int tile, int thread);
  struct Worker;

  void fork(int num_tiles, Task task, void* context);
  void wake(uint32_t num_shares);
  void take_tiles(int thread);
  void finish_shares(uint32_t count);
  void join();
  void rest();
  void delay();

  const int num_threads_;
  const ThreadPoolOptions options_;
  Parallel parallel_;
  std::unique_ptr<Worker[]> workers_;

  // Of the fork under way: written before work_ is, read by owners of a tile only.
  Task task_ = nullptr;
  void* context_ = nullptr;
  int num_tiles_ = 0;
  int tiles_of_share_ = 1;  // taken at once: more than one only where there are very many

  // On lines of their own: everybody polls the first, and finishing a tile writes the second.
  alignas(64) std::atomic<uint64_t> work_{0};        // the fork's number and the shares not yet taken
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // shares of the fork
  std::atomic<uint32_t> caller_sleeps_{0};
  alignas(64) std::atomic<uint32_t> bell_{0};  // what idle workers sleep on
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint32_t> joined_{0};
  std::atomic<bool> busy_{false};
  std::atomic<bool> in_run_{false};
  std::atomic<bool> stopped_{false};
  std::atomic<bool> died_{false};  // a worker, since begin_run
  std::atomic<bool> lost_{false};  // a worker that may still write: no more forks
  std::atomic<uint32_t> delays_{0};
};

}  // namespace kiln
