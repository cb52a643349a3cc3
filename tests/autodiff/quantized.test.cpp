// Quantized tensors: gradients straight through them, products, backends, printing.
#include "tests/autodiff/quantized.h"

#include <sstream>

namespace planck::test {

namespace {

using V = QuantizedValues;
using QuantizedTensors = Gradients;

// What arrives at x is (s · dy) / s in range and 0 outside, at the scale what fake_quantize gives.
TEST_F(QuantizedTensors, GradientsPassStraightThrough) {
  const V x = wave(24), w = wave(31);
  for (const Way& way : all_ways()) {
    SCOPED_TRACE(to_string(way.scheme));
    const auto v = Tensor<A>::from(std::span<const double>(x), {4, 6}).require_grad();
    const auto s = scales<A>(way.groups).require_grad();
    const auto z = zeros_of<A>(way);
    const auto weights = Tensor<A>::from(std::span<const double>(w.data(), 24), {4, 6});
    const auto q = quantize(v, s, z, way.scheme);
    EXPECT_TRUE(q.is_tracked());
    const auto y = dequantize(q);
    const auto grads = sum(y * weights).backward();
    const auto fake = fake_quantize(v, s, z, way.scheme);
    const auto expected = sum(fake * weights).backward();
    EXPECT_EQ(y.inner().template to_vector<double>(), fake.inner().template to_vector<double>());
    const V dx = v.grad(grads)->template to_vector<double>();
    const V fake_dx = v.grad(expected)->template to_vector<double>();
    int outside = 0;
    for (std::size_t i = 0; i < dx.size(); ++i) {
      EXPECT_NEAR(dx[i], fake_dx[i], 1e-15 * std::fabs(w[i])) << i;
      outside += dx[i] == 0;
    }
    EXPECT_GE(outside, 3) << "values out of range";
    EXPECT_LT(outside, 20);
    const V ds = s.grad(grads)->template to_vector<double>();
    const V fake_ds = s.grad(expected)->template to_vector<double>();
    for (std::size_t i = 0; i < ds.size(); ++i)
      EXPECT_NEAR(ds[i], fake_ds[i], 1e-9 * (1 + std::fabs(fake_ds[i]))) << i;
  }
}

// The gradient of the integers themselves is s · dy, in floats.
TEST_F(QuantizedTensors, IntegersHaveAGradientInFloats) {
  const auto x = Tensor<A>::from(std::vector<double>{1.0, -3.0, 2.0, 0.5}, {2, 2}).require_grad();
  const auto s = Tensor<A>::from(std::vector<double>{0.5, 4.0}, {2});
  const QuantScheme scheme{.granularity = Granularity::per_channel, .axis = 0};
  const auto z = zero_points<A>({0, 0});
  const auto dy = Tensor<B>::from(std::vector<double>{1.0, 2.0, 3.0, 4.0}, {2, 2});
  const auto dq = call(DequantizeBackward{scheme}, dy, s.inner());
  EXPECT_EQ(dq.template to_vector<double>(), V({0.5, 1, 12, 16}));
  const auto y = dequantize(quantize(x, s, z, scheme));
  const auto grads = A::backward(y.primitive(), dy.primitive());
  EXPECT_EQ(x.grad(grads)->template to_vector<double>(), V({1, 2, 3, 4}));
}

TEST_F(QuantizedTensors, ScalesFromTheDataCountAsConstants) {
  const V x = wave(24);
  for (const Way& way : all_ways())
    for (bool symmetric : {true, false}) {
      SCOPED_TRACE(to_string(way.scheme));
      const auto v = Tensor<A>::from(std::span<const double>(x), {4, 6}).require_grad();
      const auto q = dynamic_quantize(v, way.scheme, symmetric);
      EXPECT_FALSE(q.scale().is_tracked());
      const auto grads = sum(dequantize(q)).backward();
      int through = 0;
      for (double d : v.grad(grads)->template to_vector<double>()) {
        EXPECT_TRUE(d == 0 || std::fabs(d - 1) < 1e-15) << d;
        through += d != 0;
      }
      EXPECT_GT(through, 20);
    }
}

// L = Σ y² / 2 has dL/dx = y within the range, whose own gradient is straight through again.
TEST_F(QuantizedTensors, GradientsHaveGradients) {
  using AA = Autodiff<A>;
  const auto x = Tensor<A>::from(std::vector<double>{0.3, -0.8, 90.0, 1.1}, {4}).require_grad();
  const auto xx = Tensor<AA>(AA::from_inner(x.primitive())).require_grad();
  const auto s = Tensor<AA>::from(std::vector<double>{0.25}, {1});
  const auto y = dequantize(quantize(xx, s, zero_points<AA>({3})));
  const auto dx = *xx.grad(sum(square(y) * 0.5).backward());
  EXPECT_EQ(dx.inner().template to_vector<double>(), V({0.25, -0.75, 0, 1}));
  const auto ddx = x.grad(sum(dx).backward());
  EXPECT_EQ(ddx->template to_vector<double>(), V({1, 1, 0, 1}));
}

TEST_F(QuantizedTensors, GradientsFollowTheShape) {
  for (const Way& way : all_ways()) {
    SCOPED_TRACE(to_string(way.scheme));
    const auto odd_rows = [](const auto& q) {
      return permute(slice(reshape(q, {1, 4, 6}), 1, 1, 4, 2), {1, 0, 2});
    };
    const V all = gradient_through<A>(way, [](const auto& q) { return q; });
    const V odd = gradient_through<A>(way, odd_rows);
    EXPECT_EQ(odd, (gradient_through<Autodiff<B, BalancedCheckpointing>>(way, odd_rows)));
    int through = 0;
    for (std::size_t i = 0; i < 24; ++i) {
      EXPECT_EQ(odd[i], i / 6 % 2 == 1 ? all[i] : 0) << i;
      through += odd[i] != 0;
    }
    EXPECT_GT(through, 2);
  }
}

// ---- products ----

TEST_F(QuantizedTensors, ProductsTakeZeroPoints) {
  Rng rng{.seed = 4};
  const auto a = normal<B>(rng, {2, 5, 24}, 1, 2, Dtype::f64);
  const auto b = normal<B>(rng, {24, 3}, -1, 1, Dtype::f64);
  for (Dtype ta : {Dtype::s8, Dtype::u8})
    for (Dtype tb : {Dtype::s8, Dtype::u8})
      for (bool symmetric : {true, false})
        for (bool many : {true, false}) {
          const auto qa = dynamic_quantize(
              a,
              {.granularity = many ? Granularity::per_token : Granularity::per_tensor, .dtype = ta},
              symmetric);
          const auto qb = dynamic_quantize(
              b,
              {.granularity = many ? Granularity::per_channel : Granularity::per_tensor,
               .axis = 1,
               .dtype = tb},
              symmetric);
          const auto got = q_matmul(qa, qb).template to_vector<double>();
          const auto want = matmul(dequantize(qa), dequantize(qb)).template to_vector<double>();
          ASSERT_EQ(got.size(), 30u);
          for (std::size_t i = 0; i < 30; ++i)
            EXPECT_NEAR(got[i], want[i], 1e-11) << name(ta) << name(tb) << symmetric << many;
        }
}

TEST_F(QuantizedTensors, ProductsPassGradients) {
  Rng rng{.seed = 6};
  const auto a = Tensor<A>(A::from_inner(normal<B>(rng, {2, 5, 8}, 1, 2, Dtype::f64).primitive()));
  const auto b = Tensor<A>(A::from_inner(normal<B>(rng, {8, 3}, 0, 1, Dtype::f64).primitive()));
  const auto gradients = [&](const auto& product) {
    const auto va = a.require_grad(), vb = b.require_grad();
    const auto qa = dynamic_quantize(va, {.granularity = Granularity::per_token}, false);
    const auto qb = dynamic_quantize(
        vb, {.granularity = Granularity::per_channel, .axis = 1, .dtype = Dtype::u8}, false);
    const auto grads = sum(square(product(qa, qb))).backward();
    V all = va.grad(grads)->template to_vector<double>();
    for (double d : vb.grad(grads)->template to_vector<double>()) all.push_back(d);
    return all;
  };
  const V got = gradients([](const auto& x, const auto& y) { return q_matmul(x, y); });
  const V want =
      gradients([](const auto& x, const auto& y) { return matmul(dequantize(x), dequantize(y)); });
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-10 * (1 + std::fabs(want[i]))) << i;
}

TEST_F(QuantizedTensors, ProductsRefuseWhatTheyCannotDo) {
  Rng rng{.seed = 5};
  const auto a = normal<B>(rng, {6, 8}), b = normal<B>(rng, {8, 4});
  const auto qa = dynamic_quantize(a), qb = dynamic_quantize(b);
  const auto s4 = dynamic_quantize(b, {.dtype = Dtype::s4});
  EXPECT_EQ(refusal([&] { (void)q_matmul(qa, s4); }), "q_matmul: b is s4, both must be s8 or u8");
  const auto rows = dynamic_quantize(b, {.granularity = Granularity::per_channel, .axis = 0});
  EXPECT_EQ(
      refusal([&] { (void)q_matmul(qa, rows); }),
      "q_matmul: b is per_channel axis=0 s8 -128..127 divide, must be per_tensor or per_channel "
      "of its last axis, 1");
  EXPECT_EQ(refusal([&] { (void)q_matmul(rows, qb); }),
            "q_matmul: a is per_channel, must be per_tensor or per_token");
  const QuantizedTensor<B> far(qa.values(), qa.scale(), zero_points<B>({1 << 23}), {});
  EXPECT_EQ(refusal([&] { (void)q_matmul(far, qb); }),
            "q_matmul: a zero point is 8388608, sums are exact up to 4194304");
}

// ---- backends, devices, text ----

TEST_F(QuantizedTensors, CrossBetweenTheBackends) {
  const auto x = Tensor<A>::from(std::vector<double>{1.0, -3.0, 2.0, 0.5}, {2, 2}).require_grad();
  const auto q = dynamic_quantize(x);
  EXPECT_TRUE(q.is_tracked());
  const B::QuantizedTensor inner = A::q_inner(q.primitive());
  const QuantizedTensor<B> plain(inner);
  EXPECT_EQ(plain.values().template to_vector<std::int8_t>(),
            q.values().template to_vector<std::int8_t>());
  EXPECT_EQ(dequantize(plain).template to_vector<double>(),
            dequantize(q).inner().template to_vector<double>());
  const QuantizedTensor<A> back(A::q_from_inner(inner));
  EXPECT_FALSE(back.is_tracked());
  EXPECT_FALSE(q.detach().is_tracked());
  EXPECT_EQ(back.inner().scheme(), q.scheme());
  const auto there = plain.template to<Cpu>();
  EXPECT_EQ(there.values().template to_vector<std::int8_t>(),
            plain.values().template to_vector<std::int8_t>());
  EXPECT_EQ(there.scale().template to_vector<double>(), plain.scale().template to_vector<double>());
  EXPECT_EQ(refusal([&] { (void)q.template to<Cpu>(); }).substr(0, 3), "to:");
  EXPECT_EQ(plain.to(plain.device()).shape(), (Shape{2, 2}));
}

TEST_F(QuantizedTensors, PrintTheirParts) {
  const QuantizedTensor<B> q(
      Tensor<B, IntKind>::from({std::int8_t{5}, std::int8_t{-128}, std::int8_t{7}, std::int8_t{0}},
                               {2, 2}),
      Tensor<B>::from({0.5f, 2.f}, {2}), zero_points<B>({0, 3}),
      {.granularity = Granularity::per_channel, .axis = -1});
  std::ostringstream out;
  out << q;
  EXPECT_EQ(
      out.str(),
      "quantized [2, 2], per_channel axis=1 s8 -128..127 divide\nvalues\n[[   5 -128]\n [   7 "
      "   0]]\nscale\n[0.5 2. ]\nzero_point\n[0 3]");
}

TEST_F(QuantizedTensors, SchemesAreOneLineAndBack) {
  for (const Way& way : all_ways()) {
    QuantScheme s = way.scheme;
    EXPECT_EQ(*parse_scheme(to_string(s)), s) << to_string(s);
    s.range = IntRange{1, 7};
    s.math = QuantMath::reciprocal;
    EXPECT_EQ(*parse_scheme(to_string(s)), s) << to_string(s);
  }
  for (std::string_view wrong :
       {"", "per_tensor", "per_tensor s8", "per_tensor f32 0..1 divide", "per_row s8 0..1 divide",
        "per_tensor s8 0-1 divide", "per_tensor s8 0..1 divides", "per_tensor s8 0..1 divide more",
        "per_channel s8 0..1 divide", "per_channel axis=x s8 0..1 divide"})
    EXPECT_FALSE(parse_scheme(wrong)) << wrong;
}

}  // namespace

}  // namespace planck::test
