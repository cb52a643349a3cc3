// The canonical sum of a growing list, on the CPU: merged like the digits of a binary counter.
#pragma once

#include <algorithm>
#include <cstdint>

#include "planck/ops/quantize/cpu/portions.h"

namespace planck {

// Sums of a growing list of vectors of n values, as the canonical tree.
template <class C, int kWidth>
class SumCounter {
 public:
  void clear() { count_ = 0; }
  // Adds v, the sum of 2^level vectors; a multiple of 2^level came before. Overwrites v.
  void push(int n, C* v, int level = 0) {
    int k = level;
    for (; (count_ >> k) & 1; ++k) quant_sums<C>().add(n, digits_[k], v, v);
    std::copy_n(v, n, digits_[k]);
    count_ += std::int64_t{1} << level;
  }
  void total(int n, C* out) const {
    bool first = true;
    for (int k = 0; k < kLevels; ++k) {
      if (!((count_ >> k) & 1)) continue;
      if (first)
        std::copy_n(digits_[k], n, out);
      else
        quant_sums<C>().add(n, digits_[k], out, out);
      first = false;
    }
    if (first) std::fill_n(out, n, C(0));
  }

 private:
  std::int64_t count_ = 0;
  static constexpr int kLevels = 44;
  C digits_[kLevels][kWidth];
};

}  // namespace planck
