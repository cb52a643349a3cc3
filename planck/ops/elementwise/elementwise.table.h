// The ops of the elementwise family, each declared in one line. Everything that only repeats it
// follows from here: ElementwiseOp, OpInfo and the registry, the ops as values, the functions on
// tensors, what the library compiles, the lists of element math, docs/ops.md and docs/tensors.md.
// What is left to write for an op is its math (elementwise.math.h), its gradient
// (elementwise.grad.h) and its reference (test/reference.test.h).
//
//   PLANCK_UNARY_OP(name, Type, dtypes, ulp, formula)               y = f(x)
//   PLANCK_SCALAR_OP(name, Type, dtypes, ulp, formula, attributes)  y = f(x, scalars)
//   PLANCK_BINARY_OP(name, Type, dtypes, ulp, formula)              y = f(a, b)
//   PLANCK_COMPARE_OP(name, Type, dtypes, ulp, formula)             y = f(a, b), a truth value
//   PLANCK_OTHER_OP(name, Type, dtypes, ulp, formula, attributes, operands)
//
// dtypes      that are read: floats, integers (i32, i64), numbers (both), booleans, any;
//             elementwise.problem.h
// ulp         largest error of a result in the compute type, in units in the last place;
//             0: rounded once. gelu_backward, a sum that may cancel: of the sum of its terms' sizes
// attributes, operands   arrays of elementwise.problem.cpp; scalars are the attributes that come
//             first. Ops that have either are structs of their own in elementwise.ops.h
// A remark behind a line goes to docs/tensors.md.
//
// An includer defines the macros of the lines it wants, or PLANCK_ELEMENTWISE_OP(name, Type,
// dtypes, ulp, formula, attributes, operands) for all. They are undefined at the end.
// The order is that of `planck ops`. Ops without inputs come last.
#ifndef PLANCK_ELEMENTWISE_OP
#define PLANCK_ELEMENTWISE_OP(...)
#endif
#ifndef PLANCK_UNARY_OP
#define PLANCK_UNARY_OP(...) PLANCK_ELEMENTWISE_OP(__VA_ARGS__, kNone, kUnary)
#endif
#ifndef PLANCK_SCALAR_OP
#define PLANCK_SCALAR_OP(...) PLANCK_ELEMENTWISE_OP(__VA_ARGS__, kUnary)
#endif
#ifndef PLANCK_BINARY_OP
#define PLANCK_BINARY_OP(...) PLANCK_ELEMENTWISE_OP(__VA_ARGS__, kNone, kBinary)
#endif
#ifndef PLANCK_COMPARE_OP
#define PLANCK_COMPARE_OP(...) PLANCK_ELEMENTWISE_OP(__VA_ARGS__, kNone, kBinary)
#endif
#ifndef PLANCK_OTHER_OP
#define PLANCK_OTHER_OP(...) PLANCK_ELEMENTWISE_OP(__VA_ARGS__)
#endif

// clang-format off
PLANCK_UNARY_OP(neg, Neg, numbers, 0, "y = -x")
PLANCK_UNARY_OP(abs, Abs, numbers, 0, "y = |x|")
PLANCK_UNARY_OP(sign, Sign, numbers, 0, "y = 1, 0 or -1; NaN stays")
PLANCK_UNARY_OP(square, Square, numbers, 0, "y = x * x")
PLANCK_UNARY_OP(sqrt, Sqrt, floats, 0, "y = sqrt(x)")
PLANCK_UNARY_OP(rsqrt, Rsqrt, floats, 1.5, "y = 1 / sqrt(x)")
PLANCK_UNARY_OP(reciprocal, Reciprocal, floats, 0, "y = 1 / x")
PLANCK_UNARY_OP(exp, Exp, floats, 1.1, "y = e^x")
PLANCK_UNARY_OP(expm1, Expm1, floats, 1.8, "y = e^x - 1")  // accurate near 0
PLANCK_UNARY_OP(log, Log, floats, 1.0, "y = log(x)")
PLANCK_UNARY_OP(log1p, Log1p, floats, 1.6, "y = log(1 + x)")  // accurate near 0
PLANCK_UNARY_OP(sin, Sin, floats, 1.6, "y = sin(x)")
PLANCK_UNARY_OP(cos, Cos, floats, 1.6, "y = cos(x)")
PLANCK_UNARY_OP(tanh, Tanh, floats, 1.5, "y = tanh(x)")
PLANCK_UNARY_OP(sigmoid, Sigmoid, floats, 2.5, "y = 1 / (1 + e^-x)")
PLANCK_UNARY_OP(relu, Relu, numbers, 0, "y = max(x, 0)")
PLANCK_SCALAR_OP(leaky_relu, LeakyRelu, floats, 0, "y = x > 0 ? x : slope * x", kSlope)
PLANCK_UNARY_OP(gelu, Gelu, floats, 5, "y = x * (1 + erf(x / sqrt(2))) / 2")
PLANCK_UNARY_OP(silu, Silu, floats, 3.5, "y = x / (1 + e^-x)")
PLANCK_UNARY_OP(softplus, Softplus, floats, 1.9, "y = log(1 + e^x)")
PLANCK_UNARY_OP(softsign, Softsign, floats, 1.5, "y = x / (1 + |x|)")
PLANCK_UNARY_OP(erf, Erf, floats, 1.3, "y = erf(x)")  // the error function
PLANCK_UNARY_OP(floor, Floor, floats, 0, "y = the largest integer <= x")
PLANCK_UNARY_OP(ceil, Ceil, floats, 0, "y = the smallest integer >= x")
PLANCK_UNARY_OP(round, Round, floats, 0, "y = the nearest integer, ties to even")
PLANCK_UNARY_OP(trunc, Trunc, floats, 0, "y = x without its fraction")
PLANCK_SCALAR_OP(clamp, Clamp, numbers, 0, "y = min(max(x, min), max)", kBounds)
PLANCK_SCALAR_OP(add_scalar, AddScalar, numbers, 0, "y = x + value", kValue)
PLANCK_SCALAR_OP(mul_scalar, MulScalar, numbers, 0, "y = x * value", kValue)
PLANCK_SCALAR_OP(div_scalar, DivScalar, numbers, 0, "y = x / value; integers truncate", kValue)
PLANCK_SCALAR_OP(rdiv_scalar, RdivScalar, numbers, 0, "y = value / x; integers truncate", kValue)
PLANCK_SCALAR_OP(pow_scalar, PowScalar, floats, 1.3, "y = x^value", kValue)

