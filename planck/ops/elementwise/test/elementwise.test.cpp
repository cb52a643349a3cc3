// The elementwise family against naive references: reference.test.h for floats, plain 64-bit
// integers and their definitions for everything else.
#include "planck/ops/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

#include "planck/math/random.h"
#include "planck/ops/elementwise/test/reference.test.h"
#include "planck/ops/ops.h"
#include "planck/planck.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/checks/values.h"

namespace planck {
namespace {

using test::elementwise_references;
using test::Wide;
using verify::Case;
using verify::HostTensor;

// A scalar attribute in the compute type.
Wide scalar(const Case& c, std::size_t k, Dtype dtype) {
  const AttributeInfo& info = find_op(all_ops(), c.op)->info->attributes[k];
  const auto it = c.attributes.find(info.name);
  const double v =
      std::stod(it == c.attributes.end() ? std::string(info.default_value) : it->second);
  if (dtype == Dtype::boolean) return v != 0;
  return dtype == Dtype::f64 ? v : static_cast<double>(static_cast<float>(v));
}

verify::ReferenceOutputs reference(const Case& c, const verify::NamedTensors& inputs) {
  const OpInfo& info = *find_op(all_ops(), c.op)->info;
  std::vector<const HostTensor*> in;
  for (const OperandInfo& operand : info.operands)
    if (operand.role == Role::input) in.push_back(&inputs.find(operand.name)->second);
  const std::size_t scalars = info.attributes.size();
  const Wide s = scalars > 0 ? scalar(c, 0, in[0]->dtype) : 0,
             t = scalars > 1 ? scalar(c, 1, in[0]->dtype) : 0;
  const auto f = elementwise_references().at(c.op);
  const auto at = [&](std::size_t k, std::int64_t i) {
    return k < in.size() ? in[k]->number(i) : 0.0;
  };
  std::vector<double> y;
  for (std::int64_t i = 0; i < in[0]->count(); ++i)
    y.push_back(static_cast<double>(f(at(0, i), at(1, i), at(2, i), s, t)));
  return {{"y", y}};
}

TEST(Elementwise, ValuesOfFloats) {
  const Stream stream = Stream::cpu();
  std::set<std::string> seen;
  for (const Case& c : verify::elementwise_cases(verify::ListSize::usual)) {
    if (c.inputs.empty() || (!is_float(c.inputs[0].dtype) && c.inputs[0].dtype != Dtype::boolean))
      continue;
    if (!elementwise_references().contains(c.op)) continue;
    seen.insert(c.op);
    if (test::cancels(c.op)) continue;
    const auto checked = verify::check_values(all_ops(), c, stream, reference);
    for (const std::string& failure : checked.failures) ADD_FAILURE() << failure;
  }
#define PLANCK_UNARY_OP(name, ...)                                                              \
  EXPECT_EQ(seen.contains(#name), elementwise_accepts(ElementwiseOp::name, Dtype::f32) ||       \
                                      elementwise_accepts(ElementwiseOp::name, Dtype::boolean)) \
      << #name;
#define PLANCK_SCALAR_OP PLANCK_UNARY_OP
#define PLANCK_BINARY_OP PLANCK_UNARY_OP
#define PLANCK_COMPARE_OP PLANCK_UNARY_OP
#include "planck/ops/elementwise/elementwise.table.h"
}

// ---- stated bounds ----

// Numbers of every size, and ordinary ones.
template <class T>
std::vector<T> arguments() {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, 3);
  constexpr int kExponent = std::numeric_limits<T>::max_exponent - 1;
  std::uniform_real_distribution<double> size(-kExponent, kExponent);
  std::vector<T> x;
  for (int i = 0; i < 20000; ++i) {
    const double sign = i % 4 < 2 ? 1 : -1;
    x.push_back(static_cast<T>(i % 2 == 0 ? normal(random) : sign * std::exp2(size(random))));
  }
  return x;
}

// Of a number's neighbours in T.
template <class T>
Wide spacing(Wide v) {
  const int exponent = v == 0 ? std::numeric_limits<T>::min_exponent : std::ilogb(v) + 1;
  return std::ldexp(1.0L, std::max(exponent, std::numeric_limits<T>::min_exponent) -
                              std::numeric_limits<T>::digits);
}

template <class T>
void hold_bound(ElementwiseOp op, std::string_view name, double ulp) {
  std::vector<T> x = arguments<T>(), y(x.size());
  const auto n = static_cast<std::int64_t>(x.size());
  const Stream stream = Stream::cpu();
  const auto plan = ElementwisePlan::select(stream, {.op = op, .dtype = dtype_of<T>, .shape = {n}});
  ASSERT_TRUE(plan->run(
      stream, {},
      elementwise_operands({TensorView<T>(x.data(), {n}), TensorView<T>(y.data(), {n})})));
  const double own = std::is_same_v<T, double> ? 0.01 : 0;  // error of the reference
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Wide want = elementwise_references().at(name)(x[i], 0, 0, 0, 0);
    if (!(std::fabs(want) <= std::numeric_limits<T>::max())) continue;
    ASSERT_LE(std::fabs(y[i] - want) / spacing<T>(want), std::max(ulp, 0.5) + own)
        << name << " of " << x[i];
  }
}

// What elementwise.table.h states of functions of one float, in f32 and f64.
TEST(Elementwise, ErrorsAreWithinTheStatedBounds) {
#define PLANCK_UNARY_OP(name, Type, dtypes, ulp, ...)         \
  if (elementwise_accepts(ElementwiseOp::name, Dtype::f32)) { \
    hold_bound<float>(ElementwiseOp::name, #name, ulp);       \
    hold_bound<double>(ElementwiseOp::name, #name, ulp);      \
  }
#include "planck/ops/elementwise/elementwise.table.h"
}

// Relative to the terms of the slope, of f32 and f64.
template <class T>
void hold_gelu_backward() {
  std::vector<T> b = arguments<T>(), a(b.size()), y(b.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(i % 7) - T(2.5);
  const auto n = static_cast<std::int64_t>(b.size());
  const Stream stream = Stream::cpu();
  const auto plan = ElementwisePlan::select(
      stream, {.op = ElementwiseOp::gelu_backward, .dtype = dtype_of<T>, .shape = {n}});
  ASSERT_TRUE(
      plan->run(stream, {},
                elementwise_operands({TensorView<T>(a.data(), {n}), TensorView<T>(b.data(), {n}),
                                      TensorView<T>(y.data(), {n})})));
  for (std::size_t i = 0; i < b.size(); ++i) {
    const Wide x = b[i], tail = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0L));
    const Wide terms = std::fabs(a[i]) * (1 + std::fabs(std::erf(x * std::sqrt(0.5L)))) / 2 +
                       std::fabs(a[i] * x * tail);
    const Wide want = elementwise_references().at("gelu_backward")(a[i], x, 0, 0, 0);
    ASSERT_LE(std::fabs(y[i] - want) / spacing<T>(terms), plan->precision_guarantee().max_ulp)
        << a[i] << " " << b[i];
  }
}
TEST(Elementwise, GeluBackwardIsWithinItsBound) {
  hold_gelu_backward<float>();
  hold_gelu_backward<double>();
}

// The bits of its steps as ops of their own.
TEST(Elementwise, GeluBackwardRoundsStepByStep) {
  using B = Cpu;
  const auto x = Tensor<B>::from(arguments<float>(), {20000});
  const auto dy = Tensor<B>::from(std::vector<float>(20000, 0.7f), {20000});
  const auto below = (erf(x * 0.70710678118654752440) + 1) * 0.5;
  const auto density = exp(square(x) * -0.5) * 0.39894228040143267794;
  EXPECT_EQ((gelu_backward(dy, x)).to_vector<float>(),
            (dy * (below + x * density)).to_vector<float>());
}

// ---- integers ----

template <class T>
std::vector<T> run_integers(ElementwiseOp op, std::vector<T> a, std::vector<T> b,
                            std::array<Scalar, 2> scalars = {}) {
  const Stream stream = Stream::cpu();
  const auto n = static_cast<std::int64_t>(a.size());
  std::vector<T> y(a.size());
  const ElementwiseProblem p{.op = op, .dtype = dtype_of<T>, .shape = {n}, .scalars = scalars};
  const auto plan = ElementwisePlan::select(stream, p);
  EXPECT_TRUE(plan);
  const View va = TensorView<T>(a.data(), {n}), vy = TensorView<T>(y.data(), {n});
  const Operands operands = p.inputs() == 1
                                ? elementwise_operands({va, vy})
                                : elementwise_operands({va, TensorView<T>(b.data(), {n}), vy});
  EXPECT_TRUE(plan->run(stream, {}, operands));
  return y;
}

template <class T>
void check_integers() {
  using U = std::make_unsigned_t<T>;
  constexpr T lowest = std::numeric_limits<T>::min(), highest = std::numeric_limits<T>::max();
  const std::vector<T> values = {0, 1, -1, 7, -7, 100, lowest, highest, lowest + 1, highest - 1};
  std::vector<T> a, b;
  for (int repeat = 0; repeat < 6; ++repeat)  // more than a small run
    for (T x : values)
      for (T y : values) {
        a.push_back(x);
        b.push_back(y);
      }
  const auto expect = [&](ElementwiseOp op, auto f, std::array<Scalar, 2> scalars = {}) {
    const std::vector<T> y = run_integers<T>(op, a, b, scalars);
    for (std::size_t i = 0; i < a.size(); ++i)
      ASSERT_EQ(y[i], static_cast<T>(f(a[i], b[i])))
          << "op " << static_cast<int>(op) << " " << a[i] << " " << b[i];
  };
  expect(ElementwiseOp::add, [](T x, T y) { return U(x) + U(y); });
  expect(ElementwiseOp::sub, [](T x, T y) { return U(x) - U(y); });
  expect(ElementwiseOp::mul, [](T x, T y) { return U(x) * U(y); });
  expect(ElementwiseOp::div, [](T x, T y) {
    return y == 0 ? T(0) : y == -1 ? T(U(0) - U(x)) : T(x / y);
  });
  expect(ElementwiseOp::maximum, [](T x, T y) { return std::max(x, y); });
  expect(ElementwiseOp::minimum, [](T x, T y) { return std::min(x, y); });
  expect(ElementwiseOp::neg, [](T x, T) { return U(0) - U(x); });
  expect(ElementwiseOp::abs, [](T x, T) { return x < 0 ? U(0) - U(x) : U(x); });
  expect(ElementwiseOp::sign, [](T x, T) { return x > 0 ? 1 : x < 0 ? -1 : 0; });
  expect(ElementwiseOp::square, [](T x, T) { return U(x) * U(x); });
  expect(ElementwiseOp::relu, [](T x, T) { return std::max(x, T(0)); });
  expect(ElementwiseOp::clamp, [](T x, T) { return std::clamp(x, T(-5), T(50)); }, {-5, 50});
  expect(ElementwiseOp::add_scalar, [](T x, T) { return U(x) + U(T(-9)); }, {-9});
  expect(ElementwiseOp::mul_scalar, [](T x, T) { return U(x) * U(123457); }, {123457});
  expect(ElementwiseOp::div_scalar, [](T x, T) { return x / T(-7); }, {-7});
  expect(ElementwiseOp::div_scalar, [](T, T) { return T(0); }, {0});
  expect(ElementwiseOp::rdiv_scalar, [](T x, T) { return x == 0 ? T(0) : T(100) / x; }, {100});
  expect(ElementwiseOp::bitwise_and, [](T x, T y) { return x & y; });
  expect(ElementwiseOp::bitwise_or, [](T x, T y) { return x | y; });
  expect(ElementwiseOp::bitwise_xor, [](T x, T y) { return x ^ y; });
  expect(ElementwiseOp::bitwise_not, [](T x, T) { return ~x; });
  constexpr int kBits = 8 * sizeof(T);
  expect(ElementwiseOp::shift_left,
         [](T x, T y) { return y < 0 || y >= kBits ? U(0) : U(U(x) << y); });
  expect(ElementwiseOp::shift_right,
         [](T x, T y) { return y < 0 || y >= kBits ? T(x < 0 ? -1 : 0) : T(x >> y); });
}
TEST(Elementwise, IntegersWrapAround) {
  check_integers<std::int32_t>();
  check_integers<std::int64_t>();
}

// ---- casts ----

template <class S, class D>
D cast_one(S value) {
  const Stream stream = Stream::cpu();
  D result{};
  const ElementwiseProblem p{
      .op = ElementwiseOp::cast, .dtype = dtype_of<S>, .to = dtype_of<D>, .shape = {}};
  const auto plan = ElementwisePlan::select(stream, p);
  EXPECT_TRUE(plan->run(
      stream, {}, elementwise_operands({TensorView<S>(&value, {}), TensorView<D>(&result, {})})));
  return result;
}

TEST(Elementwise, Casts) {
  const double nan = std::nan(""), inf = HUGE_VAL;
  EXPECT_EQ((cast_one<double, std::int32_t>(-2.9)), -2);
  EXPECT_EQ((cast_one<double, std::int32_t>(nan)), 0);
  EXPECT_EQ((cast_one<double, std::int32_t>(1e300)), INT32_MAX);
  EXPECT_EQ((cast_one<float, std::int32_t>(2147483648.0f)), INT32_MAX);
  EXPECT_EQ((cast_one<float, std::int32_t>(-2147483648.0f)), INT32_MIN);
  EXPECT_EQ((cast_one<double, std::int64_t>(inf)), INT64_MAX);
  EXPECT_EQ((cast_one<double, std::int64_t>(-inf)), INT64_MIN);
  EXPECT_EQ((cast_one<double, std::int64_t>(-9007199254740993.0)), -9007199254740992);
  EXPECT_EQ((cast_one<float, std::int8_t>(-128.7f)), -128);
  EXPECT_EQ((cast_one<float, std::int8_t>(127.9f)), 127);
  EXPECT_EQ((cast_one<float, std::uint8_t>(-0.9f)), 0);
  EXPECT_EQ((cast_one<float, std::uint8_t>(256.0f)), 255);
  EXPECT_EQ((cast_one<std::int64_t, std::int32_t>(0x100000005)), 5);
  EXPECT_EQ((cast_one<std::int32_t, std::int8_t>(200)), -56);
  EXPECT_EQ((cast_one<std::uint8_t, std::int8_t>(200)), -56);
  EXPECT_EQ((cast_one<double, bool>(nan)), true);
  EXPECT_EQ((cast_one<double, bool>(-0.0)), false);
  EXPECT_EQ((cast_one<bool, double>(true)), 1.0);
  EXPECT_EQ((cast_one<double, f16>(1.0 + 0x1p-11 + 0x1p-40)).bits, f16(1.0f + 0x1p-10f).bits);
  // 2^53 + 2^45 + 1: a tie of bf16 but for the last bit, which f64 has no place for.
  const std::int64_t tie = (std::int64_t{1} << 62) + (std::int64_t{1} << 54);
  EXPECT_EQ((cast_one<std::int64_t, bf16>(tie)).bits, 0x5e80);
  EXPECT_EQ((cast_one<std::int64_t, bf16>(tie + 1)).bits, 0x5e81);
  EXPECT_EQ((cast_one<std::int64_t, bf16>(-tie - 1)).bits, 0xde81);
  EXPECT_EQ((cast_one<std::int64_t, bf16>(-tie + 1)).bits, 0xde80);
  EXPECT_EQ((cast_one<std::int64_t, float>(INT64_MAX)), 0x1p63f);
  EXPECT_EQ((cast_one<f16, bf16>(f16(0.1f))).bits, bf16(static_cast<float>(f16(0.1f))).bits);
}

// ---- selection, sequences ----

template <class T>
std::vector<T> made(ElementwiseProblem p, const Shape& shape, const Strides& strides,
                    std::int64_t span) {
  const Stream stream = Stream::cpu();
  p.shape = shape;
  p.dtype = dtype_of<T>;
  std::vector<T> y(static_cast<std::size_t>(span));
  const auto plan = ElementwisePlan::select(stream, p);
  EXPECT_TRUE(
      plan->run(stream, {}, elementwise_operands({TensorView<T>(y.data(), shape, strides)})));
  return y;
}

TEST(Elementwise, RandomNumbersAreThoseOfTheStream) {
  const ElementwiseProblem p{.op = ElementwiseOp::random_normal,
                             .shape = {},
                             .scalars = {1.5, 2.0},
                             .seed = 9,
                             .offset = 4};
  const auto flat = made<float>(p, {5000}, {1}, 5000);
  const auto turned = made<float>(p, {50, 100}, {1, 50}, 5000);
  for (std::uint64_t i = 0; i < 5000; ++i) {
    const float z = RandomBlock<float>::normal(PhiloxStream{9, 4}.words(i / 4)).v[i % 4];
    ASSERT_EQ(flat[i], 1.5f + z * 2.0f);
    ASSERT_EQ(turned[i % 100 * 50 + i / 100], flat[i]);  // by logical position
  }
}

TEST(Elementwise, ArangeRoundsOnce) {
  const ElementwiseProblem p{.op = ElementwiseOp::arange, .shape = {}, .scalars = {-3.25, 0.1}};
  const auto y = made<float>(p, {3000}, {1}, 3000);
  const auto whole = made<std::int64_t>(
      {.op = ElementwiseOp::arange, .shape = {}, .scalars = {-3, 7}}, {300}, {1}, 300);
  for (int i = 0; i < 3000; ++i) ASSERT_EQ(y[std::size_t(i)], static_cast<float>(-3.25 + i * 0.1));
  for (int i = 0; i < 300; ++i) ASSERT_EQ(whole[std::size_t(i)], -3 + i * 7);
}

TEST(Elementwise, BernoulliCounts) {
  const ElementwiseProblem p{
      .op = ElementwiseOp::random_bernoulli, .shape = {}, .scalars = {0.3}, .seed = 1};
  double ones = 0;
  for (float v : made<float>(p, {100000}, {1}, 100000)) ones += static_cast<double>(v);
  EXPECT_NEAR(ones / 100000, 0.3, 0.01);
}

TEST(Elementwise, SelectionKeepsBits) {
  const Stream stream = Stream::cpu();
  std::uint32_t a[3] = {0x7f800001u, 0xffc12345u, 1}, b[3] = {0x80000000u, 0x7fffffffu, 2},
                y[3] = {};
  std::uint8_t condition[3] = {1, 0, 7};
  const auto view = [](void* p, Dtype t) { return View{p, t, {3}, {1}, true}; };
  const auto where = ElementwisePlan::select(stream, {.op = ElementwiseOp::where, .shape = {3}});
  ASSERT_TRUE(where->run(stream, {},
                         elementwise_operands({view(condition, Dtype::boolean), view(a, Dtype::f32),
                                               view(b, Dtype::f32), view(y, Dtype::f32)})));
  EXPECT_EQ(y[0], a[0]);
  EXPECT_EQ(y[1], b[1]);
  EXPECT_EQ(y[2], a[2]);
}

// A scalar that an integer does not hold is refused, not cut to it.
TEST(Elementwise, ScalarsOfIntegersKeepTheirValueOrAreRefused) {
  const auto refusal = [](ElementwiseOp op, Dtype dtype, Scalar value) {
    const auto plan = ElementwisePlan::select(
        Stream::cpu(), {.op = op, .dtype = dtype, .to = dtype, .shape = {2}, .scalars = {value}});
    return plan ? std::string() : plan.error().message;
  };
  EXPECT_EQ(refusal(ElementwiseOp::mul_scalar, Dtype::i64, 0.5),
            "mul_scalar: 0.5 is no integer, the tensor is i64");
  EXPECT_EQ(
      refusal(ElementwiseOp::add_scalar, Dtype::i32, std::int64_t{1} << 40),
      "add_scalar: 1099511627776 does not fit i32, which goes from -2147483648 to 2147483647");
  EXPECT_EQ(refusal(ElementwiseOp::mul_scalar, Dtype::i64, std::uint64_t{1} << 63),
            "mul_scalar: 9223372036854775808 does not fit i64, which goes from "
            "-9223372036854775808 to 9223372036854775807");
  EXPECT_EQ(refusal(ElementwiseOp::fill, Dtype::u8, -1),
            "fill: -1 does not fit u8, which goes from 0 to 255");
  EXPECT_EQ(refusal(ElementwiseOp::fill, Dtype::i64, NAN),
            "fill: nan is no integer, the tensor is i64");
  EXPECT_EQ(refusal(ElementwiseOp::fill, Dtype::boolean, 2),
            "fill: 2 does not fit bool, which goes from 0 to 1");
  EXPECT_EQ(refusal(ElementwiseOp::mul_scalar, Dtype::i64, 2.0), "");
  EXPECT_EQ(refusal(ElementwiseOp::add_scalar, Dtype::i64, INT64_MAX), "");
  EXPECT_EQ(refusal(ElementwiseOp::add_scalar, Dtype::i64, std::uint64_t{INT64_MAX}), "");
  EXPECT_EQ(refusal(ElementwiseOp::clamp, Dtype::i32, -INFINITY), "");
  EXPECT_EQ(refusal(ElementwiseOp::mul_scalar, Dtype::f16, 1e30), "");
  EXPECT_EQ(refusal(ElementwiseOp::mul_scalar, Dtype::f16, 1e300),
            "mul_scalar: 1e+300 is too large for f32");
  EXPECT_EQ(refusal(ElementwiseOp::fill, Dtype::f16, 65519), "");
  EXPECT_EQ(refusal(ElementwiseOp::fill, Dtype::f16, 65520), "fill: 65520 is too large for f16");
  EXPECT_EQ(refusal(ElementwiseOp::fill, Dtype::f16, INFINITY), "");
}

TEST(Elementwise, RefusesDtypesByName) {
  const auto plan = ElementwisePlan::select(
      Stream::cpu(), {.op = ElementwiseOp::exp, .dtype = Dtype::i32, .shape = {}});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message, "exp: dtype is i32, must be one of f64, f32, f16, bf16");
}

}  // namespace
}  // namespace planck
