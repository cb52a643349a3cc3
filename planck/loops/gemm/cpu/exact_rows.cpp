// Plain loops that the compiler vectorizes for each instruction set.
#include "planck/loops/gemm/cpu/exact_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "planck/loops/cpu/targets.h"
#include "planck/math/products/exact_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/gemm/cpu/exact_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

using gemm::ExactOps;
using gemm::RowScales;
using gemm::Side;

HWY_INLINE std::uint32_t magnitude(float x) {
  return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
}

void largest(const Side& s, std::int64_t count, std::int64_t k, std::uint32_t* HWY_RESTRICT out) {
  const float* from = static_cast<const float*>(s.data) + s.offset;
  if (s.along == 1 && count > 1) {
    std::fill(out, out + count, 0u);
    for (std::int64_t i = 0; i < k; ++i, from += s.depth)
      for (std::int64_t r = 0; r < count; ++r) out[r] = std::max(out[r], magnitude(from[r]));
    return;
  }
  for (std::int64_t r = 0; r < count; ++r, from += s.along) {
    std::uint32_t most = 0;
    if (s.depth == 1)
      for (std::int64_t i = 0; i < k; ++i) most = std::max(most, magnitude(from[i]));
    else
      for (std::int64_t i = 0; i < k; ++i) most = std::max(most, magnitude(from[i * s.depth]));
    out[r] = most;
  }
}

// To nearest even, |x| <= 2^22: the sum has no bits for a fraction.
HWY_INLINE std::int32_t nearest(float x) {
  constexpr float kRounder = 0x1.8p23f;
  return static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x + kRounder) -
                                   std::bit_cast<std::uint32_t>(kRounder));
}

void round_columns(const float* HWY_RESTRICT values, int k, int width, const RowScales& s, int row,
                   std::int32_t* HWY_RESTRICT q) {
  for (int i = 0; i < k; ++i, values += width, q += width)
    for (int r = 0; r < width; ++r)
      q[r] = nearest(values[r] * s.first[row + r] * s.second[row + r]) & s.keep[row + r];
}
void round_to_f64(const float* HWY_RESTRICT values, int k, int width, const RowScales& s, int row,
                  double* HWY_RESTRICT q) {
  for (int i = 0; i < k; ++i, values += width, q += width)
    for (int r = 0; r < width; ++r)
      q[r] = nearest(values[r] * s.first[row + r] * s.second[row + r]) & s.keep[row + r];
}
void round_row(const float* HWY_RESTRICT values, int k, float first, float second,
               std::int32_t* HWY_RESTRICT q) {
  for (int i = 0; i < k; ++i) q[i] = nearest(values[i] * first * second);
}

HWY_INLINE std::int32_t pair(std::int32_t low, std::int32_t high) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(high) << 16 |
                                   (static_cast<std::uint32_t>(low) & 0xffffu));
}
void to_shorts(const std::int32_t* HWY_RESTRICT q, int k, int width, std::int32_t* HWY_RESTRICT out,
               std::int64_t form_step) {
  const auto put = [&](std::int32_t x, std::int32_t y, std::int32_t* to) HWY_ATTR {
    const std::int32_t x_high = (x + 2048) >> 12, y_high = (y + 2048) >> 12;
    const std::int32_t x_low = x - x_high * 4096, y_low = y - y_high * 4096;
    to[0] = pair(x_high, y_high);
    to[form_step] = pair(x_low, y_low);
    to[2 * form_step] = pair(x_high + x_low, y_high + y_low);
  };
  for (int i = 0; i + 1 < k; i += 2, q += 2 * width, out += width)
    for (int r = 0; r < width; ++r) put(q[r], q[width + r], out + r);
  if (k % 2 != 0)
    for (int r = 0; r < width; ++r) put(q[r], 0, out + r);
}

void row_to_bytes(const std::int32_t* HWY_RESTRICT q, int k, std::int8_t* HWY_RESTRICT out) {
  for (int i = 0; i < k; ++i) {
    const std::int32_t low = static_cast<std::int8_t>(q[i]), rest = (q[i] - low) >> 8;
    const std::int32_t middle = static_cast<std::int8_t>(rest);
    out[i] = static_cast<std::int8_t>((rest - middle) >> 8);
    out[1024 + i] = static_cast<std::int8_t>(middle);
    out[2048 + i] = static_cast<std::int8_t>(low);
  }
}
void columns_to_bytes(const std::int32_t* HWY_RESTRICT q, int k, std::int8_t* HWY_RESTRICT out) {
  for (int i = 0; i < k; i += 4, q += 64, out += 64) {
    std::uint32_t words[3][16] = {};
    for (int part = 0; part < 4; ++part)
      for (int r = 0; r < 16; ++r) {
        const std::int32_t x = q[part * 16 + r];
        const std::int32_t low = static_cast<std::int8_t>(x), rest = (x - low) >> 8;
        const std::int32_t middle = static_cast<std::int8_t>(rest), high = (rest - middle) >> 8;
        words[0][r] |= (static_cast<std::uint32_t>(high) & 0xffu) << (8 * part);
        words[1][r] |= (static_cast<std::uint32_t>(middle) & 0xffu) << (8 * part);
        words[2][r] |= (static_cast<std::uint32_t>(low) & 0xffu) << (8 * part);
      }
    for (int d = 0; d < 3; ++d)
      std::copy_n(reinterpret_cast<std::int8_t*>(words[d]), 64, out + d * 1024);
  }
}

