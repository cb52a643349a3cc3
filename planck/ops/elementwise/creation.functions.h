// Tensors made of numbers alone: ranges, the identity, triangles, random integers. full, zeros,
// uniform and the like are in elementwise.functions.h.
#pragma once

#include "planck/ops/elementwise/elementwise.functions.h"
#include "planck/ops/elementwise/sequences.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck {

// One of two numbers is a float.
template <class T, class S>
concept FloatBeside = Number<T> &&(std::floating_point<S> || std::floating_point<T>);

// start, start + step, … before stop (after it, where step is negative)
template <class B, std::integral S, std::integral T>
Tensor<B, IntKind> arange(S start, T stop, std::int64_t step = 1, Dtype dtype = Dtype::i64,
                          const typename B::Device& device = B::default_device()) {
  const auto first = static_cast<std::int64_t>(start);
  const std::int64_t count = arange_count(first, static_cast<std::int64_t>(stop), step, dtype);
  return create<B>(Arange<IntKind>{{}, first, step, dtype, count}, device);
}
// The same of floats, each start + i step in f64, rounded once.
template <class B, Number S, FloatBeside<S> T>
Tensor<B> arange(S start, T stop, double step = 1, Dtype dtype = dtype_of<typename B::FloatElem>,
                 const typename B::Device& device = B::default_device()) {
  tensor_detail::check_kind("arange", FloatKind::name, dtype);
  const auto first = static_cast<double>(start);
  const std::int64_t count = arange_count(first, static_cast<double>(stop), step);
  return create<B>(Arange<FloatKind>{{}, first, step, dtype, count}, device);
}
// count numbers at equal distances from start to stop, both of them met exactly; the second half is
// counted from stop.
template <class B>
Tensor<B> linspace(double start, double stop, std::int64_t count,
                   Dtype dtype = dtype_of<typename B::FloatElem>,
                   const typename B::Device& device = B::default_device()) {
  tensor_detail::check_kind("linspace", FloatKind::name, dtype);
  const double step = linspace_step(start, stop, count);
  const std::int64_t ahead = (count + 1) / 2;
  const auto first = create<B>(Arange<FloatKind>{{}, start, step, dtype, ahead}, device);
  if (count < 2) return first;
  const auto last = create<B>(Arange<FloatKind>{{}, stop, -step, dtype, count - ahead}, device);
  return cat(std::vector{first, flip(last, {0})});
}

namespace creation_detail {

// [rows, columns], true where column − row <= diagonal.
template <class B>
Tensor<B, BoolKind> lower(std::int64_t rows, std::int64_t columns, std::int64_t diagonal,
                          const typename B::Device& device) {
  const auto row = reshape(arange<B>(rows, Dtype::i64, device), {rows, 1});
  return le(arange<B>(columns, Dtype::i64, device), row + diagonal);
}
template <class B, class K>
Tensor<B, K> kept(std::string_view function, const Tensor<B, K>& x, std::int64_t diagonal,
                  bool below) {
  if (x.rank() < 2) refuse("{}: shape {} has fewer than two axes", {function, Shape(x.shape())});
  const auto mask =
      lower<B>(x.extent(-2), x.extent(-1), below ? diagonal : diagonal - 1, x.device());
  if constexpr (std::same_as<K, BoolKind>)
    return logical_and(x, below ? mask : logical_not(mask));
  else
    return mask_fill(x, below ? logical_not(mask) : mask, 0);
}

}  // namespace creation_detail

// The lower triangle of the last two axes, 0 above the diagonal; diagonal = 1: one more above.
template <class B, class K>
Tensor<B, K> tril(const Tensor<B, K>& x, std::int64_t diagonal = 0) {
  return creation_detail::kept("tril", x, diagonal, true);
}
// The upper triangle of the last two axes, 0 below the diagonal; diagonal = 1: without it.
template <class B, class K>
Tensor<B, K> triu(const Tensor<B, K>& x, std::int64_t diagonal = 0) {
  return creation_detail::kept("triu", x, diagonal, false);
}
// [rows, columns], 1 on the diagonal, else 0; as many columns as rows unless given.
template <class B, class K = FloatKind>
Tensor<B, K> eye(std::int64_t rows, std::int64_t columns = -1, Dtype dtype = default_dtype<B, K>,
                 const typename B::Device& device = B::default_device()) {
  tensor_detail::check_kind("eye", K::name, dtype);
  if (columns < 0) columns = rows;
  const auto row = reshape(arange<B>(rows, Dtype::i64, device), {rows, 1});
  const auto diagonal = eq(arange<B>(columns, Dtype::i64, device), row);
  if constexpr (std::same_as<K, BoolKind>)
    return diagonal;
  else
    return call(Cast<K>{{}, dtype}, diagonal);
}

// Integers of [low, high), all equally likely: low + ⌊u (high − low)⌋, u of 53 bits.
template <class B>
Tensor<B, IntKind> randint(Rng& rng, std::int64_t low, std::int64_t high, const Shape& shape,
                           Dtype dtype = Dtype::i64,
                           const typename B::Device& device = B::default_device()) {
  const double range = randint_range(low, high, dtype);
  const auto u = uniform<B>(rng, shape, 0, 1, Dtype::f64, device);
  return (to_int(u * range) + low).to(dtype);
}

}  // namespace planck
