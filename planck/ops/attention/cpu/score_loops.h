// What happens to a block of scores between two products, vectors along its lanes. A block is
// [rows][width], a row a key and a lane a query, or the other way round in the pass of dk and dv.
#pragma once

#include <cstdint>

#include "planck/math/philox.h"

namespace planck::attention {

inline constexpr int kMostLanes = 32;

// Products in, and how they become scores.
template <class C>
struct ScoreBlock {
  C* values;  // [rows][width]
  int rows, width;
  C scale, cap;    // cap 0: none
  const C* added;  // [rows][width], or null
  // Lane w sees rows first[w] ... end[w] - 1; null: all.
  const std::int32_t *first, *end;
};

template <class C>
struct ScoreLoops {
  // Scores to powers of e, in place. largest [width] and the partial sums [8][width] of all rows so
  // far are brought up to date; factor [width] is what earlier sums are to be multiplied by.
  void (*soften)(const ScoreBlock<C>&, C* largest, C* sums, C* factor);
  // Each of `rows` rows times factor [width].
  void (*rescale)(C* values, std::int64_t rows, int width, const C* factor);
  // Scores to probabilities, dp to ds, in place. lse and delta: of each lane, or of each row.
  void (*slopes)(const ScoreBlock<C>&, C* dp, const C* lse, const C* delta, bool of_lanes);
  // Sums [rows][width] to results, each times its lane's factor.
  void (*finish)(C* sums, int rows, int width, const C* factor);
  // What lanes have seen: their lse, and what their sums are multiplied by.
  void (*conclude)(const C* largest, const C* sums, int width, C* lse, C* factor);
  // The pairwise sum of a * b of n <= 256 numbers.
  C (*dot)(const C* a, const C* b, int n);
  // Whether all n numbers are, of each of some rows, which lie so far apart.
  bool (*finite)(const C* values, std::int64_t n, std::int64_t rows, std::int64_t step);
  // Adds ALiBi's part to [rows][width]: row r and lane w are |base + w - r| apart.
  void (*incline)(C* added, int rows, int width, std::int32_t base, C slope);
  // Dropout: 1 where number first + i of the stream is below `keep`, else 0; at out[i * step].
  void (*draw)(const PhiloxStream& random, std::uint64_t first, int n, C keep, C* out, int step);
  // Values times factor where they are kept, else 0.
  void (*drop)(C* values, const C* kept, C factor, int n);
};

// For the best instruction set this CPU has.
template <class C>
const ScoreLoops<C>& score_loops();

}  // namespace planck::attention
