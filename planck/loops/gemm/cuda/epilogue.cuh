// What follows a product on the device: planck/math/activation.h on packs of neighbours in a row of
// C, which hold what the product was rounded to.
#pragma once

#include "planck/core/stream.h"
#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/gemm/geometry.h"
#include "planck/math/activation.h"

namespace planck::gemm_device {

template <class T>
using PairOf = std::conditional_t<std::is_same_v<T, f16>, __half2, __nv_bfloat162>;
// Two 16-bit floats in a word.
template <class T>
__device__ __forceinline__ PairOf<T> pair_of(const std::uint32_t& word) {
  return *reinterpret_cast<const PairOf<T>*>(&word);
}
// The word of two, NaN being the canonical one.
template <class T>
__device__ __forceinline__ std::uint32_t word_of(const PairOf<T>& pair) {
  const std::uint32_t word = *reinterpret_cast<const std::uint32_t*>(&pair);
  const std::uint32_t canonical = std::is_same_v<T, f16> ? 0x7e007e00u : 0x7fc07fc0u;
  const std::uint32_t nan = __hneu2_mask(pair, pair);
  return (word & ~nan) | (canonical & nan);
}

// a + b as the compute type has it, rounded to T. Two 16-bit floats at once: their sum in f32 is so
// long that rounding it again gives what rounding the exact one gives.
template <class T, int kBytes>
__device__ __forceinline__ Pack<kBytes> sum_of(const Pack<kBytes>& a, const Pack<kBytes>& b) {
  if constexpr (sizeof(T) == 2) {
    Pack<kBytes> c;
#pragma unroll
    for (int w = 0; w < Pack<kBytes>::kWords; ++w)
      c.word[w] = word_of<T>(__hadd2_rn(pair_of<T>(a.word[w]), pair_of<T>(b.word[w])));
    return c;
  } else {
    Compute<T> v[kBytes / sizeof(T)];
#pragma unroll
    for (int e = 0; e < kBytes / int{sizeof(T)}; ++e)
      v[e] = element_of<T>(a, e) + element_of<T>(b, e);
    return packed<T, kBytes>(v);
  }
}

template <class T, Activation kActivation, int kBytes>
__device__ __forceinline__ Pack<kBytes> activated_by(const Pack<kBytes>& x) {
  constexpr int kCount = kBytes / int{sizeof(T)};
  Compute<T> v[kCount];
#pragma unroll
  for (int e = 0; e < kCount; ++e) v[e] = math::activated<T, kActivation>(element_of<T>(x, e));
  return packed<T, kBytes>(v);
}
template <class T, int kBytes>
__device__ __forceinline__ Pack<kBytes> activated(Activation a, const Pack<kBytes>& x) {
  if (a == Activation::relu) return activated_by<T, Activation::relu>(x);
  if (a == Activation::gelu) return activated_by<T, Activation::gelu>(x);
  if (a == Activation::silu) return activated_by<T, Activation::silu>(x);
  return x;
}

// gemm::Added as a kernel takes it; null where there is none.
template <class T>
struct Beside {
  const T* data;
  std::int64_t row, column, batch;
  bool packs;  // rows are whole chunks of 16 bytes at multiples of 16

  __device__ __forceinline__ const T* at(std::int64_t t, std::int64_t r, std::int64_t c) const {
    return data + t * batch + r * row + c * column;
  }
  // The pack that begins at a column, of which the first `left` count.
  template <int kBytes>
  __device__ __forceinline__ Pack<kBytes> read(std::int64_t t, std::int64_t r, std::int64_t c,
                                               int left) const {
    const T* const from = at(t, r, c);
    if constexpr (kBytes == 16)
      if (packs) {
        const uint4 v = __ldg(reinterpret_cast<const uint4*>(from));
        return {{v.x, v.y, v.z, v.w}};
      }
    constexpr int kCount = kBytes / int{sizeof(T)};
    Compute<T> v[kCount];
#pragma unroll
    for (int e = 0; e < kCount; ++e) v[e] = e < left ? widen(from[e * column]) : Compute<T>(0);
    return packed<T, kBytes>(v);
  }
};

template <class T>
struct Following {
  Beside<T> bias, residual;
  Activation activation;

  __device__ __forceinline__ bool any() const {
    return bias.data != nullptr || residual.data != nullptr || activation != Activation::none;
  }
  template <int kBytes>
  __device__ __forceinline__ Pack<kBytes> applied(Pack<kBytes> v, std::int64_t t, std::int64_t r,
                                                  std::int64_t c, int left) const {
    if (bias.data != nullptr) v = sum_of<T>(v, bias.template read<kBytes>(t, r, c, left));
    v = activated<T>(activation, v);
    if (residual.data != nullptr) v = sum_of<T>(v, residual.template read<kBytes>(t, r, c, left));
    return v;
  }
};

// Of a run of batches: `offset` elements to the first one's residual, `stride` to the next.
template <class T>
Following<T> following(const gemm::Geometry& g, std::int64_t offset, std::int64_t stride) {
  constexpr std::int64_t kChunk = 16 / sizeof(T);
  const auto beside = [&](const gemm::Added& x, std::int64_t first, std::int64_t batch) {
    Beside<T> b{static_cast<const T*>(x.data), x.row, x.column, batch, false};
    if (b.data == nullptr) return b;
    b.data += first;
    b.packs = x.column == 1 && (x.row % kChunk == 0 || g.m == 1) && batch % kChunk == 0 &&
              g.n % kChunk == 0 && reinterpret_cast<std::uintptr_t>(b.data) % 16 == 0;
    return b;
  };
  return {beside(g.epilogue.bias, 0, 0), beside(g.epilogue.residual, offset, stride),
          g.epilogue.activation};
}

// On all of C, in place, where the kernel that multiplies leaves it to a pass of its own.
template <class T>  // float, double, f16, bf16
Result<void> follow_in_place(const Stream&, const gemm::Geometry&);

}  // namespace planck::gemm_device
