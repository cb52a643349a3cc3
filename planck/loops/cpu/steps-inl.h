// Steps of kStep elements between dense memory and arrays of the compute type, for use inside a
// per-target namespace (include after hwy/highway.h, within foreach_target's passes).
//
// Loads prefetch well ahead (4 KiB, or the next row): the hardware's own prefetchers stay too close
// for loops that compute, and a few prefetches between the arithmetic overlap both (f32 quantize,
// one thread: 9.9 → 12.4 GB/s; a burst of prefetches before a longer portion gains nothing). Stores
// may bypass the caches. Conversions are those of planck/core/half.h, bit for bit.
#if defined(PLANCK_LOOPS_STEPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_LOOPS_STEPS_INL_H_
#undef PLANCK_LOOPS_STEPS_INL_H_
#else
#define PLANCK_LOOPS_STEPS_INL_H_
#endif

#include <cstring>
#include <type_traits>

#include "planck/loops/cpu/portions.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Prefetches the lines of kChunk elements, `ahead` bytes behind p, into the second-level cache:
// requests to the first wait for its few line buffers. Two threads, share of the ceiling: f32 to s8
// with a scale per column 0.82 to 0.95, gradients of f16 likewise 0.86 to 0.91. Never faults.
template <class T>
HWY_INLINE void prefetch_ahead(const T* p, std::int64_t ahead) {
  constexpr int kLine = 64, kToSecondLevel = 2;
  for (int b = 0; b < static_cast<int>(sizeof(T)) * kChunk; b += kLine)
    __builtin_prefetch(reinterpret_cast<const char*>(p) + ahead + b, 0, kToSecondLevel);
}

// Calls f(i, m) over [begin, end) in steps.
template <class F>
HWY_INLINE void for_steps(int begin, int end, F f) {
  for (int i = begin; i < end; i += kStep) f(i, kStep < end - i ? kStep : end - i);
}

// ---- conversions of up to a step; not inlined into each of the many loops that use them ----

inline HWY_NOINLINE void widen_f16(const std::uint16_t* HWY_RESTRICT in, int n,
                                   float* HWY_RESTRICT out, [[maybe_unused]] std::int64_t ahead) {
  int i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    if (i % kChunk == 0) prefetch_ahead(in + i, ahead);
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(in + i))), d,
               out + i);
  }
#endif
  for (; i < n; ++i) out[i] = static_cast<float>(f16::from_bits(in[i]));
}

inline HWY_NOINLINE void narrow_f16(const float* HWY_RESTRICT in, int n,
                                    std::uint16_t* HWY_RESTRICT out) {
  int i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(d, in + i)), dh,
               reinterpret_cast<hwy::float16_t*>(out + i));
#endif
  for (; i < n; ++i) out[i] = f16(in[i]).bits;
}

// What is loaded is computed with, and every NaN that is stored is the canonical one, so neither
// way needs the care of planck/core/half.h with payloads.
HWY_INLINE float widened(std::uint16_t bf16_bits) {
  return half_detail::f32_from_bits(static_cast<std::uint32_t>(bf16_bits) << 16);
}
HWY_INLINE std::uint16_t narrowed(float value) {
  return static_cast<std::uint16_t>(half_detail::round_to_bf16(half_detail::bits_of(value)) >> 16);
}

inline HWY_NOINLINE void widen_bf16(const std::uint16_t* HWY_RESTRICT in, int n,
                                    float* HWY_RESTRICT out, std::int64_t ahead) {
  int i = 0;
  for (; i + kChunk <= n; i += kChunk) {
    prefetch_ahead(in + i, ahead);
    for (int k = i; k < i + kChunk; ++k) out[k] = widened(in[k]);
  }
  for (; i < n; ++i) out[i] = widened(in[i]);
}

inline HWY_NOINLINE void narrow_bf16(const float* HWY_RESTRICT in, int n,
                                     std::uint16_t* HWY_RESTRICT out) {
  for (int i = 0; i < n; ++i) out[i] = narrowed(in[i]);
}

// Elements [i, i + m) in the compute type, filled up with zeros to a multiple of kChunk.
template <class C>
HWY_INLINE void fill_step(const Source& from, int i, int m, C* HWY_RESTRICT buffer) {
  if (from.dtype == dtype_of<C>) {
    std::memcpy(buffer, static_cast<const C*>(from.data) + i,
                static_cast<std::size_t>(m) * sizeof(C));
  } else if constexpr (std::is_same_v<C, float>) {
    const std::uint16_t* in = static_cast<const std::uint16_t*>(from.data) + i;
    from.dtype == Dtype::f16 ? widen_f16(in, m, buffer, from.ahead)
                             : widen_bf16(in, m, buffer, from.ahead);
  }
  for (int k = m; k % kChunk != 0; ++k) buffer[k] = 0;
}

