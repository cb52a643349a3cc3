#include "planck/loops/cpu/portions.h"

#include <cstring>

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/cpu/portions.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

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
void copy_strided(const T* in, std::int64_t stride, int n, T* out) {
  const T* dense = gathered(in, stride, n, out);
  if (dense != out) std::memcpy(out, dense, static_cast<std::size_t>(n) * sizeof(T));
}

template <class T>
void spread(T* to, std::int64_t stride, int n, const T* from) {
  if (stride == 1)
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
  else
    for (int i = 0; i < n; ++i) to[i * stride] = from[i];
}

void load_f32(Dtype t, const void* base, std::int64_t offset, std::int64_t stride, int n,
              float* out) {
  if (t == Dtype::f32)
    return copy_strided(static_cast<const float*>(base) + offset, stride, n, out);
  std::uint16_t halves[kPortion];
  const std::uint16_t* in =
      gathered(static_cast<const std::uint16_t*>(base) + offset, stride, n, halves);
  t == Dtype::f16 ? widen_f16(in, n, out, 0) : widen_bf16(in, n, out, 0);
}

void load_f64(Dtype, const void* base, std::int64_t offset, std::int64_t stride, int n,
              double* out) {
  copy_strided(static_cast<const double*>(base) + offset, stride, n, out);
}

void load_i32(const void* base, std::int64_t offset, std::int64_t stride, int n,
              std::int32_t* out) {
  copy_strided(static_cast<const std::int32_t*>(base) + offset, stride, n, out);
}

void gather_q(Dtype t, const void* base, std::int64_t offset, std::int64_t stride, int n,
              std::uint8_t* out) {
  const auto* bytes = static_cast<const std::uint8_t*>(base);
  if (!is_packed(t)) return copy_strided(bytes + offset, stride, n, out);
  const int sign = t == Dtype::s4 ? 8 : 0;
  for (int i = 0; i < n; ++i) {
    const std::int64_t at = offset + i * stride;  // may lie below the base: >> rounds down
    const int nibble = (bytes[at >> 1] >> (at & 1 ? 4 : 0)) & 15;
    out[i] = static_cast<std::uint8_t>((nibble ^ sign) - sign);
  }
}

void store_f32(Dtype t, void* base, std::int64_t offset, std::int64_t stride, int n,
               const float* in) {
  if (t == Dtype::f32) return spread(static_cast<float*>(base) + offset, stride, n, in);
  std::uint16_t halves[kPortion];
  t == Dtype::f16 ? narrow_f16(in, n, halves) : narrow_bf16(in, n, halves);
  spread(static_cast<std::uint16_t*>(base) + offset, stride, n, halves);
}

void store_f64(Dtype, void* base, std::int64_t offset, std::int64_t stride, int n,
               const double* in) {
  spread(static_cast<double*>(base) + offset, stride, n, in);
}

void store_q(Dtype t, void* base, std::int64_t offset, std::int64_t stride, int n,
             const std::uint8_t* in) {
  auto* bytes = static_cast<std::uint8_t*>(base);
  if (!is_packed(t)) return spread(bytes + offset, stride, n, in);
  for (int i = 0; i < n / 2; ++i)
    bytes[offset / 2 + i] = static_cast<std::uint8_t>((in[2 * i] & 15) | (in[2 * i + 1] << 4));
}

// Squares of 16 bytes a side: kSide lines of kSide elements, in registers. Every round interleaves
// line i with line i + kSide / 2; as many rounds as kSide has bits exchange rows and columns.
template <class T>
HWY_INLINE void transpose_square(const T* in, std::int64_t stride, T* out, int out_stride) {
#if HWY_TARGET == HWY_SCALAR
  constexpr int kSide = 16 / static_cast<int>(sizeof(T));
  for (int r = 0; r < kSide; ++r)
    for (int c = 0; c < kSide; ++c) out[r * out_stride + c] = in[c * stride + r];
#else
  constexpr int kSide = 16 / static_cast<int>(sizeof(T));
  const hn::FixedTag<T, kSide> d;
  hn::Vec<decltype(d)> a[kSide], b[kSide];
  for (int k = 0; k < kSide; ++k) a[k] = hn::LoadU(d, in + k * stride);
  for (int round = 1; round < kSide; round *= 2) {
    for (int k = 0; k < kSide / 2; ++k) {
      b[2 * k] = hn::InterleaveLower(d, a[k], a[k + kSide / 2]);
      b[2 * k + 1] = hn::InterleaveUpper(d, a[k], a[k + kSide / 2]);
    }
    for (int k = 0; k < kSide; ++k) a[k] = b[k];
  }
  for (int k = 0; k < kSide; ++k) hn::StoreU(a[k], d, out + k * out_stride);
#endif
}

// A cache line of columns at a time, line by line down the rows: lines are read and written whole
// while they are in the first-level cache, few memory pages are in use at once, and the lines of
// the next columns are prefetched, into the second level, since they all fall on few sets of the
// first. 8192² f32, one thread, ns per element:
//   whole rows first                                                1.8
//   tiles of 1,024 columns, whose rows fall on the same cache sets   1.2
//   this way                                                        0.4
template <class T>
void load_tile_of(const T* in, std::int64_t stride, int rows, int columns, T* out, int out_stride) {
  constexpr int kSide = 16 / static_cast<int>(sizeof(T)), kLine = 64 / static_cast<int>(sizeof(T));
  const int whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
  for (int c0 = 0; c0 < whole_columns; c0 += kLine) {
    const int c1 = c0 + kLine < whole_columns ? c0 + kLine : whole_columns;
    for (int r0 = 0; r0 < whole_rows; r0 += kLine) {
      const int r1 = r0 + kLine < whole_rows ? r0 + kLine : whole_rows;
      for (int c = c0; c < c1; c += kSide) {
        for (int k = c; k < c + kSide; ++k)
          __builtin_prefetch(in + (k + kLine) * stride + r0, 0, 2);
        for (int r = r0; r < r1; r += kSide)
          transpose_square(in + c * stride + r, stride, out + r * out_stride + c, out_stride);
      }
    }
  }
  for (int c = 0; c < columns; ++c)
    for (int r = c < whole_columns ? whole_rows : 0; r < rows; ++r)
      out[r * out_stride + c] = in[c * stride + r];
}

void load_tile(Dtype t, const void* base, std::int64_t offset, std::int64_t stride, int rows,
               int columns, void* out, int out_stride) {
  const auto of = [&](auto type) {
    using T = decltype(type);
    load_tile_of(static_cast<const T*>(base) + offset, stride, rows, columns, static_cast<T*>(out),
                 out_stride);
  };
  switch (storage_bytes(t)) {
    case 1:
      return of(std::uint8_t{});
    case 2:
      return of(std::uint16_t{});
    case 4:
      return of(std::uint32_t{});
    default:
      return of(std::uint64_t{});
  }
}

void store_q_rows(int rows, int n, const std::uint8_t* in, std::int64_t step, const Sink& to) {
  for (int r = 0; r < rows; ++r) store_q_step(to.at_row(r), 0, n, in + r * step);
}

}  // namespace

const PortionOps* portion_ops_table() {
  static constexpr PortionOps kOps = {load_f32,  load_f64, load_i32,  gather_q,    store_f32,
                                      store_f64, store_q,  load_tile, store_q_rows};
  return &kOps;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(portion_ops_table);

const PortionOps& portion_ops() {
  static const PortionOps& ops = *HWY_DYNAMIC_DISPATCH(portion_ops_table)();
  return ops;
}

}  // namespace planck
#endif
