// Quantized tensors: gradients straight through them, their shapes, products, backends, printing.
#include <cmath>
#include <sstream>

#include "tests/autodiff/gradcheck.h"
#include "tests/autodiff/tested_backend.h"

namespace planck::test {

namespace {

using V = std::vector<double>;
using QuantizedTensors = Gradients;

template <class X>
Tensor<X, IntKind> zero_points(const std::vector<std::int32_t>& values) {
  return Tensor<X, IntKind>::from(std::span<const std::int32_t>(values),
                                  {static_cast<std::int64_t>(values.size())});
}
std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Exception& e) {
    return e.what();
  }
  return "nothing was refused";
}
// Numbers from −2 to 2, a few of them far away.
V wave(std::int64_t count) {
  V v;
  for (std::int64_t i = 0; i < count; ++i)
    v.push_back(i % 7 == 3 ? 1e4 * (i % 2 == 0 ? 1 : -1)
                           : 2 * std::sin(1.7 * static_cast<double>(i)));
  return v;
}

struct Way {
  QuantScheme scheme;
  std::int64_t groups;
};
// Every granularity and dtype on a tensor of shape [4, 6].
std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (Dtype t : {Dtype::s8, Dtype::u8, Dtype::s4, Dtype::u4}) {
    ways.push_back({{.dtype = t}, 1});
    ways.push_back({{.granularity = Granularity::per_channel, .axis = 0, .dtype = t}, 4});
    ways.push_back({{.granularity = Granularity::per_channel, .axis = -1, .dtype = t}, 6});
    ways.push_back({{.granularity = Granularity::per_token, .dtype = t}, 4});
    ways.push_back({{.granularity = Granularity::per_group, .group = 2, .dtype = t}, 12});
  }
  return ways;
}
template <class X>
Tensor<X> scales(std::int64_t groups) {
  V v;
  for (std::int64_t i = 0; i < groups; ++i) v.push_back(0.25 + 0.03 * static_cast<double>(i));
  return Tensor<X>::from(std::span<const double>(v), {groups});
}
template <class X>
Tensor<X, IntKind> zeros_of(const Way& way) {
  std::vector<std::int32_t> v;
  for (std::int64_t i = 0; i < way.groups; ++i) v.push_back(static_cast<std::int32_t>(i % 5) + 1);
  return zero_points<X>(v);
}

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

