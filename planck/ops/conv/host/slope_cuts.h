// How exact dweight is cut into the work of a GPU's processors: which tile of sums, over which part
// of k. Integers have no order, so that k may be cut anywhere.
//
// Sums have rows, (tap, block of 64 channels), and columns, filters. A cluster of two blocks takes
// `rows_at_once` of these rows, and as many columns as there are; k is counted in steps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "planck/core/macros.h"

namespace planck::conv_detail {

// Tiles [first, first + count), group by group, then row by row, each in so many cuts of k.
struct SlopeWalk {
  int down, across;  // tiles of a group
  int first_row, first, count, cuts, steps_of_cut;
};

struct SlopeCuts {
  // Those that are not cut; the rest; and rows that fill one of two warpgroups.
  SlopeWalk walks[3];
  int all_steps;

  struct Tile {
    int row, column, group;  // in tiles
    int first, steps;        // of k
    bool alone;              // no other has sums of it
  };
  PLANCK_HD int count() const {
    int all = 0;
    for (const SlopeWalk& w : walks) all += w.count * w.cuts;
    return all;
  }
  PLANCK_HD Tile at(int t) const {
    int i = 0;
    for (; i < 2 && t >= walks[i].count * walks[i].cuts; ++i) t -= walks[i].count * walks[i].cuts;
    const SlopeWalk& w = walks[i];
    const int cut = t / w.count, number = w.first + t - cut * w.count, first = cut * w.steps_of_cut;
    const int line = number / w.across, group = line / w.down;
    const int left = all_steps - first;
    return {w.first_row + line - group * w.down,
            number - line * w.across,
            group,
            first,
            w.steps_of_cut < left ? w.steps_of_cut : left,
            w.cuts == 1};
  }
  // The first tile, in the order of (group, row), others of whose row add to the same sums; where
  // there is none, row 0 behind the last group.
  struct Row {
    int group, row;
  };
  Row first_cut(int groups) const {
    Row least{groups, 0};
    for (const SlopeWalk& w : walks) {
      if (w.count == 0 || w.cuts == 1) continue;
      const int line = w.first / w.across, group = line / w.down;
      const Row is{group, w.first_row + line - group * w.down};
      if (is.group < least.group || (is.group == least.group && is.row < least.row)) least = is;
    }
    return least;
  }
};

struct SlopeWork {
  std::int64_t rows, groups;          // rows of 64 of a group
  std::int64_t rows_at_once, across;  // rows of a tile, tiles of all columns
  std::int64_t steps, most_steps;     // of k; of one sum of 32 bits
  std::int64_t clusters;
  std::int64_t end;  // what comes before and after a tile, in steps
};

// So that all processors have work for about the same time: tiles that fill all of them are not
// cut, the rest is, and rows of one warpgroup, which take half as long, into half as many parts.
inline SlopeCuts cut_slopes(const SlopeWork& w) {
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t alone = w.rows % w.rows_at_once == 1 ? 1 : 0,
                     down = up(w.rows - alone, w.rows_at_once);
  const std::int64_t tiles = w.groups * down * w.across, half_tiles = w.groups * alone * w.across;
  const std::int64_t least = up(w.steps, w.most_steps);
  std::int64_t whole = 0, rest = least, half = least, least_cost = INT64_MAX;
  for (const std::int64_t waves : {std::int64_t{0}, least == 1 ? tiles / w.clusters : 0})
    for (std::int64_t c = least; c <= std::min(w.steps, least + 2 * w.clusters); ++c) {
      const std::int64_t of_half = std::max(least, up(c, 2));
      const std::int64_t units = (tiles - waves * w.clusters) * c + half_tiles * of_half;
      const std::int64_t cost =
          waves * (w.steps + w.end) + up(units, w.clusters) * (up(w.steps, c) + w.end);
      if (cost < least_cost)
        whole = waves * w.clusters, rest = c, half = of_half, least_cost = cost;
    }
  const auto walk = [&](std::int64_t rows, std::int64_t first_row, std::int64_t first,
                        std::int64_t count, std::int64_t wanted) {
    const std::int64_t of_cut = up(w.steps, wanted);
    return SlopeWalk{static_cast<int>(rows),      static_cast<int>(w.across),
                     static_cast<int>(first_row), static_cast<int>(first),
                     static_cast<int>(count),     static_cast<int>(up(w.steps, of_cut)),
                     static_cast<int>(of_cut)};
  };
  return {{walk(down, 0, 0, whole, 1), walk(down, 0, whole, tiles - whole, rest),
           walk(alone, (w.rows - alone) / w.rows_at_once, 0, half_tiles, half)},
          static_cast<int>(w.steps)};
}

}  // namespace planck::conv_detail
