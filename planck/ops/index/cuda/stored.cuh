// Stored floats of any dtype that is computed in C, with the dtype as a value.
#pragma once

#include "planck/core/dtype.h"
#include "planck/loops/cuda/floats.cuh"

namespace planck::index_device {

// Elements of all dtypes that are computed in C: one kernel per dtype would only compile longer.
template <class C>
__device__ __forceinline__ C load(const void* from, Dtype t, std::int64_t at) {
  if (std::is_same_v<C, double> || t == Dtype::f32) return static_cast<const C*>(from)[at];
  const std::uint16_t half = static_cast<const std::uint16_t*>(from)[at];
  return t == Dtype::f16 ? widen(f16::from_bits(half)) : widen(bf16::from_bits(half));
}
template <class C>
__device__ __forceinline__ void store(void* to, Dtype t, std::int64_t at, C value) {
  const C v = canonical_nan(value);
  if (std::is_same_v<C, double> || t == Dtype::f32) {
    static_cast<C*>(to)[at] = v;
    return;
  }
  const auto narrow = static_cast<float>(v);
  static_cast<std::uint16_t*>(to)[at] = static_cast<std::uint16_t>(
      t == Dtype::f16 ? rounded_pair<f16>(narrow, 0.0f) : rounded_pair<bf16>(narrow, 0.0f));
}
// Bits as they are; zero where there is no x.
template <class C>
__device__ __forceinline__ void copy(const void* x, std::int64_t from, void* out, std::int64_t to,
                                     Dtype t) {
  using Bits = std::conditional_t<std::is_same_v<C, double>, std::uint64_t, std::uint32_t>;
  if (std::is_same_v<C, double> || t == Dtype::f32)
    static_cast<Bits*>(out)[to] = x == nullptr ? Bits{0} : static_cast<const Bits*>(x)[from];
  else
    static_cast<std::uint16_t*>(out)[to] =
        x == nullptr ? std::uint16_t{0} : static_cast<const std::uint16_t*>(x)[from];
}

}  // namespace planck::index_device