// The gradient of x where f(quantized x) is dequantized and summed.
template <class X, class F>
V gradient_through(const Way& way, const F& f) {
  const V x = wave(24);
  const auto v = Tensor<X>::from(std::span<const double>(x), {4, 6}).require_grad();
  const auto q = quantize(v * 1.0, scales<X>(way.groups), zeros_of<X>(way), way.scheme);
  return v.grad(sum(dequantize(f(q))).backward())->template to_vector<double>();
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

// ---- shapes ----

// Seen in another shape, then dequantized: the same as dequantized first.
template <class F>
void expect_same(const QuantizedTensor<B>& q, const F& f) {
  const auto after = dequantize(f(q));
  const auto before = f(dequantize(q));
  EXPECT_EQ(after.shape(), before.shape());
  EXPECT_EQ(after.template to_vector<double>(), before.template to_vector<double>());
}

TEST_F(QuantizedTensors, ShapesTakeTheGroupsAlong) {
  const V x = wave(48);
  const auto v = Tensor<B>::from(std::span<const double>(x), {2, 4, 6});
  const auto of = [&](const QuantScheme& scheme) { return dynamic_quantize(v, scheme, false); };
  for (Dtype t : {Dtype::s8, Dtype::u8, Dtype::s4, Dtype::u4}) {
    const auto tensor = of({.dtype = t});
    const auto channel = of({.granularity = Granularity::per_channel, .axis = 1, .dtype = t});
    const auto token = of({.granularity = Granularity::per_token, .dtype = t});
    const auto group = of({.granularity = Granularity::per_group, .group = 2, .dtype = t});
    for (const auto& q : {tensor, channel, token, group}) {
      SCOPED_TRACE(to_string(q.scheme()));
      expect_same(q, [](const auto& y) { return permute(y, {1, 0, 2}); });
      expect_same(q, [](const auto& y) { return slice(y, 1, 1, 3); });
      expect_same(q, [](const auto& y) { return slice(y, 0, 1); });
      expect_same(q, [](const auto& y) { return slice(y, 1, -1, INT64_MAX, -2); });
      expect_same(q, [](const auto& y) { return slice(y, 2, 2, 6); });
      expect_same(q, [](const auto& y) { return slice(y, 1, 2, 2); });
      expect_same(q, [](const auto& y) { return unsqueeze(y, 0); });
      expect_same(q, [](const auto& y) { return select(y, 0, 1); });
    }
    expect_same(channel, [](const auto& y) { return transpose(y, 0, 1); });
    expect_same(channel, [](const auto& y) { return reshape(y, {1, 2, 4, 3, 2}); });
    expect_same(token, [](const auto& y) { return reshape(y, {-1, 6}); });
    expect_same(group, [](const auto& y) { return reshape(y, {-1, 2}); });
    expect_same(tensor, [](const auto& y) { return reshape(y, {8, 6}); });
    expect_same(tensor, [](const auto& y) { return transpose(y); });
  }
}

// Expanded, reversed, cut and joined: every granularity, where groups stay whole.
TEST_F(QuantizedTensors, PiecesTakeTheirGroupsAlong) {
  const auto v = Tensor<B>::from(std::span<const double>(wave(48)), {2, 4, 6});
  const auto of = [&](const QuantScheme& scheme) { return dynamic_quantize(v, scheme, false); };
  for (Dtype t : {Dtype::s8, Dtype::u8, Dtype::s4, Dtype::u4}) {
    const auto tensor = of({.dtype = t});
    const auto channel = of({.granularity = Granularity::per_channel, .axis = 1, .dtype = t});
    const auto last = of({.granularity = Granularity::per_channel, .axis = 2, .dtype = t});
    const auto token = of({.granularity = Granularity::per_token, .dtype = t});
    const auto group = of({.granularity = Granularity::per_group, .group = 2, .dtype = t});
    for (const auto& q : {tensor, channel, last, token, group}) {
      SCOPED_TRACE(to_string(q.scheme()));
      expect_same(q, [](const auto& y) { return expand(y, {3, 2, 4, 6}); });
      expect_same(q, [](const auto& y) { return expand(slice(y, 0, 1, 2), {5, 4, 6}); });
      expect_same(q, [](const auto& y) { return expand(slice(y, 1, 1, 2), {2, 2, 3, 6}); });
      expect_same(q, [](const auto& y) { return flip(y, {0}); });
      expect_same(q, [](const auto& y) { return flip(y, {0, -2}); });
      if (!is_packed(t)) {
        expect_same(q, [](const auto& y) { return flip(y, {2}); });
        expect_same(q, [](const auto& y) { return flip(y, {0, 1, 2}); });
      }
      for (const int axis : {0, 1, 2}) {
        const std::int64_t sizes[] = {2, q.extent(axis) - 2};
        expect_same(q, [&](const auto& y) { return split(y, sizes, axis)[0]; });
        expect_same(q, [&](const auto& y) { return split(y, sizes, axis)[1]; });
      }
    }
    if (is_packed(t)) continue;  // nothing copies them
    // Each piece has scales of its own.
    const auto whole_again = [](int axis) {
      return [axis](const auto& y) {
        const std::int64_t sizes[] = {2, y.extent(axis) - 2};
        auto pieces = split(y, sizes, axis);
        std::swap(pieces[0], pieces[1]);
        return cat(pieces, axis);
      };
    };
    for (const int axis : {0, 1, 2}) expect_same(group, whole_again(axis));
    for (const int axis : {0, 1}) expect_same(token, whole_again(axis));
    expect_same(channel, whole_again(1));
    expect_same(last, whole_again(2));
    const auto other = dynamic_quantize(v * 3 + 1, {.dtype = t}, false);
    for (const int axis : {0, 1, 2, -1}) {
      const auto joined = cat(std::vector{tensor, other}, axis);
      EXPECT_EQ(joined.scheme().granularity, Granularity::per_channel);
      EXPECT_EQ(dequantize(joined).template to_vector<double>(),
                cat(std::vector{dequantize(tensor), dequantize(other)}, axis)
                    .template to_vector<double>());
    }
    expect_same(tensor, [](const auto& y) { return stack(std::vector{y, y}, 1); });
    expect_same(token, [](const auto& y) { return stack(std::vector{y, y}, 0); });
  }
}

TEST_F(QuantizedTensors, GradientsFollowThePieces) {
  for (const Way& way : all_ways()) {
    SCOPED_TRACE(to_string(way.scheme));
    const int axis = way.scheme.granularity == Granularity::per_channel ? way.scheme.axis : 0;
    const auto through = [&](const auto& f) {
      const auto v = Tensor<A>::from(std::span<const double>(wave(24)), {4, 6}).require_grad();
      const auto s = scales<A>(way.groups).require_grad();
      const auto y = f(quantize(v * 1.0, s, zeros_of<A>(way), way.scheme));
      const auto grads = sum(square(y)).backward();
      V all = v.grad(grads)->template to_vector<double>();
      for (double d : s.grad(grads)->template to_vector<double>()) all.push_back(d);
      return all;
    };
    const auto moved = [&](const auto& q) {
      const auto turned = flip(is_packed(way.scheme.dtype) ? q : cat(std::vector{q, q}, axis), {0});
      return expand(turned, {2, turned.extent(0), turned.extent(1)});
    };
    const V got = through([&](const auto& q) { return dequantize(moved(q)); });
    const V want = through([&](const auto& q) { return moved(dequantize(q)); });
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], want[i], 1e-9 * (1 + std::fabs(want[i]))) << i;
  }
}

