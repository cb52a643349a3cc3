// The ops of the family as function objects for map.cuh.
#pragma once

#include "planck/ops/elementwise/elementwise.math.h"
#include "planck/ops/elementwise/map.cuh"

namespace planck::elementwise_device {

namespace em = elementwise_math;

template <class F, class T>
struct Unary {
  using A = T;
  using B = None;
  using C = None;
  using Out = T;
  em::Scalars<Value<T>> s;
  __device__ __forceinline__ Value<T> operator()(Value<T> x, None, None) const {
    return em::unary_of<F, T>(x, s);
  }
};

template <class F, class T>
struct Binary {
  using A = T;
  using B = T;
  using C = None;
  using Result = decltype(F::of(Value<T>{}, Value<T>{}));
  using Out = std::conditional_t<std::is_same_v<Result, Value<T>>, T, Result>;
  __device__ __forceinline__ Result operator()(Value<T> a, Value<T> b, None) const {
    return em::binary_of<F, T>(a, b);
  }
};

// pow of f32, f16 and bf16, a pack at once: usual arguments have no special cases, and whether all
// are usual, or one is negative, is asked once a pack. 2^26 elements on an H200, share of a copy:
// f32 0.65 → 0.83, bf16 0.68 → 0.78, f16 0.75 → 0.82; of positive numbers 0.89, 0.90 and 0.94. By
// powers of two and a table (math/log2.h) in place of e and a division f32 is at 0.98 and 0.99; with
// a table for the logarithm of bf16 (math/log2_of_bf16.h) and one comparison for zeros, subnormal,
// infinite and NaN bases, bf16 is at 0.86 and 0.95.
template <class T>
__device__ __noinline__ float unusual_power(float a, float b) {
  return em::binary_of<em::Pow, T>(a, b);
}
template <class T>
requires(sizeof(T) < 8) struct Binary<em::Pow, T> {
  using A = T;
  using B = T;
  using C = None;
  using Out = T;
  static constexpr bool kHasPack = true;
  __device__ __forceinline__ float operator()(float a, float b, None) const {
    return em::binary_of<em::Pow, T>(a, b);
  }
  template <int V>
  __device__ __forceinline__ void pack(const float (&a)[V], const float (&b)[V],
                                       float (&y)[V]) const {
    using namespace math::usual;
    std::uint32_t base = 0, signs = 0;
    float most = 0;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      Power p;
      if constexpr (std::is_same_v<T, float>)
        p = math::usual::power_of(a[e], b[e]);
      else
        p = math::narrow::usual::power_of<T>(a[e], b[e]);
      base = max(base, base_of(a[e]));
      most = math::at_least(math::abs_of(p.exponent), most);  // NaN where b is
      signs |= math::bits_of(a[e]);
      y[e] = p.size;
    }
    bool unusual = base > kBase || !(most <= kNear);
    if (signs >> 31 != 0) {
      float sum = 0;
#pragma unroll
      for (int e = 0; e < V; ++e) {
        sum += math::abs_of(b[e]);
        y[e] = with_sign_of_power(y[e], a[e], b[e]);
      }
      unusual |= sum > kEven;
    }
    if (unusual) {
#pragma unroll
      for (int e = 0; e < V; ++e) y[e] = unusual_power<T>(a[e], b[e]);
    }
  }
};

// Launches the op of a list that the problem names.
template <class T, class... F>
planck::Result<void> launch_unary(const Stream& stream, const ElementwiseProblem& p,
                                  const Call& call, em::Ops<F...>) {
  planck::Result<void> done;
  (void)((p.op == F::kOp
              ? (done = launch_map(stream, call, Unary<F, T>{em::scalars_of<Value<T>>(p)}), true)
              : false) ||
         ...);
  return done;
}
template <class T, class... F>
planck::Result<void> launch_binary(const Stream& stream, const ElementwiseProblem& p,
                                   const Call& call, em::Ops<F...>) {
  planck::Result<void> done;
  (void)((p.op == F::kOp ? (done = launch_map(stream, call, Binary<F, T>{}), true) : false) || ...);
  return done;
}
template <class T, class UnaryOps, class BinaryOps>
planck::Result<void> launch_typed(const Stream& stream, const ElementwiseProblem& p,
                                  const Call& call) {
  if (call.inputs == 1) return launch_unary<T>(stream, p, call, UnaryOps{});
  return launch_binary<T>(stream, p, call, BinaryOps{});
}

// One file for each type.
template <class T>
planck::Result<void> launch_float_unary(const Stream&, const ElementwiseProblem&, const Call&);
template <class T>
planck::Result<void> launch_float_binary(const Stream&, const ElementwiseProblem&, const Call&);

template <>
planck::Result<void> launch_float_unary<float>(const Stream&, const ElementwiseProblem&,
                                               const Call&);
template <>
planck::Result<void> launch_float_binary<float>(const Stream&, const ElementwiseProblem&,
                                                const Call&);
template <>
planck::Result<void> launch_float_unary<double>(const Stream&, const ElementwiseProblem&,
                                                const Call&);
template <>
planck::Result<void> launch_float_binary<double>(const Stream&, const ElementwiseProblem&,
                                                 const Call&);
template <>
planck::Result<void> launch_float_unary<f16>(const Stream&, const ElementwiseProblem&, const Call&);
template <>
planck::Result<void> launch_float_binary<f16>(const Stream&, const ElementwiseProblem&,
                                              const Call&);
template <>
planck::Result<void> launch_float_unary<bf16>(const Stream&, const ElementwiseProblem&,
                                              const Call&);
template <>
planck::Result<void> launch_float_binary<bf16>(const Stream&, const ElementwiseProblem&,
                                               const Call&);

planck::Result<void> launch_integers(const Stream&, const ElementwiseProblem&, const Call&);
planck::Result<void> launch_bits(const Stream&, const ElementwiseProblem&, const Call&);
planck::Result<void> launch_cast(const Stream&, const ElementwiseProblem&, const Call&);
planck::Result<void> launch_sequence(const Stream&, const ElementwiseProblem&, const View& y);

}  // namespace planck::elementwise_device
