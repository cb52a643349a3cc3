// Quantized tensors of 16-bit floats: products and gradients are computed in f32 and rounded once.
// f32 and f64 are held to the same formulas, so to the bits they have always had.
#include <gtest/gtest.h>

#include <cmath>

#include "planck/planck.h"

namespace planck {
namespace {

using A = Autodiff<Cpu>;
using V = std::vector<double>;

V read(const Tensor<Cpu>& t) { return t.to(Dtype::f64).to_vector<double>(); }
Tensor<Cpu> tensor(const V& values, const Shape& shape, Dtype dtype) {
  return Tensor<Cpu>::from(std::span<const double>(values), shape).to(dtype);
}
Tensor<A> leaf(const Tensor<Cpu>& t) { return Tensor<A>(t).require_grad(); }

// v rounded to a dtype, and to the type it is computed in.
double rounded(double v, Dtype dtype) { return read(tensor({v}, {1}, dtype))[0]; }
double computed(double v, Dtype dtype) { return rounded(v, compute_dtype(dtype)); }
// Half a unit in the last place of a dtype, as a share of the value.
double half_unit(Dtype dtype) {
  return dtype == Dtype::f16    ? 0x1p-11
         : dtype == Dtype::bf16 ? 0x1p-8
         : dtype == Dtype::f32  ? 0x1p-24
                                : 0x1p-53;
}

// How far a sum may be off that is computed in the compute type and rounded once: `size` is the sum
// of the sizes of its terms.
double bound(Dtype t, double sum, double size) {
  const double smallest = t == Dtype::f16 ? 0x1p-25 : 0;  // half of a step of subnormal numbers
  return std::fmax(half_unit(t) * std::fabs(sum), smallest) +
         30 * half_unit(compute_dtype(t)) * size;
}

struct Way {
  QuantScheme scheme;
  std::int64_t groups;
  // The group of element i of a tensor of shape [4, 6].
  std::size_t group_of(std::size_t i) const {
    switch (scheme.granularity) {
      case Granularity::per_tensor:
        return 0;
      case Granularity::per_channel:
        return scheme.axis == 0 ? i / 6 : i % 6;
      case Granularity::per_token:
        return i / 6;
      default:
        return i / 2;
    }
  }
};
std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (Dtype t : {Dtype::s8, Dtype::u8, Dtype::s4, Dtype::u4}) {
    ways.push_back({{.dtype = t}, 1});
    ways.push_back({{.granularity = Granularity::per_channel, .axis = 0, .dtype = t}, 4});
    ways.push_back({{.granularity = Granularity::per_channel, .axis = 1, .dtype = t}, 6});
    ways.push_back({{.granularity = Granularity::per_token, .dtype = t}, 4});
    ways.push_back({{.granularity = Granularity::per_group, .group = 2, .dtype = t}, 12});
  }
  return ways;
}

class Floats : public testing::TestWithParam<Dtype> {};
INSTANTIATE_TEST_SUITE_P(Quantized, Floats,
                         testing::Values(Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64),
                         [](const auto& dtype) { return std::string(name(dtype.param)); });

// Integer sums are far above 65,504, the largest f16; the products are not.
TEST_P(Floats, ProductsAreRoundedOnce) {
  const Dtype t = GetParam();
  constexpr std::int64_t kRows = 3, kDepth = 600, kColumns = 4;
  std::vector<std::int8_t> left, right;
  for (std::int64_t i = 0; i < kRows * kDepth; ++i)
    left.push_back(static_cast<std::int8_t>(127 - i * 7 % 31));
  for (std::int64_t i = 0; i < kDepth * kColumns; ++i)
    right.push_back(static_cast<std::int8_t>(i % kColumns == 1 ? -120 + i % 5 : 126 - i % 9));
  const auto zeros = [](std::int64_t n) { return zeros_like(arange<Cpu>(n, Dtype::i32)); };
  for (const bool tokens : {false, true})
    for (const bool channels : {false, true}) {
      const V sa = read(tensor(tokens ? V{4e-4, 3e-4, 7e-4} : V{5e-4}, {tokens ? 3 : 1}, t));
      const V sb =
          read(tensor(channels ? V{2e-3, 1e-3, 3e-3, 5e-4} : V{1.5e-3}, {channels ? 4 : 1}, t));
      const QuantizedTensor<Cpu> a(
          Tensor<Cpu, IntKind>::from(left, {kRows, kDepth}), tensor(sa, {tokens ? 3 : 1}, t),
          zeros(tokens ? 3 : 1),
          {.granularity = tokens ? Granularity::per_token : Granularity::per_tensor});
      const QuantizedTensor<Cpu> b(
          Tensor<Cpu, IntKind>::from(right, {kDepth, kColumns}), tensor(sb, {channels ? 4 : 1}, t),
          zeros(channels ? 4 : 1),
          {.granularity = channels ? Granularity::per_channel : Granularity::per_tensor,
           .axis = 1});
      const auto product = q_matmul(a, b);
      EXPECT_EQ(product.dtype(), t);
      const V got = read(product);
      for (std::size_t i = 0; i < kRows; ++i)
        for (std::size_t j = 0; j < kColumns; ++j) {
          std::int64_t sum = 0;
          for (std::size_t k = 0; k < kDepth; ++k)
            sum += std::int64_t{left[i * kDepth + k]} * right[k * kColumns + j];
          EXPECT_GT(std::abs(sum), 65504);
          const double steps = computed(static_cast<double>(sum), t);
          const double half = computed(steps * sa[tokens ? i : 0], t);
          EXPECT_EQ(got[i * kColumns + j], rounded(computed(half * sb[channels ? j : 0], t), t))
              << i << " " << j;
        }
    }
}

// (s dy) / s with s = 4e-4 and dy = 1e-4: the product is below the smallest f16.
TEST_P(Floats, GradientsPassTheIntegersInTheComputeType) {
  const Dtype t = GetParam();
  for (const Way& way : all_ways()) {
    SCOPED_TRACE(to_string(way.scheme));
    V x, s, dy;
    for (int i = 0; i < 24; ++i) {
      x.push_back(i % 5 == 2 ? 0.5 : 0.0015 * std::sin(1.7 * i));
      dy.push_back((i % 2 == 0 ? 1e-4 : -7e-5) * (1 + 0.1 * i));
    }
    for (int g = 0; g < way.groups; ++g) s.push_back(4e-4 * (1 + 0.05 * g));
    const auto vx = tensor(x, {4, 6}, t), vs = tensor(s, {way.groups}, t),
               vdy = tensor(dy, {4, 6}, t);
    x = read(vx), s = read(vs), dy = read(vdy);
    const auto zero = Tensor<A, IntKind>::from(
        std::vector<std::int32_t>(static_cast<std::size_t>(way.groups), 2), {way.groups});
    // A scale for quantize and another for dequantize: what each gives is seen alone.
    const auto lx = leaf(vx), first = leaf(vs), second = leaf(vs);
    const auto q = quantize(lx, first, zero, way.scheme);
    const QuantizedTensor<A> taken(q.codes(), second, zero, way.scheme);
    const auto y = dequantize(taken);
    const auto grads = A::backward(y.primitive(), vdy.primitive());

    V want_dx, want_first(s.size()), want_second(s.size());
    V size_first(s.size()), size_second(s.size());  // sums of the sizes of the terms
    int outside = 0;
    for (std::size_t i = 0; i < 24; ++i) {
      const std::size_t g = way.group_of(i);
      const double step = std::nearbyint(computed(x[i] / s[g], t)) + 2;
      const bool in = step >= way.scheme.lowest() && step <= way.scheme.highest();
      const double kept = std::fmin(std::fmax(step, way.scheme.lowest()), way.scheme.highest());
      const double dx = in ? computed(computed(s[g] * dy[i], t) / s[g], t) : 0;
      outside += !in;
      want_dx.push_back(rounded(dx, t));
      want_first[g] -= dx * x[i] / s[g];
      size_first[g] += std::fabs(dx * x[i] / s[g]);
      want_second[g] += dy[i] * (kept - 2);
      size_second[g] += std::fabs(dy[i] * (kept - 2));
    }
    EXPECT_GE(outside, 4);
    EXPECT_LT(outside, 20);
    EXPECT_EQ(read(*lx.grad(grads)), want_dx);
    const V got_first = read(*first.grad(grads)), got_second = read(*second.grad(grads));
    for (std::size_t g = 0; g < s.size(); ++g) {
      EXPECT_NEAR(got_first[g], want_first[g], bound(t, want_first[g], size_first[g])) << g;
      EXPECT_NEAR(got_second[g], want_second[g], bound(t, want_second[g], size_second[g])) << g;
    }
  }
}

// Scale and zero point from the data.
TEST_P(Floats, GradientsOfDynamicGroupsPassInTheComputeType) {
  const Dtype t = GetParam();
  for (const Way& way : all_ways())
    for (const bool symmetric : {true, false}) {
      SCOPED_TRACE(to_string(way.scheme));
      V x, dy;
      for (int i = 0; i < 24; ++i) {
        x.push_back(0.04 * std::sin(1.7 * i));
        dy.push_back(1e-4 * (1 + 0.1 * i));
      }
      const auto v = leaf(tensor(x, {4, 6}, t));
      const auto vdy = tensor(dy, {4, 6}, t);
      const auto y = dequantize(dynamic_quantize(v, way.scheme, symmetric));
      const V got = read(*v.grad(A::backward(y.primitive(), vdy.primitive())));
      const V want = read(vdy);
      int through = 0;
      for (std::size_t i = 0; i < 24; ++i) {
        if (got[i] == 0) continue;  // an end of the range, rounded beyond it
        ++through;
        EXPECT_NEAR(got[i], want[i], 4 * half_unit(compute_dtype(t)) * want[i]) << i;
      }
      EXPECT_GE(through, 12);
    }
}

// Gradients of a product are those of the factors, in the dtype of the scales.
TEST_P(Floats, GradientsOfProductsAreThoseOfTheFactors) {
  const Dtype t = GetParam();
  V xa, xb;
  for (int i = 0; i < 24; ++i) {
    xa.push_back(0.05 * std::sin(1.3 * i));
    xb.push_back(0.04 * std::cos(0.7 * i));
  }
  const auto a = leaf(tensor(xa, {4, 6}, t)), b = leaf(tensor(xb, {6, 4}, t));
  const auto qa = dynamic_quantize(a, {.granularity = Granularity::per_token}, false);
  const auto qb = dynamic_quantize(b, {.granularity = Granularity::per_channel, .axis = 1});
  const auto y = q_matmul(qa, qb);
  const auto dy = tensor(V(16, 1e-3), {4, 4}, t);
  const auto grads = A::backward(y.primitive(), dy.primitive());
  EXPECT_EQ(a.grad(grads)->dtype(), t);
  const V da = read(*a.grad(grads)), db = read(*b.grad(grads));
  const auto exact = [](const QuantizedTensor<Cpu>& q) {
    return dequantize(
        QuantizedTensor<Cpu>(q.values(), q.scale().to(Dtype::f64), q.zero_point(), q.scheme()));
  };
  const auto d = dy.to(Dtype::f64);
  const V want_a = read(matmul(d, transpose(exact(qb.inner()))));
  const V want_b = read(matmul(transpose(exact(qa.inner())), d));
  const double size = 4 * 1e-3 * 0.05;
  int through = 0;
  for (std::size_t i = 0; i < 24; ++i) {
    for (const auto& [got, want] : {std::pair{da[i], want_a[i]}, std::pair{db[i], want_b[i]}}) {
      if (got == 0) continue;  // an end of the range, rounded beyond it
      EXPECT_NEAR(got, want, bound(t, want, size)) << i;
      ++through;
    }
  }
  EXPECT_GT(through, 24);
}

TEST(QuantizedProducts, RefuseScalesOfTwoDtypes) {
  const auto a = dynamic_quantize(ones<Cpu>({2, 3}, Dtype::f16));
  const auto b = dynamic_quantize(ones<Cpu>({3, 2}));
  try {
    (void)q_matmul(a, b);
    ADD_FAILURE() << "nothing was refused";
  } catch (const Exception& e) {
    EXPECT_STREQ(e.what(), "q_matmul: the scale of a is f16, that of b is f32: must be the same");
  }
}

}  // namespace
}  // namespace planck
