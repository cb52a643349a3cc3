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

template <class B, class K>
Tensor<B, K> full_like(const Tensor<B, K>& x, Scalar value, const Shape& shape);

// Tensors are taken as they come: the buffer of a temporary becomes the result's.
#define PLANCK_UNARY(function, Op)         \
  template <AnyTensor X>                   \
  CalledOn<Op, X> function(X&& x) {        \
    return call(Op{}, std::forward<X>(x)); \
  }
PLANCK_UNARY(neg, Neg)
PLANCK_UNARY(abs, Abs)
PLANCK_UNARY(sign, Sign)
PLANCK_UNARY(square, Square)
PLANCK_UNARY(sqrt, Sqrt)
PLANCK_UNARY(rsqrt, Rsqrt)
PLANCK_UNARY(reciprocal, Reciprocal)
PLANCK_UNARY(exp, Exp)
PLANCK_UNARY(expm1, Expm1)
PLANCK_UNARY(log, Log)
PLANCK_UNARY(log1p, Log1p)
PLANCK_UNARY(sin, Sin)
PLANCK_UNARY(cos, Cos)
PLANCK_UNARY(tanh, Tanh)
PLANCK_UNARY(sigmoid, Sigmoid)
PLANCK_UNARY(relu, Relu)
PLANCK_UNARY(gelu, Gelu)
PLANCK_UNARY(silu, Silu)
PLANCK_UNARY(softplus, Softplus)
PLANCK_UNARY(erf, Erf)
PLANCK_UNARY(floor, Floor)
PLANCK_UNARY(ceil, Ceil)
PLANCK_UNARY(round, Round)
PLANCK_UNARY(trunc, Trunc)
PLANCK_UNARY(logical_not, LogicalNot)
#undef PLANCK_UNARY

#define PLANCK_BINARY(function, Op)                            \
  template <class X, SameTensors<X> Y>                         \
  CalledOn<Op, X> function(X&& x, Y&& y) {                     \
    return call(Op{}, std::forward<X>(x), std::forward<Y>(y)); \
  }
PLANCK_BINARY(add, Add)
PLANCK_BINARY(sub, Sub)
PLANCK_BINARY(mul, Mul)
PLANCK_BINARY(div, Div)
PLANCK_BINARY(maximum, Maximum)
PLANCK_BINARY(minimum, Minimum)
PLANCK_BINARY(pow, Pow)
PLANCK_BINARY(atan2, Atan2)
PLANCK_BINARY(eq, Eq)
PLANCK_BINARY(ne, Ne)
PLANCK_BINARY(lt, Lt)
PLANCK_BINARY(le, Le)
PLANCK_BINARY(gt, Gt)
PLANCK_BINARY(ge, Ge)
PLANCK_BINARY(logical_and, LogicalAnd)
PLANCK_BINARY(logical_or, LogicalOr)
PLANCK_BINARY(logical_xor, LogicalXor)
PLANCK_BINARY(operator+, Add)
PLANCK_BINARY(operator-, Sub)
PLANCK_BINARY(operator*, Mul)
PLANCK_BINARY(operator/, Div)
PLANCK_BINARY(operator<, Lt)
PLANCK_BINARY(operator<=, Le)
PLANCK_BINARY(operator>, Gt)
PLANCK_BINARY(operator>=, Ge)
#undef PLANCK_BINARY

