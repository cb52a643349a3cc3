// The elementwise family against naive references: the C library in long double for floats, plain
// 64-bit integers and their definitions for everything else.
#include "planck/ops/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "planck/math/random.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/checks/values.h"

namespace planck {
namespace {

using verify::Case;
using verify::HostTensor;
using Wide = long double;
// Basic arithmetic is rounded once where it is done in f64.
double f64(Wide x) { return static_cast<double>(x); }

Wide silu(Wide x) {
  if (std::isinf(x)) return x < 0 ? -0.0L : x;
  return x < 0 ? x * std::exp(x) / (1 + std::exp(x)) : x / (1 + std::exp(-x));
}
Wide gelu(Wide x) {
  if (std::isinf(x)) return x < 0 ? -0.0L : x;
  // erfc is steep: what x / sqrt(2) loses in rounding is put back.
  const Wide root = std::sqrt(0.5L), h = -x * root;
  const Wide rest = std::fma(-x, root, -h) - x * (0.5L - std::fma(root, root, 0.0L)) / (2 * root);
  return 0.5L * x * (std::erfc(h) - rest * 2 / std::sqrt(std::acos(-1.0L)) * std::exp(-h * h));
}

// s, t: the scalars as the compute type has them.
const std::map<std::string, std::function<Wide(Wide, Wide, Wide)>>& unary() {
  static const std::map<std::string, std::function<Wide(Wide, Wide, Wide)>> all = {
      {"neg", [](Wide x, Wide, Wide) { return -x; }},
      {"abs", [](Wide x, Wide, Wide) { return std::fabs(x); }},
      {"sign", [](Wide x, Wide, Wide) { return x > 0    ? 1.0L
                                               : x < 0  ? -1.0L
                                               : x == 0 ? 0.0L
                                                        : x; }},
      {"square", [](Wide x, Wide, Wide) { return f64(x) * f64(x); }},
      {"sqrt", [](Wide x, Wide, Wide) { return std::sqrt(f64(x)); }},
      {"rsqrt", [](Wide x, Wide, Wide) { return 1 / std::sqrt(x); }},
      {"reciprocal", [](Wide x, Wide, Wide) { return 1 / f64(x); }},
      {"exp", [](Wide x, Wide, Wide) { return std::exp(x); }},
      {"expm1", [](Wide x, Wide, Wide) { return std::expm1(x); }},
      {"log", [](Wide x, Wide, Wide) { return std::log(x); }},
      {"log1p", [](Wide x, Wide, Wide) { return std::log1p(x); }},
      {"sin", [](Wide x, Wide, Wide) { return std::sin(x); }},
      {"cos", [](Wide x, Wide, Wide) { return std::cos(x); }},
      {"tanh", [](Wide x, Wide, Wide) { return std::tanh(x); }},
      {"sigmoid",
       [](Wide x, Wide, Wide) {
         return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
       }},
      {"relu", [](Wide x, Wide, Wide) { return x <= 0 ? 0.0L : x; }},
      {"leaky_relu", [](Wide x, Wide s, Wide) { return x > 0 ? f64(x) : f64(s) * f64(x); }},
      {"gelu", [](Wide x, Wide, Wide) { return gelu(x); }},
      {"silu", [](Wide x, Wide, Wide) { return silu(x); }},
      {"softplus",
       [](Wide x, Wide, Wide) {
         return x != x ? x : (x > 0 ? x : 0.0L) + std::log1p(std::exp(-std::fabs(x)));
       }},
      {"erf", [](Wide x, Wide, Wide) { return std::erf(x); }},
      {"floor", [](Wide x, Wide, Wide) { return std::floor(x); }},
      {"ceil", [](Wide x, Wide, Wide) { return std::ceil(x); }},
      {"round", [](Wide x, Wide, Wide) { return std::nearbyint(x); }},
      {"trunc", [](Wide x, Wide, Wide) { return std::trunc(x); }},
      {"clamp",
       [](Wide x, Wide s, Wide t) {
         const Wide y = x < s ? s : x;
         return y > t ? t : y;
       }},
      {"add_scalar", [](Wide x, Wide s, Wide) { return f64(x) + f64(s); }},
      {"mul_scalar", [](Wide x, Wide s, Wide) { return f64(x) * f64(s); }},
      {"pow_scalar", [](Wide x, Wide s, Wide) { return std::pow(x, s); }},
  };
  return all;
}
const std::map<std::string, std::function<Wide(Wide, Wide)>>& binary() {
  const auto either_nan = [](Wide a, Wide b) { return a != a || b != b; };
  static const std::map<std::string, std::function<Wide(Wide, Wide)>> all = {
      {"add", [](Wide a, Wide b) { return f64(a) + f64(b); }},
      {"sub", [](Wide a, Wide b) { return f64(a) - f64(b); }},
      {"mul", [](Wide a, Wide b) { return f64(a) * f64(b); }},
      {"div", [](Wide a, Wide b) { return f64(a) / f64(b); }},
      {"maximum", [=](Wide a, Wide b) { return either_nan(a, b) ? NAN
                                               : a > b          ? a
                                                                : b; }},
      {"minimum", [=](Wide a, Wide b) { return either_nan(a, b) ? NAN
                                               : a < b          ? a
                                                                : b; }},
      {"pow", [](Wide a, Wide b) { return std::pow(a, b); }},
      {"atan2", [](Wide a, Wide b) { return std::atan2(a, b); }},
      {"eq", [](Wide a, Wide b) { return a == b; }},
      {"ne", [](Wide a, Wide b) { return a != b; }},
      {"lt", [](Wide a, Wide b) { return a < b; }},
      {"le", [](Wide a, Wide b) { return a <= b; }},
      {"gt", [](Wide a, Wide b) { return a > b; }},
      {"ge", [](Wide a, Wide b) { return a >= b; }},
      {"logical_and", [](Wide a, Wide b) { return a != 0 && b != 0; }},
      {"logical_or", [](Wide a, Wide b) { return a != 0 || b != 0; }},
      {"logical_xor", [](Wide a, Wide b) { return (a != 0) != (b != 0); }},
  };
  return all;
}

// A scalar attribute in the compute type of floats.
Wide scalar(const Case& c, std::size_t k, Dtype dtype) {
  const AttributeInfo& info = find_op(all_ops(), c.op)->info->attributes[k];
  const auto it = c.attributes.find(info.name);
  const double v =
      std::stod(it == c.attributes.end() ? std::string(info.default_value) : it->second);
  return dtype == Dtype::f64 ? v : static_cast<double>(static_cast<float>(v));
}

verify::ReferenceOutputs reference(const Case& c, const verify::NamedTensors& inputs) {
  std::vector<double> y;
  if (const auto f = unary().find(c.op); f != unary().end()) {
    const HostTensor& x = inputs.find("x")->second;
    const std::size_t scalars = find_op(all_ops(), c.op)->info->attributes.size();
    const Wide s = scalars > 0 ? scalar(c, 0, x.dtype) : 0,
               t = scalars > 1 ? scalar(c, 1, x.dtype) : 0;
    for (std::int64_t i = 0; i < x.count(); ++i)
      y.push_back(static_cast<double>(f->second(x.number(i), s, t)));
  } else if (const auto g = binary().find(c.op); g != binary().end()) {
    const HostTensor &a = inputs.find("a")->second, &b = inputs.find("b")->second;
    for (std::int64_t i = 0; i < a.count(); ++i)
      y.push_back(static_cast<double>(g->second(a.number(i), b.number(i))));
  }
  return {{"y", y}};
}

TEST(Elementwise, ValuesOfFloats) {
  const Stream stream = Stream::cpu();
  std::set<std::string> seen;
  for (const Case& c : verify::elementwise_cases(verify::ListSize::usual)) {
    if (c.inputs.empty() || (!is_float(c.inputs[0].dtype) && c.inputs[0].dtype != Dtype::boolean))
      continue;
    if (!unary().contains(c.op) && !binary().contains(c.op)) continue;
    seen.insert(c.op);
    const auto checked = verify::check_values(all_ops(), c, stream, reference);
    for (const std::string& failure : checked.failures) ADD_FAILURE() << failure;
  }
  EXPECT_EQ(seen.size(), unary().size() + binary().size());
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

TEST(Elementwise, RefusesDtypesByName) {
  const auto plan = ElementwisePlan::select(
      Stream::cpu(), {.op = ElementwiseOp::exp, .dtype = Dtype::i32, .shape = {}});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message, "exp: dtype is i32, must be one of f64, f32, f16, bf16");
}

}  // namespace
}  // namespace planck
