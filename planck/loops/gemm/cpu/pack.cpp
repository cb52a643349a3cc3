#include "planck/loops/gemm/cpu/pack.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "planck/loops/cpu/portions.h"
#include "planck/loops/gemm/cpu/tile.h"

namespace planck::gemm {

namespace {

constexpr int kLine = 512;  // rows that are brought over together

// k lies densely: rows are read whole and transposed.
template <class C>
void pack_rows(const Side& s, std::int64_t count, int k, int width, C* out) {
  const PortionOps& ops = portion_ops();
  alignas(64) float rows[kMostTileColumns * kMostDepth];  // 16-bit floats, widened
  for (std::int64_t first = 0; first < count; first += width, out += width * k) {
    const int n = static_cast<int>(std::min<std::int64_t>(width, count - first));
    const std::int64_t at = s.offset + first * s.along;
    if (std::is_same_v<C, double> || s.dtype == Dtype::f32) {
      ops.load_tile(s.dtype, s.data, at, s.along, k, n, out, width);
    } else {
      for (int r = 0; r < n; ++r)
        load_portion(ops, s.dtype, s.data, at + r * s.along, 1, k, rows + r * kMostDepth);
      ops.load_tile(Dtype::f32, rows, 0, kMostDepth, k, n, out, width);
    }
    for (int r = n; r < width; ++r)
      for (int i = 0; i < k; ++i) out[i * width + r] = 0;
  }
}

// Whole panels whose rows of one k lie side by side: a few k at a time, so that what is read and
// what is written both stay in the first-level cache.
template <class C, int kWidth>
void copy_panels(const C* from, std::int64_t depth, std::int64_t count, int k, C* out) {
  constexpr int kTogether = 8, kLineOf = 64 / sizeof(C);
  for (int k0 = 0; k0 < k; k0 += kTogether) {
    const int k1 = std::min(k, k0 + kTogether);
    for (std::int64_t first = 0; first < count; first += kWidth) {
      const C* in = from + k0 * depth + first;
      C* to = out + first * k + k0 * kWidth;
      for (int i = k0; i < k1; ++i, in += depth, to += kWidth) {
        for (int c = 0; c < kWidth; c += kLineOf) __builtin_prefetch(in + kTogether * depth + c);
        std::memcpy(to, in, kWidth * sizeof(C));
      }
    }
  }
}
// One panel that `count` rows do not fill, the same way.
template <class C>
void copy_part(const C* from, std::int64_t depth, int count, int k, int width, C* out) {
  for (int i = 0; i < k; ++i, from += depth, out += width) {
    int r = 0;
    for (; r + 4 <= count; r += 4) std::memcpy(out + r, from + r, 4 * sizeof(C));
    for (; r < count; ++r) out[r] = from[r];
    for (; r < width; ++r) out[r] = 0;
  }
}
// Whether the width is one of those that tiles have.
template <class C, int... kWidths>
bool copied_panels(const C* from, std::int64_t depth, std::int64_t count, int k, int width, C* out,
                   std::integer_sequence<int, kWidths...>) {
  return ((width == kWidths && (copy_panels<C, kWidths>(from, depth, count, k, out), true)) || ...);
}

// Any strides; fast where the rows of one k lie densely.
template <class C>
void pack_columns(const Side& s, std::int64_t count, int k, int width, C* out) {
  if (s.along == 1 && s.dtype == dtype_of<C>) {  // nothing to convert
    const std::int64_t whole = count / width * width;
    const C* from = static_cast<const C*>(s.data) + s.offset;
    if (copied_panels(from, s.depth, whole, k, width, out,
                      std::integer_sequence<int, 6, 8, 12, 16, 32>())) {
      if (whole < count)
        copy_part(from + whole, s.depth, static_cast<int>(count - whole), k, width,
                  out + whole * k);
      return;
    }
  }
  const PortionOps& ops = portion_ops();
  const int most = kLine / width * width;  // panels are not cut
  C line[kLine];
  for (std::int64_t first = 0; first < count; first += most) {
    const int n = static_cast<int>(std::min<std::int64_t>(most, count - first));
    const int padded = (n + width - 1) / width * width;
    std::fill(line + n, line + padded, C{0});
    for (int i = 0; i < k; ++i) {
      const std::int64_t at = s.offset + first * s.along + i * s.depth;
      load_portion(ops, s.dtype, s.data, at, s.along, n, line);
      for (int r = 0; r < padded; r += width)
        std::memcpy(out + (first + r) * k + i * width, line + r,
                    static_cast<std::size_t>(width) * sizeof(C));
    }
  }
}

template <class C>
void pack_floats(const Side& s, std::int64_t count, std::int64_t k, int width, C* out) {
  const bool rows = s.depth == 1 && (s.along != 1 || count == 1);
  rows ? pack_rows(s, count, static_cast<int>(k), width, out)
       : pack_columns(s, count, static_cast<int>(k), width, out);
}

}  // namespace

template <>
void pack<float>(const Side& s, std::int64_t count, std::int64_t k, int width, float* out) {
  if (s.lines != nullptr) return s.lines->pack(s.first, count, s.first_k, k, width, out);
  pack_floats(s, count, k, width, out);
}
template <>
void pack<double>(const Side& s, std::int64_t count, std::int64_t k, int width, double* out) {
  pack_floats(s, count, k, width, out);
}

// Two of k to a word, each as 16 bits; a missing last one is 0.
template <>
void pack<std::int32_t>(const Side& s, std::int64_t count, std::int64_t k, int width,
                        std::int32_t* out) {
  const auto pair = [](int low, int high) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(high) << 16 |
                                     (static_cast<std::uint32_t>(low) & 0xffffu));
  };
  const auto* from = static_cast<const std::int8_t*>(s.data) + s.offset;
  const std::int64_t pairs = packed_depth<std::int32_t>(k);
  for (std::int64_t first = 0; first < count; first += width, out += width * pairs) {
    const int n = static_cast<int>(std::min<std::int64_t>(width, count - first));
    const std::int8_t* rows = from + first * s.along;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::int8_t *low = rows + 2 * i * s.depth, *high = low + s.depth;
      std::int32_t* to = out + i * width;
      if (2 * i + 1 == k)
        for (int r = 0; r < n; ++r) to[r] = pair(low[r * s.along], 0);
      else if (s.along == 1)
        for (int r = 0; r < n; ++r) to[r] = pair(low[r], high[r]);
      else
        for (int r = 0; r < n; ++r) to[r] = pair(low[r * s.along], high[r * s.along]);
      std::fill(to + n, to + width, 0);
    }
  }
}

