// Runs independent tasks on a CPU stream's threads. The number of threads never decides what a task
// is: callers cut the work by its shape alone, so results do not depend on it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "planck/core/stream.h"

namespace planck {

namespace parallel_detail {
void run(int threads, std::int64_t tasks, void* context, void (*call)(void*, std::int64_t));
}

// Calls task(i) for i in [0, tasks), on at most stream.threads() threads, and waits. One task or
// one thread: no scheduler is woken.
template <class F>
void parallel_for(const Stream& stream, std::int64_t tasks, F&& task) {
  if (tasks <= 1 || stream.threads() <= 1) {
    for (std::int64_t i = 0; i < tasks; ++i) task(i);
    return;
  }
  using Task = std::remove_reference_t<F>;
  parallel_detail::run(stream.threads(), tasks, const_cast<void*>(static_cast<const void*>(&task)),
                       [](void* context, std::int64_t i) { (*static_cast<Task*>(context))(i); });
}

}  // namespace planck
