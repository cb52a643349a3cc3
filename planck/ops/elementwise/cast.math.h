// Conversions between all dtypes of whole bytes: host and device.
//
//   to a float     rounded once, to nearest even; NaN becomes the canonical one
//   to an integer  truncated; what does not fit becomes the nearest end, NaN becomes 0
//   integers       those that do not fit keep their low bits (two's complement)
//   to bool        whether it is not 0; NaN is true
//   from bool      0 or 1
#pragma once

#include <limits>

#include "planck/core/dtype.h"
#include "planck/math/float_bits.h"

namespace planck::elementwise_math {

// Truncated and held between the ends of I. The upper end of a wide I is no float; `limit` is the
// power of two above it.
template <class I, class F>
PLANCK_HD I truncated(F v) {
  constexpr F limit = static_cast<F>(std::numeric_limits<I>::max() / 2 + 1) * F(2);
  constexpr F lowest = static_cast<F>(std::numeric_limits<I>::min());
  const I whole = static_cast<I>((v >= lowest) & (v < limit) ? v : F(0));
  const I below = v < lowest ? std::numeric_limits<I>::min() : whole;
  return v >= limit ? std::numeric_limits<I>::max() : below;
}

// An integer as f64 for one more rounding to a narrower float: bits that f64 cannot hold make its
// last place odd, so that only the second rounding rounds.
PLANCK_HD double for_rounding(std::int64_t v) {
  const std::int64_t low = v & 2047, high = v - low;
  const std::int64_t sticky = high | static_cast<std::int64_t>(low != 0) << 11;
  const bool wide = v > (std::int64_t{1} << 53) || v < -(std::int64_t{1} << 53);
  return static_cast<double>(wide ? sticky : v);
}

template <class D, class S>
PLANCK_HD D cast_to(S v) {
  constexpr bool kFromFloat = Float<S>, kToFloat = Float<D>;
  if constexpr (std::is_same_v<S, f16> || std::is_same_v<S, bf16>) {
    return cast_to<D>(static_cast<float>(v));
  } else if constexpr (std::is_same_v<S, bool>) {
    return cast_to<D>(static_cast<std::int32_t>(v ? 1 : 0));
  } else if constexpr (std::is_same_v<D, bool>) {
    return v != S(0);
  } else if constexpr (kFromFloat && kToFloat) {
    return static_cast<D>(math::canonical(v));
  } else if constexpr (kFromFloat) {
    return truncated<D>(v);
  } else if constexpr (std::is_same_v<D, f16> || std::is_same_v<D, bf16>) {
    if constexpr (sizeof(S) == 8)
      return D(for_rounding(v));
    else
      return D(static_cast<double>(v));
  } else {
    return static_cast<D>(v);
  }
}

}  // namespace planck::elementwise_math
