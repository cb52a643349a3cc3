// var and logsumexp: what is known of a chunk of elements, and how neighbouring chunks become one.
//
// A group is cut into chunks of kStatChunk consecutive elements, the last of which may be shorter.
// Within a chunk the mean (the largest) comes first and then the canonical sum of squares (of
// exponentials), so that a processor reads memory once and the chunk twice; chunks are joined in
// the pairwise order. No chunk depends on another: any thread may take any of them.
#pragma once

#include <cstdint>

#include "planck/core/macros.h"
#include "planck/math/exp_terms.h"

namespace planck::reduce_math {

inline constexpr std::int64_t kStatChunk = 512;

// n elements around their mean.
template <class C>
struct Spread {
  C n, mean, squares;
};
// b follows a, which has at least as many elements. The means are d apart, and the mean of all
// divides d as n to b.n.
template <class C>
PLANCK_HD Spread<C> joined(const Spread<C>& a, const Spread<C>& b) {
  const C n = a.n + b.n, part = b.n / n, d = b.mean - a.mean;
  return {n, math::fma_of(d, part, a.mean), math::fma_of(d * part, d * a.n, a.squares + b.squares)};
}

// sum = Σ e(x − center), the terms and the center of planck/math/exp_terms.h; 0 where the largest
// is −Inf, anything where it is +Inf or NaN.
template <class C>
struct ExpSum {
  C largest, sum;
};
template <class C>
PLANCK_HD ExpSum<C> joined(const ExpSum<C>& a, const ExpSum<C>& b) {
  const bool b_leads = b.largest > a.largest || b.largest != b.largest;
  const ExpSum<C>&high = b_leads ? b : a, &low = b_leads ? a : b;
  const C above = math::center_of_terms(high.largest), below = math::center_of_terms(low.largest);
  const C scale = above == below ? C(1) : math::exp(below - above);
  return {high.largest, math::fma_of(low.sum, scale, high.sum)};
}

}  // namespace planck::reduce_math
