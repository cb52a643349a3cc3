// Packs: the bytes one thread moves at once, in 16-byte accesses where there are that many.
//
// A pack of less than 4 bytes lies in the low bits of its only word.
#pragma once

#include <cstdint>

namespace planck {

template <int kBytes>
struct Pack {
  static_assert((kBytes & (kBytes - 1)) == 0, "a power of two");
  static constexpr int kWords = kBytes < 4 ? 1 : kBytes / 4;
  static constexpr int kAlignment = kBytes < 16 ? kBytes : 16;
  std::uint32_t word[kWords];
};

// kStreaming: marked as used once, so that it leaves the caches first.
template <bool kStreaming, class V>
__device__ __forceinline__ V load_vector(const V* p) {
  return kStreaming ? __ldcs(p) : *p;
}
template <bool kStreaming, class V>
__device__ __forceinline__ void store_vector(V* p, V v) {
  if constexpr (kStreaming)
    __stcs(p, v);
  else
    *p = v;
}

// Loads that stay where they are written: the compiler moves ordinary ones behind the branches that
// use them, so that one latency follows another.
__device__ __forceinline__ float load_early(const float* p) {
  float v;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ double load_early(const double* p) {
  double v;
  asm volatile("ld.global.f64 %0, [%1];" : "=d"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ std::int32_t load_early(const std::int32_t* p) {
  std::int32_t v;
  asm volatile("ld.global.s32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
__device__ __forceinline__ std::uint16_t load_early(const std::uint16_t* p) {
  std::uint16_t v;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(p));
  return v;
}

// The index-th pack from base.
template <int kBytes, bool kStreaming>
__device__ __forceinline__ Pack<kBytes> load_pack(const void* base, std::int64_t index) {
  const char* p = static_cast<const char*>(base) + index * kBytes;
  Pack<kBytes> v;
  if constexpr (kBytes >= 16) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i) {
      const uint4 w = load_vector<kStreaming>(reinterpret_cast<const uint4*>(p) + i);
      v.word[4 * i] = w.x;
      v.word[4 * i + 1] = w.y;
      v.word[4 * i + 2] = w.z;
      v.word[4 * i + 3] = w.w;
    }
  } else if constexpr (kBytes == 8) {
    const uint2 w = load_vector<kStreaming>(reinterpret_cast<const uint2*>(p));
    v.word[0] = w.x;
    v.word[1] = w.y;
  } else if constexpr (kBytes == 4) {
    v.word[0] = load_vector<kStreaming>(reinterpret_cast<const std::uint32_t*>(p));
  } else if constexpr (kBytes == 2) {
    v.word[0] = load_vector<kStreaming>(reinterpret_cast<const std::uint16_t*>(p));
  } else {
    v.word[0] = load_vector<kStreaming>(reinterpret_cast<const std::uint8_t*>(p));
  }
  return v;
}

template <bool kStreaming, int kBytes>
__device__ __forceinline__ void store_pack(void* base, std::int64_t index, const Pack<kBytes>& v) {
  char* p = static_cast<char*>(base) + index * kBytes;
  if constexpr (kBytes >= 16) {
#pragma unroll
    for (int i = 0; i < kBytes / 16; ++i)
      store_vector<kStreaming>(
          reinterpret_cast<uint4*>(p) + i,
          make_uint4(v.word[4 * i], v.word[4 * i + 1], v.word[4 * i + 2], v.word[4 * i + 3]));
  } else if constexpr (kBytes == 8) {
    store_vector<kStreaming>(reinterpret_cast<uint2*>(p), make_uint2(v.word[0], v.word[1]));
  } else if constexpr (kBytes == 4) {
    store_vector<kStreaming>(reinterpret_cast<std::uint32_t*>(p), v.word[0]);
  } else if constexpr (kBytes == 2) {
    store_vector<kStreaming>(reinterpret_cast<std::uint16_t*>(p),
                             static_cast<std::uint16_t>(v.word[0]));
  } else {
    store_vector<kStreaming>(reinterpret_cast<std::uint8_t*>(p),
                             static_cast<std::uint8_t>(v.word[0]));
  }
}

}  // namespace planck
