// Values in an array joined in the pairwise order, level by level: neighbours, then neighbours of
// these, in the first-level cache. Include within foreach_target's passes, after
// planck/loops/cpu/steps-inl.h.
#if defined(PLANCK_REDUCE_TREE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_REDUCE_TREE_INL_H_
#undef PLANCK_REDUCE_TREE_INL_H_
#else
#define PLANCK_REDUCE_TREE_INL_H_
#endif

#include "planck/loops/cpu/portions.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

// out[i] = in[2 i] . in[2 i + 1]
template <class J, class A>
HWY_INLINE void level(const A* in, int pairs, A* out) {
#pragma GCC ivdep  // out[i] may be in[i]: it is written after everything that reads it
  for (int i = 0; i < pairs; ++i) out[i] = J::template of<A>(in[2 * i], in[2 * i + 1]);
}

// Of n > 0 values; `work` has room for (n + 1) / 2 and may be `in`.
template <class J, class A>
A tree_of(const A* in, int n, A* work) {
  const A* from = in;
  for (; n > 1; n = (n + 1) / 2, from = work) {
    const int pairs = n / 2;
    level<J>(from, pairs, work);
    if (n % 2) work[pairs] = from[n - 1];
  }
  return from[0];
}

// Whole portions, with constant lengths; memory is prefetched.
template <class J, class A>
HWY_INLINE A tree_of_portion(const A* in, A* work, std::int64_t ahead) {
  for (int c = 0; c < kPortion; c += kChunk) {
    prefetch_ahead(in + c, ahead);
    level<J>(in + c, kChunk / 2, work + c / 2);
  }
  level<J>(work, 256, work);
  level<J>(work, 128, work);
  level<J>(work, 64, work);
  level<J>(work, 32, work);
  level<J>(work, 16, work);
  level<J>(work, 8, work);
  level<J>(work, 4, work);
  level<J>(work, 2, work);
  return J::template of<A>(work[0], work[1]);
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
