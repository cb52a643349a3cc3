// Products by which tensor cores are compared with their contract (math/products/tensor_core.h):
// drawn by seed and number, the same on host and device, so that whatever a GPU finds can be
// drawn again where it is looked at.
//
// A trial is one block of k: A [kRows, block], B [block, kColumns] and what is added to, an f32 for
// each output. Kinds of numbers alternate with the trial's number.
#pragma once

#include "planck/math/philox.h"
#include "planck/math/products/tensor_core.h"

namespace planck::gemm {

enum class Numbers : std::uint8_t {
  wide,        // exponents far apart
  any_finite,  // any bits but NaN and infinities
  cancelling,  // products in pairs that leave nothing, or a last bit; c is one of them, negated
  tiny,        // subnormal factors and results
  huge,        // near the largest f32, and past it
  placed,      // terms around the place where they are cut, of few bits or of all
  special,     // NaN, infinities and zeros among ordinary numbers
  zeros,       // zeros and ones of both signs
};
inline constexpr int kKindsOfNumbers = 8;
constexpr const char* name(Numbers n) {
  constexpr const char* kNames[] = {"wide exponents", "any finite bits", "cancellations",
                                    "tiny numbers",   "huge numbers",    "terms around the cut",
                                    "special values", "zeros and ones"};
  return kNames[static_cast<int>(n)];
}

struct Trial {
  static constexpr int kRows = 64, kColumns = 32, kOutputs = kRows * kColumns;
  enum class What : std::uint8_t { a, b, start, products };

  std::uint64_t seed, number;

  PLANCK_HD Numbers numbers() const { return static_cast<Numbers>(number % kKindsOfNumbers); }
  // line: a row of A, a column of B.
  PLANCK_HD Philox4 words(What what, int line, int at) const {
    const std::uint64_t place = static_cast<std::uint64_t>(what) << 56 |
                                static_cast<std::uint64_t>(line) << 24 |
                                static_cast<std::uint64_t>(at);
    return PhiloxStream{seed, number}.words(place);
  }
  // How many products the block has; zeros fill it. One in four is not whole.
  template <class Format>
  PLANCK_HD int products() const {
    const std::uint32_t r = words(What::products, 0, 0).v[0];
    return r % 4 != 0 ? Format::kBlock : 1 + static_cast<int>(r / 4 % Format::kBlock);
  }
};

namespace trial_detail {

PLANCK_HD std::uint32_t few_bits(std::uint32_t random, std::uint32_t how) {
  return how % 3 == 0 ? 0u : how % 3 == 1 ? 0xffffffffu : random;
}
PLANCK_HD float f32_of(std::uint32_t sign, std::uint32_t exponent, std::uint32_t mantissa) {
  return math::from_bits((sign & 0x80000000u) | exponent << 23 | (mantissa & 0x7fffffu));
}

}  // namespace trial_detail

// Element k of a line of A or B.
template <class Format>
PLANCK_HD typename Format::Bits factor(const Trial& t, Trial::What side, int line, int k) {
  using Bits = typename Format::Bits;
  constexpr int kX = Format::kExponent, kLow = Format::kMantissa + Format::kDropped;
  constexpr std::uint32_t kTop = (1u << kX) - 1, kBias = kTop / 2;
  constexpr bool kIsLarge = kX == 8;  // as many exponents as f32
  const bool is_b = side == Trial::What::b;
  const Numbers numbers = t.numbers();
  const Philox4 r = t.words(side, line, numbers == Numbers::cancelling ? k & ~1 : k);
  const auto made = [&](std::uint32_t exponent, std::uint32_t mantissa) {
    return static_cast<Bits>(r.v[0] >> 31 << (kX + kLow) | exponent << kLow |
                             (mantissa & ((1u << kLow) - 1)));
  };
  const std::uint32_t pick = r.v[2], other = r.v[3];
  const auto third = static_cast<std::uint32_t>(line) % 3;
  switch (numbers) {
    case Numbers::wide: {
      constexpr std::uint32_t kSpread = kIsLarge ? 20 : 6;
      return made(kBias - kSpread + pick % (2 * kSpread), r.v[1]);
    }
    case Numbers::any_finite:
      return made(pick % (line % 2 != 0 ? kBias : kTop), r.v[1]);  // else most sums overflow
    case Numbers::cancelling: {
      const Bits x = made(kBias - 8 + pick % 16, r.v[1]);
      if (!is_b || k % 2 == 0) return x;
      const std::uint32_t last = other % 4 == 0 ? 1u << Format::kDropped : 0u;
      return static_cast<Bits>(x ^ (1u << (kX + kLow)) ^ last);
    }
    case Numbers::tiny:
      return !is_b || pick % 8 == 0 ? made(other % 4, r.v[1])
                                    : made(kBias - 3 + other % (line % 2 != 0 ? 4 : 16), r.v[1]);
    case Numbers::huge:
      return made((kIsLarge ? kBias + 62 : kTop - 4) - 2 * third + pick % 4, r.v[1]);
    case Numbers::placed:
      return made(kBias - pick % 16, trial_detail::few_bits(r.v[1], other));
    case Numbers::special:
      if (line % 2 != 0 || pick % 32 != 0) return made(kBias - 2 + other % 4, r.v[1]);
      // TF32: a payload in bits that are dropped is an infinity's.
      if (other % 4 == 0) return made(kTop, other & 4 ? 1u : r.v[1] | 1u << Format::kDropped);
      return made(other % 4 == 3 ? 0 : kTop, 0);
    default:
      return made(other % 3 == 0 ? kBias : 0, 0);
  }
}

// What the products of an output are added to, given its first two factors.
template <class Format>
PLANCK_HD float start(const Trial& t, int row, int column, typename Format::Bits a,
                      typename Format::Bits b) {
  using trial_detail::f32_of;
  const Philox4 r = t.words(Trial::What::start, row, column);
  const std::uint32_t sign = r.v[0], mantissa = r.v[1], pick = r.v[2], other = r.v[3];
  if (other % 8 == 0) return f32_of(sign, 0, 0);
  switch (t.numbers()) {
    case Numbers::wide:
      return f32_of(sign, 97 + pick % 60, mantissa);
    case Numbers::any_finite:
      return f32_of(sign, pick % 255, mantissa);
    case Numbers::cancelling: {
      const auto x = math::tensor_core::factor_of<Format>(a);
      const auto y = math::tensor_core::factor_of<Format>(b);
      const float product =
          static_cast<float>(x.magnitude * y.magnitude) *
          math::power_of_two<float>(x.exponent + y.exponent - 2 * Format::kMantissa);
      const std::uint32_t negated = x.negative == y.negative ? 0x80000000u : 0u;
      return math::from_bits((math::bits_of(product) | negated) + pick % 3 - 1);
    }
    case Numbers::tiny:
      return f32_of(sign, pick % (column % 2 != 0 ? 4 : 30), mantissa);
    case Numbers::huge:
      return f32_of(sign, (Format::kExponent == 8 ? 250 : 150) + pick % 5, mantissa);
    case Numbers::placed:
      return f32_of(sign, 127 - pick % 34, trial_detail::few_bits(mantissa, other / 8));
    case Numbers::special:
      if (row % 2 != 0 || pick % 32 != 0) return f32_of(sign, 125 + pick / 32 % 4, mantissa);
      return f32_of(sign, 255, other & 8 ? mantissa | 1 : 0);
    default:
      return pick % 4 == 0 ? f32_of(sign, 127, 0) : f32_of(sign, 0, pick % 4 == 1 ? 1 : 0);
  }
}

}  // namespace planck::gemm
