// Packs of stored values of any type and the values that kernels compute with. None stands for an
// input that an op does not have.
#pragma once

#include "planck/loops/floats.cuh"

namespace planck::elementwise_device {

struct None {};

// What a kernel computes with: f32 for 16-bit floats, else the stored type.
template <class T>
struct ValueOf {
  using type = T;
};
template <>
struct ValueOf<f16> {
  using type = float;
};
template <>
struct ValueOf<bf16> {
  using type = float;
};
template <class T>
using Value = typename ValueOf<T>::type;
template <class T>
inline constexpr bool kIsFloat = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                 std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

template <class T>
__device__ __forceinline__ Value<T> load_one(const void* base, std::int64_t at) {
  if constexpr (kIsFloat<T>)
    return widen(static_cast<const T*>(base)[at]);
  else
    return static_cast<const T*>(base)[at];
}

// Element e of a pack of stored integers or bits.
template <class T, int kBytes>
__device__ __forceinline__ T bits_at(const Pack<kBytes>& p, int e) {
  if constexpr (sizeof(T) == 8)
    return static_cast<T>(static_cast<std::uint64_t>(p.word[2 * e + 1]) << 32 | p.word[2 * e]);
  else if constexpr (sizeof(T) == 4)
    return static_cast<T>(p.word[e]);
  else
    return static_cast<T>(p.word[e * sizeof(T) / 4] >> (e * sizeof(T) % 4 * 8));
}

template <class T, int V>
__device__ __forceinline__ void load_values(const void* base, std::int64_t at, bool constant,
                                            Value<T> (&v)[V]) {
  constexpr int kBytes = V * static_cast<int>(sizeof(T));
  if (constant) {
    const Value<T> one = load_one<T>(base, at);
#pragma unroll
    for (int e = 0; e < V; ++e) v[e] = one;
    return;
  }
  const auto p = load_pack<kBytes, false>(static_cast<const T*>(base) + at, 0);
#pragma unroll
  for (int e = 0; e < V; ++e) {
    if constexpr (kIsFloat<T>)
      v[e] = element_of<T, kBytes>(p, e);
    else
      v[e] = bits_at<T, kBytes>(p, e);
  }
}

template <class T, int V>
__device__ __forceinline__ void store_values(void* base, std::int64_t at, const Value<T> (&v)[V]) {
  constexpr int kBytes = V * static_cast<int>(sizeof(T));
  T* to = static_cast<T*>(base) + at;
  if constexpr (kIsFloat<T>) {
    store_pack<false>(to, 0, packed<T, kBytes>(v));
  } else {
    Pack<kBytes> p = {};
#pragma unroll
    for (int e = 0; e < V; ++e) {
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
    store_pack<false>(to, 0, p);
  }
}

}  // namespace planck::elementwise_device
