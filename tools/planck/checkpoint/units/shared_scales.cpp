#include "tools/planck/checkpoint/units/shared_scales.h"

#include <algorithm>
#include <mutex>

namespace planck::cli {

Result<void> find_shared_scales(UnitPool& pool, UnitJob& job, const std::vector<Unit>& units,
                                SharedScales& shared) {
  std::int64_t end = 0;
  job.first_channel = units.empty() ? 0 : units[0].first_channel;
  for (const Unit& u : units) {
    job.first_channel = std::min(job.first_channel, u.first_channel);
    end = std::max(end, u.first_channel + u.channels);
  }
  const auto channels = static_cast<std::size_t>(end - job.first_channel);
  const auto place = [&](const Unit& u) {
    return static_cast<std::size_t>(u.first_channel - job.first_channel);
  };
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
    const auto count = static_cast<std::size_t>(one.unit.channels), first = place(one.unit);
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
  job.is_kept = job.kept != nullptr;
  const std::size_t width = storage_bytes(element);
  const auto put = [&](std::size_t c, const ScaleSearch::Candidates& of, int which,
                       std::vector<std::byte>& scale, std::vector<std::int32_t>& zero) {
    scale.resize(channels * width);
    zero.resize(channels);
    put_scale(of.scale[which], element, scale.data() + c * width);
    zero[c] = of.zero_point[which];
  };
  job.shared = &shared;
  if (job.method == Method::rtn) {
    for (std::size_t c = 0; c < channels; ++c)
      put(c, search.candidates(lo[c], hi[c]), 0, shared.scale, shared.zero);
    return {};
  }
  std::vector<ScaleSearch::Candidates> all(channels);
  for (std::size_t c = 0; c < channels; ++c) all[c] = search.candidates(lo[c], hi[c]);
  std::vector<std::int64_t> errors(channels * kScaleCandidates, 0);
  ok = over_units([&](UnitWorker& worker, const UnitJob& one) -> Result<void> {
    std::vector<std::int64_t> found(static_cast<std::size_t>(one.unit.channels) * kScaleCandidates,
                                    0);
    if (auto done = worker.add_candidate_errors(one, all, found); !done) return done;
    const std::lock_guard lock(guard);
    auto* to = errors.data() + place(one.unit) * kScaleCandidates;
    for (std::size_t k = 0; k < found.size(); ++k) to[k] += found[k];
    return {};
  });
  if (!ok) return ok;
  for (std::size_t c = 0; c < channels; ++c) {
    const auto* of = errors.data() + c * kScaleCandidates;
    const auto chosen = static_cast<int>(std::min_element(of, of + kScaleCandidates) - of);
    put(c, all[c], chosen, shared.scale, shared.zero);
    put(c, all[c], 0, shared.first_scale, shared.first_zero);
  }
  return {};
}

}  // namespace planck::cli
