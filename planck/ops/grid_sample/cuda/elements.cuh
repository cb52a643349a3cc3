// Between stored and computed values on the device. The hardware rounds 16-bit floats as
// planck::f16 and bf16 do; a NaN result is stored as the canonical one.
#pragma once

#include "planck/loops/cuda/floats.cuh"
#include "planck/ops/grid_sample/grid_sample.math.h"

namespace planck::sample_device {

namespace gm = grid_sample_math;
using planck::Compute;
using planck::widen;

template <class T>
__device__ __forceinline__ T narrow(Compute<T> v) {
  if constexpr (std::is_same_v<T, f16>) {
    return f16::from_bits(v == v ? __half_as_ushort(__float2half_rn(v))
                                 : static_cast<std::uint16_t>(0x7e00));
  } else if constexpr (std::is_same_v<T, bf16>) {
    return bf16::from_bits(v == v ? __bfloat16_as_ushort(__float2bfloat16_rn(v))
                                  : static_cast<std::uint16_t>(0x7fc0));
  } else {
    return gm::canonical(v);
  }
}

// Read-only memory, through the first-level cache.
template <class T>
__device__ __forceinline__ Compute<T> load(const T* p) {
  if constexpr (sizeof(T) == 2)
    return widen(T::from_bits(__ldg(reinterpret_cast<const std::uint16_t*>(p))));
  else
    return __ldg(p);
}

// kBytes that are moved at once.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T v[kCount];
};

}  // namespace planck::sample_device
