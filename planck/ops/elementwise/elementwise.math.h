// Element math of the elementwise family: one struct per op, host and device, no loops, no memory.
//
// C is the compute type: float (f32, f16, bf16), double, int32_t, int64_t, or uint8_t for booleans.
// of(…) may return any NaN; whoever stores makes it the canonical one. Integers wrap around.
// narrow<T>(…) is what f16 and bf16 have instead, where that is shorter (math/narrow.h).
#pragma once

#include <limits>
#include <type_traits>

#include "planck/math/elementary.h"
#include "planck/math/narrow.h"
#include "planck/ops/elementwise/elementwise.problem.h"

namespace planck::elementwise_math {

// The scalars of a problem in its compute type.
template <class C>
struct Scalars {
  C a, b;
};
template <class C>
Scalars<C> scalars_of(const ElementwiseProblem& p) {
  if constexpr (std::is_floating_point_v<C>) {
    return {static_cast<C>(p.scalars[0].number), static_cast<C>(p.scalars[1].number)};
  } else {  // a bound that an integer cannot hold is its nearest end
    const auto held = [](std::int64_t v) {
      constexpr std::int64_t kLow = std::numeric_limits<C>::min(),
                             kHigh = std::numeric_limits<C>::max();
      return static_cast<C>(v < kLow ? kLow : v > kHigh ? kHigh : v);
    };
    return {held(p.scalars[0].whole), held(p.scalars[1].whole)};
  }
}

// Arithmetic that wraps around for integers and is IEEE's for floats.
template <class C>
using Wrapping = typename std::conditional_t<std::is_integral_v<C>, std::make_unsigned<C>,
                                             std::type_identity<C>>::type;
template <class C>
PLANCK_HD C plus(C a, C b) {
  return static_cast<C>(static_cast<Wrapping<C>>(a) + static_cast<Wrapping<C>>(b));
}
template <class C>
PLANCK_HD C minus(C a, C b) {
  return static_cast<C>(static_cast<Wrapping<C>>(a) - static_cast<Wrapping<C>>(b));
}
template <class C>
PLANCK_HD C times(C a, C b) {
  return static_cast<C>(static_cast<Wrapping<C>>(a) * static_cast<Wrapping<C>>(b));
}

// IEEE's for floats; integers truncate, a / 0 = 0, and −2^31 / −1 wraps around: 0 − a.
template <class C>
PLANCK_HD C quotient(C a, C b) {
  if constexpr (std::is_integral_v<C>) {
    const bool plain = b != C(0) && b != C(-1);
    const C truncated = a / (plain ? b : C(1));
    return b == C(0) ? C(0) : b == C(-1) ? minus(C(0), a) : truncated;
  } else {
    return a / b;
  }
}
// Counts that are negative or as large as the width shift everything out.
template <class C>
PLANCK_HD C shifted_left(C a, C b) {
  constexpr C kBits = 8 * sizeof(C);
  const bool within = b >= C(0) && b < kBits;
  return within ? static_cast<C>(static_cast<Wrapping<C>>(a) << b) : C(0);
}
template <class C>
PLANCK_HD C shifted_right(C a, C b) {
  constexpr C kBits = 8 * sizeof(C);
  return a >> (b >= C(0) && b < kBits ? b : kBits - 1);
}

#define PLANCK_UNARY(Name, op_name, ...)                               \
  struct Name {                                                        \
    static constexpr ElementwiseOp kOp = ElementwiseOp::op_name;       \
    template <class C>                                                 \
    PLANCK_HD static C of(C x, [[maybe_unused]] const Scalars<C>& s) { \
      __VA_ARGS__                                                      \
    }                                                                  \
  };
#define PLANCK_FUNCTION(Name, function)                           \
  struct Name {                                                   \
    static constexpr ElementwiseOp kOp = ElementwiseOp::function; \
    static constexpr bool kHasNarrow = true;                      \
    template <class C>                                            \
    PLANCK_HD static C of(C x, const Scalars<C>&) {               \
      return math::function(x);                                   \
    }                                                             \
    template <class T>                                            \
    PLANCK_HD static float narrow(float x) {                      \
      return math::narrow::function<T>(x);                        \
    }                                                             \
  };
#define PLANCK_BINARY(Name, op_name, ...)                        \
  struct Name {                                                  \
    static constexpr ElementwiseOp kOp = ElementwiseOp::op_name; \
    template <class C>                                           \
    PLANCK_HD static auto of(C a, C b) {                         \
      __VA_ARGS__                                                \
    }                                                            \
  };

PLANCK_UNARY(Neg, neg, {
  if constexpr (std::is_integral_v<C>)
    return minus(C(0), x);
  else
    return -x;
})
PLANCK_UNARY(Abs, abs, {
  if constexpr (std::is_integral_v<C>)
    return x < 0 ? minus(C(0), x) : x;
  else
    return math::abs_of(x);
})
PLANCK_UNARY(Sign, sign, {
  const C y = x > C(0) ? C(1) : x < C(0) ? C(-1) : C(0);
  return x != x ? x : y;
})
PLANCK_UNARY(Square, square, return times(x, x);)
PLANCK_UNARY(Sqrt, sqrt, return math::sqrt_of(x);)
PLANCK_UNARY(Rsqrt, rsqrt, return math::rsqrt(x);)
PLANCK_UNARY(Reciprocal, reciprocal, return C(1) / x;)
PLANCK_FUNCTION(Exp, exp)
PLANCK_UNARY(Expm1, expm1, return math::expm1(x);)
PLANCK_FUNCTION(Log, log)
PLANCK_UNARY(Log1p, log1p, return math::log1p(x);)
PLANCK_FUNCTION(Tanh, tanh)
PLANCK_FUNCTION(Sigmoid, sigmoid)
PLANCK_UNARY(Relu, relu, {
  const C y = x > C(0) ? x : C(0);
  return x != x ? x : y;
})
PLANCK_UNARY(LeakyRelu, leaky_relu, return x > C(0) ? x : s.a * x;)
PLANCK_FUNCTION(Gelu, gelu)
PLANCK_FUNCTION(Silu, silu)
PLANCK_UNARY(Softplus, softplus, return math::softplus(x);)
// Beyond 2^60 the quotient is 1; infinity is held back from inf / inf.
PLANCK_UNARY(Softsign, softsign, {
  const C a = math::abs_of(x) > C(0x1p60) ? C(0x1p60) : math::abs_of(x);
  return math::with_sign(a / (C(1) + a), x);
})
PLANCK_UNARY(Erf, erf, return math::erf(x);)
PLANCK_UNARY(Floor, floor, return math::floor_of(x);)
PLANCK_UNARY(Ceil, ceil, return -math::floor_of(-x);)
PLANCK_UNARY(Round, round, return math::nearest_integer(x);)
PLANCK_UNARY(Trunc, trunc, return math::with_sign(math::floor_of(math::abs_of(x)), x);)
PLANCK_UNARY(Clamp, clamp, {
  const C y = x < s.a ? s.a : x;
  return y > s.b ? s.b : y;
})
PLANCK_UNARY(AddScalar, add_scalar, return plus(x, s.a);)
PLANCK_UNARY(MulScalar, mul_scalar, return times(x, s.a);)
PLANCK_UNARY(DivScalar, div_scalar, return quotient(x, s.a);)
PLANCK_UNARY(RdivScalar, rdiv_scalar, return quotient(s.a, x);)
PLANCK_UNARY(PowScalar, pow_scalar, return math::pow(x, s.a);)
PLANCK_UNARY(LogicalNot, logical_not, return static_cast<C>(x == 0);)
PLANCK_UNARY(BitwiseNot, bitwise_not, return static_cast<C>(~x);)

// Loops compute the near part for all elements and look at far ones again.
struct Sin {
  static constexpr ElementwiseOp kOp = ElementwiseOp::sin;
  static constexpr bool kHasFar = true, kHasNarrow = true;
  template <class C>
  PLANCK_HD static C of(C x, const Scalars<C>&) {
    return math::sin(x);
  }
  template <class C>
  PLANCK_HD static C near(C x) {
    return math::sin_near(x);
  }
  template <class T>
  PLANCK_HD static float narrow(float x) {
    return math::narrow::sin<T>(x);
  }
  template <class T>
  PLANCK_HD static float narrow_near(float x) {
    return math::narrow::sin_near(x);
  }
};
struct Cos {
  static constexpr ElementwiseOp kOp = ElementwiseOp::cos;
  static constexpr bool kHasFar = true;
  template <class C>
  PLANCK_HD static C of(C x, const Scalars<C>&) {
    return math::cos(x);
  }
  template <class C>
  PLANCK_HD static C near(C x) {
    return math::cos_near(x);
  }
};
template <class F>
concept HasFar = requires {
  F::kHasFar;
};
template <class F>
concept HasNarrow = requires {
  F::kHasNarrow;
};

PLANCK_BINARY(Add, add, return plus(a, b);)
PLANCK_BINARY(Sub, sub, return minus(a, b);)
PLANCK_BINARY(Mul, mul, return times(a, b);)
PLANCK_BINARY(Div, div, return quotient(a, b);)
// Of two equal floats, maximum takes +0 and minimum −0.
PLANCK_BINARY(Maximum, maximum, {
  if constexpr (std::is_integral_v<C>) {
    return a > b ? a : b;
  } else {
    const C same = math::from_bits(math::bits_of(a) & math::bits_of(b));
    const C y = a > b ? a : b > a ? b : same;
    return (a != a) | (b != b) ? math::nan_of(a) : y;
  }
})
PLANCK_BINARY(Minimum, minimum, {
  if constexpr (std::is_integral_v<C>) {
    return a < b ? a : b;
  } else {
    const C same = math::from_bits(math::bits_of(a) | math::bits_of(b));
    const C y = a < b ? a : b < a ? b : same;
    return (a != a) | (b != b) ? math::nan_of(a) : y;
  }
})
struct Pow {
  static constexpr ElementwiseOp kOp = ElementwiseOp::pow;
  static constexpr bool kHasNarrow = true;
  template <class C>
  PLANCK_HD static C of(C a, C b) {
    return math::pow(a, b);
  }
  template <class T>
  PLANCK_HD static float narrow(float a, float b) {
    return math::narrow::pow<T>(a, b);
  }
};
PLANCK_BINARY(Atan2, atan2, return math::atan2(a, b);)
PLANCK_BINARY(GeluBackward, gelu_backward, return a * math::gelu_slope(b);)
PLANCK_BINARY(ReluBackward, relu_backward, return b > C(0) ? a : C(0);)
PLANCK_BINARY(Eq, eq, return static_cast<std::uint8_t>(a == b);)
PLANCK_BINARY(Ne, ne, return static_cast<std::uint8_t>(a != b);)
PLANCK_BINARY(Lt, lt, return static_cast<std::uint8_t>(a < b);)
PLANCK_BINARY(Le, le, return static_cast<std::uint8_t>(a <= b);)
PLANCK_BINARY(Gt, gt, return static_cast<std::uint8_t>(a > b);)
PLANCK_BINARY(Ge, ge, return static_cast<std::uint8_t>(a >= b);)
// Any byte but 0 is true.
PLANCK_BINARY(LogicalAnd, logical_and, return static_cast<C>((a != 0) & (b != 0));)
PLANCK_BINARY(LogicalOr, logical_or, return static_cast<C>((a | b) != 0);)
PLANCK_BINARY(LogicalXor, logical_xor, return static_cast<C>((a != 0) != (b != 0));)
PLANCK_BINARY(BitwiseAnd, bitwise_and, return static_cast<C>(a & b);)
PLANCK_BINARY(BitwiseOr, bitwise_or, return static_cast<C>(a | b);)
PLANCK_BINARY(BitwiseXor, bitwise_xor, return static_cast<C>(a ^ b);)
PLANCK_BINARY(ShiftLeft, shift_left, return shifted_left(a, b);)
PLANCK_BINARY(ShiftRight, shift_right, return shifted_right(a, b);)
#undef PLANCK_UNARY
#undef PLANCK_FUNCTION
#undef PLANCK_BINARY

// ---- lists of ops, in the order of the table ----

template <class... F>
struct Ops {};
template <class... F, class... G>
Ops<F..., G...> operator+(Ops<F...>, Ops<G...>);
template <class F, bool taken>
using If = std::conditional_t<taken, Ops<F>, Ops<>>;
// Those that read some of the dtypes.
template <std::uint8_t dtypes, class... F>
using Reading = decltype((Ops<>{} + ... + If<F, (dtypes_of(F::kOp) & dtypes) != 0>{}));

#define PLANCK_UNARY_OP(name, F, ...) , F
#define PLANCK_SCALAR_OP PLANCK_UNARY_OP
template <std::uint8_t dtypes>
using Unary = Reading<dtypes
#include "planck/ops/elementwise/elementwise.table.h"
                      >;
#define PLANCK_BINARY_OP(name, F, ...) , F
#define PLANCK_COMPARE_OP PLANCK_BINARY_OP
template <std::uint8_t dtypes>
using Binary = Reading<dtypes
#include "planck/ops/elementwise/elementwise.table.h"
                       >;
using FloatUnary = Unary<elementwise_dtypes::floats>;
using FloatBinary = Binary<elementwise_dtypes::floats>;
using IntegerUnary = Unary<elementwise_dtypes::integers>;
using IntegerBinary = Binary<elementwise_dtypes::integers>;
using BooleanUnary = Unary<elementwise_dtypes::booleans>;
using BooleanBinary = Binary<elementwise_dtypes::booleans>;

template <class F>
inline constexpr bool kNarrow = HasNarrow<F>;
template <class... F>
auto narrow_ones(Ops<F...>) -> decltype((Ops<>{} + ... + If<F, kNarrow<F>>{}));
using NarrowUnary = decltype(narrow_ones(FloatUnary{}));
using NarrowBinary = decltype(narrow_ones(FloatBinary{}));

// The op for a stored type: computed values of T.
template <class F, class T>
concept Narrow = (std::is_same_v<T, f16> || std::is_same_v<T, bf16>)&&HasNarrow<F>;
template <class F, class T, class C>
PLANCK_HD C unary_of(C x, const Scalars<C>& s) {
  if constexpr (Narrow<F, T>)
    return F::template narrow<T>(x);
  else
    return F::of(x, s);
}
template <class F, class T, class C>
PLANCK_HD auto binary_of(C a, C b) {
  if constexpr (Narrow<F, T>)
    return F::template narrow<T>(a, b);
  else
    return F::of(a, b);
}

template <class C>
PLANCK_HD C stored(C v) {
  if constexpr (std::is_floating_point_v<C>)
    return math::canonical(v);
  else
    return v;
}

}  // namespace planck::elementwise_math