PLANCK_BINARY_OP(add, Add, numbers, 0, "y = a + b")
PLANCK_BINARY_OP(sub, Sub, numbers, 0, "y = a - b")
PLANCK_BINARY_OP(mul, Mul, numbers, 0, "y = a * b")
PLANCK_BINARY_OP(div, Div, numbers, 0, "y = a / b; integers truncate, a / 0 = 0")
PLANCK_BINARY_OP(maximum, Maximum, numbers, 0, "y = max(a, b); NaN wins")
PLANCK_BINARY_OP(minimum, Minimum, numbers, 0, "y = min(a, b); NaN wins")
PLANCK_BINARY_OP(pow, Pow, floats, 1.3, "y = a^b")
PLANCK_BINARY_OP(atan2, Atan2, floats, 2.4, "y = the angle of the point (b, a)")
PLANCK_BINARY_OP(gelu_backward, GeluBackward, floats, 4, "y = a * gelu'(b)")
PLANCK_BINARY_OP(relu_backward, ReluBackward, floats, 0, "y = b > 0 ? a : 0")
PLANCK_COMPARE_OP(eq, Eq, numbers, 0, "y = a == b")
PLANCK_COMPARE_OP(ne, Ne, numbers, 0, "y = a != b")
PLANCK_COMPARE_OP(lt, Lt, numbers, 0, "y = a < b")
PLANCK_COMPARE_OP(le, Le, numbers, 0, "y = a <= b")
PLANCK_COMPARE_OP(gt, Gt, numbers, 0, "y = a > b")
PLANCK_COMPARE_OP(ge, Ge, numbers, 0, "y = a >= b")
PLANCK_BINARY_OP(logical_and, LogicalAnd, booleans, 0, "y = a and b")
PLANCK_BINARY_OP(logical_or, LogicalOr, booleans, 0, "y = a or b")
PLANCK_BINARY_OP(logical_xor, LogicalXor, booleans, 0, "y = a xor b")
PLANCK_UNARY_OP(logical_not, LogicalNot, booleans, 0, "y = not x")
PLANCK_BINARY_OP(bitwise_and, BitwiseAnd, integers, 0, "y = a & b")
PLANCK_BINARY_OP(bitwise_or, BitwiseOr, integers, 0, "y = a | b")
PLANCK_BINARY_OP(bitwise_xor, BitwiseXor, integers, 0, "y = a ^ b")
PLANCK_UNARY_OP(bitwise_not, BitwiseNot, integers, 0, "y = ~x")
PLANCK_BINARY_OP(shift_left, ShiftLeft, integers, 0, "y = a << b; 0 beyond the width")
PLANCK_BINARY_OP(shift_right, ShiftRight, integers, 0, "y = a >> b; the sign beyond the width")

// Selection and movement: bits are kept.
PLANCK_OTHER_OP(where, Where, any, 0, "y = condition ? a : b", kNone, kWhere)
PLANCK_OTHER_OP(mask_fill, MaskFill, any, 0, "y = mask ? value : x", kValue, kMaskFill)
PLANCK_OTHER_OP(cast, Cast, any, 0, "y = x as another dtype", kTo, kUnary)
PLANCK_OTHER_OP(copy, Copy, any, 0, "y = x, bit for bit", kNone, kUnary)
PLANCK_OTHER_OP(fill, Full, any, 0, "y = value", kFill, kOutput)
PLANCK_OTHER_OP(arange, Arange, numbers, 0, "y[i] = start + i * step", kArange, kOutput)
PLANCK_OTHER_OP(random_uniform, RandomUniform, floats, 0,
                "y[i] = low + u[i] * (high - low), u in [0, 1)", kUniform, kOutput)
PLANCK_OTHER_OP(random_normal, RandomNormal, floats, 0,
                "y[i] = mean + z[i] * std", kNormal, kOutput)
PLANCK_OTHER_OP(random_bernoulli, RandomBernoulli, floats | booleans, 0,
                "y[i] = u[i] < p", kBernoulli, kOutput)
// clang-format on

#undef PLANCK_ELEMENTWISE_OP
#undef PLANCK_UNARY_OP
#undef PLANCK_SCALAR_OP
#undef PLANCK_BINARY_OP
#undef PLANCK_COMPARE_OP
#undef PLANCK_OTHER_OP
