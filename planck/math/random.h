// Random numbers of a distribution, from the words of planck/math/philox.h; host and device, the
// same bits.
//
//   uniform01<T>   [0, 1): f32 has 24 random bits of one word, f64 53 of two; exact
//   normal_pair    two independent numbers of mean 0 and standard deviation 1 (Box and Muller) from
//                  two words per number (f64: two pairs):  sqrt(−2 log u) · (cos, sin)(2π v), u in
//                  (0, 1] of 32 (53) bits; none is farther from 0 than 6.7 (8.6)
//   RandomBlock    the numbers that one counter gives: four f32 or two f64
#pragma once

#include "planck/math/log.h"
#include "planck/math/philox.h"
#include "planck/math/trig.h"

namespace planck {

PLANCK_HD double uniform01(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t word = static_cast<std::uint64_t>(high) << 32 | low;
  return static_cast<double>(static_cast<std::int64_t>(word >> 11)) * 0x1p-53;
}

template <class T>
struct NormalPair {
  T first, second;
};

namespace random_detail {

// radius · (cos, sin) of `turn` turns, 0 <= turn < 1; 4 turn is exact, and so is the reduction.
template <class T>
PLANCK_HD NormalPair<T> on_circle(T radius, T turn) {
  constexpr T kHalfPi = sizeof(T) == 4 ? T(0x1.921fb6p0f) : T(0x1.921fb54442d18p0);
  const math::Rounded<T> n = math::rounded_multiple(turn, T(4));
  const auto quadrant = static_cast<math::UnsignedOf<T>>(n.integer);
  const T r = math::fma_of(turn, T(4), -n.value) * kHalfPi;
  const T c = math::trig_detail::sin_of(math::Reduced<T>{r, quadrant + 1});
  const T s = math::trig_detail::sin_of(math::Reduced<T>{r, quadrant});
  return {radius * c, radius * s};
}

}  // namespace random_detail

PLANCK_HD NormalPair<float> normal_pair(std::uint32_t a, std::uint32_t b) {
  const float u = math::fma_of(static_cast<float>(a), 0x1p-32f, 0x1p-33f);
  return random_detail::on_circle(math::sqrt_of(-2.0f * math::log(u)), uniform01(b));
}
PLANCK_HD NormalPair<double> normal_pair(std::uint32_t a0, std::uint32_t a1, std::uint32_t b0,
                                         std::uint32_t b1) {
  const double u = uniform01(a0, a1) + 0x1p-53;
  return random_detail::on_circle(math::sqrt_of(-2.0 * math::log(u)), uniform01(b0, b1));
}

// Number i of a stream is number i % kCount of the block of counter i / kCount.
template <class T>
struct RandomBlock;
template <>
struct RandomBlock<float> {
  static constexpr int kCount = 4;
  float v[4];
  PLANCK_HD static RandomBlock uniform(const Philox4& w) {
    return {{uniform01(w.v[0]), uniform01(w.v[1]), uniform01(w.v[2]), uniform01(w.v[3])}};
  }
  PLANCK_HD static RandomBlock normal(const Philox4& w) {
    const NormalPair<float> a = normal_pair(w.v[0], w.v[1]), b = normal_pair(w.v[2], w.v[3]);
    return {{a.first, a.second, b.first, b.second}};
  }
};
template <>
struct RandomBlock<double> {
  static constexpr int kCount = 2;
  double v[2];
  PLANCK_HD static RandomBlock uniform(const Philox4& w) {
    return {{uniform01(w.v[0], w.v[1]), uniform01(w.v[2], w.v[3])}};
  }
  PLANCK_HD static RandomBlock normal(const Philox4& w) {
    const NormalPair<double> a = normal_pair(w.v[0], w.v[1], w.v[2], w.v[3]);
    return {{a.first, a.second}};
  }
};

}  // namespace planck
