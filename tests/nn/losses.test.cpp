// Losses: what counts and what does not, second derivatives, shapes that do not belong together.
// tests/parity compares their values with PyTorch's.
#include <gtest/gtest.h>

#include <cmath>

#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

Tensor<A, IntKind> labels(std::initializer_list<std::int64_t> values) {
  return Tensor<A, IntKind>::from(values, {static_cast<std::int64_t>(values.size())});
}

TEST(Losses, IgnoredTargetsAreNotCounted) {
  Rng rng{.seed = 1};
  const auto x = normal<Cpu>(rng, {4, 3});
  const auto all = nn::constant<A>(x).require_grad();
  const auto some = nn::constant<A>(slice(x, 0, 1, 3)).require_grad();
  const auto of_all = nn::cross_entropy_loss(all, labels({-100, 2, 0, -100}));
  const auto of_some = nn::cross_entropy_loss(some, labels({2, 0}));
  EXPECT_FLOAT_EQ(of_all.inner().item<float>(), of_some.inner().item<float>());
  const auto dx = *all.grad(of_all.backward()), wanted = *some.grad(of_some.backward());
  const auto found = slice(dx, 0, 1, 3).to_vector<float>(), rows = wanted.to_vector<float>();
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_FLOAT_EQ(found[i], rows[i]);
  for (std::int64_t row : {0, 3})
    for (float v : select(dx, 0, row).to_vector<float>()) EXPECT_EQ(v, 0);
}

// The mean without ignored targets is one reduction: its bits are part of every training hash.
TEST(Losses, TheUsualMeanIsOneReduction) {
  Rng rng{.seed = 2};
  const auto x = normal<Cpu>(rng, {37, 11});
  const auto t = to_int(uniform<Cpu>(rng, {37}, 0, 11));
  EXPECT_EQ(nn::cross_entropy_loss(x, t).item<float>(), mean(cross_entropy(x, t)).item<float>());
}

