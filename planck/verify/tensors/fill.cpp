#include "planck/verify/tensors/fill.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "planck/math/philox.h"

namespace planck::verify {

namespace {

struct FloatFormat {
  int mantissa, exponent;  // widths in bits
};

FloatFormat format_of(Dtype t) {
  switch (t) {
    case Dtype::f64:
      return {52, 11};
    case Dtype::f16:
      return {10, 5};
    case Dtype::bf16:
      return {7, 8};
    default:
      return {23, 8};
  }
}

std::uint64_t pair(std::uint32_t high, std::uint32_t low) {
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

double unit_interval(std::uint32_t w) { return static_cast<double>(w) * 0x1p-32; }

// The sum of eight 16-bit uniforms: only exact arithmetic, so the same on every machine.
double normal(const Philox4& r) {
  std::int64_t sum = 0;
  for (std::uint32_t w : r.v) sum += (w & 0xffffu) + (w >> 16);
  constexpr double kDeviation = 53509.0;  // sqrt(8 / 12) * 65536
  return static_cast<double>(sum - 4 * 65535) / kDeviation;
}

double power_of_two_between(std::uint32_t w, int low, int high) {
  return std::ldexp(1.0, low + static_cast<int>(w % static_cast<std::uint32_t>(high - low)));
}

double positive_scale(const Philox4& r) {
  return power_of_two_between(r.v[0], -10, 2) * (1.0 + unit_interval(r.v[1]));
}

// A pattern of a chosen class of the float format, sign and payload random.
std::uint64_t special_pattern(FloatFormat f, std::uint32_t kind, std::uint64_t random) {
  const std::uint64_t sign = (random >> 63) << (f.mantissa + f.exponent);
  const std::uint64_t mantissa = random & ((std::uint64_t{1} << f.mantissa) - 1);
  const std::uint64_t top = (std::uint64_t{1} << f.exponent) - 1;
  const auto exponent = [&](std::uint64_t e) { return e << f.mantissa; };
  switch (kind % 8) {
    case 0:
      return sign | exponent(top) | mantissa | (std::uint64_t{1} << (f.mantissa - 1));  // quiet NaN
    case 1:
      return sign | exponent(top) | (mantissa >> 2) | 1;  // signaling NaN
    case 2:
      return sign | exponent(top);  // Inf
    case 3:
      return sign;  // zero
    case 4:
      return sign | mantissa;  // subnormal
    case 5:
      return sign | exponent(top - 1) | mantissa;  // huge
    case 6:
      return sign | exponent(1) | mantissa;  // tiny
    default:
      return sign | exponent(random >> 40 & top) | mantissa;  // anything
  }
}

void set_adversarial(HostTensor& t, std::int64_t i, const Philox4& r) {
  const std::uint32_t kind = r.v[0] % 16;
  if (kind < 8)
    return t.set_pattern(i, special_pattern(format_of(t.dtype), kind, pair(r.v[1], r.v[2])));
  const double whole = static_cast<double>(static_cast<int>(r.v[1] % 601) - 300);
  if (kind < 10) return t.set_number(i, whole + 0.5);
  if (kind < 11) return t.set_number(i, whole);
  t.set_number(i, normal(r) * power_of_two_between(r.v[0] >> 8, -8, 9));
}

void set_rare(HostTensor& t, std::int64_t i, const Philox4& r) {
  if (r.v[3] % 1024 == 0) return set_adversarial(t, i, r);
  t.set_number(i, normal(r));
}

// Products and sums of a few thousand stay finite in f32.
void set_wide(HostTensor& t, std::int64_t i, const Philox4& r) {
  const FloatFormat f = format_of(t.dtype);
  if (r.v[3] % 64 == 0) return t.set_pattern(i, special_pattern(f, 4, pair(r.v[1], r.v[2])));
  const int most = f.exponent == 5 ? 12 : 24;
  t.set_number(
      i, normal(r) * power_of_two_between(r.v[3] >> 8, -most - (f.exponent == 5 ? 4 : 0), most));
}

void set_cancelling(HostTensor& t, std::int64_t i, const Philox4& r) {
  constexpr double kScales[] = {1, 0x1p-9, 0x1p9};
  const double value = (1 + 0.25 * static_cast<double>(r.v[0] % 4)) * kScales[r.v[1] % 3];
  t.set_number(i, r.v[2] & 1 ? value : -value);
}

void set_extreme_scale(HostTensor& t, std::int64_t i, const Philox4& r) {
  const std::uint32_t kind = r.v[3] % 12;
  if (kind < 8)
    return t.set_pattern(i, special_pattern(format_of(t.dtype), kind, pair(r.v[1], r.v[2])));
  t.set_number(i, kind == 8 ? -positive_scale(r) : positive_scale(r));
}

void set_integer(HostTensor& t, std::int64_t i, const Philox4& r, FillRange range) {
  const std::uint64_t bits = pair(r.v[0], r.v[1]);
  if (t.dtype == Dtype::boolean) return t.set_pattern(i, bits & 1);
  if (range.low > range.high)
    return t.set_pattern(i, bits);  // the low bits of any pattern are a value
  const auto width = static_cast<std::uint64_t>(range.high - range.low) + 1;
  t.set_pattern(i, static_cast<std::uint64_t>(
                       range.low + static_cast<std::int64_t>(width ? bits % width : bits)));
}

// An octave of k + 1 evenly, then an integer in it.
void set_zipf(HostTensor& t, std::int64_t i, const Philox4& r, FillRange range) {
  const auto width = static_cast<std::uint64_t>(range.high - range.low) + 1;
  const auto octaves = static_cast<std::uint32_t>(std::bit_width(width));
  const std::uint64_t first = (std::uint64_t{1} << (r.v[0] % octaves)) - 1;
  const std::uint64_t size = std::min(first + 1, width - first);
  t.set_pattern(i, static_cast<std::uint64_t>(range.low) + first + pair(r.v[1], r.v[2]) % size);
}

void set_stray_integer(HostTensor& t, std::int64_t i, const Philox4& r, FillRange range) {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  const std::int64_t strays[] = {range.low - 1,
                                 range.high + 1,
                                 kLowest,
                                 kHighest,
                                 range.low - 1000,
                                 range.high + (1 << 20),
                                 static_cast<std::int64_t>(pair(r.v[0], r.v[1]))};
  if (r.v[3] % 3 != 0) return set_integer(t, i, r, range);
  t.set_pattern(i, static_cast<std::uint64_t>(strays[r.v[2] % std::size(strays)]));
}

void set_ascending(HostTensor& t, std::int64_t i, const Philox4& r, FillRange range) {
  const auto width = static_cast<std::uint64_t>(range.high - range.low) + 1;
  const auto at = static_cast<std::uint64_t>(i) * width + r.v[0] % width;
  t.set_pattern(i, static_cast<std::uint64_t>(range.low) +
                       (i == 0 ? 0 : at / static_cast<std::uint64_t>(t.count())));
}

void set_extreme_zero_point(HostTensor& t, std::int64_t i, const Philox4& r) {
  constexpr std::int32_t kLowest = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kHighest = std::numeric_limits<std::int32_t>::max();
  constexpr std::int32_t kValues[] = {
      kLowest,    kLowest + 1,   kHighest,      kHighest - 1,   0,       1,
      -1,         1 << 24,       (1 << 24) + 1, -(1 << 24) - 1, 1 << 20, (1 << 20) + 1,
      -(1 << 20), -(1 << 20) - 1};
  constexpr std::uint32_t kCount = std::size(kValues);
  const std::uint32_t k = r.v[0] % (kCount + 4);
  t.set_pattern(
      i, static_cast<std::uint32_t>(k < kCount ? kValues[k] : static_cast<std::int32_t>(r.v[1])));
}

void set_element(HostTensor& t, std::int64_t i, Fill how, const Philox4& r, FillRange range) {
  switch (how) {
    case Fill::zeros:
      return t.set_number(i, 0);
    case Fill::ones:
      return t.set_number(i, 1);
    case Fill::normal:
      return t.set_number(i, normal(r));
    case Fill::uniform:
      return t.set_number(i, unit_interval(r.v[0]) * 2 - 1);
    case Fill::adversarial:
      return set_adversarial(t, i, r);
    case Fill::rare:
      return set_rare(t, i, r);
    case Fill::wide:
      return set_wide(t, i, r);
    case Fill::cancelling:
      return set_cancelling(t, i, r);
    case Fill::scale:
      return t.set_number(i, positive_scale(r));
    case Fill::extreme_scale:
      return set_extreme_scale(t, i, r);
    case Fill::integers:
      return set_integer(t, i, r, range);
    case Fill::zipf:
      return set_zipf(t, i, r, range);
    case Fill::stray_integers:
      return set_stray_integer(t, i, r, range);
    case Fill::ascending:
      return set_ascending(t, i, r, range);
    case Fill::extreme_zero_point:
      return set_extreme_zero_point(t, i, r);
  }
}

}  // namespace

std::string_view name(Fill fill) {
  constexpr std::string_view kNames[] = {
      "zeros",    "ones", "normal",         "uniform",   "adversarial",
      "rare",     "wide", "cancelling",     "scale",     "extreme_scale",
      "integers", "zipf", "stray_integers", "ascending", "extreme_zero_point"};
  return kNames[static_cast<int>(fill)];
}

void fill(HostTensor& tensor, Fill how, std::uint64_t seed, std::uint64_t stream, FillRange range) {
  const PhiloxStream random{seed, stream};
  for (std::int64_t i = 0; i < tensor.count(); ++i)
    set_element(tensor, i, how, random.words(static_cast<std::uint64_t>(i)), range);
}

}  // namespace planck::verify
