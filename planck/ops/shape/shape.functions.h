// Functions on tensors that see or place elements elsewhere.
#pragma once

#include "planck/backend/call.h"
#include "planck/ops/shape/shape.ops.h"

namespace planck {

// The same elements in another shape; one extent may be −1. Copies only where strides cannot say
// it.
template <class B, class K>
Tensor<B, K> reshape(const Tensor<B, K>& x, const Shape& shape) {
  return call(Reshape{shape}, x);
}
// Axis d of the result is axis axes[d] of x.
template <class B, class K>
Tensor<B, K> permute(const Tensor<B, K>& x, const Extents& axes) {
  return call(Permute{axes}, x);
}
// Two axes exchanged.
template <class B, class K>
Tensor<B, K> transpose(const Tensor<B, K>& x, int a = -2, int b = -1) {
  const int first = value_or_throw(checked_axis("transpose", a, x.rank()));
  const int second = value_or_throw(checked_axis("transpose", b, x.rank()));
  Extents axes;
  for (int d = 0; d < x.rank(); ++d) axes.push_back(d == first ? second : d == second ? first : d);
  return permute(x, axes);
}
// x seen with another shape: axes of extent 1, and new leading ones, repeat.
template <class B, class K>
Tensor<B, K> expand(const Tensor<B, K>& x, const Shape& shape) {
  return call(Expand{shape}, x);
}
// A new axis of extent 1 before `axis`; −1 puts it last.
template <class B, class K>
Tensor<B, K> unsqueeze(const Tensor<B, K>& x, int axis) {
  const int at = value_or_throw(checked_axis("unsqueeze", axis, x.rank() + 1));
  if (x.rank() == kMaxRank)
    raise(ErrorCode::invalid_problem, "unsqueeze: the tensor has rank 8 already");
  Shape shape;
  for (int d = 0; d <= x.rank(); ++d) shape.push_back(d == at ? 1 : x.shape()[d < at ? d : d - 1]);
  return reshape(x, shape);
}
// An axis of extent 1 gone.
template <class B, class K>
Tensor<B, K> squeeze(const Tensor<B, K>& x, int axis) {
  const int at = value_or_throw(checked_axis("squeeze", axis, x.rank()));
  if (x.shape()[at] != 1) refuse("squeeze: axis {} has extent {}, not 1", {at, x.shape()[at]});
  Shape shape;
  for (int d = 0; d < x.rank(); ++d)
    if (d != at) shape.push_back(x.shape()[d]);
  return reshape(x, shape);
}
// Elements start, start + step, … before stop, as x[start:stop:step] in Python.
template <class B, class K>
Tensor<B, K> slice(const Tensor<B, K>& x, int axis, std::int64_t start,
                   std::int64_t stop = INT64_MAX, std::int64_t step = 1) {
  return call(SliceAxis{axis, start, stop, step}, x);
}
// x, with values in place of slice(x, axis, start, stop, step).
template <class B, class K>
Tensor<B, K> slice_assign(const Tensor<B, K>& x, const Tensor<B, K>& values, int axis,
                          std::int64_t start, std::int64_t stop = INT64_MAX,
                          std::int64_t step = 1) {
  return call(SliceAssign{{axis, start, stop, step}}, x, values);
}
// One element of an axis, and the axis gone.
template <class B, class K>
Tensor<B, K> select(const Tensor<B, K>& x, int axis, std::int64_t index) {
  const int at = value_or_throw(checked_axis("select", axis, x.rank()));
  const std::int64_t extent = x.shape()[at], i = index < 0 ? index + extent : index;
  if (i < 0 || i >= extent)
    refuse("select: index {} of axis {}, which has extent {}", {index, at, extent});
  return squeeze(slice(x, at, i, i + 1), at);
}
// The order of elements reversed along some axes.
template <class B, class K>
Tensor<B, K> flip(const Tensor<B, K>& x, std::initializer_list<int> axes) {
  std::uint32_t mask = 0;
  for (int a : axes) mask |= 1u << value_or_throw(checked_axis("flip", a, x.rank()));
  return call(Flip{mask}, x);
}
// Tensors one after the other along an axis.
template <class B, class K>
Tensor<B, K> cat(const std::vector<Tensor<B, K>>& tensors, int axis = 0) {
  return call(Cat{axis}, tensors);
}
// Tensors of one shape along a new axis.
template <class B, class K>
Tensor<B, K> stack(const std::vector<Tensor<B, K>>& tensors, int axis = 0) {
  std::vector<Tensor<B, K>> raised;
  for (const auto& t : tensors) raised.push_back(unsqueeze(t, axis));
  return cat(raised, axis);
}
// Pieces of these sizes along an axis; together they make up its extent.
template <class B, class K>
std::vector<Tensor<B, K>> split(const Tensor<B, K>& x, std::span<const std::int64_t> sizes,
                                int axis = 0) {
  const int at = value_or_throw(checked_axis("split", axis, x.rank()));
  std::vector<Tensor<B, K>> pieces;
  std::int64_t from = 0;
  for (std::int64_t size : sizes) {
    if (size < 0 || from + size > x.shape()[at])
      refuse("split: pieces of {} after {} elements, axis {} has extent {}",
             {size, from, at, x.shape()[at]});
    pieces.push_back(slice(x, at, from, from + size));
    from += size;
  }
  if (from != x.shape()[at])
    refuse("split: the sizes add up to {}, axis {} has extent {}", {from, at, x.shape()[at]});
  return pieces;
}
// N pieces of floats, whose gradients are put together once, not added up.
template <std::size_t N>
struct Split {
  static constexpr std::string_view name = "split";
  static constexpr bool computes = true;
  template <std::size_t... I>
  static Kinds<std::enable_if_t<(I < N), FloatKind>...> kinds(std::index_sequence<I...>);
  using Gives = decltype(kinds(std::make_index_sequence<N>{}));
  std::array<std::int64_t, N> sizes = {};
  int axis = 0;

