// Values loaded and stored several at a time. None stands for an input that an op does not have.
#pragma once

#include "planck/loops/cuda/values.cuh"

namespace planck::elementwise_device {

struct None {};

template <class T>
__device__ __forceinline__ Value<T> load_one(const void* base, std::int64_t at) {
  return loaded(static_cast<const T*>(base)[at]);
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
  for (int e = 0; e < V; ++e) v[e] = value_at<T>(p, e);
}

template <class T, int V>
__device__ __forceinline__ void store_values(void* base, std::int64_t at, const Value<T> (&v)[V]) {
  store_pack<false>(static_cast<T*>(base) + at, 0, pack_values<T>(v));
}

}  // namespace planck::elementwise_device
