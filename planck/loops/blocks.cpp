#include "planck/loops/blocks.h"

#include <cstring>

#include "planck/loops/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/blocks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Copies to memory past the caches, whole vectors at a time; the unaligned ends take the ordinary
// way.
void stream_bytes(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<std::uint8_t*>(to);
  const auto* in = static_cast<const std::uint8_t*>(from);
  const hn::ScalableTag<std::uint8_t> d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t ahead = (64 - reinterpret_cast<std::uintptr_t>(out) % 64) % 64;
  if (bytes < 256 + ahead) {
    std::memcpy(out, in, bytes);
    return;
  }
  std::memcpy(out, in, ahead);
  std::size_t i = ahead;
  for (; i + lanes <= bytes; i += lanes) hn::Stream(hn::LoadU(d, in + i), d, out + i);
  std::memcpy(out + i, in + i, bytes - i);
}

template <class T>
void put(T* to, const T* from, int n, bool stream) {
  const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(T);
  if (stream)
    stream_bytes(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

void widen_f16(const std::uint16_t* in, int n, float* out) {
  int i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> dh;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(in + i))), d,
               out + i);
#endif
  for (; i < n; ++i) out[i] = static_cast<float>(f16::from_bits(in[i]));
}

void narrow_f16(const float* in, int n, std::uint16_t* out) {
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

void widen_bf16(const std::uint16_t* in, int n, float* out) {
  for (int i = 0; i < n; ++i) out[i] = half_detail::widen_bf16(in[i]);
}

void narrow_bf16(const float* in, int n, std::uint16_t* out) {
  for (int i = 0; i < n; ++i) out[i] = half_detail::narrow_bf16(in[i]);
}

// Strided elements of any storage type, brought together.
template <class T>
const T* gathered(const T* in, std::int64_t stride, int n, T* buffer) {
  if (stride == 1) return in;
  if (stride == 0) {
    const T value = in[0];
    for (int i = 0; i < n; ++i) buffer[i] = value;
  } else {
    for (int i = 0; i < n; ++i) buffer[i] = in[i * stride];
  }
  return buffer;
}

template <class T>
void spread(T* to, std::int64_t stride, int n, const T* from, bool stream) {
  if (stride == 1) return put(to, from, n, stream);
  for (int i = 0; i < n; ++i) to[i * stride] = from[i];
}

void load_f32(Dtype t, const void* base, std::int64_t offset, std::int64_t stride, int n,
              float* out) {
  if (t == Dtype::f32) {
    const float* in = gathered(static_cast<const float*>(base) + offset, stride, n, out);
    if (in != out) std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(float));
    return;
  }
  std::uint16_t halves[kBlock];
  const std::uint16_t* in =
      gathered(static_cast<const std::uint16_t*>(base) + offset, stride, n, halves);
  t == Dtype::f16 ? widen_f16(in, n, out) : widen_bf16(in, n, out);
}

void load_f64(Dtype, const void* base, std::int64_t offset, std::int64_t stride, int n,
              double* out) {
  const double* in = gathered(static_cast<const double*>(base) + offset, stride, n, out);
  if (in != out) std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(double));
}

void load_i32(const void* base, std::int64_t offset, std::int64_t stride, int n,
              std::int32_t* out) {
  const std::int32_t* in =
      gathered(static_cast<const std::int32_t*>(base) + offset, stride, n, out);
  if (in != out) std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(std::int32_t));
}

void load_q(Dtype t, const void* base, std::int64_t offset, std::int64_t stride, int n,
            std::int32_t* out) {
  const auto* bytes = static_cast<const std::uint8_t*>(base);
  std::uint8_t raw[kBlock];
  const std::uint8_t* in = raw;
  if (!is_packed(t)) {
    in = gathered(bytes + offset, stride, n, raw);
  } else if (stride == 1 && offset % 2 == 0 && n % 2 == 0) {
    const std::uint8_t* pairs = bytes + offset / 2;
    for (int i = 0; i < n / 2; ++i) {
      raw[2 * i] = pairs[i] & 15;
      raw[2 * i + 1] = static_cast<std::uint8_t>(pairs[i] >> 4);
    }
  } else {
    for (int i = 0; i < n; ++i) {
      const std::int64_t at = offset + i * stride;
      const std::int64_t byte = at >> 1;  // floor: offsets below the base are negative
      raw[i] = static_cast<std::uint8_t>((bytes[byte] >> (at & 1 ? 4 : 0)) & 15);
    }
  }
  const std::int32_t sign = t == Dtype::s8 ? 128 : t == Dtype::s4 ? 8 : 0;
  for (int i = 0; i < n; ++i) out[i] = (in[i] ^ sign) - sign;
}

void store_f32(Dtype t, void* base, std::int64_t offset, std::int64_t stride, int n,
               const float* in, bool stream) {
  if (t == Dtype::f32) return spread(static_cast<float*>(base) + offset, stride, n, in, stream);
  alignas(64) std::uint16_t halves[kBlock];
  t == Dtype::f16 ? narrow_f16(in, n, halves) : narrow_bf16(in, n, halves);
  spread(static_cast<std::uint16_t*>(base) + offset, stride, n, halves, stream);
}

void store_f64(Dtype, void* base, std::int64_t offset, std::int64_t stride, int n, const double* in,
               bool stream) {
  spread(static_cast<double*>(base) + offset, stride, n, in, stream);
}

void store_q(Dtype t, void* base, std::int64_t offset, std::int64_t stride, int n,
             const std::uint8_t* in, bool stream) {
  auto* bytes = static_cast<std::uint8_t*>(base);
  if (!is_packed(t)) return spread(bytes + offset, stride, n, in, stream);
  alignas(64) std::uint8_t pairs[kBlock / 2];
  for (int i = 0; i < n / 2; ++i)
    pairs[i] = static_cast<std::uint8_t>((in[2 * i] & 15) | (in[2 * i + 1] << 4));
  put(bytes + offset / 2, pairs, n / 2, stream);
}

}  // namespace

const BlockOps* block_ops_table() {
  static constexpr BlockOps kOps = {load_f32,  load_f64,  load_i32, load_q,
                                    store_f32, store_f64, store_q};
  return &kOps;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(block_ops_table);

const BlockOps& block_ops() {
  static const BlockOps& ops = *HWY_DYNAMIC_DISPATCH(block_ops_table)();
  return ops;
}

}  // namespace planck
#endif
