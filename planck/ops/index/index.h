// Elements by index, by slice and by mask; sums and assignments of scattered elements; one-hot.
//
// Along an axis, with the other coordinates (..) the same on both sides:
//   gather        out[.., k, ..] = x[.., index[.., k, ..], ..]           out has the index's shape
//   index_select  out[.., k, ..] = x[.., index[k], ..]
//   scatter       out = x, then out[.., index[.., k, ..], ..] = source[.., k, ..] for ascending k
//   scatter_add   out[.., a, ..] = x[.., a, ..] + Σ source[.., k, ..] over index[.., k, ..] = a
//   index_add     out[.., a, ..] = x[.., a, ..] + Σ source[.., k, ..] over index[k] = a
// By mask, in row-major order:
//   mask_select   values[0 … count) = the elements of x where mask; the rest of values is 0
//   mask_scatter  out[i] = mask[i] ? the next of values : x[i]
//   nonzero       positions[0 … count) = the flat positions where mask; the rest is −1
//   one_hot       out[.., c] = (index[..] == c), 0 or 1 of any dtype
//
// Off the axis an index of gather, scatter and scatter_add may have fewer elements than x; the
// source has the index's shape. Without x, what is scattered starts from zeros.
//
// Backward keeps the index or the mask alone.
//
// Sums. Contributions in ascending k, in chunks of 64 (planck/math/chunked_sum.h); x + sum is
// rounded once. An element without a contribution keeps the bits of x. Integers are added modulo
// their size.
//
// Dtypes. f32 f64 f16 bf16 i32 i64 bool; no sums of bool. Indices int32 or int64, seen at run. All
// but sums move bits as they are. Sums are in double for double, in float for narrower floats; a
// NaN result is the quiet one without a payload.
//
// Views. Any strides; no output overlaps anything.
//
// Total. No index makes a kernel read or write outside its operands: one outside of the axis reads
// 0 and writes nothing. bad_indices, where given, is set to their number: of index's elements, not
// of the slices they stand for.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device).
#pragma once

#include "planck/ops/index/index.problem.h"

namespace planck {

struct IndexDescriptor {
  Shape x, index;
  int axis = 0;
  bool with_x = true;  // ops that scatter
};
struct MaskDescriptor {
  Shape x;
  bool with_x = true;  // MaskScatter
};
struct OneHotDescriptor {
  Shape index;
  std::int64_t classes;
};

template <class T, IndexInt Index>
struct GatherArgs {
  TensorView<const T> x;
  TensorView<const Index> index;
  TensorView<T> out;
  TensorView<std::int64_t> bad_indices = {};
  Operands operands() const { return {x, index, out, bad_indices}; }
};
template <class T, IndexInt Index>
struct ScatterArgs {
  TensorView<const T> x;  // with_x
  TensorView<const Index> index;
  TensorView<const T> source;
  TensorView<T> out;
  TensorView<std::int64_t> bad_indices = {};
  Operands operands() const { return {x, index, source, out, bad_indices}; }
};
template <class T, IndexInt Index>
struct OneHotArgs {
  TensorView<const Index> index;
  TensorView<T> out;
  TensorView<std::int64_t> bad_indices = {};
  Operands operands() const { return {index, out, bad_indices}; }
};
template <class T>
struct MaskSelectArgs {
  TensorView<const T> x;
  TensorView<const bool> mask;
  TensorView<T> values;  // as many as x has elements
  TensorView<std::int64_t> count;
};
template <class T>
struct MaskScatterArgs {
  TensorView<const T> x;  // with_x
  TensorView<const bool> mask;
  TensorView<const T> values;
  TensorView<T> out;
};
struct NonzeroArgs {
  TensorView<const bool> mask;
  TensorView<std::int64_t> positions, count;
};

template <IndexKind kKind, class T, template <class, IndexInt> class ArgsOf>
struct AxisIndexOp {
  using Problem = IndexProblem;
  using Descriptor = IndexDescriptor;
  template <IndexInt Index>
  using Args = ArgsOf<T, Index>;
  static Problem problem(const Descriptor& d) {
    return {.kind = kKind,
            .element_dtype = dtype_of<T>,
            .x = d.x,
            .index = d.index,
            .axis = d.axis,
            .with_x = d.with_x};
  }
};
template <class T>
struct OneHotOp {
  using Problem = IndexProblem;
  using Descriptor = OneHotDescriptor;
  template <IndexInt Index>
  using Args = OneHotArgs<T, Index>;
  static Problem problem(const Descriptor& d) {
    return {.kind = IndexKind::one_hot,
            .element_dtype = dtype_of<T>,
            .index = d.index,
            .classes = d.classes};
  }
};
template <class T>
struct MaskSelectOp {
  using Problem = IndexProblem;
  using Descriptor = MaskDescriptor;
  using Args = MaskSelectArgs<T>;
  static Problem problem(const Descriptor& d) {
    return {.kind = IndexKind::mask_select, .element_dtype = dtype_of<T>, .x = d.x};
  }
  static Operands operands(const Args& a) { return {a.x, a.mask, a.values, a.count}; }
};
template <class T>
struct MaskScatterOp {
  using Problem = IndexProblem;
  using Descriptor = MaskDescriptor;
  using Args = MaskScatterArgs<T>;
  static Problem problem(const Descriptor& d) {
    return {.kind = IndexKind::mask_scatter,
            .element_dtype = dtype_of<T>,
            .x = d.x,
            .with_x = d.with_x};
  }
  static Operands operands(const Args& a) { return {a.x, a.mask, a.values, a.out}; }
};
struct NonzeroOp {
  using Problem = IndexProblem;
  using Descriptor = MaskDescriptor;
  using Args = NonzeroArgs;
  static Problem problem(const Descriptor& d) {
    return {.kind = IndexKind::nonzero, .element_dtype = Dtype::boolean, .x = d.x};
  }
  static Operands operands(const Args& a) { return {a.mask, a.positions, a.count}; }
};

template <class T>
using GatherPlan = IndexedPlan<AxisIndexOp<IndexKind::gather, T, GatherArgs>>;
template <class T>
using IndexSelectPlan = IndexedPlan<AxisIndexOp<IndexKind::index_select, T, GatherArgs>>;
template <class T>
using ScatterPlan = IndexedPlan<AxisIndexOp<IndexKind::scatter, T, ScatterArgs>>;
template <class T>
using ScatterAddPlan = IndexedPlan<AxisIndexOp<IndexKind::scatter_add, T, ScatterArgs>>;
template <class T>
using IndexAddPlan = IndexedPlan<AxisIndexOp<IndexKind::index_add, T, ScatterArgs>>;
template <class T>
using OneHotPlan = IndexedPlan<OneHotOp<T>>;
template <class T>
using MaskSelectPlan = Plan<MaskSelectOp<T>>;
template <class T>
using MaskScatterPlan = Plan<MaskScatterOp<T>>;
using NonzeroPlan = Plan<NonzeroOp>;

}  // namespace planck