template <AnyTensor X>
CalledOn<Neg, X> operator-(X&& x) {
  return call(Neg{}, std::forward<X>(x));
}
template <AnyTensor X, Number S>
CalledOn<AddScalar, X> operator+(X&& x, S s) {
  return call(AddScalar{{}, scalar(s)}, std::forward<X>(x));
}
template <Number S, AnyTensor X>
CalledOn<AddScalar, X> operator+(S s, X&& x) {
  return std::forward<X>(x) + s;
}
template <AnyTensor X, Number S>
CalledOn<AddScalar, X> operator-(X&& x, S s) {
  return call(AddScalar{{}, scalar(-s)}, std::forward<X>(x));
}
template <Number S, AnyTensor X>
CalledOn<AddScalar, X> operator-(S s, X&& x) {  // s − x = −x + s, exactly
  return -std::forward<X>(x) + s;
}
template <AnyTensor X, Number S>
CalledOn<MulScalar, X> operator*(X&& x, S s) {
  return call(MulScalar{{}, scalar(s)}, std::forward<X>(x));
}
template <Number S, AnyTensor X>
CalledOn<MulScalar, X> operator*(S s, X&& x) {
  return std::forward<X>(x) * s;
}
// A true division by s rounded to x's dtype, not a product with its reciprocal.
template <AnyTensor X, Number S>
CalledOn<Div, X> operator/(const X& x, S s) {
  return x / full_like(x, scalar(s), Shape{});
}
template <Number S, AnyTensor X>
CalledOn<Div, X> operator/(S s, const X& x) {
  return full_like(x, scalar(s), Shape{}) / x;
}

template <AnyTensor X, Number S>
CalledOn<PowScalar, X> pow(X&& x, S exponent) {
  return call(PowScalar{{}, static_cast<double>(exponent)}, std::forward<X>(x));
}
template <AnyTensor X>
CalledOn<LeakyRelu, X> leaky_relu(X&& x, double slope = 0.01) {
  return call(LeakyRelu{{}, slope}, std::forward<X>(x));
}
template <AnyTensor X>
CalledOn<Clamp, X> clamp(X&& x, Scalar lowest, Scalar highest) {
  return call(Clamp{{}, lowest, highest}, std::forward<X>(x));
}
template <class B, class K>
Tensor<B, K> where(const Tensor<B, BoolKind>& mask, const Tensor<B, K>& a, const Tensor<B, K>& b) {
  return call(Where<K>{}, mask, a, b);
}
template <class B, class K>
Tensor<B, K> mask_fill(const Tensor<B, K>& x, const Tensor<B, BoolKind>& mask, Scalar value) {
  return call(MaskFill{{}, value}, x, mask);
}

template <class B, class K>
Tensor<B> to_float(const Tensor<B, K>& x, Dtype dtype) {
  return call(Cast<FloatKind>{{}, dtype}, x);
}
template <class B, class K>
Tensor<B, IntKind> to_int(const Tensor<B, K>& x, Dtype dtype = Dtype::i64) {
  return call(Cast<IntKind>{{}, dtype}, x);
}
template <class B, class K>
Tensor<B, BoolKind> to_bool(const Tensor<B, K>& x) {
  return call(Cast<BoolKind>{{}, Dtype::boolean}, x);
}

// ---- creation ----
template <class B>
Tensor<B> full(const Shape& shape, double value, Dtype dtype = dtype_of<typename B::FloatElem>,
               const typename B::Device& device = B::default_device()) {
  return create<B>(Full<FloatKind>(value, dtype, shape), device);
}
template <class B>
Tensor<B> zeros(const Shape& shape, Dtype dtype = dtype_of<typename B::FloatElem>,
                const typename B::Device& device = B::default_device()) {
  return full<B>(shape, 0, dtype, device);
}
template <class B>
Tensor<B> ones(const Shape& shape, Dtype dtype = dtype_of<typename B::FloatElem>,
               const typename B::Device& device = B::default_device()) {
  return full<B>(shape, 1, dtype, device);
}
// As x in dtype and device; as x in shape too, unless another is given.
template <class B, class K>
Tensor<B, K> full_like(const Tensor<B, K>& x, Scalar value, const Shape& shape) {
  return create<B>(Full<K>(value, x.dtype(), shape), x.device());
}
template <class B, class K>
Tensor<B, K> full_like(const Tensor<B, K>& x, Scalar value) {
  return full_like(x, value, x.shape());
}
template <class B, class K>
Tensor<B, K> zeros_like(const Tensor<B, K>& x) {
  return full_like(x, 0);
}
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
template <class B>
Tensor<B> uniform(Rng& rng, const Shape& shape, double low = 0, double high = 1,
                  Dtype dtype = dtype_of<typename B::FloatElem>,
                  const typename B::Device& device = B::default_device()) {
  return create<B>(RandomUniform{{}, low, high, dtype, shape, rng.seed, rng.take(numel(shape))},
                   device);
}
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
