// Reductions on tensors: over all axes, over one, or over a list; negative axes count from the end.
// Reduced axes are dropped unless keep is true.
#pragma once

#include "planck/ops/reduce/reduce.ops.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck {

// Axes of a reduction: all of them, one, or several.
class Axes {
 public:
  Axes() = default;
  Axes(int axis) : all_(false) { axes_.push_back(axis); }
  Axes(std::initializer_list<int> axes) : all_(false) {
    for (int a : axes) axes_.push_back(a);
  }
  unsigned mask(std::string_view op, int rank) const {
    if (all_) return (1u << rank) - 1;
    unsigned m = 0;
    for (std::int64_t a : axes_)
      m |= 1u << value_or_throw(checked_axis(op, static_cast<int>(a), rank));
    return m;
  }

 private:
  bool all_ = true;
  Extents axes_;
};

namespace reduce_detail {

template <class Op, class B, class K>
auto reduce(Op op, const Tensor<B, K>& x, const Axes& axes, bool keep) {
  op.axes = axes.mask(Op::name, x.rank());
  auto y = call(op, x);
  if (keep || op.axes == 0) return y;
  Shape kept;
  for (int d = 0; d < x.rank(); ++d)
    if (!(op.axes >> d & 1u)) kept.push_back(x.shape()[d]);
  return reshape(y, kept);
}

}  // namespace reduce_detail

#define PLANCK_REDUCTION(function, Op)                                             \
  template <class B, class K>                                                      \
  auto function(const Tensor<B, K>& x, const Axes& axes = {}, bool keep = false) { \
    return reduce_detail::reduce(Op{}, x, axes, keep);                             \
  }
PLANCK_REDUCTION(sum, Sum)              // the sum; 0 of nothing
PLANCK_REDUCTION(mean, Mean)            // sum / count
PLANCK_REDUCTION(prod, Prod)            // the product; 1 of nothing
PLANCK_REDUCTION(max, Max)              // the largest; NaN wins
PLANCK_REDUCTION(min, Min)              // the smallest; NaN wins
PLANCK_REDUCTION(logsumexp, LogSumExp)  // ln Σ eˣ, without overflow
PLANCK_REDUCTION(argmax, Argmax)        // where the largest is, the first of equals
PLANCK_REDUCTION(argmin, Argmin)        // where the smallest is, the first of equals
PLANCK_REDUCTION(any, Any)              // whether one is true
PLANCK_REDUCTION(all, All)              // whether all are true
#undef PLANCK_REDUCTION

// Σ (x − mean)² / (n − correction)
template <class B>
Tensor<B> var(const Tensor<B>& x, const Axes& axes = {}, std::int64_t correction = 1,
              bool keep = false) {
  return reduce_detail::reduce(Var{{}, correction}, x, axes, keep);
}
// The sum of all elements so far along an axis; in reverse, from the end.
template <class B, class K>
Tensor<B, K> cumsum(const Tensor<B, K>& x, int axis, bool reverse = false) {
  return call(Cumsum{value_or_throw(checked_axis("cumsum", axis, x.rank())), reverse}, x);
}

// What cummax and cummin give: auto [values, indices] = cummax(x, axis). An index is that of the
// last occurrence of the running extreme.
template <class B, class K>
struct RunningExtreme {
  Tensor<B, K> values;
  Tensor<B, IntKind> indices;
};
// The largest of all elements so far along an axis.
template <class B, class K>
RunningExtreme<B, K> cummax(const Tensor<B, K>& x, int axis) {
  auto [values, indices] =
      call(Cummax<K>{value_or_throw(checked_axis("cummax", axis, x.rank()))}, x);
  return {values, indices};
}
// The smallest of all elements so far along an axis.
template <class B, class K>
RunningExtreme<B, K> cummin(const Tensor<B, K>& x, int axis) {
  auto [values, indices] =
      call(Cummin<K>{value_or_throw(checked_axis("cummin", axis, x.rank()))}, x);
  return {values, indices};
}

// The sum over what broadcasting repeated: x had been expanded from `shape`.
template <class B, class K>
Tensor<B, K> sum_to(const Tensor<B, K>& x, const Shape& shape) {
  const int added = x.rank() - shape.rank();
  unsigned mask = 0;
  for (int d = 0; d < x.rank(); ++d)
    if (d < added || (shape[d - added] == 1 && x.shape()[d] != 1)) mask |= 1u << d;
  if (mask == 0) return x;
  return reshape(call(Sum{mask}, x), shape);
}

}  // namespace planck
