#include "planck/dist/balance.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <utility>
#include <vector>

namespace planck::dist {

namespace {

using Times = std::span<const std::int64_t>;

// One unit after the other to who would have done it first, after one for everybody.
std::vector<std::int64_t> dealt(std::int64_t grains, std::int64_t unit, Times nanoseconds) {
  std::vector<std::int64_t> each(nanoseconds.size(), unit);
  using End = std::pair<std::int64_t, std::size_t>;  // nanoseconds, worker
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  for (std::size_t w = 0; w < each.size(); ++w) ends.emplace(2 * unit * nanoseconds[w], w);
  for (std::int64_t left = grains - unit * static_cast<std::int64_t>(each.size()); left > 0;) {
    const auto [end, w] = ends.top();
    ends.pop();
    const std::int64_t next = std::min(unit, left);
    each[w] += next, left -= next;
    ends.emplace(end + unit * nanoseconds[w], w);
  }
  return each;
}
std::int64_t slowest(const Grains& grains, Times nanoseconds) {
  std::int64_t most = 0;
  for (std::size_t w = 0; w < nanoseconds.size(); ++w)
    most = std::max(most, grains.share(static_cast<int>(w)).count() * nanoseconds[w]);
  return most;
}

}  // namespace

Grains balanced(std::int64_t grains, Times nanoseconds) {
  const auto workers = static_cast<std::int64_t>(nanoseconds.size());
  Grains best(grains, static_cast<int>(workers));
  if (grains <= workers || std::ranges::any_of(nanoseconds, [](std::int64_t t) { return t <= 0; }))
    return best;
  // Shares in steps of a 16th of an equal one are few subtrees; finer ones where that pays.
  auto unit = static_cast<std::int64_t>(std::bit_floor(
      static_cast<std::uint64_t>(std::max<std::int64_t>(1, grains / (16 * workers)))));
  for (std::int64_t ends = slowest(best, nanoseconds); unit > 0; unit /= 2) {
    const Grains other(dealt(grains, unit, nanoseconds));
    const std::int64_t would = slowest(other, nanoseconds);
    if (would > ends - ends / 20) break;
    best = other, ends = would;
  }
  return best;
}

}  // namespace planck::dist
