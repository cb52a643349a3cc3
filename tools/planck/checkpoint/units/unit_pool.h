// Runs units on threads, a worker to each. The first error, in the order of units, is the answer.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tools/planck/checkpoint/units/unit_worker.h"

namespace planck::cli {

class UnitPool {
 public:
  // On a CUDA stream units run one after the other; the host's threads are `threads`, 0: all.
  UnitPool(const Stream& stream, int threads);

  using Task = std::function<Result<void>(UnitWorker&, std::int64_t)>;
  [[nodiscard]] Result<void> run(std::int64_t tasks, const Task& task);

 private:
  Stream stream_, host_;
  std::mutex guard_;
  std::vector<std::unique_ptr<UnitWorker>> idle_;
};

}  // namespace planck::cli
