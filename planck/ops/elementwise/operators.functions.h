// Operators on tensors: arithmetic, comparisons and bits, between tensors that broadcast, and with
// numbers. Float and integer tensors do not mix. A number keeps its value or is refused
// (core/scalar.h); for 16-bit floats it is taken as f32. x += y and the like give x another value,
// in its own memory where nobody else holds that; they do not change x's shape.
#pragma once

#include "planck/backend/call.h"
#include "planck/ops/elementwise/elementwise.ops.h"

namespace planck {

template <class S>
concept Number = std::is_arithmetic_v<S>;

// A number as ops take it.
template <Number S>
constexpr Scalar scalar(S s) {
  return Scalar(s);
}

// As x in dtype and device; as x in shape too, unless another is given.
template <class B, class K>
Tensor<B, K> full_like(const Tensor<B, K>& x, Scalar value, const Shape& shape) {
  return create<B>(Full<K>(value, x.dtype(), shape), x.device());
}
// x as floats of a dtype, rounded once.
template <class B, class K>
Tensor<B> to_float(const Tensor<B, K>& x, Dtype dtype) {
  tensor_detail::check_kind("to_float", FloatKind::name, dtype);
  return call(Cast<FloatKind>{{}, dtype}, x);
}
// x as integers: floats are truncated, saturating; NaN becomes 0.
template <class B, class K>
Tensor<B, IntKind> to_int(const Tensor<B, K>& x, Dtype dtype = Dtype::i64) {
  tensor_detail::check_kind("to_int", IntKind::name, dtype);
  return call(Cast<IntKind>{{}, dtype}, x);
}

#define PLANCK_OPERATOR(sign, Op)                              \
  template <class X, SameTensors<X> Y>                         \
  CalledOn<Op, X> sign(X&& a, Y&& b) {                         \
    return call(Op{}, std::forward<X>(a), std::forward<Y>(b)); \
  }
PLANCK_OPERATOR(operator+, Add)  // add
PLANCK_OPERATOR(operator-, Sub)  // sub
PLANCK_OPERATOR(operator*, Mul)  // mul
PLANCK_OPERATOR(operator/, Div)  // div
PLANCK_OPERATOR(operator<, Lt)   // lt
PLANCK_OPERATOR(operator<=, Le)  // le
PLANCK_OPERATOR(operator>, Gt)   // gt
PLANCK_OPERATOR(operator>=, Ge)  // ge
#undef PLANCK_OPERATOR

// ---- with a number ----

namespace operator_detail {

// A 16-bit tensor is compared in f32, where the number keeps its digits.
template <class Op, class B, class K>
Tensor<B, BoolKind> compared(const Op& op, const Tensor<B, K>& x, Scalar s) {
  value_or_throw(check_scalar(Op::name, scalar_dtype(x.dtype()), s));
  if constexpr (std::same_as<K, FloatKind>)
    if (const Dtype compute = compute_dtype(x.dtype()); compute != x.dtype())
      return compared(op, to_float(x, compute), s);
  return call(op, x, full_like(x, s, Shape{}));
}

}  // namespace operator_detail

// −x
template <AnyTensor X>
CalledOn<Neg, X> operator-(X&& x) {
  return call(Neg{}, std::forward<X>(x));
}
// x + s, for a number s
template <AnyTensor X, Number S>
CalledOn<AddScalar, X> operator+(X&& x, S s) {
  return call(AddScalar{{}, s}, std::forward<X>(x));
}
// s + x
template <Number S, AnyTensor X>
CalledOn<AddScalar, X> operator+(S s, X&& x) {
  return std::forward<X>(x) + s;
}
// x − s
template <AnyTensor X, Number S>
CalledOn<AddScalar, X> operator-(X&& x, S s) {  // x + −s, but for the integer without an opposite
  const Scalar value(s), opposite = value.negated();
  const Dtype as = scalar_dtype(x.dtype());
  value_or_throw(check_scalar("sub", as, value));
  if (!holds(as, opposite)) return call(Sub{}, x, full_like(x, value, Shape{}));
  return call(AddScalar{{}, opposite}, std::forward<X>(x));
}
// s − x
template <Number S, AnyTensor X>
CalledOn<AddScalar, X> operator-(S s, X&& x) {  // s − x = −x + s, exactly
  return -std::forward<X>(x) + s;
}
// x s
template <AnyTensor X, Number S>
CalledOn<MulScalar, X> operator*(X&& x, S s) {
  return call(MulScalar{{}, s}, std::forward<X>(x));
}
// s x
template <Number S, AnyTensor X>
CalledOn<MulScalar, X> operator*(S s, X&& x) {
  return std::forward<X>(x) * s;
}
// A true division, not a product with the reciprocal.
template <AnyTensor X, Number S>
CalledOn<DivScalar, X> operator/(X&& x, S s) {
  return call(DivScalar{{}, s}, std::forward<X>(x));
}
// s / x
template <Number S, AnyTensor X>
CalledOn<RdivScalar, X> operator/(S s, X&& x) {
  return call(RdivScalar{{}, s}, std::forward<X>(x));
}

#define PLANCK_COMPARISON(sign, turned, name, Op) \
  template <AnyTensor X, Number S>                \
  CalledOn<Op, X> sign(const X& x, S s) {         \
    return operator_detail::compared(Op{}, x, s); \
  }                                               \
  template <Number S, AnyTensor X>                \
  CalledOn<Op, X> turned(S s, const X& x) {       \
    return operator_detail::compared(Op{}, x, s); \
  }                                               \
  template <AnyTensor X, Number S>                \
  CalledOn<Op, X> name(const X& x, S s) {         \
    return operator_detail::compared(Op{}, x, s); \
  }
PLANCK_COMPARISON(operator<, operator>, lt, Lt)    // x < s, as lt(x, s) and s > x
PLANCK_COMPARISON(operator<=, operator>=, le, Le)  // x <= s, as le(x, s) and s >= x
PLANCK_COMPARISON(operator>, operator<, gt, Gt)    // x > s, as gt(x, s) and s < x
PLANCK_COMPARISON(operator>=, operator<=, ge, Ge)  // x >= s, as ge(x, s) and s <= x
#undef PLANCK_COMPARISON
// x == s, elementwise
template <AnyTensor X, Number S>
CalledOn<Eq, X> eq(const X& x, S s) {
  return operator_detail::compared(Eq{}, x, s);
}
// x != s, elementwise
template <AnyTensor X, Number S>
CalledOn<Ne, X> ne(const X& x, S s) {
  return operator_detail::compared(Ne{}, x, s);
}

// ---- bits of integers, logic of truth values ----

template <class X>
concept BitsTensor = AnyTensor<X> &&(std::same_as<typename std::remove_cvref_t<X>::Kind, IntKind> ||
                                     std::same_as<typename std::remove_cvref_t<X>::Kind, BoolKind>);
template <class X>
concept IntegerTensor =
    AnyTensor<X> && std::same_as<typename std::remove_cvref_t<X>::Kind, IntKind>;

namespace operator_detail {
template <class X>
inline constexpr bool kTruth = std::same_as<typename std::remove_cvref_t<X>::Kind, BoolKind>;
template <class X, class Bits, class Logic>
using BitsOr = std::conditional_t<kTruth<X>, Logic, Bits>;
}  // namespace operator_detail

#define PLANCK_BITS(sign, Bits, Logic)                                                   \
  template <BitsTensor X, SameTensors<X> Y>                                              \
  CalledOn<Bits, X> sign(X&& a, Y&& b) {                                                 \
    return call(operator_detail::BitsOr<X, Bits, Logic>{}, std::forward<X>(a),           \
                std::forward<Y>(b));                                                     \
  }                                                                                      \
  template <BitsTensor X, Number S>                                                      \
  CalledOn<Bits, X> sign(const X& a, S s) {                                              \
    return call(operator_detail::BitsOr<X, Bits, Logic>{}, a, full_like(a, s, Shape{})); \
  }
PLANCK_BITS(operator&, BitwiseAnd, LogicalAnd)  // bitwise_and, logical_and; b may be a number
PLANCK_BITS(operator|, BitwiseOr, LogicalOr)    // bitwise_or, logical_or; b may be a number
PLANCK_BITS(operator^, BitwiseXor, LogicalXor)  // bitwise_xor, logical_xor; b may be a number
#undef PLANCK_BITS
// bitwise_not, logical_not
template <BitsTensor X>
CalledOn<BitwiseNot, X> operator~(X&& x) {
  return call(operator_detail::BitsOr<X, BitwiseNot, LogicalNot>{}, std::forward<X>(x));
}
#define PLANCK_SHIFT(sign, Op)                                 \
  template <IntegerTensor X, SameTensors<X> Y>                 \
  CalledOn<Op, X> sign(X&& a, Y&& b) {                         \
    return call(Op{}, std::forward<X>(a), std::forward<Y>(b)); \
  }                                                            \
  template <IntegerTensor X, Number S>                         \
  CalledOn<Op, X> sign(const X& a, S s) {                      \
    return call(Op{}, a, full_like(a, s, Shape{}));            \
  }
PLANCK_SHIFT(operator<<, ShiftLeft)   // shift_left; b may be a number
PLANCK_SHIFT(operator>>, ShiftRight)  // shift_right; b may be a number
#undef PLANCK_SHIFT

// ---- assignment ----

// What x may be combined with.
template <class Y, class X>
concept Operand = SameTensors<X, Y> || Number<std::remove_cvref_t<Y>>;

namespace operator_detail {
// What is assigned to a tensor broadcasts to its shape.
template <class X, class Y>
void check_assigned(std::string_view op, const X& x, const Y& y) {
  if constexpr (AnyTensor<Y>) {
    if (x.shape() == y.shape()) return;
    if (value_or_throw(broadcast_shape(op, x.shape(), y.shape())) != x.shape())
      refuse("{}: shape {} does not broadcast to {}", {op, y.shape(), x.shape()});
  }
}
}  // namespace operator_detail

#define PLANCK_ASSIGNMENT(sign, assigned)             \
  template <AnyTensor X, Operand<X> Y>                \
  X& assigned(X& x, const Y& y) {                     \
    operator_detail::check_assigned(#assigned, x, y); \
    return x = std::move(x) sign y;                   \
  }
PLANCK_ASSIGNMENT(+, operator+=)  // x = x + y, for a tensor or a number y
PLANCK_ASSIGNMENT(-, operator-=)  // x = x - y
PLANCK_ASSIGNMENT(*, operator*=)  // x = x * y
PLANCK_ASSIGNMENT(/, operator/=)  // x = x / y
PLANCK_ASSIGNMENT(&, operator&=)  // x = x & y
PLANCK_ASSIGNMENT(|, operator|=)  // x = x | y
PLANCK_ASSIGNMENT(^, operator^=)  // x = x ^ y
#undef PLANCK_ASSIGNMENT

}  // namespace planck
