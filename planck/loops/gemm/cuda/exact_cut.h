// Which tiles of an exact product are cut along k, and who multiplies what. Integers add up to the
// same in any order.
//
// Clusters take whole tiles, round after round. In the last round there may be fewer than clusters:
// then their steps of k are shared, each cluster taking as many, one after the other.
#pragma once

#include <cstdint>

#include "planck/core/macros.h"

namespace planck::gemm_device {

inline constexpr int kExactRows = 256, kExactColumns = 128;  // of a cluster's tile
inline constexpr int kExactDepth = 128;                      // k of a step
inline constexpr int kMostExactClusters = 72;

struct ExactShares {
  int tiles, steps, clusters;  // tiles that are cut, and the steps of each

  // Where a cluster's steps begin, of all.
  PLANCK_HD int first(int cluster) const { return tiles * steps * cluster / clusters; }
  // Where the sums of a cluster's part of a tile lie: it has two at most.
  PLANCK_HD int part_of(int cluster, int tile) const {
    return 2 * cluster + (first(cluster) / steps == tile ? 0 : 1);
  }
  // No cluster before this one has a part of the tile, and none from end() on.
  PLANCK_HD int begin(int tile) const { return tile * clusters / tiles; }
  PLANCK_HD bool ended(int cluster, int tile) const {
    return cluster == clusters || first(cluster) >= (tile + 1) * steps;
  }
  PLANCK_HD bool has_part(int cluster, int tile) const {
    const int from = first(cluster), to = first(cluster + 1);
    return from < to && from < (tile + 1) * steps && to > tile * steps;
  }
};

// So many of the tiles are cut: those of the last round, where that is worth about nine steps, for
// storing, reading and joining what parts add up to.
inline int tiles_to_cut(std::int64_t tiles, std::int64_t steps, std::int64_t clusters) {
  const std::int64_t last = tiles % clusters;
  return last > 0 && steps * (clusters - last) > 9 * clusters ? static_cast<int>(last) : 0;
}

// All that is to be multiplied, as one cluster sees it: k of each tile.
struct ExactTask {
  ExactShares shares;
  int cluster, tiles, k;
};

// What a cluster multiplies, one after the other. The task is told each time: registers are dear.
class ExactWork {
 public:
  int tile = 0, k0 = 0, k1 = 0;  // from k0 to k1
  int part = -1;                 // of a tile that is cut; -1: whole

  PLANCK_HD explicit ExactWork(const ExactTask& task)
      : at_(task.cluster), step_(task.shares.first(task.cluster)) {}
  PLANCK_HD bool next(const ExactTask& task) {
    const ExactShares& shares = task.shares;
    const int whole = task.tiles - shares.tiles;
    if (at_ < whole) {
      tile = at_, k0 = 0, k1 = task.k, part = -1;
      at_ += shares.clusters;
      return true;
    }
    const int end = shares.first(task.cluster + 1);
    if (step_ == end) return false;
    const int cut = step_ / shares.steps, first = step_ - cut * shares.steps;
    const int left = shares.steps - first, mine = end - step_, count = left < mine ? left : mine;
    tile = whole + cut, k0 = first * kExactDepth, k1 = (first + count) * kExactDepth;
    if (k1 > task.k) k1 = task.k;
    part = shares.part_of(task.cluster, cut);
    step_ += count;
    return true;
  }

 private:
  int at_, step_;
};

}  // namespace planck::gemm_device
