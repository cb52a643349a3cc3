// The loops of the CPU reductions, one table for each instruction set.
//
// Elements are lifted (a square, a key) and joined (added, multiplied, the largest kept) in the
// pairwise order. C: what an element is loaded as; A: what it is lifted to.
#pragma once

#include "planck/loops/cpu/portions.h"
#include "planck/math/reduction.h"

namespace planck {

enum class Join : std::uint8_t { add, multiply, largest };
enum class Lift : std::uint8_t { plain, square, key, index_key };

template <class C>
struct ReduceStep {
  Join join;
  Lift lift;
  reduce_math::KeyOf<C> flip = 0;
};

inline constexpr int kReduceColumns = 512;  // of one call
inline constexpr int kReduceRows = 8;

template <class C, class A>
struct ReduceLoops {
  // n dense elements. square: the deviation from `mean`.
  A (*row)(const ReduceStep<C>&, const Source&, std::int64_t n, C mean);
  // out[j] = join of at most kReduceRows rows' element j; no squares.
  void (*columns)(const ReduceStep<C>&, const Source* rows, int count, int n, A* out);
  // out = left . right; it may be either.
  void (*join)(Join, int n, const A* left, const A* right, A* out);
  A (*tree)(Join, A* values, int n);  // overwrites the values
};

template <class C>
struct FindLoops {
  using Found = reduce_math::Found<reduce_math::KeyOf<C>>;
  // The best of `best` and n dense elements, the first of which has index `first`.
  Found (*row)(reduce_math::KeyOf<C> flip, const Source&, std::int64_t n, std::int64_t first,
               Found best);
  // The same for each of n columns: of `keys` with their indices, and `count` rows from index
  // `first` on, at most kReduceRows. Arrays have room for kReduceColumns.
  void (*columns)(reduce_math::KeyOf<C> flip, const Source* rows, int count, int n,
                  std::int64_t first, reduce_math::KeyOf<C>* keys, std::int64_t* indices);
};

// sums: C to C; extremes: C to its key.
template <class C>
const ReduceLoops<C, C>& reduce_sums();
template <class C>
const ReduceLoops<C, reduce_math::KeyOf<C>>& reduce_extremes();
template <class C>
const FindLoops<C>& find_loops();

}  // namespace planck