TEST_F(QuantizedTensors, PiecesThatWouldShareAScaleAreRefused) {
  const auto v = Tensor<B>::from(std::span<const double>(wave(48)), {2, 4, 6});
  const auto channel = dynamic_quantize(v, {.granularity = Granularity::per_channel, .axis = 1});
  const auto token = dynamic_quantize(v, {.granularity = Granularity::per_token});
  const auto s4 = dynamic_quantize(v, {.dtype = Dtype::s4});
  const auto of = [](const auto&... all) {
    return refusal([&] { (void)cat(std::vector{all...}, 2); });
  };
  EXPECT_EQ(of(channel, channel),
            "cat: along axis 2 a channel would have a scale from each tensor: per_channel axis=1 "
            "tensors follow each other along axis 1");
  EXPECT_EQ(of(token, token),
            "cat: along axis 2, the last, a token would have a scale from each tensor: per_token "
            "tensors follow each other along the others");
  const auto tensor = dynamic_quantize(v);
  const auto narrow = dynamic_quantize(v, {.range = IntRange{-127, 127}});
  EXPECT_EQ(of(tensor, narrow),
            "cat: tensor 1 is quantized per_tensor s8 -127..127 divide, the first per_tensor s8 "
            "-128..127 divide");
  EXPECT_EQ(of(tensor, dynamic_quantize(v.to(Dtype::f32))),
            "cat: the scale of tensor 1 is f32, that of the first f64");
  EXPECT_EQ(of(tensor, s4), "cat: tensor 1 is s4, the first is s8");
  EXPECT_EQ(of(s4, s4),
            "cat: values are s4, two to a byte, must be s8 or u8: dequantize them first");
  EXPECT_EQ(refusal([&] { (void)cat(std::vector<QuantizedTensor<B>>{}, 0); }),
            "cat: takes at least one tensor");
  EXPECT_EQ(refusal([&] { (void)cat(std::vector{tensor}, 3); }),
            "cat: axis is 3, the tensor has rank 3");
  EXPECT_EQ(refusal([&] { (void)flip(s4, {2}); }),
            "flip: the first element would be the second of a pair of s4: start at an even one");
  EXPECT_EQ(refusal([&] { (void)flip(tensor, {3}); }), "flip: axis is 3, the tensor has rank 3");
  EXPECT_EQ(refusal([&] {
              (void)expand(channel, {2, 8, 6});
            }),
            "expand: axis 1 has extent 4, it cannot become 8");
}

