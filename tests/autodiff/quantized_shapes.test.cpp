// Shapes of quantized tensors: groups go along, or what would cut them apart is refused.
#include "tests/autodiff/quantized.h"

namespace planck::test {

namespace {

using V = QuantizedValues;
using QuantizedTensors = Gradients;

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

}  // namespace

}  // namespace planck::test
