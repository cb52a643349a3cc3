// The canonical running sum: out[i] = x[0] + … + x[i] in one order, a function of i alone.
//
//   Chunks of 32. Within chunk b, from left to right: p[i] = x[32 b] + … + x[i].
//   out[i] = p[i] in the first chunk, else before[b] + p[i]; before[b] is the running sum, by the
//   same rule, of the chunks' totals 0 … b − 1.
//
// A chunk is a short loop for one thread; chunks are independent but for one addition. The error
// grows with 32 · log32 n instead of n.
#pragma once

#include <cstdint>

#include "planck/core/macros.h"

namespace planck {

inline constexpr int kRunningChunk = 32;

// Takes the values one after the other. kLevels: 32^kLevels values at most. C may be an unsigned
// integer.
template <class C, int kLevels = 9>
class RunningSum {
 public:
  // The sum up to and with this value.
  PLANCK_HD C add(C value) {
    C out[kLevels];
    int level = 0;
    for (; level < kLevels; ++level) {
      local_[level] = count_[level] == 0 ? value : local_[level] + value;
      ++count_[level];
      out[level] = before_set_[level] ? before_[level] + local_[level] : local_[level];
      if (count_[level] < kRunningChunk) break;
      value = local_[level];
    }
    // Full chunks: what their totals add up to is before the next.
    for (int k = level < kLevels ? level : kLevels - 1; k > 0; --k) {
      before_[k - 1] = out[k];
      before_set_[k - 1] = true;
      count_[k - 1] = 0;
    }
    return out[0];
  }

 private:
  C local_[kLevels] = {}, before_[kLevels] = {};
  int count_[kLevels] = {};
  bool before_set_[kLevels] = {};
};

}  // namespace planck
