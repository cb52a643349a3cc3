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

// Sums of complete groups, one after the other; the last one may be shorter.
template <class C, int kLevels>
class TreeStack {
 public:
  __device__ __forceinline__ void add(C v) {
    int level = 0;
    for (; groups_ >> level & 1; ++level) v = sums_[level] + v;
    sums_[level] = v;
    ++groups_;
  }
  __device__ __forceinline__ C result() const {
    C sum = 0;
    bool any = false;
    for (int level = 0; level < kLevels; ++level)
      if (groups_ >> level & 1) {
        sum = any ? sums_[level] + sum : sums_[level];
        any = true;
      }
    return sum;
  }

 private:
  C sums_[kLevels];
  unsigned groups_ = 0;
};

// One group.
template <class C>
class TreeStack<C, 1> {
 public:
  __device__ __forceinline__ void add(C v) { sum_ = v; }
  __device__ __forceinline__ C result() const { return sum_; }

 private:
  C sum_ = 0;
};

}  // namespace planck::sample_device
