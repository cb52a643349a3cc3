// Sorting on tensors, along one axis; −1 is the last. Stable, NaN greatest.
#pragma once

#include "planck/backend/call.h"
#include "planck/ops/shape/shape.functions.h"
#include "planck/ops/sort/sort.ops.h"

namespace planck {

// What sort and topk give: auto [values, indices] = sort(x).
template <class B, class K>
struct Sorted {
  Tensor<B, K> values;
  Tensor<B, IntKind> indices;
};

// x in order along an axis, and where each element was.
template <class B, class K>
Sorted<B, K> sort(const Tensor<B, K>& x, int axis = -1, bool descending = false) {
  const int at = value_or_throw(checked_axis("sort", axis, x.rank()));
  auto [values, indices] = call(Sort<K>{at, descending}, x);
  return {values, indices};
}
// Where the elements of x in order are.
template <class B, class K>
Tensor<B, IntKind> argsort(const Tensor<B, K>& x, int axis = -1, bool descending = false) {
  return call(Argsort{value_or_throw(checked_axis("argsort", axis, x.rank())), descending}, x);
}
// The k largest (or smallest) along an axis, in order, and where they are.
template <class B, class K>
Sorted<B, K> topk(const Tensor<B, K>& x, std::int64_t k, int axis = -1, bool largest = true) {
  const int at = value_or_throw(checked_axis("topk", axis, x.rank()));
  auto [values, indices] = call(Topk<K>{at, k, largest}, x);
  return {values, indices};
}

}  // namespace planck