TEST_F(QuantizedTensors, ShapesThatCutGroupsApartAreRefused) {
  const auto v = Tensor<B>::from(std::span<const double>(wave(48)), {2, 4, 6});
  const auto channel = dynamic_quantize(v, {.granularity = Granularity::per_channel, .axis = 1});
  const auto token = dynamic_quantize(v, {.granularity = Granularity::per_token});
  const auto group = dynamic_quantize(v, {.granularity = Granularity::per_group, .group = 3});
  EXPECT_EQ(
      refusal([&] {
        (void)reshape(channel, {8, 6});
      }),
      "reshape: [2, 4, 6] as [8, 6] would cut the groups of a per_channel tensor apart: axis 1 "
      "must stay an axis of its own");
  EXPECT_EQ(refusal([&] {
              (void)reshape(token, {8, 2, 3});
            }),
            "reshape: [2, 4, 6] as [8, 2, 3] would cut the groups of a per_token tensor apart: the "
            "last extent must stay");
  EXPECT_EQ(
      refusal([&] {
        (void)reshape(group, {12, 4});
      }),
      "reshape: [2, 4, 6] as [12, 4] would cut the groups of a per_group tensor apart: the last "
      "extent must be a multiple of 3");
  EXPECT_EQ(
      refusal([&] { (void)transpose(token); }),
      "permute: the groups of a per_token tensor lie along the last axis, which axes [0, 2, 1] "
      "move");
  EXPECT_EQ(refusal([&] { (void)slice(group, 2, 1, 4); }),
            "slice: 3 elements from 1 by 1 of the last axis would cut groups of 3 apart");
  EXPECT_EQ(refusal([&] {
              (void)reshape(channel, {7, -1});
            }),
            "reshape: 48 elements do not fill shape [7, -1]");
  const auto s4 = dynamic_quantize(v, {.dtype = Dtype::s4});
  EXPECT_EQ(refusal([&] { (void)slice(s4, 2, 1, 3); }),
            "slice: the first element would be the second of a pair of s4: start at an even one");
  EXPECT_EQ(
      refusal([&] { (void)slice(s4, 2, 0, 3); }),
      "dequantize_per_tensor: s4 is packed in pairs, the last extent of shape [2, 4, 3] must be "
      "even");
}

TEST_F(QuantizedTensors, PartsMustFitTheScheme) {
  const auto q = Tensor<B, IntKind>::from({std::int8_t{1}, std::int8_t{2}}, {2});
  const auto s = Tensor<B>::from({1.0}, {1});
  const auto z = zero_points<B>({0});
  using Q = QuantizedTensor<B>;
  EXPECT_EQ(refusal([&] { (void)Q(q, s, z, {.dtype = Dtype::u8}); }),
            "quantized: values are s8, the scheme says u8");
  EXPECT_EQ(refusal([&] { (void)Q(q, s, q, {}); }), "quantized: zero_point is s8, must be i32");
  EXPECT_EQ(refusal([&] { (void)Q(q, s, z, {.granularity = Granularity::per_channel}); }),
            "quantized: scale has 1 elements, shape[axis=0] is 2");
  EXPECT_EQ(refusal([&] {
              (void)Q(q, s, zero_points<B>({0, 1}), {});
            }),
            "quantized: zero_point has 2 elements, a tensor has 1");
  EXPECT_EQ(
      refusal([&] { (void)Q(q, s, z, {.granularity = Granularity::per_channel, .axis = 3}); }),
      "dequantize_per_channel: axis is 3, the shape [2] has 1 axes");
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
