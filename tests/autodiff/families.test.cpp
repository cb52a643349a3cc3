// Gradients of the quantize, embedding and grid_sample families through Autodiff, on backends that
// have their kernels.
#include "tests/autodiff/gradcheck.h"
#include "tests/autodiff/tested_backend.h"

namespace planck::test {

namespace {

using V = std::vector<double>;

template <class T>
Tensor<B, IntKind> integers(std::initializer_list<T> values, const Shape& shape) {
  return Tensor<B, IntKind>::from(std::span<const T>(values.begin(), values.size()), shape);
}
// The same integers for any backend above B.
template <class X>
Tensor<X, IntKind> lifted(const Tensor<B, IntKind>& t) {
  return Tensor<X, IntKind>(t.primitive());
}

TEST_F(Gradients, OfFakeQuantizeGoStraightThrough) {
  const V x = {0.24, -0.26, 0.9, -5, 0.5, 60};
  const QuantScheme scheme{
      .granularity = Granularity::per_channel, .axis = 0, .range = IntRange{-4, 4}};
  const auto v = Tensor<A>::from(std::span<const double>(x), {2, 3}).require_grad();
  const auto scale = Tensor<A>::from<double>({0.5, 10.0}, {2}).require_grad();
  const auto zero = lifted<A>(integers<std::int32_t>({0, 1}, {2}));
  const auto y = fake_quantize(v, scale, zero, scheme);
  EXPECT_EQ(y.inner().to_vector<double>(), V({0, -0.5, 1, 0, 0, 30}));
  const auto grads =
      sum(y * Tensor<A>::from<double>({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, {2, 3})).backward();
  // 60 / 10 + 1 is above 4: no gradient.
  EXPECT_EQ(v.grad(grads)->to_vector<double>(), V({1, 2, 3, 4, 5, 0}));
  // In range (q − z) − x / s, else q − z: [(0 − 0.48) + 2 (−1 + 0.52) + 3 (2 − 1.8), …]
  const V d = scale.grad(grads)->to_vector<double>();
  EXPECT_NEAR(d[0], -0.48 + 2 * (-1 + 0.52) + 3 * (2 - 1.8), 1e-12);
  EXPECT_NEAR(d[1], 4 * 0.5 + 5 * -0.05 + 6 * 3, 1e-12);
}

TEST_F(Gradients, OfDequantizeBelongToTheScale) {
  const auto q = integers<std::int8_t>({5, -3, 7, 100, -128, 0, 1, 2}, {2, 4});
  const auto zero1 = integers<std::int32_t>({1}, {1});
  const auto zero4 = integers<std::int32_t>({1, 0, -2, 3}, {4});
  check_gradient(
      "per tensor", Order::second,
      [&]<class X>(const Tensor<X>& s) {
        return square(dequantize(QuantizedTensor<X>{lifted<X>(q), s, lifted<X>(zero1), {}}));
      },
      Input{{1}, 0.1, 1});
  check_gradient(
      "per channel", Order::second,
      [&]<class X>(const Tensor<X>& s) {
        return square(
            dequantize(QuantizedTensor<X>{lifted<X>(q),
                                          s,
                                          lifted<X>(zero4),
                                          {.granularity = Granularity::per_channel, .axis = 1}}));
      },
      Input{{4}, 0.1, 1});
  check_gradient(
      "per group", Order::first,
      [&]<class X>(const Tensor<X>& s) {
        return dequantize(QuantizedTensor<X>{lifted<X>(q),
                                             s,
                                             lifted<X>(zero4),
                                             {.granularity = Granularity::per_group, .group = 2}});
      },
      Input{{2, 2}, 0.1, 1});
}

TEST_F(Gradients, OfEmbeddings) {
  const auto indices = integers<std::int64_t>({0, 3, 3, 1, 3, 0}, {2, 3});
  const auto row = integers<std::int64_t>({0, 3, 3, 1, 3, 0}, {6});
  const auto offsets = integers<std::int64_t>({0, 2, 5}, {3});
  const Input table{{4, 2}};
  check_gradient(
      "rows", Order::second,
      [&]<class X>(const Tensor<X>& w) { return square(embedding(w, lifted<X>(indices))); }, table);
  check_gradient(
      "with a padding row", Order::second,
      [&]<class X>(const Tensor<X>& w) { return square(embedding(w, lifted<X>(indices), 3)); },
      table);
  check_gradient(
      "bag of sums", Order::first,
      [&]<class X>(const Tensor<X>& w) {
        return square(embedding_bag<BagMode::sum>(w, lifted<X>(row), lifted<X>(offsets)));
      },
      table);
  check_gradient(
      "bag of means", Order::first,
      [&]<class X>(const Tensor<X>& w) {
        return square(embedding_bag<BagMode::mean>(w, lifted<X>(row), lifted<X>(offsets)));
      },
      table);
  check_gradient(
      "bag of maxima", Order::first,
      [&]<class X>(const Tensor<X>& w) {
        return square(embedding_bag<BagMode::max>(w, lifted<X>(row), lifted<X>(offsets)));
      },
      table);
  check_gradient(
      "weighted bag", Order::first,
      [&]<class X>(const Tensor<X>& w, const Tensor<X>& p) {
        return square(embedding_bag_weighted(w, lifted<X>(row), lifted<X>(offsets), p));
      },
      table, Input{{6}});
}

TEST_F(Gradients, OfEmbeddingRefuseWrongIndices) {
  const auto says = [](const auto& of) -> std::string {
    try {
      of();
      B::synchronize(B::default_device());
    } catch (const Exception& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  const auto w = zeros<B>({4, 2}, Dtype::f64);
  const auto indices = integers<std::int64_t>({0, 4, -1}, {3});
  EXPECT_EQ(says([&] { (void)embedding(w, indices); }),
            "embedding: indices[1] is 4, must be 0 to 3; 2 of 3 are out of range");
  EXPECT_EQ(says([&] {
              (void)embedding(w, integers<std::int32_t>({0, 3, 3, -7}, {2, 2}));
            }),
            "embedding: indices[1, 1] is -7, must be 0 to 3");
  EXPECT_EQ(says([&] { (void)embedding(w, integers<std::int64_t>({9}, {})); }),
            "embedding: indices is 9, must be 0 to 3");
  EXPECT_EQ(says([&] {
              (void)embedding(zeros<B>({0, 2}, Dtype::f64), indices);
            }),
            "embedding: indices[0] is 0, and none is valid; 3 of 3 are out of range");
  EXPECT_EQ(says([&] {
              (void)embedding_bag(w, indices, integers<std::int64_t>({0, 2}, {2}));
            }),
            "embedding_bag: indices[1] is 4, must be 0 to 3; 2 of 3 are out of range");
  EXPECT_EQ(says([&] {
              (void)embedding_bag(w, indices, integers<std::int64_t>({0, 2, 1}, {3}));
            }),
            "embedding_bag: offsets[2] is 1, must be 2 to 3");
  EXPECT_EQ(embedding(w, indices, kNoPaddingIndex, BadIndices::skip).shape(), (Shape{3, 2}));
}

TEST_F(Gradients, OfGridSample) {
  const Input picture{{1, 2, 4, 5}}, points{{1, 2, 3, 2}, -0.9, 0.9};
  const auto sample = [](GridSample how) {
    return [how](const auto& x, const auto& g) { return grid_sample(x, g, how); };
  };
  check_gradient("bilinear", Order::first, sample({}), picture, points);
  check_gradient("border", Order::first, sample({.padding = SamplePadding::border}), picture,
                 points);
  check_gradient("bicubic, aligned", Order::first,
                 sample({.mode = SampleMode::bicubic, .align_corners = true}), picture, points);
  check_gradient(
      "of the input alone", Order::first,
      [&]<class X>(const Tensor<X>& x) {
        return grid_sample(x, full_like(x, 0.1, {1, 2, 3, 2}));
      },
      picture);
  check_gradient(
      "affine_grid", Order::second,
      [](const auto& t) {
        return square(affine_grid(t, {2, 1, 3, 2}));
      },
      Input{{2, 2, 3}});
}

TEST_F(Gradients, OfGridSampleHaveNoSecondOrder) {
  using AA = Autodiff<A>;
  const auto inner =
      Tensor<A>::from(std::span<const double>(V(16, 0.5)), {1, 1, 4, 4}).require_grad();
  const auto x = Tensor<AA>(AA::from_inner(inner.primitive())).require_grad();
  const auto grid = full<AA>({1, 2, 2, 2}, 0.1, Dtype::f64);
  const auto y = sum(square(grid_sample(x, grid)));
  const auto dx = *x.grad(y.backward());
  try {
    (void)sum(dx).backward();
    FAIL() << "nothing was thrown";
  } catch (const Exception& e) {
    EXPECT_EQ(e.code(), ErrorCode::not_differentiable);
    EXPECT_STREQ(e.what(), "grid_sample_backward: grid_sample has no second derivative");
  }
}

}  // namespace

}  // namespace planck::test
