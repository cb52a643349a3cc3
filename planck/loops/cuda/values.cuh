// Stored elements of any type and the values kernels compute with, on the device: f32 for 16-bit
// floats, else the stored type.
#pragma once

#include "planck/loops/cuda/floats.cuh"

namespace planck {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T> || kIsHalf<T>;

template <class T>
using Value = std::conditional_t<kIsHalf<T>, float, T>;

template <class T>
__device__ __forceinline__ Value<T> loaded(T v) {
  if constexpr (kIsFloat<T>)
    return widen(v);
  else
    return v;
}
// NaN is the canonical one already.
template <class T>
__device__ __forceinline__ T stored(Value<T> v) {
  if constexpr (kIsHalf<T>)
    return T::from_bits(static_cast<std::uint16_t>(rounded_pair<T>(v, 0.0f)));
  else
    return v;
}

// Element e of a pack of floats or integers.
template <class T, int kBytes>
__device__ __forceinline__ Value<T> value_at(const Pack<kBytes>& p, int e) {
  if constexpr (kIsFloat<T>)
    return element_of<T>(p, e);
  else if constexpr (sizeof(T) == 8)
    return static_cast<T>(static_cast<std::uint64_t>(p.word[2 * e + 1]) << 32 | p.word[2 * e]);
  else if constexpr (sizeof(T) == 4)
    return static_cast<T>(p.word[e]);
  else
    return static_cast<T>(p.word[e * sizeof(T) / 4] >> (e * sizeof(T) % 4 * 8));
}
// A pack of values; NaN becomes the canonical one.
template <class T, int kCount>
__device__ __forceinline__ auto pack_values(const Value<T> (&v)[kCount]) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  if constexpr (kIsFloat<T>) {
    return packed<T, kBytes>(v);
  } else {
    Pack<kBytes> p = {};
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      if constexpr (sizeof(T) == 8) {
        p.word[2 * e] = static_cast<std::uint32_t>(v[e]);
        p.word[2 * e + 1] = static_cast<std::uint32_t>(static_cast<std::uint64_t>(v[e]) >> 32);
      } else if constexpr (sizeof(T) == 4) {
        p.word[e] = static_cast<std::uint32_t>(v[e]);
      } else {
        using U = std::make_unsigned_t<T>;
        p.word[e * sizeof(T) / 4] |= static_cast<std::uint32_t>(static_cast<U>(v[e]))
                                     << (e * sizeof(T) % 4 * 8);
      }
    }
    return p;
  }
}

}  // namespace planck
