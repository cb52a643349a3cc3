// The canonical sum of scattered contributions: what several sources add to one element of an
// output.
//
//   sum(v[0 … m)):  m = 0   +0
//                   m <= 64 ((v[0] + v[1]) + v[2]) + …, from left to right
//                   else    sum of the sums of v[0 … 64), v[64 … 128), …, the last one shorter
//
// The contributions are in ascending order of their source position. An element that thousands of
// sources hit is cut into chunks that any number of threads may sum; one that few hit is a plain
// loop. The error grows with 64 · log64 m instead of m.
#pragma once

#include <cstdint>

#include "planck/core/macros.h"

namespace planck {

inline constexpr int kSumChunk = 64;

// How many chunk sums a list of m values becomes.
PLANCK_HD constexpr std::int64_t sum_chunks(std::int64_t m) {
  return (m + kSumChunk - 1) / kSumChunk;
}

// Additions between one of n values and their sum.
constexpr double chunked_depth(std::int64_t n) {
  double depth = 0;
  for (; n > 1; n = sum_chunks(n)) depth += static_cast<double>(n < kSumChunk ? n : kSumChunk) - 1;
  return depth;
}

// Takes the values one after the other. kLevels: 64^kLevels values at most.
template <class C, int kLevels = 6>
class ChunkedSum {
 public:
  PLANCK_HD void add(C value) {
    for (int level = 0; level < kLevels; ++level) {
      sums_[level] = counts_[level] == 0 ? value : sums_[level] + value;
      if (++counts_[level] < kSumChunk || level == kLevels - 1) return;
      value = sums_[level];
      counts_[level] = 0;
    }
  }
  PLANCK_HD C result() const {
    C sum = 0;
    bool any = false;
    for (int level = 0; level < kLevels; ++level) {
      if (counts_[level] == 0) continue;
      sum = any ? sums_[level] + sum : sums_[level];
      any = true;
    }
    return sum;
  }

 private:
  C sums_[kLevels] = {};
  int counts_[kLevels] = {};
};

}  // namespace planck
