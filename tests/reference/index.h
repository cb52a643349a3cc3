// How the Reference backend indexes and sorts.
#pragma once

#include "planck/ops/index/index.ops.h"
#include "planck/ops/sort/sort.ops.h"
#include "tests/reference/evaluate.h"

namespace planck {

// x and source are null where the op has none.
ReferenceOutputs index_by_axis(IndexKind kind, int axis, const Shape& shape,
                               const ReferenceValues* x, const ReferenceValues& index,
                               const ReferenceValues* source);
ReferenceOutputs index_by_mask(IndexKind kind, const ReferenceValues* x,
                               const ReferenceValues& mask, const ReferenceValues* values);
ReferenceOutputs one_hot(const ReferenceValues& index, std::int64_t classes, Dtype dtype);
ReferenceOutputs sorted(const ReferenceValues& x, int axis, bool descending, std::int64_t kept);

template <IndexKind Kind, OpName N, class K>
ReferenceOutputs evaluate(const ByIndex<Kind, N, K>& op, const ReferenceInputs& in) {
  return index_by_axis(Kind, op.axis, in[0]->shape, in[0], *in[1], in.size() > 2 ? in[2] : nullptr);
}
template <IndexKind Kind, OpName N>
ReferenceOutputs evaluate(const WriteIntoZeros<Kind, N>& op, const ReferenceInputs& in) {
  return index_by_axis(Kind, op.axis, op.shape, nullptr, *in[0], in[1]);
}
template <class K>
ReferenceOutputs evaluate(const MaskSelect<K>&, const ReferenceInputs& in) {
  return index_by_mask(IndexKind::mask_select, in[0], *in[1], nullptr);
}
template <class K>
ReferenceOutputs evaluate(const MaskScatter<K>&, const ReferenceInputs& in) {
  return index_by_mask(IndexKind::mask_scatter, in[0], *in[1], in[2]);
}
inline ReferenceOutputs evaluate(const MaskScatterInto&, const ReferenceInputs& in) {
  return index_by_mask(IndexKind::mask_scatter, nullptr, *in[0], in[1]);
}
inline ReferenceOutputs evaluate(const Nonzero&, const ReferenceInputs& in) {
  return index_by_mask(IndexKind::nonzero, nullptr, *in[0], nullptr);
}
template <class K>
ReferenceOutputs evaluate(const OneHot<K>& op, const ReferenceInputs& in) {
  return one_hot(*in[0], op.classes, op.dtype);
}
template <class K>
ReferenceOutputs evaluate(const Sort<K>& op, const ReferenceInputs& in) {
  return sorted(*in[0], op.axis, op.descending, in[0]->shape[op.axis]);
}
template <class K>
ReferenceOutputs evaluate(const Topk<K>& op, const ReferenceInputs& in) {
  return sorted(*in[0], op.axis, op.largest, op.k);
}
inline ReferenceOutputs evaluate(const Argsort& op, const ReferenceInputs& in) {
  return {sorted(*in[0], op.axis, op.descending, in[0]->shape[op.axis])[1]};
}

}  // namespace planck
