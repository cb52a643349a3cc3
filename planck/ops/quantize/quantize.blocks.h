// The quantize family on blocks of dense elements: the loops around quantize.math.h, compiled for
// each instruction set.
#pragma once

#include <cstdint>

#include "planck/loops/blocks.h"

namespace planck {

// How the position on the grid is found; results do not depend on it where several apply.
enum class GridPath : std::uint8_t {
  corrected,   // f32, ordinary scales and zero points: 1/s with two corrections, exactly x / s
  divide,      // ordinary zero points: x / s
  reciprocal,  // ordinary zero points: x * (1 / s)
  any_divide,  // zero points of any size, in f64
  any_reciprocal,
};

// How the groups of a block lie.
enum class GroupLayout : std::uint8_t {
  one,   // one group for all elements
  runs,  // one every 2^run_shift elements; a run is 32 elements at least, and none is cut
  each,  // one entry an element
};

template <class C>
struct BlockGroups {
  GroupLayout layout = GroupLayout::one;
  GridPath path = GridPath::divide;
  int run_shift = 0;
  std::int32_t q_min = 0, q_max = 0;
  const C* scale = nullptr;
  const std::int32_t* zero_point = nullptr;
  const C* inverse = nullptr;  // 1 / s
  const C* lo = nullptr;       // q_min − z
  const C* hi = nullptr;       // q_max − z
  const C* x_lo = nullptr;     // (lo − margin) · s, for GridPath::corrected
  const C* x_hi = nullptr;     // (hi + margin) · s
};

template <class C>
struct QuantBlocks {
  // Fills inverse, lo, hi, x_lo, x_hi of n groups; tells which path all of them allow.
  GridPath (*prepare)(int n, const C* scale, const std::int32_t* zero_point, std::int32_t q_min,
                      std::int32_t q_max, bool reciprocal, int margin, C* inverse, C* lo, C* hi,
                      C* x_lo, C* x_hi);
  void (*quantize)(const BlockGroups<C>&, int n, Source x, Sink q);       // margin 0
  void (*fake_quantize)(const BlockGroups<C>&, int n, Source x, Sink y);  // margin 0
  // margin 1
  void (*quantize_backward)(const BlockGroups<C>&, int n, Source dy, Source x, Sink dx);
  void (*fake_quantize_backward)(const BlockGroups<C>&, int n, Source dy, Source x, Sink dx);
  void (*dequantize)(const BlockGroups<C>&, int n, Source q, Sink x);
  void (*scale_by)(const BlockGroups<C>&, int n, Source dy, Sink dq);
  // dx and the terms of dscale and dzero_point. Not for GridPath::corrected.
  void (*learn)(const BlockGroups<C>&, int n, Source dy, Source x, Sink dx, C* scale_terms,
                C* zero_point_terms);
  // Widens lo[0], hi[0] by n elements, or lo[i], hi[i] by element i.
  void (*include_all)(int n, Source x, C* lo, C* hi);
  void (*include_each)(int n, Source x, C* lo, C* hi);
  // The canonical pairwise sum of a[0, n); overwrites a.
  C (*tree_sum)(C* a, int n);
  void (*add)(int n, const C* a, const C* b, C* sum);
};

template <class C>
const QuantBlocks<C>& quant_blocks();

}  // namespace planck
