#include "tools/planck/checkpoint/units/shared_scales.h"

#include <algorithm>
#include <mutex>

namespace planck::cli {

Result<void> find_shared_scales(UnitPool& pool, UnitJob& job, const std::vector<Unit>& units,
                                SharedScales& shared) {
  const auto channels = static_cast<std::size_t>(group_layout(*job.scheme).channels);
  const ScaleSearch search = search_of(*job.scheme);
  const Dtype element = job.scheme->original_dtype;
  std::vector<double> lo(channels, 0.0), hi(channels, 0.0);
  std::mutex guard;
  const auto over_units = [&](auto&& task) {
    return pool.run(static_cast<std::int64_t>(units.size()),
                    [&](UnitWorker& worker, std::int64_t i) -> Result<void> {
                      UnitJob one = job;
                      one.unit = units[static_cast<std::size_t>(i)];
                      return task(worker, one);
                    });
  };
  auto ok = over_units([&](UnitWorker& worker, const UnitJob& one) -> Result<void> {
    const auto count = static_cast<std::size_t>(one.unit.channels),
               first = static_cast<std::size_t>(one.unit.first_channel);
    std::vector<double> least(count), most(count);
    if (auto done = worker.add_range(one, least, most); !done) return done;
    const std::lock_guard lock(guard);
    for (std::size_t c = 0; c < count; ++c) {
      lo[first + c] = std::min(lo[first + c], least[c]);
      hi[first + c] = std::max(hi[first + c], most[c]);
    }
    return {};
  });
  if (!ok) return ok;
  std::vector<ScaleSearch::Candidates> all(channels);
  for (std::size_t c = 0; c < channels; ++c) all[c] = search.candidates(lo[c], hi[c]);
  std::vector<int> chosen(channels, 0);
  if (job.method == Method::mse) {
    std::vector<std::int64_t> errors(channels * kScaleCandidates, 0);
    ok = over_units([&](UnitWorker& worker, const UnitJob& one) -> Result<void> {
      std::vector<std::int64_t> found(
          static_cast<std::size_t>(one.unit.channels) * kScaleCandidates, 0);
      if (auto done = worker.add_candidate_errors(one, all, found); !done) return done;
      const std::lock_guard lock(guard);
      auto* to =
          errors.data() + static_cast<std::size_t>(one.unit.first_channel) * kScaleCandidates;
      for (std::size_t k = 0; k < found.size(); ++k) to[k] += found[k];
      return {};
    });
    if (!ok) return ok;
    for (std::size_t c = 0; c < channels; ++c) {
      const auto* of = errors.data() + c * kScaleCandidates;
      chosen[c] = static_cast<int>(std::min_element(of, of + kScaleCandidates) - of);
    }
  }
  const std::size_t width = storage_bytes(element);
  const auto fill = [&](std::vector<std::byte>& scale, std::vector<std::int32_t>& zero,
                        auto&& which) {
    scale.resize(channels * width);
    zero.resize(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      put_scale(all[c].scale[which(c)], element, scale.data() + c * width);
      zero[c] = all[c].zero_point[which(c)];
    }
  };
  fill(shared.scale, shared.zero, [&](std::size_t c) { return chosen[c]; });
  if (job.method == Method::mse)
    fill(shared.first_scale, shared.first_zero, [](std::size_t) { return 0; });
  job.shared = &shared;
  return {};
}

}  // namespace planck::cli
