// The quantize family on dense elements: the loops around quantize.math.h, compiled for each
// instruction set. A call does `rows` rows of n elements; a portion is up to kPortion = 1,024.
//
// There are two sets of loops. portions.cpp takes every group, dtype and count. Where all groups of
// a call are ordinary (GridPath::corrected, snapped), the vector loops of ordinary.cpp replace its
// f32 arithmetic for the part that is a multiple of kChunk = 64 elements: the same values in fewer
// operations.
#pragma once

#include <cstdint>

#include "planck/loops/cpu/portions.h"

namespace planck {

// How the position on the grid is found. Where several ways apply, all give the same result.
enum class GridPath : std::uint8_t {
  corrected,   // f32 elements, ordinary scales and zero points: no division
  snapped,     // the same for 16-bit elements and a range that is near zero
  divide,      // ordinary zero points: x / s
  reciprocal,  // ordinary zero points: x * (1 / s)
  any_divide,  // zero points of any size, in f64
  any_reciprocal,
};
inline bool is_ordinary(GridPath p) { return p <= GridPath::snapped; }

// How the groups lie over the elements of a row.
enum class GroupLayout : std::uint8_t {
  one,   // one group for all elements
  runs,  // one every 2^run_shift elements; a run is 32 elements at least, and none is cut
  each,  // one entry per element
};

// Groups as the loops read them. Arrays marked * are filled for ordinary paths alone and, where the
// layout is `each` and the elements are bf16, hold the even and then the odd ones of every
// 2 · vector_lanes entries, up to the last multiple of kChunk: bf16 is widened in halves of a
// 32-bit word.
template <class C>
struct PortionGroups {
  GroupLayout layout = GroupLayout::one;
  GridPath path = GridPath::divide;
  int run_shift = 0;
  int row_step = 0;  // groups from one row to the next; other than 0 with `one` only
  std::int32_t q_min = 0, q_max = 0, sign = 0;  // see GroupNeeds
  const C* scale = nullptr;
  const std::int32_t* zero_point = nullptr;
  const C* inverse = nullptr;                        // 1 / s
  const C* lo = nullptr;                             // q_min − z
  const C* hi = nullptr;                             // q_max − z
  const std::uint8_t* zero_byte = nullptr;           // z modulo 256
  const std::uint8_t* zero_pairs = nullptr;          // * z modulo 16, two to a byte; with `each`
  const C *v_scale = nullptr, *v_inverse = nullptr;  // *
  const C *x_lo = nullptr, *x_hi = nullptr;          // * lo · s, hi · s
  const C *in_lo = nullptr, *in_hi = nullptr;        // * the x in range; GroupNeeds::masks
  const C *lift = nullptr, *origin = nullptr;        // * −kSnapWhole · s; −(z + sign) · s