void load_row(const Side& s, std::int64_t r, std::int64_t k0, int n, float* out) {
  if (s.lines != nullptr) return s.lines->pack(s.first + r, 1, s.first_k + k0, n, 1, out);
  load_portion(portion_ops(), s.dtype, s.data, s.offset + r * s.along + k0 * s.depth, s.depth, n,
               out);
}

void store_sums(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const float* sums) {
  store_portion(portion_ops(), dtype, data, offset, stride, n, sums);
}
void store_sums(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const double* sums) {
  store_portion(portion_ops(), dtype, data, offset, stride, n, sums);
}
namespace {

// Sums as C would hold them, and what is added to them, together.
template <class C>
void store_sums_and_bias(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                         const C* sums, const Added& bias, std::int64_t bias_at) {
  const PortionOps& ops = portion_ops();
  alignas(64) C rounded[kPortion], added[kPortion];
  if (dtype == dtype_of<C>) {
    std::copy_n(sums, n, rounded);
  } else {
    alignas(64) std::uint16_t stored[kPortion];
    store_portion(ops, dtype, stored, 0, 1, n, sums);
    load_portion(ops, dtype, stored, 0, 1, n, rounded);
  }
  load_portion(ops, dtype, bias.data, bias_at, bias.column, n, added);
  for (int i = 0; i < n; ++i) {
    rounded[i] += added[i];
    if (rounded[i] != rounded[i]) rounded[i] = std::numeric_limits<C>::quiet_NaN();
  }
  store_portion(ops, dtype, data, offset, stride, n, rounded);
}

}  // namespace

void store_sums(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const float* sums, const Added& bias, std::int64_t bias_at) {
  if (bias.data == nullptr) return store_sums(dtype, data, offset, stride, n, sums);
  store_sums_and_bias(dtype, data, offset, stride, n, sums, bias, bias_at);
}
void store_sums(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const double* sums, const Added& bias, std::int64_t bias_at) {
  if (bias.data == nullptr) return store_sums(dtype, data, offset, stride, n, sums);
  store_sums_and_bias(dtype, data, offset, stride, n, sums, bias, bias_at);
}
void store_sums(Dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const std::int32_t* sums) {
  auto* to = static_cast<std::int32_t*>(data) + offset;
  for (int i = 0; i < n; ++i) to[i * stride] = sums[i];
}

}  // namespace planck::gemm
