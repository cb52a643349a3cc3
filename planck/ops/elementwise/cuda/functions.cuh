// The ops of the family as function objects for map.cuh.
#pragma once

#include "planck/ops/elementwise/cuda/map.cuh"
#include "planck/ops/elementwise/cuda/pow.cuh"
#include "planck/ops/elementwise/elementwise.math.h"

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

// Compiled for one element type at a time (unary.cuh, binary.cuh), in parallel: it takes long.
template <class T>
planck::Result<void> launch_float_unary(const Stream&, const ElementwiseProblem&, const Call&);
template <class T>
planck::Result<void> launch_float_binary(const Stream&, const ElementwiseProblem&, const Call&);

planck::Result<void> launch_integers(const Stream&, const ElementwiseProblem&, const Call&);
planck::Result<void> launch_bits(const Stream&, const ElementwiseProblem&, const Call&);
planck::Result<void> launch_cast(const Stream&, const ElementwiseProblem&, const Call&);
planck::Result<void> launch_sequence(const Stream&, const ElementwiseProblem&, const View& y);

}  // namespace planck::elementwise_device
