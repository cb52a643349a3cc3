// Rotary positions (Su et al., 2021): pairs of columns are turned by angles that grow with the
// place, so that the product of a query and a key knows how far apart they are, not where.
//
//   angle(place, i) = place * base^(−2 i / columns)        in f64, every operation rounded
//   (a, b) → (a cos − b sin, b cos + a sin)                cos and sin rounded to the compute type
//
// A place has the same bits alone and in a sequence. 16-bit floats are widened and rounded once.
#pragma once

#include <limits>

#include "planck/nn/parameter.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck::nn {

// Which two columns are a pair: i and i + columns / 2, as in Llama and GPT-NeoX, or neighbours,
// 2 i and 2 i + 1, as in the paper and GPT-J.
enum class RopePairs : std::uint8_t { halves, neighbours };

struct RopeOptions {
  double base = 10000;
  std::int64_t columns = 0;  // that are turned, from the first on; 0: all
  RopePairs pairs = RopePairs::halves;

  bool operator==(const RopeOptions&) const = default;
};

namespace rope_detail {

// How many of `width` columns are turned.
inline std::int64_t columns_of(const RopeOptions& options, std::int64_t width) {
  const std::int64_t columns = options.columns == 0 ? width : options.columns;
  if (columns < 2 || columns % 2 != 0 || columns > width)
    refuse("rope: {} of {} columns are to be turned; it takes an even number, 2 at least",
           {columns, width});
  if (!(options.base > 0 && options.base < std::numeric_limits<double>::infinity()))
    refuse("rope: base is {}, must be positive and finite", {options.base});
  return columns;
}

// cos and sin of every place and pair: [L, columns / 2].
template <class B>
struct Turns {
  Tensor<B> cos, sin;
};
template <class B>
Turns<B> turns(const RopeOptions& options, std::int64_t columns, std::int64_t first,
               std::int64_t length, Dtype dtype, const typename B::Device& device) {
  if (first < 0) refuse("rope: the first place is {}, must be at least 0", {first});
  const auto numbers = [&](std::int64_t from, std::int64_t count) {
    return to_float(arange<B>(count, Dtype::i64, device) + from, Dtype::f64);
  };
  const auto power = numbers(0, columns / 2) * -2 / static_cast<double>(columns);
  const auto frequency = pow(full_like(power, options.base), power);
  const auto angle = reshape(numbers(first, length), {length, 1}) * frequency;
  return {cos(angle).to(compute_dtype(dtype)), sin(angle).to(compute_dtype(dtype))};
}

template <class B>
Tensor<B> turned(const Tensor<B>& x, const Turns<B>& by, RopePairs pairs) {
  const int last = x.rank() - 1;
  const std::int64_t width = x.extent(last), half = by.cos.extent(1);
  const auto wide = widened(x);
  const auto of = [&](std::int64_t from, std::int64_t to) { return slice(wide, last, from, to); };
  const auto turn = [&](const Tensor<B>& a, const Tensor<B>& b) {
    return std::vector{a * by.cos - b * by.sin, b * by.cos + a * by.sin};
  };
  Tensor<B> y = [&] {
    if (pairs == RopePairs::halves) return cat(turn(of(0, half), of(half, 2 * half)), last);
    Shape two = x.shape();
    two[last] = half;
    two.push_back(2);
    const auto each = reshape(of(0, 2 * half), two);
    two = x.shape();
    two[last] = 2 * half;
    return reshape(stack(turn(select(each, -1, 0), select(each, -1, 1)), last + 1), two);
  }();
  if (2 * half < width) y = cat(std::vector{y, of(2 * half, width)}, last);
  return as_dtype(y, x.dtype());
}

}  // namespace rope_detail

// x [..., L, d], the rows of places first, first + 1, …, turned.
template <class B>
Tensor<B> rope(const Tensor<B>& x, const RopeOptions& options = {}, std::int64_t first = 0) {
  if (x.rank() < 2) refuse("rope: x has shape {}, it needs rank 2 or more", {x.shape()});
  const std::int64_t columns = rope_detail::columns_of(options, x.extent(-1));
  const auto by =
      rope_detail::turns<B>(options, columns, first, x.extent(-2), x.dtype(), x.device());
  return rope_detail::turned(x, by, options.pairs);
}

}  // namespace planck::nn