// out[i] = value(i), or that added.
template <class F>
HWY_INLINE void put_sums(int n, bool add, std::int64_t* HWY_RESTRICT out, const F& value) {
  if (add)
    for (int i = 0; i < n; ++i) out[i] += value(i);
  else
    for (int i = 0; i < n; ++i) out[i] = value(i);
}

// |sum| <= 2^52: the even part and what is left, each by a sum without bits for a fraction.
void from_f64(const double* HWY_RESTRICT sums, int n, bool add, std::int64_t* HWY_RESTRICT out) {
  constexpr double kEven = 0x1.8p53, kWhole = 0x1.8p52;
  constexpr auto kBias =
      2 * std::bit_cast<std::uint64_t>(kEven) + std::bit_cast<std::uint64_t>(kWhole);
  put_sums(n, add, out, [=](int i) HWY_ATTR {
    const double even = sums[i] + kEven;
    const double rest = sums[i] - (even - kEven) + kWhole;
    return static_cast<std::int64_t>(2 * std::bit_cast<std::uint64_t>(even) +
                                     std::bit_cast<std::uint64_t>(rest) - kBias);
  });
}
// Products of 256: the middle one, S - H - L, fits in 32 bits, whatever S did.
void from_shorts(const std::int32_t* HWY_RESTRICT sums, int n, bool add,
                 std::int64_t* HWY_RESTRICT out) {
  const std::int32_t *high = sums, *low = sums + n, *both = sums + 2 * n;
  put_sums(n, add, out, [=](int i) HWY_ATTR {
    const auto middle = static_cast<std::int32_t>(static_cast<std::uint32_t>(both[i]) -
                                                  static_cast<std::uint32_t>(high[i]) -
                                                  static_cast<std::uint32_t>(low[i]));
    return std::int64_t{high[i]} * (1 << 24) + std::int64_t{middle} * (1 << 12) + low[i];
  });
}
void from_bytes(const std::int32_t* HWY_RESTRICT sums, int n, bool add,
                std::int64_t* HWY_RESTRICT out) {
  put_sums(n, add, out, [=](int i) HWY_ATTR {
    const std::int64_t s[5] = {sums[i], sums[n + i], sums[2 * n + i], sums[3 * n + i],
                               sums[4 * n + i]};
    return math::exact::joined(s);
  });
}

// An integer of 52 bits is an f64, exactly, also times a power of two; what becomes f32 of that is
// rounded once. A longer one loses its last 12 bits first, to the odd one of its two neighbours,
// which no rounding to 24 bits takes for a tie.
void finish(const std::int64_t* HWY_RESTRICT sums, int n, int row_exponent,
            const std::int32_t* HWY_RESTRICT exponents, float* HWY_RESTRICT out) {
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63, kHalf = std::uint64_t{1} << 51;
  constexpr double kWhole = 0x1.8p52;
  const std::int64_t row = std::min(row_exponent, 128) - 2 * math::exact::kBits + 1023;
  for (int j = 0; j < n; ++j) {
    const auto sum = static_cast<std::uint64_t>(sums[j]);
    const bool is_long = sum + kHalf > 2 * kHalf;
    const std::uint64_t shorter =
        (((sum ^ kSign) >> 12) - (kSign >> 12)) | ((sum & 0xfffu) != 0 ? 1u : 0u);
    const double whole =
        std::bit_cast<double>((is_long ? shorter : sum) + std::bit_cast<std::uint64_t>(kWhole)) -
        kWhole;
    const std::int64_t power = row + std::min(exponents[j], 128) + (is_long ? 12 : 0);
    out[j] =
        static_cast<float>(whole * std::bit_cast<double>(static_cast<std::uint64_t>(power) << 52));
  }
}

constexpr ExactOps kOps = {largest,      round_columns,    round_to_f64, round_row,   to_shorts,
                           row_to_bytes, columns_to_bytes, from_f64,     from_shorts, from_bytes,
                           finish};

}  // namespace

const ExactOps* exact_ops() { return &kOps; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(exact_ops);

namespace gemm {

void set_scales(const std::int32_t* exponents, std::int64_t rows, RowScales& scales) {
  for (int r = 0; r < kMostScales; ++r) {
    const bool used = r < rows && exponents[r] != math::exact::kNotFinite;
    const int n = used ? math::exact::kBits - exponents[r] : 0, first = std::min(n, 127);
    scales.first[r] = math::power_of_two<float>(first);
    scales.second[r] = math::power_of_two<float>(n - first);
    scales.keep[r] = used ? -1 : 0;
  }
}

const ExactOps& exact_ops() {
  static const ExactOps& ops = *HWY_DYNAMIC_DISPATCH(exact_ops)();
  return ops;
}

}  // namespace gemm
}  // namespace planck
#endif
