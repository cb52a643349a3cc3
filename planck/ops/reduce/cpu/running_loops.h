// The vector loops of running sums and extremes over dense f32, one table for each instruction set;
// null where it has none.
#pragma once

#include <cstdint>

#include "planck/math/reduction.h"
#include "planck/math/running_sum.h"

namespace planck {

// Integers wrap.
template <class C>
using Running = std::conditional_t<
    std::is_floating_point_v<C>, C,
    std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<C>, int, C>>>;

// What the chunks of a row add up to so far: before the first nothing, which changes no sum.
template <class C>
struct RunningTotals {
  C before = reduce_math::Add::nothing<C>();

  void add(C total) { before = static_cast<C>(sums_.add(static_cast<Running<C>>(total))); }

 private:
  RunningSum<Running<C>> sums_;
};

template <class C>
struct RunningBest {
  C value{};
  std::int64_t index = -1;
};

// Rows of dense elements, `stride` elements apart.
template <class T>
struct DenseRows {
  T* data;
  std::int64_t stride;
  T* row(std::int64_t r) const { return data + r * stride; }
};

struct RunningLoops {
  // As many of the n values of a row as are whole groups of chunks; returns their number.
  std::int64_t (*sum_row)(const float* in, std::int64_t n, RunningTotals<float>&, float* out,
                          bool stream);
  // `count` rows of a chunk: local = local + row, out = before + local, in each of n columns.
  void (*sum_down)(DenseRows<const float> in, int count, int n, float* local, const float* before,
                   DenseRows<float> out, bool stream);
  // n values of a row, the first of which has index `first`.
  void (*extreme_row)(bool largest, const float* in, std::int64_t n, std::int64_t first,
                      RunningBest<float>&, float* values, std::int64_t* indices, bool stream);
  // `count` rows from index `first` on: each column's best so far, and the index of its row.
  void (*extreme_down)(bool largest, DenseRows<const float> in, int count, int n,
                       std::int32_t first, float* best, std::int32_t* rows, DenseRows<float> values,
                       DenseRows<std::int64_t> indices, bool stream);
};

const RunningLoops* running_loops();

}  // namespace planck
