// The quantize family on short arrays of the compute type: the loops around quantize.math.h,
// compiled for each instruction set.
#pragma once

#include <cstdint>

namespace planck {

// How the position on the grid is found; the results do not depend on it where several apply.
enum class GridPath : std::uint8_t {
  corrected,   // f32, ordinary scales and zero points: a reciprocal with two corrections, exactly x
               // / s
  divide,      // ordinary zero points: x / s
  reciprocal,  // ordinary zero points: x * (1 / s)
  any_divide,  // zero points of any size, in f64
  any_reciprocal,
};

// The groups of a block. step 0: one group for all elements; step 1: one entry an element.
template <class C>
struct BlockGroups {
  int step = 0;
  GridPath path = GridPath::divide;
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
  // Fills inverse, lo, hi, x_lo, x_hi from scale and zero points; tells which path all n groups
  // allow.
  GridPath (*prepare)(int n, const C* scale, const std::int32_t* zero_point, std::int32_t q_min,
                      std::int32_t q_max, bool reciprocal, int margin, C* inverse, C* lo, C* hi,
                      C* x_lo, C* x_hi);
  void (*quantize)(const BlockGroups<C>&, int n, const C* x, std::uint8_t* q);  // margin 0
  void (*fake_quantize)(const BlockGroups<C>&, int n, const C* x, C* y);        // margin 0
  void (*quantize_backward)(const BlockGroups<C>&, int n, const C* dy, const C* x,
                            C* dx);  // margin 1
  void (*fake_quantize_backward)(const BlockGroups<C>&, int n, const C* dy, const C* x,
                                 C* dx);  // margin 1
  void (*dequantize)(const BlockGroups<C>&, int n, const std::int32_t* q, C* x);
  void (*scale_by)(const BlockGroups<C>&, int n, const C* dy, C* dq);
  // dx and the terms of dscale and dzero_point. Not for GridPath::corrected.
  void (*learn)(const BlockGroups<C>&, int n, const C* dy, const C* x, C* dx, C* scale_terms,
                C* zero_point_terms);
  // Widens lo[0], hi[0] by n elements, or lo[i], hi[i] by element i.
  void (*include_all)(int n, const C* x, C* lo, C* hi);
  void (*include_each)(int n, const C* x, C* lo, C* hi);
  // The canonical pairwise sum of a[0, n); overwrites a.
  C (*tree_sum)(C* a, int n);
  void (*add)(int n, const C* a, const C* b, C* sum);
};

template <class C>
const QuantBlocks<C>& quant_blocks();

}  // namespace planck