  PortionGroups at_row(int r) const {
    PortionGroups g = *this;
    if (row_step == 0) return g;
    const int e = r * row_step;
    for (const C** a : {&g.scale, &g.inverse, &g.lo, &g.hi, &g.v_scale, &g.v_inverse, &g.x_lo,
                        &g.x_hi, &g.in_lo, &g.in_hi, &g.lift, &g.origin})
      *a += e;
    g.zero_point += e;
    g.zero_byte += e;
    return g;
  }
};

// What the loops need of a list of groups.
struct GroupNeeds {
  std::int32_t q_min, q_max;
  Dtype element;      // of x, and of the scale
  std::int32_t sign;  // of the quantized dtype: see sign_of
  bool reciprocal = false;
  bool masks = false;    // in_lo and in_hi
  bool ordinary = true;  // false: neither corrected nor snapped
};

// Groups and what is made of them. Give scale and zero_point, then prepare().
template <class C>
struct GroupTable {
  static constexpr int kCapacity = kPortion + kChunk;
  alignas(64) C scale[kCapacity];
  alignas(64) C inverse[kCapacity];
  alignas(64) C lo[kCapacity];
  alignas(64) C hi[kCapacity];
  alignas(64) C ordered[8][kCapacity];
  alignas(64) std::int32_t zero_point[kCapacity];
  alignas(64) std::uint8_t zero_byte[kCapacity];
  alignas(64) std::uint8_t zero_pairs[kCapacity / 2];
  PortionGroups<C> groups;
  // n groups; with layout `each`, the last is repeated up to a multiple of kChunk.
  void prepare(int n, GroupLayout layout, int run_shift, const GroupNeeds& needs, int row_step = 0);
};

// Elementwise loops over `rows` rows of n elements.
template <class C>
struct QuantPortions {
  GridPath (*prepare)(int n, const GroupNeeds&, GroupTable<C>&);
  void (*quantize)(const PortionGroups<C>&, int rows, int n, Source x, Sink q);
  void (*fake_quantize)(const PortionGroups<C>&, int rows, int n, Source x, Sink y);
  void (*quantize_backward)(const PortionGroups<C>&, int rows, int n, Source dy, Source x, Sink dx);
  void (*fake_quantize_backward)(const PortionGroups<C>&, int rows, int n, Source dy, Source x,
                                 Sink dx);
  void (*dequantize)(const PortionGroups<C>&, int rows, int n, Source q, Sink x);
  void (*scale_by)(const PortionGroups<C>&, int rows, int n, Source dy, Sink dq);
};

template <class C>
const QuantPortions<C>& quant_portions();

// Ranges and sums over many elements (sums.cpp).
template <class C>
struct QuantSums {
  // dx and the terms of dscale and dzero_point. Not for ordinary paths.
  void (*learn)(const PortionGroups<C>&, int n, Source dy, Source x, Sink dx, C* scale_terms,
                C* zero_point_terms);
  // Widens lo[g], hi[g] by the `run` elements of run g, for `count` runs; or lo[i], hi[i] by
  // element i.
  void (*include_runs)(int count, int run, Source x, C* lo, C* hi);
  void (*include_each)(int n, Source x, C* lo, C* hi);
  // The canonical pairwise sum of a[0, n); overwrites a.
  C (*tree_sum)(C* a, int n);
  void (*add)(int n, const C* a, const C* b, C* sum);
};

template <class C>
const QuantSums<C>& quant_sums();

// Elements [begin, end) of every row, a multiple of kChunk in number.
struct RowPart {
  int rows, begin, end;
};

// Ordinary groups. Null on instruction sets without fused multiply-add.
struct OrdinaryLoops {
  // Fills the arrays marked *, of n groups of which the first `whole` are in the loops' order.
  void (*prepare)(int n, int whole, const GroupNeeds&, GroupTable<float>&);
  void (*quantize)(const PortionGroups<float>&, RowPart, Source x, Sink q);
  void (*fake_quantize)(const PortionGroups<float>&, RowPart, Source x, Sink y);
  void (*quantize_backward)(const PortionGroups<float>&, RowPart, Source dy, Source x, Sink dx);
  void (*fake_quantize_backward)(const PortionGroups<float>&, RowPart, Source dy, Source x,
                                 Sink dx);
  void (*dequantize)(const PortionGroups<float>&, RowPart, Source q, Sink x);
  void (*scale_by)(const PortionGroups<float>&, RowPart, Source dy, Sink dq);
  // Widens lo[g], hi[g] by the `run` elements, a multiple of kChunk, of run g, for `count` runs. If
  // an element is not finite, neither is one of the two; only NaN in f32 is passed over.
  void (*bounds)(int count, int run, Source x, float* lo, float* hi);
  // The same of lo[i], hi[i] by element i of every row of n, a multiple of kChunk up to kPortion.
  void (*bounds_each)(int rows, int n, Source x, float* lo, float* hi);
};
const OrdinaryLoops* ordinary_loops();

// Gradients of learned scales and zero points in f32 arithmetic, where zero points are ordinary
// (GridPath::divide, reciprocal): dx, and sums of the terms of dscale and dzero_point. All operands
// have one dtype. Null on instruction sets without fused multiply-add.
inline constexpr int kLearnElements = 4096, kLearnUnit = 256, kLearnRows = 8;
struct LearnLoops {
  // Sums of `count` runs of `run` elements each: a power of two, 32 at least. All runs together are
  // a multiple of kLearnUnit and at most kLearnElements. Groups: `one` or `runs`.
  void (*runs)(const PortionGroups<float>&, int count, int run, Source dy, Source x, Sink dx,
               float* scale_sums, float* zero_point_sums);
  // Sums of n columns, a multiple of 16, over kLearnRows rows. Groups: `each`.
  void (*columns)(const PortionGroups<float>&, int n, Source dy, Source x, Sink dx,
                  float* scale_sums, float* zero_point_sums);
};
const LearnLoops* learn_loops();

}  // namespace planck
