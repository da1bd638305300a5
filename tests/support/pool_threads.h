// A ThreadPool whose workers are std::threads, for native tests.
#pragma once

#include <csetjmp>
#include <thread>
#include <vector>

#include "cpu/thread_pool.h"

namespace kiln::test {

class PoolThreads {
 public:
  // Starts workers 1 to `num_started`, all by default. They may come after the constructor has returned.
  explicit PoolThreads(int num_threads, const ThreadPoolOptions& options = {},
                       int num_started = ThreadPool::kMaxThreads)
      : pool_(num_threads, options) {
    for (int thread = 1; thread < num_threads && thread <= num_started; ++thread) start(thread);
  }
  ~PoolThreads() {
    pool_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  ThreadPool& pool() { return pool_; }

  void start(int thread) {
    threads_.emplace_back([this, thread] {
      std::jmp_buf here;
      end_of_thread = &here;
      if (setjmp(here) == 0) {
        pool_.work(thread);
      } else {
        pool_.worker_died(thread);
      }
    });
  }

  // Called inside a tile on a worker: leaves it as a trap leaves wasm code, with no frame in between cleaned up.
  [[noreturn]] static void die() { std::longjmp(*end_of_thread, 1); }

 private:
  static inline thread_local std::jmp_buf* end_of_thread = nullptr;
  ThreadPool pool_;
  std::vector<std::thread> threads_;
};

}  // namespace kiln::test
