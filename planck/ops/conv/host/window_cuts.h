// How the work of exact y and dx is cut for a GPU's processors: the last pairs of tiles, too few
// for all of them, along k, which integers do not mind.
#pragma once

#include <algorithm>
#include <cstdint>

#include "planck/core/macros.h"

namespace planck::conv_detail {

struct WindowCuts {
  int pairs, whole;               // of tiles; those that are not cut
  int steps, cuts, steps_of_cut;  // of k

  struct Part {
    int pair, first, steps;
    int of_cut;  // which of the pairs that are cut; below 0: this one is not
  };
  PLANCK_HD int count() const { return whole + (pairs - whole) * cuts; }
  PLANCK_HD Part at(int t) const {
    const int over = t - whole;
    if (over < 0) return {t, 0, steps, -1};
    const int of_cut = over / cuts, first = (over - of_cut * cuts) * steps_of_cut;
    const int left = steps - first;
    return {whole + of_cut, first, steps_of_cut < left ? steps_of_cut : left, of_cut};
  }
};

// So that all work for about the same time: a tile's end takes as long as two steps, sums in memory
// as two more. At most most_cut pairs are cut.
inline WindowCuts cut_windows(std::int64_t pairs, std::int64_t steps, std::int64_t clusters,
                              std::int64_t most_cut) {
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t rest = pairs % clusters;
  WindowCuts best{static_cast<int>(pairs), static_cast<int>(pairs), static_cast<int>(steps), 1,
                  static_cast<int>(steps)};
  if (rest == 0 || rest > most_cut) return best;
  std::int64_t least = steps + 2;
  for (std::int64_t cuts = 2; cuts <= std::min<std::int64_t>(steps, 8); ++cuts) {
    const std::int64_t of_cut = up(steps, cuts), really = up(steps, of_cut);
    const std::int64_t cost = up(rest * really, clusters) * (of_cut + 4);
    if (cost >= least) continue;
    least = cost, best.whole = static_cast<int>(pairs - rest);
    best.cuts = static_cast<int>(really), best.steps_of_cut = static_cast<int>(of_cut);
  }
  return best;
}

}  // namespace planck::conv_detail
