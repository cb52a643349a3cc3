// The arithmetic of attention on one number, for host and device (docs/numerics.md, "Attention").
// C is the compute type.
#pragma once

#include <cstdint>

#include "planck/math/exp_terms.h"
#include "planck/math/log.h"
#include "planck/math/random.h"
#include "planck/math/sigmoid.h"

namespace planck::attention_math {

inline constexpr int kBlock = 128;      // keys between two looks at the largest score
inline constexpr int kPartialSums = 8;  // key j is counted in sum j mod 8

// A hidden key has the score -Inf, whatever s is.
template <class C>
PLANCK_HD C score(C s, C scale) {
  return s * scale;
}
template <class C>
PLANCK_HD C score(C s, C scale, C mask) {
  return mask == -math::infinity_of(mask) ? mask : math::fma_of(s, scale, mask);
}

// A soft cap: the score is score(capped(..), cap, ..).
template <class C>
PLANCK_HD C capped(C s, C scale, C cap) {
  return math::tanh((s * scale) / cap);
}

// ALiBi: the slope of a head, 2^(-8 (head + 1) / heads) where `heads` is a power of two. Of other
// numbers the largest such n below it gives the first n slopes, and 2n every other one of the rest.
template <class C>
PLANCK_HD C alibi_slope(std::int64_t head, std::int64_t heads) {
  constexpr double kLog2 = 0x1.62e42fefa39efp-1;
  std::int64_t n = 1;
  while (2 * n <= heads) n *= 2;
  const std::int64_t x = head < n ? 8 * (head + 1) : 4 * (2 * (head - n) + 1);  // of n: 2^(-x / n)
  const double part = static_cast<double>(x % n) / static_cast<double>(n);
  return static_cast<C>(math::exp(-(part * kLog2)) / static_cast<double>(std::int64_t{1} << x / n));
}
// What is added to a score; the distance of query and key has any sign.
template <class C, class Index>
PLANCK_HD C alibi(C slope, Index distance) {
  return -(slope * static_cast<C>(distance < 0 ? -distance : distance));
}

// Dropout: whether probability `index` of [N, H, L, S] stays; number `index` of the stream is below
// `keep`.
template <class C>
PLANCK_HD bool kept(const PhiloxStream& random, std::uint64_t index, C keep) {
  using Numbers = RandomBlock<C>;
  return Numbers::uniform(random.words(index / Numbers::kCount)).v[index % Numbers::kCount] < keep;
}

// The larger of both; NaN where either is.
template <class C>
PLANCK_HD C larger(C m, C t) {
  return ((t > m) | (t != t)) ? t : m;
}

// e^z for z <= 0 by the terms of planck/math/exp_terms.h, 1 at 0; +0 below the lowest z, of which
// results would not be normal numbers, and where z is NaN.
template <class C>
PLANCK_HD C power(C z) {
  constexpr C kLowest = sizeof(C) == 4 ? C(-86) : C(-700);
  const C e = math::exp_term_near(z);
  return z >= kLowest ? e : C(0);
}

// Of the partial sums of a row.
template <class C>
PLANCK_HD C sum_of_parts(const C* l, std::int64_t step) {
  return ((l[0] + l[step]) + (l[2 * step] + l[3 * step])) +
         ((l[4 * step] + l[5 * step]) + (l[6 * step] + l[7 * step]));
}

// What is known of a row when all keys have been seen: m the largest score, l the sum of powers.
template <class C>
PLANCK_HD C log_sum_exp(C m, C l) {
  const C inf = math::infinity_of(m);
  return m == -inf ? m : m < inf ? m + math::log(l) : math::canonical(m);
}
// What sums of the row are multiplied by: 0 where nothing was seen, NaN where a score was +Inf or
// NaN.
template <class C>
PLANCK_HD C row_factor(C m, C l) {
  const C inf = math::infinity_of(m);
  return m == -inf ? C(0) : m < inf ? C(1) / l : math::nan_of(m);
}
// Zeros are +0: whether blocks without a key to see take part does not show.
template <class C>
PLANCK_HD C result(C sum, C factor) {
  return math::canonical(sum * factor + C(0));
}

// ---- backward ----

// A row whose lse is +Inf or NaN has no probabilities: NaN for every key that is not hidden.
template <class C>
PLANCK_HD C probability(C t, C lse) {
  const C inf = math::infinity_of(t), z = t - lse;
  const C p = power(z > C(0) ? C(0) : z);
  return ((lse < inf) | (t == -inf)) ? p : math::nan_of(t);
}
template <class C>
PLANCK_HD C slope(C p, C dp, C delta) {
  return p == C(0) ? C(0) : p * (dp - delta);
}
// The same of what was capped: u is the tanh.
template <class C>
PLANCK_HD C slope_before_cap(C ds, C u) {
  return ds == C(0) ? C(0) : ds * math::fma_of(-u, u, C(1));
}

}  // namespace planck::attention_math
