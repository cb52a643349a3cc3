#include "tools/planck/checkpoint/units/unit_pool.h"

#include <limits>
#include <optional>

#include "planck/loops/parallel.h"

namespace planck::cli {

UnitPool::UnitPool(const Stream& stream, int threads)
    : stream_(stream.device().kind == DeviceKind::cpu ? Stream::cpu(1) : stream),
      host_(Stream::cpu(stream.device().kind == DeviceKind::cpu ? threads : 1)) {}

Result<void> UnitPool::run(std::int64_t tasks, const Task& task) {
  std::optional<Error> error;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  parallel_for(host_, tasks, [&](std::int64_t i) {
    std::unique_ptr<UnitWorker> worker;
    {
      const std::lock_guard lock(guard_);
      if (error) return;
      if (!idle_.empty()) {
        worker = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (!worker) worker = std::make_unique<UnitWorker>(stream_);
    const auto done = task(*worker, i);
    const std::lock_guard lock(guard_);
    if (!done && i < first) {
      first = i;
      error = done.error();
    }
    idle_.push_back(std::move(worker));
  });
  if (error) return tl::unexpected(*error);
  return {};
}

}  // namespace planck::cli
