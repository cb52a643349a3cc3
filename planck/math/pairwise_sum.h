// The canonical pairwise sum (docs/numerics.md) of values that arrive one after the other: merged
// like the digits of a binary counter. A value may also be the sum of 2^k values, if all are but
// the last.
#pragma once

#include <cstdint>

#include "planck/core/macros.h"

namespace planck {

template <class C, int kDigits = 48>
class PairwiseSum {
 public:
  PLANCK_HD void add(C value) {
    int k = 0;
    for (; (count_ >> k) & 1; ++k) value = digits_[k] + value;
    digits_[k] = value;
    ++count_;
  }
  PLANCK_HD C result() const {
    C sum = 0;
    bool any = false;
    for (int k = 0; k < kDigits && (count_ >> k) != 0; ++k) {
      if (!((count_ >> k) & 1)) continue;
      sum = any ? digits_[k] + sum : digits_[k];
      any = true;
    }
    return sum;
  }

 private:
  std::uint64_t count_ = 0;
  C digits_[kDigits];
};

}  // namespace planck
