#include "planck/loops/parallel.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>

namespace planck::parallel_detail {

namespace {

constexpr int kMaxThreads = 1024;

// One arena for each number of threads, made on first use and kept: making one costs more than a
// small kernel.
tbb::task_arena& arena(int threads) {
  static tbb::global_control allow(tbb::global_control::max_allowed_parallelism, kMaxThreads);
  static std::array<std::unique_ptr<tbb::task_arena>, kMaxThreads + 1> arenas;
  static std::array<std::once_flag, kMaxThreads + 1> made;
  const auto n = static_cast<std::size_t>(std::clamp(threads, 1, kMaxThreads));
  // Ready before it is kept: one whose own first use ran out of memory would wait forever at the
  // next. Memory that runs out while TBB itself starts is not survived.
  std::call_once(made[n], [&] {
    auto ready = std::make_unique<tbb::task_arena>(static_cast<int>(n));
    ready->initialize();
    arenas[n] = std::move(ready);
  });
  return *arenas[n];
}

}  // namespace

void run(int threads, std::int64_t tasks, void* context, void (*call)(void*, std::int64_t)) {
  arena(threads).execute([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, tasks, 1),
        [&](const tbb::blocked_range<std::int64_t>& range) {
          for (std::int64_t i = range.begin(); i != range.end(); ++i) call(context, i);
        },
        tbb::auto_partitioner());
  });
}

}  // namespace planck::parallel_detail
