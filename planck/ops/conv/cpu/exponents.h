// Exponents of exact convolutions: the largest finite magnitudes of parts of an operand, and what
// becomes of sums that meet NaN or infinities.
#pragma once

#include <cmath>

#include "planck/core/stream.h"
#include "planck/core/view.h"
#include "planck/math/products/exact_product.h"

namespace planck::conv_detail {

// The bits of the largest finite magnitude; the top bit says that there is NaN or an infinity.
struct Magnitude {
  std::uint32_t bits = 0;

  void add(float x) {
    const std::uint32_t m = math::exact::magnitude_of(x);
    join({m < 0x7f800000u ? m : 0x80000000u});
  }
  void join(Magnitude other) {
    const std::uint32_t a = bits & 0x7fffffffu, b = other.bits & 0x7fffffffu;
    bits = ((bits | other.bits) & 0x80000000u) | (a > b ? a : b);
  }
  bool finite() const { return bits >> 31 == 0; }
  int exponent() const { return math::exact::exponent_of(bits & 0x7fffffffu); }
};

// Of each plane [a, b] of a tensor of four axes, f32: out[a · extent of b + b].
void find_magnitudes(const Stream& stream, const View& v, Magnitude* out);

// A sum's products that are not finite, in any order: NaN if one is or if both infinities meet.
struct NotFiniteSum {
  bool nan = false, positive = false, negative = false;

  void add(float x, float y) {
    const std::uint32_t a = math::exact::magnitude_of(x), b = math::exact::magnitude_of(y);
    constexpr std::uint32_t kInf = 0x7f800000u;
    if (a < kInf && b < kInf) return;
    if (a > kInf || b > kInf || a == 0 || b == 0)
      nan = true;
    else
      (std::signbit(x) != std::signbit(y) ? negative : positive) = true;
  }
  bool any() const { return nan || positive || negative; }
  float value() const {
    if (nan || (positive && negative)) return math::nan_of(0.0f);
    return positive ? math::infinity_of(0.0f) : -math::infinity_of(0.0f);
  }
};

}  // namespace planck::conv_detail
