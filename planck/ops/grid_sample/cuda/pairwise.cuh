// The canonical pairwise sum (docs/numerics.md) of values that come in groups of a power of two.
#pragma once

namespace planck::sample_device {

// The tree over the first `count` of kCount values, a power of two.
template <int kCount, class C>
__device__ __forceinline__ C tree_of(C (&v)[kCount], int count) {
  if (count == kCount) {
#pragma unroll
    for (int d = 1; d < kCount; d *= 2)
#pragma unroll
      for (int i = 0; i < kCount; i += 2 * d) v[i] = v[i] + v[i + d];
  } else {
#pragma unroll
    for (int d = 1; d < kCount; d *= 2)
#pragma unroll
      for (int i = 0; i < kCount; i += 2 * d)
        if (i + d < count) v[i] = v[i] + v[i + d];
  }
  return v[0];
}

// Sums of complete groups, one after the other; the last one may be shorter. The lowest levels are
// in registers: those above are seldom touched.
template <class C, int kLevels>
class TreeStack {
 public:
  __device__ __forceinline__ void add(C v) {
    if ((groups_ & 1) == 0) {
      first_ = v;
    } else {
      v = first_ + v;
      if ((groups_ & 2) == 0) {
        second_ = v;
      } else {
        v = second_ + v;
        int level = 0;
        for (; groups_ >> (level + 2) & 1; ++level) v = above_[level] + v;
        above_[level] = v;
      }
    }
    ++groups_;
  }
  __device__ __forceinline__ C result() const {
    C sum = 0;
    bool any = false;
    const auto merge = [&](C left, unsigned level) {
      if (!(groups_ >> level & 1)) return;
      sum = any ? left + sum : left;
      any = true;
    };
    merge(first_, 0);
    merge(second_, 1);
    for (int level = 2; level < kLevels; ++level) merge(above_[level - 2], level);
    return sum;
  }

 private:
  C first_, second_, above_[kLevels - 2];
  unsigned groups_ = 0;
};

}  // namespace planck::sample_device
