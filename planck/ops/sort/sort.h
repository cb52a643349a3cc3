// Sorting along an axis: values with the positions they come from, positions alone, the k largest.
//
//   sort      values = x in order, indices[.., r, ..] = the position of number r
//   argsort   indices alone
//   topk      the first k of the sorted row: the largest (default) or the smallest
//
// Order. Ascending or descending, stable: equal elements keep the order of their positions. NaN is
// greater than every number and equal to every NaN; −0 equals +0. So NaN come last ascending and
// first descending. topk gives what a stable descending (or ascending) sort gives first.
//
// Backward keeps the indices alone: dx is the scatter_add of dvalues along the axis.
//
// Dtypes. f32 f64 f16 bf16 i32 i64; indices are int64. Values keep their bits.
//
// Views. Any strides; no output overlaps anything.
//
// Total. k is in [0, extent of the axis]; an empty axis gives empty outputs.
//
// Precision. Same bits on every CPU and GPU, any thread count (Reproducibility::cross_device).
#pragma once

#include "planck/ops/sort/sort.problem.h"

namespace planck {

struct SortDescriptor {
  Shape x;
  int axis;
  bool descending = false;
};
struct TopkDescriptor {
  Shape x;
  int axis;
  std::int64_t k;
  bool largest = true;
};

template <class T>
struct SortArgs {
  TensorView<const T> x;
  TensorView<T> values;
  TensorView<std::int64_t> indices;
};
template <class T>
struct ArgsortArgs {
  TensorView<const T> x;
  TensorView<std::int64_t> indices;
};

template <class T>
struct SortOp {
  using Problem = SortProblem;
  using Descriptor = SortDescriptor;
  using Args = SortArgs<T>;
  static Problem problem(const Descriptor& d) {
    return {.kind = SortKind::sort,
            .element_dtype = dtype_of<T>,
            .x = d.x,
            .axis = d.axis,
            .descending = d.descending};
  }
  static Operands operands(const Args& a) { return {a.x, a.values, a.indices}; }
};
template <class T>
struct ArgsortOp {
  using Problem = SortProblem;
  using Descriptor = SortDescriptor;
  using Args = ArgsortArgs<T>;
  static Problem problem(const Descriptor& d) {
    Problem p = SortOp<T>::problem(d);
    p.kind = SortKind::argsort;
    return p;
  }
  static Operands operands(const Args& a) { return {a.x, a.indices}; }
};
template <class T>
struct TopkOp {
  using Problem = SortProblem;
  using Descriptor = TopkDescriptor;
  using Args = SortArgs<T>;
  static Problem problem(const Descriptor& d) {
    return {.kind = SortKind::topk,
            .element_dtype = dtype_of<T>,
            .x = d.x,
            .axis = d.axis,
            .descending = d.largest,
            .k = d.k};
  }
  static Operands operands(const Args& a) { return {a.x, a.values, a.indices}; }
};

template <class T>
using SortPlan = Plan<SortOp<T>>;
template <class T>
using ArgsortPlan = Plan<ArgsortOp<T>>;
template <class T>
using TopkPlan = Plan<TopkOp<T>>;

}  // namespace planck