// The same, in place where memory holds a multiple of kChunk elements of the compute type.
template <class C>
HWY_INLINE const C* load_step(const Source& from, int i, int m, C* buffer) {
  if (from.dtype == dtype_of<C> && m % kChunk == 0) return static_cast<const C*>(from.data) + i;
  fill_step(from, i, m, buffer);
  return buffer;
}

// Quantized integers as bytes, a multiple of kChunk, in place where memory holds them so. Packed: i
// is even.
HWY_INLINE const std::uint8_t* load_q_step(const Source& from, int i, int m, std::uint8_t* buffer) {
  const auto* bytes = static_cast<const std::uint8_t*>(from.data);
  if (is_packed(from.dtype)) {
    const std::uint8_t* pairs = bytes + i / 2;
    for (int k = 0; k < m / 2; ++k) {
      buffer[2 * k] = pairs[k] & 15;
      buffer[2 * k + 1] = static_cast<std::uint8_t>(pairs[k] >> 4);
    }
    if (m % 2) buffer[m - 1] = pairs[m / 2] & 15;
    for (int b = 0; b < m / 2; b += 64) __builtin_prefetch(pairs + from.ahead + b);
  } else if (m % kChunk == 0) {
    return bytes + i;
  } else {
    std::memcpy(buffer, bytes + i, static_cast<std::size_t>(m));
  }
  for (int k = m; k % kChunk != 0; ++k) buffer[k] = 0;
  return buffer;
}

// Bytes to memory, past the caches where the sink streams and has reached the start of a line.
HWY_INLINE void put_bytes(void* to, const void* from, std::size_t bytes, bool stream) {
  auto* out = static_cast<std::uint8_t*>(to);
  const auto* in = static_cast<const std::uint8_t*>(from);
  std::size_t b = 0;
  const hn::ScalableTag<std::uint8_t> d;
  if (stream && reinterpret_cast<std::uintptr_t>(to) % 64 == 0)
    for (; b + hn::Lanes(d) <= bytes; b += hn::Lanes(d))
      hn::Stream(hn::LoadU(d, in + b), d, out + b);
  std::memcpy(out + b, in + b, bytes - b);
}

inline HWY_NOINLINE void store_step(const Sink& to, int i, int m,
                                    const float* HWY_RESTRICT values) {
  const auto count = static_cast<std::size_t>(m);
  if (to.dtype == Dtype::f32)
    return put_bytes(static_cast<float*>(to.data) + i, values, 4 * count, to.stream);
  alignas(64) std::uint16_t halves[kStep];
  to.dtype == Dtype::f16 ? narrow_f16(values, m, halves) : narrow_bf16(values, m, halves);
  put_bytes(static_cast<std::uint16_t*>(to.data) + i, halves, 2 * count, to.stream);
}
inline HWY_NOINLINE void store_step(const Sink& to, int i, int m,
                                    const double* HWY_RESTRICT values) {
  put_bytes(static_cast<double*>(to.data) + i, values, 8 * static_cast<std::size_t>(m), to.stream);
}

// Low bytes of quantized integers. Packed: i and m are even.
inline HWY_NOINLINE void store_q_step(const Sink& to, int i, int m,
                                      const std::uint8_t* HWY_RESTRICT values) {
  auto* out = static_cast<std::uint8_t*>(to.data);
  const auto count = static_cast<std::size_t>(m);
  if (!is_packed(to.dtype)) return put_bytes(out + i, values, count, to.stream);
  alignas(64) std::uint8_t pairs[kStep / 2];
  for (int k = 0; k < m / 2; ++k)
    pairs[k] = static_cast<std::uint8_t>((values[2 * k] & 15) | (values[2 * k + 1] << 4));
  put_bytes(out + i / 2, pairs, count / 2, to.stream);
}

// Elements before a streaming sink reaches the start of a line.
HWY_INLINE int lead_of(const Sink& to) {
  if (!to.stream) return 0;
  const auto bytes = static_cast<int>((64 - reinterpret_cast<std::uintptr_t>(to.data) % 64) % 64);
  return is_packed(to.dtype) ? 2 * bytes : bytes / static_cast<int>(storage_bytes(to.dtype));
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
