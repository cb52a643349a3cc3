// Functions and operators on tensors that apply elementwise ops.
#pragma once

#include "planck/backend/call.h"
#include "planck/ops/elementwise/elementwise.ops.h"

namespace planck {

template <class S>
concept Number = std::is_arithmetic_v<S>;

// Integers stay exact beyond 2^53.
template <Number S>
constexpr Scalar scalar(S s) {
  if constexpr (std::is_floating_point_v<S>)
    return Scalar(static_cast<double>(s));
  else
    return Scalar(static_cast<std::int64_t>(s));
}

// As x in dtype and device; as x in shape too, unless another is given.
template <class B, class K>
Tensor<B, K> full_like(const Tensor<B, K>& x, Scalar value, const Shape& shape) {
  return create<B>(Full<K>(value, x.dtype(), shape), x.device());
}

// Functions of the table's names: neg(x), add(a, b). Tensors are taken as they come: the buffer of
// a temporary becomes the result's.
#define PLANCK_UNARY_OP(name, Op, ...)     \
  template <AnyTensor X>                   \
  CalledOn<Op, X> name(X&& x) {            \
    return call(Op{}, std::forward<X>(x)); \
  }
#define PLANCK_BINARY_OP(name, Op, ...)                        \
  template <class X, SameTensors<X> Y>                         \
  CalledOn<Op, X> name(X&& a, Y&& b) {                         \
    return call(Op{}, std::forward<X>(a), std::forward<Y>(b)); \
  }
#define PLANCK_COMPARE_OP PLANCK_BINARY_OP
#include "planck/ops/elementwise/elementwise.table.h"

#define PLANCK_OPERATOR(sign, Op)                              \
  template <class X, SameTensors<X> Y>                         \
  CalledOn<Op, X> sign(X&& a, Y&& b) {                         \
    return call(Op{}, std::forward<X>(a), std::forward<Y>(b)); \
  }
PLANCK_OPERATOR(operator+, Add)  // add
PLANCK_OPERATOR(operator-, Sub)  // sub
PLANCK_OPERATOR(operator*, Mul)  // mul
PLANCK_OPERATOR(operator/, Div)  // div
PLANCK_OPERATOR(operator<, Lt)   // lt
PLANCK_OPERATOR(operator<=, Le)  // le
PLANCK_OPERATOR(operator>, Gt)   // gt
PLANCK_OPERATOR(operator>=, Ge)  // ge
#undef PLANCK_OPERATOR

// −x
template <AnyTensor X>
CalledOn<Neg, X> operator-(X&& x) {
  return call(Neg{}, std::forward<X>(x));
}
// x + s, for a number s
template <AnyTensor X, Number S>
CalledOn<AddScalar, X> operator+(X&& x, S s) {
  return call(AddScalar{{}, scalar(s)}, std::forward<X>(x));
}
// s + x
template <Number S, AnyTensor X>
CalledOn<AddScalar, X> operator+(S s, X&& x) {
  return std::forward<X>(x) + s;
}
// x − s
template <AnyTensor X, Number S>
CalledOn<AddScalar, X> operator-(X&& x, S s) {
  return call(AddScalar{{}, scalar(-s)}, std::forward<X>(x));
}
// s − x
template <Number S, AnyTensor X>
CalledOn<AddScalar, X> operator-(S s, X&& x) {  // s − x = −x + s, exactly
  return -std::forward<X>(x) + s;
}
// x s
template <AnyTensor X, Number S>
CalledOn<MulScalar, X> operator*(X&& x, S s) {
  return call(MulScalar{{}, scalar(s)}, std::forward<X>(x));
}
// s x
template <Number S, AnyTensor X>
CalledOn<MulScalar, X> operator*(S s, X&& x) {
  return std::forward<X>(x) * s;
}
// A true division by s rounded to x's dtype, not a product with its reciprocal.
template <AnyTensor X, Number S>
CalledOn<Div, X> operator/(const X& x, S s) {
  return x / full_like(x, scalar(s), Shape{});
}
// s / x, for s rounded to x's dtype
template <Number S, AnyTensor X>
CalledOn<Div, X> operator/(S s, const X& x) {
  return full_like(x, scalar(s), Shape{}) / x;
}

// x to the power of a number.
template <AnyTensor X, Number S>
CalledOn<PowScalar, X> pow(X&& x, S exponent) {
  return call(PowScalar{{}, static_cast<double>(exponent)}, std::forward<X>(x));
}
// x where it is positive, slope x elsewhere.
template <AnyTensor X>
CalledOn<LeakyRelu, X> leaky_relu(X&& x, double slope = 0.01) {
  return call(LeakyRelu{{}, slope}, std::forward<X>(x));
}
// min(max(x, lowest), highest)
template <AnyTensor X>
CalledOn<Clamp, X> clamp(X&& x, Scalar lowest, Scalar highest) {
  return call(Clamp{{}, lowest, highest}, std::forward<X>(x));
}
// mask ? a : b
template <class B, class K>
Tensor<B, K> where(const Tensor<B, BoolKind>& mask, const Tensor<B, K>& a, const Tensor<B, K>& b) {
  return call(Where<K>{}, mask, a, b);
}
// x, but value where mask.
template <class B, class K>
Tensor<B, K> mask_fill(const Tensor<B, K>& x, const Tensor<B, BoolKind>& mask, Scalar value) {
  return call(MaskFill{{}, value}, x, mask);
}

// x as floats of a dtype, rounded once.
template <class B, class K>
Tensor<B> to_float(const Tensor<B, K>& x, Dtype dtype) {
  return call(Cast<FloatKind>{{}, dtype}, x);
}
// x as integers: floats are truncated, saturating; NaN becomes 0.
template <class B, class K>
Tensor<B, IntKind> to_int(const Tensor<B, K>& x, Dtype dtype = Dtype::i64) {
  return call(Cast<IntKind>{{}, dtype}, x);
}
// Whether x is not 0.
template <class B, class K>
Tensor<B, BoolKind> to_bool(const Tensor<B, K>& x) {
  return call(Cast<BoolKind>{{}, Dtype::boolean}, x);
}

// ---- creation ----

// A tensor filled with one value.
template <class B>
Tensor<B> full(const Shape& shape, double value, Dtype dtype = dtype_of<typename B::FloatElem>,
               const typename B::Device& device = B::default_device()) {
  return create<B>(Full<FloatKind>(value, dtype, shape), device);
}
// Filled with 0.
template <class B>
Tensor<B> zeros(const Shape& shape, Dtype dtype = dtype_of<typename B::FloatElem>,
                const typename B::Device& device = B::default_device()) {
  return full<B>(shape, 0, dtype, device);
}
// Filled with 1.
template <class B>
Tensor<B> ones(const Shape& shape, Dtype dtype = dtype_of<typename B::FloatElem>,
               const typename B::Device& device = B::default_device()) {
  return full<B>(shape, 1, dtype, device);
}
// As x, filled with value.
template <class B, class K>
Tensor<B, K> full_like(const Tensor<B, K>& x, Scalar value) {
  return full_like(x, value, x.shape());
}
// As x, filled with 0.
template <class B, class K>
Tensor<B, K> zeros_like(const Tensor<B, K>& x) {
  return full_like(x, 0);
}
// As x, filled with 1.
template <class B, class K>
Tensor<B, K> ones_like(const Tensor<B, K>& x) {
  return full_like(x, 1);
}
// Random values of a shape, a function of the generator's seed and how much was drawn from it
// before; drawing moves it on.
struct Rng {
  std::uint64_t seed = 0, offset = 0;
  std::uint64_t take(std::int64_t count) {
    const std::uint64_t first = offset;
    offset += static_cast<std::uint64_t>(count);
    return first;
  }
};
// Uniform in [low, high).
template <class B>
Tensor<B> uniform(Rng& rng, const Shape& shape, double low = 0, double high = 1,
                  Dtype dtype = dtype_of<typename B::FloatElem>,
                  const typename B::Device& device = B::default_device()) {
  return create<B>(RandomUniform{{}, low, high, dtype, shape, rng.seed, rng.take(numel(shape))},
                   device);
}
// Normal, of this mean and deviation.
template <class B>
Tensor<B> normal(Rng& rng, const Shape& shape, double mean = 0, double deviation = 1,
                 Dtype dtype = dtype_of<typename B::FloatElem>,
                 const typename B::Device& device = B::default_device()) {
  return create<B>(
      RandomNormal{{}, mean, deviation, dtype, shape, rng.seed, rng.take(numel(shape))}, device);
}
// 1 with the given probability, else 0.
template <class B>
Tensor<B> bernoulli(Rng& rng, const Shape& shape, double probability,
                    Dtype dtype = dtype_of<typename B::FloatElem>,
                    const typename B::Device& device = B::default_device()) {
  return create<B>(
      RandomBernoulli{{}, probability, 0, dtype, shape, rng.seed, rng.take(numel(shape))}, device);
}
// 0, 1, …, count − 1
template <class B>
Tensor<B, IntKind> arange(std::int64_t count, Dtype dtype = Dtype::i64,
                          const typename B::Device& device = B::default_device()) {
  return create<B>(Arange<IntKind>{{}, 0, 1, dtype, count}, device);
}

}  // namespace planck
