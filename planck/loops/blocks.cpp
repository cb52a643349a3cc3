#include "planck/loops/blocks.h"

#include <cstring>

#include "planck/loops/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/blocks.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/steps-inl.h"

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
  std::uint16_t halves[kBlock];
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
  std::uint16_t halves[kBlock];
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

// lines[column][row] to out[row][column], in squares of four.
#if HWY_TARGET != HWY_SCALAR
void transpose(const float (*lines)[32], int rows, float* out, int out_stride) {
  const hn::FixedTag<float, 4> d;
  for (int r = 0; r < rows; r += 4) {
    for (int c = 0; c < 16; c += 4) {
      const auto a = hn::LoadU(d, lines[c] + r), b = hn::LoadU(d, lines[c + 1] + r);
      const auto e = hn::LoadU(d, lines[c + 2] + r), f = hn::LoadU(d, lines[c + 3] + r);
      const auto ab = hn::InterleaveLower(d, a, b), ab2 = hn::InterleaveUpper(d, a, b);
      const auto ef = hn::InterleaveLower(d, e, f), ef2 = hn::InterleaveUpper(d, e, f);
      float* to = out + r * out_stride + c;
      hn::StoreU(hn::ConcatLowerLower(d, ef, ab), d, to);
      hn::StoreU(hn::ConcatUpperUpper(d, ef, ab), d, to + out_stride);
      hn::StoreU(hn::ConcatLowerLower(d, ef2, ab2), d, to + 2 * out_stride);
      hn::StoreU(hn::ConcatUpperUpper(d, ef2, ab2), d, to + 3 * out_stride);
    }
  }
}
#endif
template <class C>
void transpose(const C (*lines)[32], int rows, C* out, int out_stride) {
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < 16; ++c) out[r * out_stride + c] = lines[c][r];
}

// Sixteen columns at a time, line by line down the rows: few memory pages in use at once, lines
// read whole, and those of the next sixteen columns asked for (8192² f32 transposed, one thread:
// whole rows first, 1.8 ns an element).
template <class T, class Widen, class C>
void load_tile(const T* in, std::int64_t stride, int rows, int columns, C* out, int out_stride,
               Widen widen) {
  constexpr int kColumns = 16, kLine = 64 / static_cast<int>(sizeof(T));
  alignas(64) C lines[kColumns][32];
  for (int c0 = 0; c0 < columns; c0 += kColumns) {
    const int count = columns - c0 < kColumns ? columns - c0 : kColumns;
    for (int r0 = 0; r0 < rows; r0 += kLine) {
      const int length = rows - r0 < kLine ? rows - r0 : kLine;
      for (int c = 0; c < count; ++c) {
        const T* line = in + (c0 + c) * stride + r0;
        __builtin_prefetch(line + kColumns * stride);
        widen(line, length, lines[c]);
      }
      C* to = out + r0 * out_stride + c0;
      if (count == kColumns && length == kLine) {
        transpose(lines, kLine, to, out_stride);
      } else {
        for (int r = 0; r < length; ++r)
          for (int c = 0; c < count; ++c) to[r * out_stride + c] = lines[c][r];
      }
    }
  }
}

template <class T>
void copy_line(const T* HWY_RESTRICT in, int n, T* HWY_RESTRICT out) {
  constexpr int kWhole = 64 / static_cast<int>(sizeof(T));
  if (n == kWhole)
    std::memcpy(out, in, 64);
  else
    std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(T));
}

void widen_line_f16(const std::uint16_t* in, int n, float* out) { widen_f16(in, n, out, 0); }
void widen_line_bf16(const std::uint16_t* in, int n, float* out) { widen_bf16(in, n, out, 0); }

void load_tile_f32(Dtype t, const void* base, std::int64_t offset, std::int64_t stride, int rows,
                   int columns, float* out, int out_stride) {
  if (t == Dtype::f32)
    return load_tile(static_cast<const float*>(base) + offset, stride, rows, columns, out,
                     out_stride, copy_line<float>);
  const auto* halves = static_cast<const std::uint16_t*>(base) + offset;
  if (t == Dtype::f16)
    load_tile(halves, stride, rows, columns, out, out_stride, widen_line_f16);
  else
    load_tile(halves, stride, rows, columns, out, out_stride, widen_line_bf16);
}

void load_tile_f64(Dtype, const void* base, std::int64_t offset, std::int64_t stride, int rows,
                   int columns, double* out, int out_stride) {
  load_tile(static_cast<const double*>(base) + offset, stride, rows, columns, out, out_stride,
            copy_line<double>);
}

}  // namespace

const BlockOps* block_ops_table() {
  static constexpr BlockOps kOps = {load_f32,  load_f64, load_i32,      gather_q,     store_f32,
                                    store_f64, store_q,  load_tile_f32, load_tile_f64};
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