TEST(Losses, ManyRowsOfF16) {  // their sum is beyond 65,504
  const auto x = zeros<Cpu>({100'000, 2}, Dtype::f16);
  const auto half = to_int(full<Cpu>({50'000}, 1));
  const auto t = cat(std::vector{half, half * -100}, 0);
  const auto loss = to_float(nn::cross_entropy_loss(x, t), Dtype::f32).item<float>();
  EXPECT_NEAR(loss, std::log(2.0), 1e-3);
}

// One row of very many counts: their number is beyond 65,504, and so is what its loss is times.
TEST(Losses, AFewRowsOfManyInF16) {
  constexpr std::int64_t kRows = 100'000;
  const auto ignored = to_int(full<Cpu>({kRows - 1}, -100));
  const auto t = cat(std::vector{full_like(slice(ignored, 0, 0, 1), 1), ignored}, 0);
  const auto weight = nn::constant<A>(full<Cpu>({2}, 1, Dtype::f16));
  for (const bool weighted : {false, true}) {
    const auto x = nn::constant<A>(zeros<Cpu>({kRows, 2}, Dtype::f16)).require_grad();
    nn::CrossEntropyOptions<A> options;
    if (weighted) options.weight = weight;
    const auto loss = nn::cross_entropy_loss(x, nn::constant<A>(t), options);
    EXPECT_EQ(loss.dtype(), Dtype::f16);
    EXPECT_NEAR(to_float(loss.inner(), Dtype::f32).item<float>(), std::log(2.0), 4e-4) << weighted;
    const auto dx = to_float(*x.grad(loss.backward()), Dtype::f32).to_vector<float>();
    EXPECT_EQ(dx[0], 0.5f) << weighted;
    EXPECT_EQ(dx[1], -0.5f) << weighted;
    for (std::size_t i = 2; i < dx.size(); ++i) ASSERT_EQ(dx[i], 0) << weighted << " at " << i;
  }
}

// Of many classes: −Σ log p is beyond f16's numbers, e / C below them.
TEST(Losses, SmoothedOverManyClassesOfF16) {
  constexpr std::int64_t kClasses = 40'000;
  const auto t = Tensor<A, IntKind>::from({7, 9}, {2});
  const auto run = [&](Dtype dtype) {
    const auto x = nn::constant<A>(zeros<Cpu>({2, kClasses}, dtype)).require_grad();
    const auto loss = nn::cross_entropy_loss(x, t, {.label_smoothing = 0.5});
    const auto dx = to_float(*x.grad(loss.backward()), Dtype::f32).to_vector<float>();
    return std::pair{to_float(loss.inner(), Dtype::f32).item<float>(), dx[7]};
  };
  const auto [loss, slope] = run(Dtype::f16);
  EXPECT_NEAR(loss, std::log(static_cast<double>(kClasses)), 8e-3);
  EXPECT_NEAR(slope, run(Dtype::f32).second, 2e-4);
}

// Loss and gradient of 16-bit logits have the bits that those of logits cast to f32 have.
TEST(Losses, WideOnesHaveTheBitsOfF32) {
  Rng rng{.seed = 4};
  const auto t = labels({2, -100, 0, 4, 1, 1});
  const auto weight = nn::constant<A>(uniform<Cpu>(rng, {5}, 0.5, 2));
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32, Dtype::f64})
    for (const double scale : {1.0, 30.0})
      for (const int kind : {0, 1, 2, 3}) {
        const auto logits = (normal<Cpu>(rng, {6, 5}) * scale).to(dtype);
        const Dtype wide = dtype == Dtype::f64 ? dtype : Dtype::f32;
        nn::CrossEntropyOptions<A> options;
        if (kind == 1) options.label_smoothing = 0.1;
        if (kind == 2) options.weight = weight.to(wide);
        if (kind == 3) options.reduction = nn::Reduction::none;
        const auto cast = nn::constant<A>(logits).require_grad();
        const auto wanted = nn::cross_entropy_loss(cast.to(wide), t, options);
        options.wide = true;
        const auto x = nn::constant<A>(logits).require_grad();
        const auto found = nn::cross_entropy_loss(x, t, options);
        ASSERT_EQ(found.dtype(), wide);
        EXPECT_EQ(to_float(found, Dtype::f64).to_vector<double>(),
                  to_float(wanted, Dtype::f64).to_vector<double>());
        const auto dx = *x.grad(sum(found).backward());
        EXPECT_EQ(dx.dtype(), dtype);
        EXPECT_EQ(to_float(dx, Dtype::f64).to_vector<double>(),
                  to_float(*cast.grad(sum(wanted).backward()), Dtype::f64).to_vector<double>())
            << name(dtype) << " " << kind;
      }
}

// d/dx of (dloss/dx · v), against differences of the gradient.
TEST(Losses, SecondDerivativesOfCrossEntropy) {
  using AA = Autodiff<A>;
  Rng rng{.seed = 3};
  const auto x = normal<Cpu>(rng, {4, 3}, 0, 1, Dtype::f64);
  const auto v = normal<Cpu>(rng, {4, 3}, 0, 1, Dtype::f64);
  const auto w = Tensor<Cpu>::from(std::vector{0.5, 2.0, 1.0}, {3});
  const std::int64_t targets[] = {2, -100, 0, 1};
  const auto t = Tensor<Cpu, IntKind>::from(std::span<const std::int64_t>(targets), {4});
  const auto gradient = [&](const Tensor<Cpu>& at) {
    const auto leaf = nn::constant<A>(at).require_grad();
    const auto loss = nn::cross_entropy_loss(
        leaf, nn::constant<A>(t), {.weight = nn::constant<A>(w), .label_smoothing = 0.1});
    return *leaf.grad(loss.backward());
  };
  const auto inner = nn::constant<A>(x).require_grad();
  const auto outer = nn::constant<AA>(inner).require_grad();
  const auto weight = nn::constant<AA>(nn::constant<A>(w));
  const auto loss = nn::cross_entropy_loss(outer, Tensor<AA, IntKind>(t.primitive()),
                                           {.weight = weight, .label_smoothing = 0.1});
  const auto dx = *outer.grad(loss.backward());
  const auto found = inner.grad(sum(dx * nn::constant<A>(v)).backward())->to_vector<double>();
  const double h = 1e-5;
  for (std::int64_t i = 0; i < 12; ++i) {
    const auto e = to_float(reshape(one_hot(full_like(t, i, Shape{1}), 12), {4, 3}), Dtype::f64);
    const auto slope = (gradient(x + e * h) - gradient(x - e * h)) * (0.5 / h);
    EXPECT_NEAR(found[static_cast<std::size_t>(i)], sum(slope * v).item<double>(), 1e-8) << i;
  }
}

TEST(Losses, RefuseWhatDoesNotBelongTogether) {
  const auto column = ones<Cpu>({4, 1}), row = ones<Cpu>({4});
  EXPECT_EQ(message([&] { (void)nn::mse_loss(column, row); }),
            "mse_loss: y has shape [4, 1], the target [4]; they must be the same");
  EXPECT_EQ(message([&] { (void)nn::l1_loss(column, row); }),
            "l1_loss: y has shape [4, 1], the target [4]; they must be the same");
  EXPECT_EQ(message([&] { (void)nn::bce_with_logits_loss(row, column); }),
            "bce_with_logits_loss: y has shape [4], the target [4, 1]; they must be the same");
  const auto x = ones<Cpu>({2, 3});
  const auto t = Tensor<Cpu, IntKind>::from({0, 2}, {2});
  EXPECT_EQ(message([&] { (void)nn::cross_entropy_loss<Cpu>(x, t, {.weight = row}); }),
            "cross_entropy: there are 3 classes, their weights have shape [4]");
  EXPECT_EQ(message([&] { (void)nn::cross_entropy_loss<Cpu>(x, t, {.label_smoothing = 1.5}); }),
            "cross_entropy: the label smoothing is 1.5, it must be in [0, 1]");
  EXPECT_EQ(message([&] { (void)nn::cross_entropy_loss(x, t + 1); }),
            "cross_entropy: targets[1] is 3, must be 0 to 2");
  // Those to ignore are none, and one of a sequence is named by sample and place.
  const auto text = Tensor<Cpu, IntKind>::from({0, -100, 3, 2, -1, 1}, {2, 3});
  EXPECT_EQ(message([&] {
              (void)nn::cross_entropy_loss(ones<Cpu>({2, 3, 3}), text);
            }),
            "cross_entropy: targets[0, 2] is 3, must be 0 to 2; 2 of 6 are out of range");
  EXPECT_EQ(message([&] {
              (void)nn::cross_entropy_loss(ones<Cpu>({2, 3, 4}), t);
            }),
            "cross_entropy: logits have shape [2, 3, 4], targets [2]; they must be [N, C, …] and "
            "[N, …]");
}

}  // namespace

}  // namespace planck::test
