// Expressions of elementwise ops whose gradients are compared with finite differences, on every
// backend, and the inputs they are tried at. Included by tests/autodiff, which says what the inputs
// and the macros are.
//
//   PLANCK_UNARY_GRADIENT(order, f(x), x)
//   PLANCK_BINARY_GRADIENT(order, f(x, y), x, y)
//
// order: second, for functions that are smooth where they are tried; or first
#ifndef PLANCK_UNARY_GRADIENT
#define PLANCK_UNARY_GRADIENT(...)
#endif
#ifndef PLANCK_BINARY_GRADIENT
#define PLANCK_BINARY_GRADIENT(...)
#endif

PLANCK_UNARY_GRADIENT(second, -x, kMatrix)
PLANCK_UNARY_GRADIENT(second, square(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, sqrt(x), kPositive)
PLANCK_UNARY_GRADIENT(second, rsqrt(x), kPositive)
PLANCK_UNARY_GRADIENT(second, reciprocal(x), kPositive)
PLANCK_UNARY_GRADIENT(second, exp(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, expm1(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, log(x), kPositive)
PLANCK_UNARY_GRADIENT(second, log1p(x), kPositive)
PLANCK_UNARY_GRADIENT(second, sin(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, cos(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, tanh(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, sigmoid(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, gelu(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, silu(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, softplus(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, softsign(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, erf(x), kMatrix)
// Away from their kinks.
PLANCK_UNARY_GRADIENT(second, abs(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, relu(x), kMatrix)
PLANCK_UNARY_GRADIENT(second, leaky_relu(x, 0.2), kMatrix)
PLANCK_UNARY_GRADIENT(second, clamp(x, -0.7, 0.8), kMatrix)
PLANCK_UNARY_GRADIENT(first, sign(x), kMatrix)
PLANCK_UNARY_GRADIENT(first, floor(x), kMatrix)
PLANCK_UNARY_GRADIENT(first, ceil(x), kMatrix)
PLANCK_UNARY_GRADIENT(first, round(x), kMatrix)
PLANCK_UNARY_GRADIENT(first, trunc(x), kMatrix)

// With numbers.
PLANCK_UNARY_GRADIENT(second, x + 2.5, kMatrix)
PLANCK_UNARY_GRADIENT(second, 2.5 - x, kMatrix)
PLANCK_UNARY_GRADIENT(second, x * -3.0, kMatrix)
PLANCK_UNARY_GRADIENT(second, x / 3.0, kMatrix)
PLANCK_UNARY_GRADIENT(second, 3.0 / x, kPositive)
PLANCK_UNARY_GRADIENT(second, pow(x, 2.5), kPositive)
PLANCK_UNARY_GRADIENT(second, pow(x, 3), kMatrix)
PLANCK_UNARY_GRADIENT(second, pow(x, 0), kMatrix)

// With broadcasting.
PLANCK_BINARY_GRADIENT(second, x + y, kMatrix, kMatrix)
PLANCK_BINARY_GRADIENT(second, x + y, kMatrix, kVector)
PLANCK_BINARY_GRADIENT(second, x - y, kColumn, kVector)
PLANCK_BINARY_GRADIENT(second, x* y, kMatrix, kColumn)
PLANCK_BINARY_GRADIENT(second, x* y, (Input{{}}), kMatrix)
PLANCK_BINARY_GRADIENT(second, x / y, kMatrix, kPositiveRow)
PLANCK_BINARY_GRADIENT(second, pow(x, y), kPositive, kVector)
PLANCK_BINARY_GRADIENT(second, gelu_backward(x, y), kMatrix, kVector)
PLANCK_BINARY_GRADIENT(second, relu_backward(x, y), kMatrix, kVector)
PLANCK_BINARY_GRADIENT(second, atan2(x, y), kMatrix, kPositive)
PLANCK_BINARY_GRADIENT(second, maximum(x, y), kMatrix, kVector)
PLANCK_BINARY_GRADIENT(second, minimum(x, y), kColumn, kMatrix)
PLANCK_BINARY_GRADIENT(second, where(x > y, x* x, y* x), kMatrix, kMatrix)
PLANCK_BINARY_GRADIENT(second, mask_fill(x* y, x < y, 3.0), kMatrix, kMatrix)
PLANCK_BINARY_GRADIENT(second, (x * y + x) * (y - x), kMatrix, kMatrix)  // each used more than once

#undef PLANCK_UNARY_GRADIENT
#undef PLANCK_BINARY_GRADIENT
