// gelu of f32, as erf.h has it, and its slope (docs/design.md, "The math once").

template <class N>
PLANCK_HD N gelu(N x) {
  using namespace math::erf_detail;
  constexpr float kShift = math::Layout<float>::kRounder + 100;
  const N a = at_most(abs_of(x), kGeluFar);
  const N t = a * reciprocal_of(a + kRatioShift), v = t * polynomial(t, ratio_terms());
  const N square = a * a, rest = fms_of(a, a, square);
  const N up = fma_of(square, -kHalfLog2E, kShift);  // n + 100, and below n + f
  const N f = fma_of(rest, -kHalfLog2E, fma_of(square, -kHalfLog2E, kShift - up));
  const N power = with_exponent(polynomial(f, math::exp_detail::exp2_terms()), up);
  return finished(fma_of(v * power, -0x1p-100f, at_least(x, -0.0f)));
}

// Φ(x) + x φ(x), rounded step by step. Errors are relative to the terms, 1/2, erf / 2 and x φ(x),
// of which the first two cancel far below 0. NaN at ±Inf.
template <class N>
PLANCK_HD N gelu_slope(N x) {
  using C = Element<N>;
  const N below = (erf(x * C(0.70710678118654752440)) + C(1)) * C(0.5);
  const N density = exp(x * x * C(-0.5)) * C(0.39894228040143267794);
  return below + x * density;
}
