// Functions on tensors that apply elementwise ops; operators.functions.h has the operators.
#pragma once

#include "planck/core/rng.h"
#include "planck/ops/elementwise/operators.functions.h"

namespace planck {

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

// Whether x is not 0.
template <class B, class K>
Tensor<B, BoolKind> to_bool(const Tensor<B, K>& x) {
  return call(Cast<BoolKind>{{}, Dtype::boolean}, x);
}
// x as elements of type T: cast<double>(x), cast<std::int32_t>(x), cast<bool>(x). Rounded or
// truncated as by to_float and to_int.
template <class T, class B, class K>
Tensor<B, KindOfElement<T>> cast(const Tensor<B, K>& x) {
  return call(Cast<KindOfElement<T>>{{}, dtype_of<T>}, x);
}
template <class B, class K>
Tensor<B, K> Tensor<B, K>::to(Dtype dtype) const {
  tensor_detail::check_kind("to", K::name, dtype);
  if (dtype == this->dtype()) return *this;
  return call(Cast<K>{{}, dtype}, *this);
}
template <class B, class K>
Tensor<B, K> Tensor<B, K>::to(Dtype dtype, const Device& device) const {
  return to(dtype).to(device);
}

// ---- creation ----

// A tensor filled with one value: full<Cpu>({2, 3}, 0.5), full<Cpu, IntKind>({2}, -1).
template <class B, class K = FloatKind>
Tensor<B, K> full(const Shape& shape, Scalar value, Dtype dtype = default_dtype<B, K>,
                  const typename B::Device& device = B::default_device()) {
  tensor_detail::check_kind("full", K::name, dtype);
  return create<B>(Full<K>(value, dtype, shape), device);
}
// Filled with 0.
template <class B, class K = FloatKind>
Tensor<B, K> zeros(const Shape& shape, Dtype dtype = default_dtype<B, K>,
                   const typename B::Device& device = B::default_device()) {
  return full<B, K>(shape, 0, dtype, device);
}
// Filled with 1.
template <class B, class K = FloatKind>
Tensor<B, K> ones(const Shape& shape, Dtype dtype = default_dtype<B, K>,
                  const typename B::Device& device = B::default_device()) {
  return full<B, K>(shape, 1, dtype, device);
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
// before; drawing moves it on (core/rng.h).

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
