#include "cpu/thread_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "cpu/worker_stack.h"
#include "pool_threads.h"
#include "soak.h"

namespace kiln {
namespace {

using test::PoolThreads;

void pause_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Waits up to ten seconds for what other threads do.
template <typename F>
bool comes_true(F&& condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    pause_ms(1);
  }
  return false;
}

// A fork whose every tile is counted, with the checks that hold for any fork.
void check_fork(const Parallel& parallel, int num_tiles) {
  std::vector<std::atomic<int>> runs(static_cast<size_t>(num_tiles));
  std::vector<std::atomic<int>> inside(static_cast<size_t>(parallel.num_threads));
  std::atomic<bool> is_shared{false}, is_out_of_range{false};
  parallel_for(&parallel, num_tiles, [&](int tile, int thread) {
    if (thread < 0 || thread >= parallel.num_threads) {
      is_out_of_range = true;
      return;
    }
    if (inside[static_cast<size_t>(thread)].fetch_add(1) != 0) is_shared = true;
    runs[static_cast<size_t>(tile)].fetch_add(1);
    inside[static_cast<size_t>(thread)].fetch_sub(1);
  });
  CHECK(std::all_of(runs.begin(), runs.end(), [](const auto& n) { return n == 1; }));
  CHECK_FALSE(is_shared);  // two tiles at once with one thread's scratch
  CHECK_FALSE(is_out_of_range);
}

TEST_CASE("pool_runs_every_tile_once_whatever_the_threads") {
  for (const int num_threads : {1, 2, 3, 4, 7}) {
    PoolThreads threads(num_threads);
    CHECK(comes_true([&] { return threads.pool().num_running() == num_threads; }));
    CHECK(threads.pool().parallel().num_threads == num_threads);
    for (const int num_tiles : {0, 1, 2, 3, 6, 7, 8, 100}) {
      CAPTURE(num_threads);
      CAPTURE(num_tiles);
      for (int i = 0; i < 20; ++i) check_fork(threads.pool().parallel(), num_tiles);
    }
  }
}

TEST_CASE("pool_takes_very_many_tiles_several_at_once") {
  PoolThreads threads(3);
  CHECK(comes_true([&] { return threads.pool().num_running() == 3; }));
  for (const int num_tiles : {65534, 65535, 65536, 131071, 200000}) {
    CAPTURE(num_tiles);
    check_fork(threads.pool().parallel(), num_tiles);
  }
}

TEST_CASE("pool_begins_at_one_end_and_its_workers_at_the_other") {
  PoolThreads threads(2);
  REQUIRE(comes_true([&] { return threads.pool().num_running() == 2; }));
  constexpr int kTiles = 10;
  std::vector<int> thread_of(kTiles, -1);
  std::atomic<int> started{0};
  parallel_for(&threads.pool().parallel(), kTiles, [&](int tile, int thread) {
    thread_of[static_cast<size_t>(tile)] = thread;
    started.fetch_add(1);
    comes_true([&] { return started.load() >= 2; });  // both have a tile before either takes another
  });
  CHECK(thread_of.front() == 0);
  CHECK(thread_of.back() == 1);
  CHECK(std::is_sorted(thread_of.begin(), thread_of.end()));
}

TEST_CASE("pool_shares_tiles_out") {
  PoolThreads threads(2);
  REQUIRE(comes_true([&] { return threads.pool().num_running() == 2; }));
  std::atomic<int> by_worker{0};
  const auto all_come = [&] {
    parallel_for(&threads.pool().parallel(), 4, [&](int, int thread) {
      by_worker += thread;
      pause_ms(1);
    });
    return by_worker > 0;
  };
  CHECK(comes_true(all_come));
}

TEST_CASE("pool_without_workers_leaves_all_to_the_caller") {
  PoolThreads threads(3, {}, /*num_started=*/0);
  check_fork(threads.pool().parallel(), 10);
  CHECK(threads.pool().num_running() == 1);
  threads.start(2);  // comes late, and before worker 1
  CHECK(comes_true([&] { return threads.pool().num_running() == 2; }));
  check_fork(threads.pool().parallel(), 10);
}

TEST_CASE("pool_takes_each_worker_once") {
  PoolThreads threads(2);
  REQUIRE(comes_true([&] { return threads.pool().num_running() == 2; }));
  for (const int thread : {-1, 0, 1, 2, 64}) {
    CAPTURE(thread);
    CHECK_FALSE(threads.pool().work(thread));
  }
  for (const int thread : {-1, 0, 2, 64}) threads.pool().worker_died(thread);
  CHECK(threads.pool().num_running() == 2);
}

TEST_CASE("pool_runs_nested_forks_on_the_tile's_thread") {
  PoolThreads threads(4);
  REQUIRE(comes_true([&] { return threads.pool().num_running() == 4; }));
  const Parallel& parallel = threads.pool().parallel();
  std::atomic<int> runs{0}, strangers{0};
  for (int i = 0; i < 20; ++i) {
    parallel_for(&parallel, 8, [&](int, int thread) {
      parallel_for(&parallel, 5, [&](int, int inner) {
        ++runs;
        if (inner != thread) ++strangers;
      });
    });
  }
  CHECK(runs == 20 * 8 * 5);
  CHECK(strangers == 0);
}

TEST_CASE("pool_serves_one_caller_at_a_time") {
  PoolThreads threads(3);
  std::atomic<int> runs{0};
  const auto fork_often = [&] {
    for (int i = 0; i < 200; ++i) parallel_for(&threads.pool().parallel(), 7, [&](int, int) { ++runs; });
  };
  std::thread other(fork_often);
  fork_often();
  other.join();
  CHECK(runs == 2 * 200 * 7);
}

TEST_CASE("pool_sleeps_when_idle") {
  PoolThreads threads(4);
  REQUIRE(comes_true([&] { return threads.pool().num_running() == 4; }));
  threads.pool().begin_run();
  check_fork(threads.pool().parallel(), 16);
  CHECK(threads.pool().end_run().ok());
  pause_ms(300);  // time to fall asleep
  const std::clock_t before = std::clock();
  pause_ms(500);
  const double busy_ms = 1000.0 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  CHECK_MESSAGE(busy_ms < 50, busy_ms << " ms of processor time in 500 ms");
  check_fork(threads.pool().parallel(), 16);
}

TEST_CASE("pool_goes_on_without_a_worker_that_dies_in_a_tile") {
  PoolThreads threads(3);
  ThreadPool& pool = threads.pool();
  REQUIRE(comes_true([&] { return pool.num_running() == 3; }));
  std::atomic<int> runs{0};
  std::atomic<bool> is_dead{false};
  const auto run_until_one_dies = [&] {
    pool.begin_run();
    parallel_for(&pool.parallel(), 6, [&](int, int thread) {
      ++runs;
      if (thread == 1 && !is_dead.exchange(true)) threads.die();
      pause_ms(1);
    });
    return pool.end_run();
  };
  Status status;
  CHECK(comes_true([&] {
    runs = 0;
    status = run_until_one_dies();
    return is_dead.load();
  }));
  CHECK(runs == 6);  // its other tiles were run by others
  CHECK(status.code() == Code::kInternal);
  CHECK(status.message() == "a worker thread died in this run, its results are lost; later runs have 2 threads");
  CHECK(pool.num_running() == 2);
  for (int i = 0; i < 20; ++i) {
    pool.begin_run();
    check_fork(pool.parallel(), 9);
    CHECK(pool.end_run().ok());
  }
}

TEST_CASE("pool_does_not_miss_a_worker_that_dies_idle") {
  PoolThreads threads(3);
  ThreadPool& pool = threads.pool();
  REQUIRE(comes_true([&] { return pool.num_running() == 3; }));
  pool.begin_run();
  pool.worker_died(2);  // as far as the pool knows
  pool.worker_died(2);
  check_fork(pool.parallel(), 9);
  CHECK(pool.end_run().ok());
  CHECK(pool.num_running() == 2);
}

TEST_CASE("pool_gives_up_a_worker_that_does_not_answer") {
  for (const bool caller_may_sleep : {true, false}) {
    CAPTURE(caller_may_sleep);
    ThreadPoolOptions options;
    options.caller_may_sleep = caller_may_sleep;
    options.give_up_ms = caller_may_sleep ? 200 : 20;
    std::atomic<bool> may_go_on{false}, is_stuck{false};
    auto tile = [&](int, int thread) {
      if (thread == 1 && !is_stuck.exchange(true)) {
        while (!may_go_on) pause_ms(1);
      }
      pause_ms(1);
    };
    PoolThreads threads(2, options);  // ends before the task that its worker is in
    ThreadPool& pool = threads.pool();
    REQUIRE(comes_true([&] { return pool.num_running() == 2; }));
    Status status;
    CHECK(comes_true([&] {
      pool.begin_run();
      parallel_for(&pool.parallel(), 8, tile);
      status = pool.end_run();
      return is_stuck.load();
    }));
    CHECK(status.code() == Code::kInternal);
    CHECK(status.message().find("load it again") != std::string::npos);
    pool.begin_run();
    check_fork(pool.parallel(), 8);  // by the caller alone
    CHECK_FALSE(pool.end_run().ok());
    may_go_on = true;
  }
}

TEST_CASE("pool_with_random_delays_neither_hangs_nor_loses_a_tile" * doctest::test_suite("random")) {
  for (const int num_threads : {2, 3, 5}) {
    ThreadPoolOptions options;
    options.polls_in_run = options.polls_after_run = options.polls_to_join = 64;  // all that sleeps does so often
    PoolThreads threads(num_threads, options);
    threads.pool().set_delays(static_cast<uint32_t>(num_threads));
    const uint64_t num_forks = test::soak_cases(300);
    std::vector<uint64_t> sums(16);
    for (uint64_t i = 0; i < num_forks; ++i) {
      parallel_for(&threads.pool().parallel(), 1 + static_cast<int>(i % 16),
                   [&](int tile, int) { sums[static_cast<size_t>(tile)] += i; });
    }
    uint64_t expected = 0;
    for (uint64_t i = 15; i < num_forks; i += 16) expected += i;
    CHECK(sums[15] == expected);
  }
}

TEST_CASE("stack_guard_notices_any_write") {
  alignas(64) uint8_t block[512] = {};
  write_stack_guard(block);
  CHECK(is_stack_guard_whole(block));
  block[kStackGuardBytes] = 7;  // the stack itself
  CHECK(is_stack_guard_whole(block));
  for (const size_t at : {size_t{0}, size_t{1}, kStackGuardBytes / 2, kStackGuardBytes - 1}) {
    const uint8_t kept = block[at];
    block[at] = static_cast<uint8_t>(kept + 1);
    CHECK_FALSE(is_stack_guard_whole(block));
    block[at] = kept;
  }
  CHECK(is_stack_guard_whole(block));
}

}  // namespace
}  // namespace kiln
