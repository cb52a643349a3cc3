// Gradients of elementwise ops.
//
// Conventions: abs and sign at 0 have slope 0; relu at 0 has slope 0; maximum and minimum of equal
// values give half of the gradient to each; clamp passes the gradient where lowest <= x <= highest,
// bounds included; floor, ceil, round, trunc and sign have slope 0 everywhere. pow with respect to
// the base at exponent 0 is 0, with respect to the exponent 0 where the base is 0.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/ops/elementwise/creation.functions.h"
#include "planck/ops/elementwise/elementwise.functions.h"

namespace planck {

// ---- one input ----

// The value of x times a truth value, without NaN from what is masked out.
template <class T, class M>
T masked(const T& x, const M& mask) {
  return mask_fill(x, logical_not(mask), 0);
}

template <class R>
auto pullback(const Neg&, const R&) {
  return [](auto& g) { g.give(-g.dy()); };
}
template <class R>
auto pullback(const Abs&, const R& r) {
  return [x = in<0>(r)](auto& g) { g.give(g.dy() * sign(g[x])); };
}
template <class R>
auto pullback(const Sign&, const R&) {
  return zero_pullback();
}
template <class R>
auto pullback(const Square&, const R& r) {
  return [x = in<0>(r)](auto& g) { g.give(g.dy() * (g[x] * 2)); };
}
template <class R>
auto pullback(const Sqrt&, const R& r) {
  return [y = out(r)](auto& g) { g.give(g.dy() / (g[y] * 2)); };
}
template <class R>
auto pullback(const Rsqrt&, const R& r) {  // −y³ / 2
  return [y = out(r)](auto& g) {
    const auto v = g[y];
    g.give(g.dy() * (v * square(v) * -0.5));
  };
}
template <class R>
auto pullback(const Reciprocal&, const R& r) {
  return [y = out(r)](auto& g) { g.give(-(g.dy() * square(g[y]))); };
}
template <class R>
auto pullback(const Exp&, const R& r) {
  return [y = out(r)](auto& g) { g.give(g.dy() * g[y]); };
}
template <class R>
auto pullback(const Expm1&, const R& r) {
  return [x = in<0>(r)](auto& g) { g.give(g.dy() * exp(g[x])); };
}
template <class R>
auto pullback(const Log&, const R& r) {
  return [x = in<0>(r)](auto& g) { g.give(g.dy() / g[x]); };
}
template <class R>
auto pullback(const Log1p&, const R& r) {
  return [x = in<0>(r)](auto& g) { g.give(g.dy() / (g[x] + 1)); };
}
template <class R>
auto pullback(const Sin&, const R& r) {
  return [x = in<0>(r)](auto& g) { g.give(g.dy() * cos(g[x])); };
}
template <class R>
auto pullback(const Cos&, const R& r) {
  return [x = in<0>(r)](auto& g) { g.give(-(g.dy() * sin(g[x]))); };
}
template <class R>
auto pullback(const Tanh&, const R& r) {  // 1 − y²
  return [y = out(r)](auto& g) { g.give(g.dy() * (1 - square(g[y]))); };
}
template <class R>
auto pullback(const Sigmoid&, const R& r) {  // y (1 − y)
  return [y = out(r)](auto& g) {
    const auto v = g[y];
    g.give(g.dy() * (v * (1 - v)));
  };
}
template <class R>
auto pullback(const Relu&, const R& r) {
  return [y = out(r)](auto& g) { g.give(relu_backward(g.dy(), g[y])); };
}
template <class R>
auto pullback(const LeakyRelu& op, const R& r) {
  return [x = in<0>(r), slope = op.slope](auto& g) {
    const auto v = g[x];
    g.give(where(gt(v, zeros_like(v)), g.dy(), g.dy() * slope));
  };
}
template <class R>
auto pullback(const Gelu&, const R& r) {
  return [x = in<0>(r)](auto& g) { g.give(gelu_backward(g.dy(), g[x])); };
}
template <class T>
T silu_gradient(const T& dy, const T& x) {  // s + x s (1 − s)
  const auto s = sigmoid(x);
  return dy * (s + x * (s * (1 - s)));
}
template <class R>
auto pullback(const Silu&, const R& r) {
  return [x = in<0>(r)](auto& g) { g.give(silu_gradient(g.dy(), g[x])); };
}
template <class R>
auto pullback(const Softplus&, const R& r) {
  return [x = in<0>(r)](auto& g) { g.give(g.dy() * sigmoid(g[x])); };
}
template <class R>
auto pullback(const Softsign&, const R& r) {  // 1 / (1 + |x|)²
  return [x = in<0>(r)](auto& g) { g.give(g.dy() * square(reciprocal(abs(g[x]) + 1))); };
}
template <class R>
auto pullback(const Erf&, const R& r) {  // 2/√π exp(−x²)
  return [x = in<0>(r)](auto& g) {
    constexpr double kTwoOverRootPi = 1.12837916709551257390;
    g.give(g.dy() * (exp(-square(g[x])) * kTwoOverRootPi));
  };
}
template <class R>
auto pullback(const Floor&, const R&) {
  return zero_pullback();
}
template <class R>
auto pullback(const Ceil&, const R&) {
  return zero_pullback();
}
template <class R>
auto pullback(const Round&, const R&) {
  return zero_pullback();
}
template <class R>
auto pullback(const Trunc&, const R&) {
  return zero_pullback();
}
template <class R>
auto pullback(const Clamp& op, const R& r) {
  return [x = in<0>(r), op](auto& g) {
    const auto v = g[x];
    // Bounds may be numbers that 16 bits do not hold.
    const auto inside = logical_and(operator_detail::compared(Ge{}, v, op.lowest),
                                    operator_detail::compared(Le{}, v, op.highest));
    g.give(masked(g.dy(), inside));
  };
}
template <class R>
auto pullback(const AddScalar&, const R&) {
  return [](auto& g) { g.give(g.dy()); };
}
template <class R>
auto pullback(const MulScalar& op, const R&) {
  return [op](auto& g) { g.give(call(op, g.dy())); };
}
template <class R>
auto pullback(const DivScalar& op, const R&) {
  return [op](auto& g) { g.give(call(op, g.dy())); };
}
template <class R>
auto pullback(const RdivScalar&, const R& r) {  // −y / x
  return [x = in<0>(r), y = out(r)](auto& g) { g.give(-(g.dy() * g[y] / g[x])); };
}
template <class R>
auto pullback(const PowScalar& op, const R& r) {  // p x^(p − 1)
  return [x = in<0>(r), p = op.exponent](auto& g) {
    if (p == 0)
      g.give(zeros_like(g.dy()));
    else
      g.give(g.dy() * (pow(g[x], p - 1) * p));
  };
}
template <class R>
auto pullback(const Cast<FloatKind>&, const R& r) {
  return [from = dtype_of_input<0>(r)](auto& g) { g.give(to_float(g.dy(), from)); };
}
template <class R>
auto pullback(const MaskFill&, const R& r) {
  return [mask = in<1>(r)](auto& g) { g.give(mask_fill(g.dy(), mask, 0)); };
}

// ---- two inputs ----

template <class R>
auto pullback(const Add&, const R&) {
  return [](auto& g) {
    if (g.needs(0)) g.give(0, g.dy());
    if (g.needs(1)) g.give(1, g.dy());
  };
}
template <class R>
auto pullback(const Sub&, const R&) {
  return [](auto& g) {
    if (g.needs(0)) g.give(0, g.dy());
    if (g.needs(1)) g.give(1, -g.dy());
  };
}
template <class R>
auto pullback(const Mul&, const R& r) {
  return [a = in<0>(r, r.needs(1)), b = in<1>(r, r.needs(0))](auto& g) {
    if (g.needs(0)) g.give(0, g.dy() * g[b]);
    if (g.needs(1)) g.give(1, g.dy() * g[a]);
  };
}
template <class R>
auto pullback(const Div&, const R& r) {  // da = dy / b; db = −dy y / b
  return [y = out(r, r.needs(1)), b = in<1>(r)](auto& g) {
    if (g.needs(0)) g.give(0, g.dy() / g[b]);
    if (g.needs(1)) g.give(1, -(g.dy() * g[y] / g[b]));
  };
}
// Both of maximum and minimum: the winner takes the gradient, equals share it.
template <class R>
auto pullback_of_choice(const R& r) {
  return [a = in<0>(r), b = in<1>(r), y = out(r)](auto& g) {
    const auto u = g[a], v = g[b], w = g[y];
    const auto dy = where(eq(u, v), g.dy() * 0.5, g.dy());
    if (g.needs(0)) g.give(0, masked(dy, eq(u, w)));
    if (g.needs(1)) g.give(1, masked(dy, eq(v, w)));
  };
}
template <class R>
auto pullback(const Maximum&, const R& r) {
  return pullback_of_choice(r);
}
template <class R>
auto pullback(const Minimum&, const R& r) {
  return pullback_of_choice(r);
}
template <class R>
auto pullback(const Pow&, const R& r) {  // da = dy p a^(p − 1); dp = dy y log a
  return [a = in<0>(r), p = in<1>(r), y = out(r, r.needs(1))](auto& g) {
    const auto base = g[a], exponent = g[p];
    if (g.needs(0)) {
      const auto slope = pow(base, exponent - 1) * exponent;
      g.give(0, g.dy() * mask_fill(slope, eq(exponent, zeros_like(exponent)), 0));
    }
    if (g.needs(1)) {
      const auto zero = eq(base, zeros_like(base));
      g.give(1, mask_fill(g.dy() * (g[y] * log(base)), zero, 0));
    }
  };
}
template <class R>
auto pullback(const Atan2&, const R& r) {  // dy = d x / (x² + y²), dx = −d y / (x² + y²)
  return [a = in<0>(r), b = in<1>(r)](auto& g) {
    const auto y = g[a], x = g[b];
    const auto d = g.dy() / (square(x) + square(y));
    if (g.needs(0)) g.give(0, d * x);
    if (g.needs(1)) g.give(1, -(d * y));
  };
}
template <class R>
auto pullback(const GeluBackward&,
              const R& r) {  // d(a slope(b)) = slope(b) da + a φ(b) (2 − b²) db
  return [a = in<0>(r, r.needs(1)), b = in<1>(r)](auto& g) {
    constexpr double kInverseRoot2Pi = 0.39894228040143267794;
    const auto x = g[b];
    if (g.needs(0)) g.give(0, gelu_backward(g.dy(), x));
    if (g.needs(1)) {
      const auto density = exp(square(x) * -0.5) * kInverseRoot2Pi;
      g.give(1, g.dy() * (g[a] * (density * (2 - square(x)))));
    }
  };
}
template <class R>
auto pullback(const ReluBackward&, const R& r) {  // the slope of b's sign is 0
  return [b = in<1>(r)](auto& g) {
    if (g.needs(0)) g.give(0, relu_backward(g.dy(), g[b]));
    if (g.needs(1)) g.give(1, zeros_like(g.dy()));
  };
}
template <class R>
auto pullback(const Where<FloatKind>&, const R& r) {
  return [mask = in<0>(r)](auto& g) {
    if (g.needs(1)) g.give(1, masked(g.dy(), mask));
    if (g.needs(2)) g.give(2, mask_fill(g.dy(), mask, 0));
  };
}

}  // namespace planck
