// Indexing on tensors, with the arguments of torch. An index out of range is an error here, unless
// skipping is asked for: then it reads 0 and writes nothing. Functions whose result has as many
// elements as a mask has wait for the device.
#pragma once

#include "planck/ops/embedding/embedding.functions.h"
#include "planck/ops/index/index.ops.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck {

namespace index_detail {

template <class B, class Out>
auto without_bad(std::string_view op, const Tensor<B, IntKind>& index, std::int64_t extent,
                 const std::tuple<Out, Tensor<B, IntKind>>& all, BadIndices bad) {
  if (bad == BadIndices::refuse) refuse_bad({op, "index", extent}, index, std::get<1>(all));
  return std::get<0>(all);
}

}  // namespace index_detail

// out[.., k, ..] = x[.., index[.., k, ..], ..]
template <class B, class K>
Tensor<B, K> gather(const Tensor<B, K>& x, int axis, const Tensor<B, IntKind>& index,
                    BadIndices bad = BadIndices::refuse) {
  const int at = value_or_throw(checked_axis("gather", axis, x.rank()));
  return index_detail::without_bad("gather", index, x.extent(at), call(Gather<K>{{at}}, x, index),
                                   bad);
}
// out[.., k, ..] = x[.., index[k], ..]
template <class B, class K>
Tensor<B, K> index_select(const Tensor<B, K>& x, int axis, const Tensor<B, IntKind>& index,
                          BadIndices bad = BadIndices::refuse) {
  const int at = value_or_throw(checked_axis("index_select", axis, x.rank()));
  return index_detail::without_bad("index_select", index, x.extent(at),
                                   call(IndexSelect<K>{{at}}, x, index), bad);
}
// x, with source[.., k, ..] at [.., index[.., k, ..], ..]; the last one stays.
template <class B, class K>
Tensor<B, K> scatter(const Tensor<B, K>& x, int axis, const Tensor<B, IntKind>& index,
                     const Tensor<B, K>& source, BadIndices bad = BadIndices::refuse) {
  const int at = value_or_throw(checked_axis("scatter", axis, x.rank()));
  return index_detail::without_bad("scatter", index, x.extent(at),
                                   call(Scatter<K>{{at}}, x, index, source), bad);
}
// x + the sum of source[.., k, ..] over index[.., k, ..] = a, at a; ascending in k.
template <class B, class K>
Tensor<B, K> scatter_add(const Tensor<B, K>& x, int axis, const Tensor<B, IntKind>& index,
                         const Tensor<B, K>& source, BadIndices bad = BadIndices::refuse) {
  const int at = value_or_throw(checked_axis("scatter_add", axis, x.rank()));
  return index_detail::without_bad("scatter_add", index, x.extent(at),
                                   call(ScatterAdd<K>{{at}}, x, index, source), bad);
}
// x + the sum of source[.., k, ..] over index[k] = a, at a; ascending in k.
template <class B, class K>
Tensor<B, K> index_add(const Tensor<B, K>& x, int axis, const Tensor<B, IntKind>& index,
                       const Tensor<B, K>& source, BadIndices bad = BadIndices::refuse) {
  const int at = value_or_throw(checked_axis("index_add", axis, x.rank()));
  return index_detail::without_bad("index_add", index, x.extent(at),
                                   call(IndexAdd<K>{{at}}, x, index, source), bad);
}

// The elements where mask, as a vector.
template <class B, class K>
Tensor<B, K> mask_select(const Tensor<B, K>& x, const Tensor<B, BoolKind>& mask) {
  const auto [values, count] = call(MaskSelect<K>{}, x, mask);
  return slice(values, 0, 0, count.template item<std::int64_t>());
}
// x, with the next of values where mask. values: as many as x has elements, or fewer.
template <class B, class K>
Tensor<B, K> mask_scatter(const Tensor<B, K>& x, const Tensor<B, BoolKind>& mask,
                          const Tensor<B, K>& values) {
  const std::int64_t missing = x.numel() - values.numel();
  const auto list = reshape(values, {values.numel()});
  return call(MaskScatter<K>{}, x, mask,
              missing == 0 ? list : pad(list, Extents{0}, Extents{missing}));
}
// The row-major positions where mask.
template <class B>
Tensor<B, IntKind> nonzero(const Tensor<B, BoolKind>& mask) {
  const auto [positions, count] = call(Nonzero{}, mask);
  return slice(positions, 0, 0, count.template item<std::int64_t>());
}
// 1 where the class is the index, else 0: integers, or floats of a dtype.
template <class K = IntKind, class B>
Tensor<B, K> one_hot(const Tensor<B, IntKind>& index, std::int64_t classes,
                     Dtype dtype = std::same_as<K, FloatKind> ? Dtype::f32 : Dtype::i64,
                     BadIndices bad = BadIndices::refuse) {
  return index_detail::without_bad("one_hot", index, classes,
                                   call(OneHot<K>{classes, dtype}, index), bad);
}

}  // namespace planck