  template <class B>
  auto compute(const Tensor<B>& x) const {
    const auto pieces = split(x, std::span<const std::int64_t>(sizes), axis);
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return std::tuple{pieces[I]...}; }
    (std::make_index_sequence<N>{});
  }
};
// The same, as many as are written: const auto [q, k, v] = split(x, {4, 4, 4}, 1).
template <std::size_t N, class B, class K>
std::array<Tensor<B, K>, N> split(const Tensor<B, K>& x, const std::int64_t (&&sizes)[N],
                                  int axis = 0) {
  const auto all = [](const auto&... piece) { return std::array<Tensor<B, K>, N>{piece...}; };
  if constexpr (std::same_as<K, FloatKind>)
    return std::apply(all, call(Split<N>{std::to_array(sizes), axis}, x));
  else
    return [&]<std::size_t... I>(const auto& pieces, std::index_sequence<I...>) {
      return all(pieces[I]...);
    }
  (split(x, std::span<const std::int64_t>(sizes), axis), std::make_index_sequence<N>{});
}
// before[d] and after[d] elements of a value around x, along each axis d.
template <class B, class K>
Tensor<B, K> pad(const Tensor<B, K>& x, const Extents& before, const Extents& after,
                 Scalar value = 0) {
  return call(Pad{before, after, value}, x);
}
// x counts[d] times along each axis d.
template <class B, class K>
Tensor<B, K> repeat(const Tensor<B, K>& x, const Extents& counts) {
  if (counts.rank() != x.rank())
    refuse("repeat: {} counts for a tensor of rank {}", {counts.rank(), x.rank()});
  Tensor<B, K> y = x;
  for (int d = 0; d < x.rank(); ++d) {
    if (counts[d] < 0) refuse("repeat: {} times along axis {}", {counts[d], d});
    if (counts[d] == 1) continue;
    if (counts[d] == 0) {
      y = slice(y, d, 0, 0);
    } else if (x.rank() == kMaxRank) {
      y = cat(std::vector(static_cast<std::size_t>(counts[d]), y), d);
    } else {
      const auto raised = unsqueeze(y, d);
      Shape wide = raised.shape(), shape = y.shape();
      wide[d] = counts[d];
      shape[d] *= counts[d];
      y = reshape(expand(raised, wide), shape);
    }
  }
  return y;
}

}  // namespace planck
