// Quantized tensors in other shapes: the integers move, and the scales and zero points with them.
// Groups stay whole: what would cut one apart, or give one two scales, is refused. split, stack,
// select, squeeze, unsqueeze and transpose are made of these. Gradients pass.
#pragma once

#include "planck/backend/call.h"
#include "planck/backend/quantized_tensor.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck {

// The same integers in another shape; one extent may be −1. Groups must stay whole: a channel axis
// an axis, the last extent of tokens, for groups a last extent that they divide.
template <class B>
QuantizedTensor<B> reshape(const QuantizedTensor<B>& q, const Shape& shape) {
  const auto whole = value_or_throw(complete_shape("reshape", shape, q.numel()));
  const auto scheme = value_or_throw(reshaped(q.scheme(), q.shape(), whole));
  return {reshape(q.codes(), whole), q.scale(), q.zero_point(), scheme};
}
// Axis d of the result is axis axes[d] of q. Of tokens and groups the last axis stays the last.
template <class B>
QuantizedTensor<B> permute(const QuantizedTensor<B>& q, const Extents& axes) {
  const auto codes = permute(q.codes(), axes);
  Extents from_front = axes;
  for (int d = 0; d < axes.rank(); ++d)
    if (axes[d] < 0) from_front[d] += axes.rank();
  const auto moved = value_or_throw(permuted(q.scheme(), q.shape(), from_front));
  if (!moved.permutation) return {codes, q.scale(), q.zero_point(), moved.scheme};
  const Shape groups = q.scheme().group_shape(q.shape());
  return {codes, permute(reshape(q.scale(), groups), *moved.permutation),
          permute(reshape(q.zero_point(), groups), *moved.permutation), moved.scheme};
}
// Elements start, start + step, … before stop, as q[start:stop:step] in Python, with the scales
// they need. Groups along the last axis are taken whole; 4-bit integers from even positions of it.
template <class B>
QuantizedTensor<B> slice(const QuantizedTensor<B>& q, int axis, std::int64_t start,
                         std::int64_t stop = INT64_MAX, std::int64_t step = 1) {
  const int at = value_or_throw(checked_axis("slice", axis, q.rank()));
  const auto codes = slice(q.codes(), at, start, stop, step);
  const auto s = SliceAxis{at, start, stop, step}.span(q.shape()[at]);
  const auto moved = value_or_throw(sliced(q.scheme(), q.shape(), at, s.first, s.count, s.step));
  if (!moved.slice) return {codes, q.scale(), q.zero_point(), moved.scheme};
  const Shape groups = q.scheme().group_shape(q.shape());
  const auto taken = [&](const auto& t) {
    const auto& [d, first, count, by] = *moved.slice;
    if (count == 0) return slice(reshape(t, groups), d, 0, 0);
    // One before the first, counted from the end, where a slice goes down to element 0.
    const std::int64_t end = first + count * by;
    return slice(reshape(t, groups), d, first, end < 0 ? INT64_MAX : end, by);
  };
  return {codes, taken(q.scale()), taken(q.zero_point()), moved.scheme};
}
// q seen with another shape: axes of extent 1, and new leading ones, repeat, with their scales.
template <class B>
QuantizedTensor<B> expand(const QuantizedTensor<B>& q, const Shape& shape) {
  const auto codes = expand(q.codes(), shape);
  const auto moved = expanded(q.scheme(), q.shape(), shape);
  if (!moved.wide) return {codes, q.scale(), q.zero_point(), moved.scheme};
  const Shape groups = q.scheme().group_shape(q.shape());
  return {codes, expand(reshape(q.scale(), groups), *moved.wide),
          expand(reshape(q.zero_point(), groups), *moved.wide), moved.scheme};
}
// The order of elements reversed along some axes, and that of groups along them. Not of 4-bit
// integers along the last axis.
template <class B>
QuantizedTensor<B> flip(const QuantizedTensor<B>& q, std::initializer_list<int> axes) {
  std::uint32_t mask = 0;
  for (int a : axes) mask |= 1u << value_or_throw(checked_axis("flip", a, q.rank()));
  const auto codes = call(Flip{mask}, q.codes());
  const Flip turned{flipped_groups(q.scheme(), q.shape(), mask)};
  if (turned.axes == 0) return {codes, q.scale(), q.zero_point(), q.scheme()};
  const Shape groups = q.scheme().group_shape(q.shape());
  return {codes, call(turned, reshape(q.scale(), groups)),
          call(turned, reshape(q.zero_point(), groups)), q.scheme()};
}
// Tensors of one scheme one after the other along an axis, each with its own scales: of channels
// along their axis, of tokens along all axes but the last, of groups along any. Tensors of one
// scale each become channels along the axis. Not of 4-bit integers, which nothing copies.
template <class B>
QuantizedTensor<B> cat(const std::vector<QuantizedTensor<B>>& tensors, int axis = 0) {
  if (tensors.empty()) raise(ErrorCode::invalid_problem, "cat: takes at least one tensor");
  const auto& first = tensors[0];
  const int at = value_or_throw(checked_axis("cat", axis, first.rank()));
  const auto [scheme, along] = value_or_throw(joined(first.scheme(), first.shape(), at));
  std::vector<Tensor<B, CodeKind>> codes;
  for (const auto& q : tensors) codes.push_back(q.codes());
  const auto all = cat(codes, at);  // refuses shapes that do not fit
  std::vector<Tensor<B>> scales;
  std::vector<Tensor<B, IntKind>> zero_points;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& q = tensors[i];
    value_or_throw(
        check_joined(i, q.scheme(), q.scale().dtype(), first.scheme(), first.scale().dtype()));
    const Shape own = q.scheme().group_shape(q.shape()), wide = scheme.group_shape(q.shape());
    scales.push_back(expand(reshape(q.scale(), own), wide));
    zero_points.push_back(expand(reshape(q.zero_point(), own), wide));
  }
  return {all, cat(scales, along), cat(zero_points, along), scheme};
}

}  // namespace planck
