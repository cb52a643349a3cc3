// Plans already selected, by problem. One cache per thread and family: nothing to lock.
#pragma once

#include <memory>
#include <vector>

#include "planck/core/exception.h"
#include "planck/plan/plan.h"

namespace planck {

// The kernel a value op asks for by name: PlanPreference with a string that cannot dangle.
using KernelName = std::string_view;  // of static storage; "" lets select choose

template <class Problem>
class PlanCache {
 public:
  static const Selection<Problem>& get(const Stream& stream, const Problem& problem,
                                       KernelName kernel, std::uint64_t hash) {
    thread_local PlanCache cache;
    return cache.find(stream, problem, kernel, hash);
  }

 private:
  static constexpr std::size_t kSets = 32, kWays = 8;
  struct Entry {
    KernelName kernel;
    Device device;
    Selection<Problem> selection;
  };

  const Selection<Problem>& find(const Stream& stream, const Problem& problem, KernelName kernel,
                                 std::uint64_t hash) {
    Set& set = sets_[hash % kSets];
    for (const auto& entry : set.ways)
      if (entry && entry->device == stream.device() && entry->kernel == kernel &&
          entry->selection.problem() == problem)
        return entry->selection;
    PlanPreference preference;
    if (!kernel.empty()) preference.kernel = kernel;
    auto& slot = set.ways[set.next++ % kWays];
    slot = std::make_unique<Entry>(
        Entry{kernel, stream.device(),
              value_or_throw(Selection<Problem>::select(stream, problem, preference))});
    return slot->selection;
  }

  struct Set {
    std::array<std::unique_ptr<Entry>, kWays> ways;
    std::size_t next = 0;
  };
  std::array<Set, kSets> sets_;
};

}  // namespace planck
