// Batches in grains: the bits of DataParallel with one worker, and of a loop that is written out;
// what is refused. On CUDA recorded, not recorded, one after the other and side by side.
#include <gtest/gtest.h>

#include <cmath>

#include "planck/dist/data_parallel.h"
#include "planck/optim/step/step.h"
#include "planck/train/step.h"
#include "tests/nn/thrown.h"
#include "tests/train/models.h"

namespace planck::test {

namespace {

constexpr std::int64_t kBatch = 7, kGrain = 3;  // 3, 3 and 1

template <class A>
Tensor<A> part_of_loss(auto& model, const train::Grain& g, const auto& x,
                       const Tensor<A, IntKind>& labels) {
  return sum(cross_entropy(nn::as_dtype(model(x), Dtype::f32), labels)) *
         (1 / static_cast<double>(g.batch));
}

struct Found {
  std::vector<double> losses;
  nn::StateDict model, optimizer;
  std::string why_not = "";
  std::int64_t replayed = 0;
};
void expect_same(const std::string& what, const Found& found, const Found& wanted) {
  EXPECT_EQ(found.losses, wanted.losses) << what;
  EXPECT_EQ(found.optimizer, wanted.optimizer) << what;
  ASSERT_EQ(found.model.size(), wanted.model.size()) << what;
  for (const auto& [path, entry] : wanted.model)
    EXPECT_EQ(found.model.at(path), entry) << what << ": " << path;
}

// Steps of a model that make() makes, by train::Step.
template <class A>
Found stepped(const auto& make, int steps, Dtype dtype, const train::StepOptions& options) {
  auto model = make(std::type_identity<A>{});
  auto adam = adam_of<A>();
  train::Step step(
      model, adam,
      [&](const train::Grain& g, const auto& x, const auto& labels) {
        return part_of_loss<A>(model, g, x, labels);
      },
      options);
  std::vector<Tensor<nn::Inner<A>>> losses;
  for (int i = 0; i < steps; ++i) {
    const Batch<A> batch(i % 3, kBatch, dtype);
    losses.push_back(step(input_of(model, batch), batch.labels));
  }
  step.check();
  Found found{{}, nn::state(model), adam.state(), step.why_not(), step.replayed()};
  for (const auto& loss : losses) found.losses.push_back(loss.template item<double>());
  return found;
}
// The same by DataParallel, of one worker on the CPU.
Found shared(const auto& make, int steps, Dtype dtype) {
  using A = Autodiff<Cpu>;
  auto model = make(std::type_identity<A>{});
  auto adam = adam_of<A>();
  dist::Alone alone;
  dist::DataParallel<A> parallel(alone);
  Found found;
  for (int i = 0; i < steps; ++i) {
    const Batch<A> batch(i % 3, kBatch, dtype);
    const auto& x = input_of(model, batch);
    const auto got = parallel(model, 3, [&](std::int64_t g) {
      const train::Grain grain{g * kGrain, std::min(kBatch, (g + 1) * kGrain), kBatch};
      return part_of_loss<A>(model, grain, slice(x, 0, grain.first, grain.end),
                             slice(batch.labels, 0, grain.first, grain.end));
    });
    adam.step(model, got.gradients, optim::clip(got.gradients, 0.5));
    found.losses.push_back(got.loss);
  }
  found.model = nn::state(model);
  found.optimizer = adam.state();
  return found;
}

// Turns its picture first: an affine grid, its samples, and gradients of both.
template <class B>
struct Flat {
  nn::Linear<B> theta;
  explicit Flat(Rng& rng) : theta(rng, {12, 6}) {}
  Tensor<B> operator()(const Tensor<B>& x) { return theta(reshape(x, {x.extent(0), -1})) * 0.1; }
  void visit(auto&& part) { part("theta", theta); }
};
template <class B>
struct Turned {
  nn::SpatialTransformer<B, Flat<B>> upright;
  Perceptron<B> read;
  explicit Turned(Rng& rng) : upright(Flat<B>(rng), {3, 4}), read(rng) {}
  Tensor<B> operator()(const Tensor<B>& x) {
    const auto seen = upright(reshape(x, {-1, 1, 3, 4}));
    return read(reshape(seen, {x.extent(0), -1}));
  }
  void visit(auto&& part) {
    part("upright", upright);
    part("read", read);
  }
};

template <template <class> class M>
auto plain_model() {
  return []<class A>(std::type_identity<A>) {
    Rng rng{.seed = 3};
    return M<A>(rng);
  };
}
auto narrow_model(Dtype dtype) {
  return [dtype]<class A>(std::type_identity<A>) {
    Rng rng{.seed = 3};
    return Perceptron<A>(rng, dtype);
  };
}
// Calls f(name, make, dtype) for models with and without buffers, of several dtypes.
void for_each_model(const auto& f) {
  f("perceptron", plain_model<Perceptron>(), Dtype::f32);
  f("pictures with batch norm", plain_model<Pictures>(), Dtype::f32);
  f("text", plain_model<Text>(), Dtype::f32);
  f("a spatial transformer", plain_model<Turned>(), Dtype::f32);
  f("perceptron in bf16", narrow_model(Dtype::bf16), Dtype::bf16);
  f("perceptron in f64", narrow_model(Dtype::f64), Dtype::f64);
}

TEST(Grains, HaveTheBitsOfDataParallel) {
  for_each_model([](const std::string& what, const auto& make, Dtype dtype) {
    const auto found =
        stepped<Autodiff<Cpu>>(make, 8, dtype, {.highest_norm = 0.5, .grain = kGrain});
    expect_same(what, found, shared(make, 8, dtype));
    EXPECT_LT(found.losses.back(), found.losses.front()) << what << " learns";
  });
}

template <class B>
struct Dropping : Perceptron<B> {
  nn::Dropout drop{0.5, 9};
  explicit Dropping(Rng& rng) : Perceptron<B>(rng) {}
  Tensor<B> operator()(const Tensor<B>& x) { return this->second(drop(relu(this->first(x)))); }
  void visit(auto&& part) {
    Perceptron<B>::visit(part);
    part("drop", drop);
  }
};

TEST(Grains, DrawOnFromOneToTheNext) {
  using A = Autodiff<Cpu>;
  const auto found = stepped<A>(plain_model<Dropping>(), 1, Dtype::f32, {.grain = kGrain});
  auto model = plain_model<Dropping>()(std::type_identity<A>{});
  const Batch<A> batch(0, kBatch);
  std::vector<double> losses;
  for (std::int64_t first = 0; first < kBatch; first += kGrain) {
    const std::int64_t end = std::min(kBatch, first + kGrain);
    losses.push_back(static_cast<double>(part_of_loss<A>(model, {first, end, kBatch},
                                                         slice(batch.x, 0, first, end),
                                                         slice(batch.labels, 0, first, end))
                                             .template item<float>()));
  }
  EXPECT_EQ(found.losses[0], (losses[0] + losses[1]) + losses[2]);
  EXPECT_EQ(found.model.at("drop.rng"), nn::state(model).at("drop.rng"));
}

TEST(Grains, AreRefusedWhereTheyMeanNothing) {
  using A = Autodiff<Cpu>;
  auto model = plain_model<Perceptron>()(std::type_identity<A>{});
  auto adam = adam_of<A>();
  const Batch<A> batch(0, 6), more(0, 7);
  train::Step whole(model, adam,
                    [&](const auto& x, const auto& y) { return loss_of<A>(model, x, y); },
                    {.grain = 3});
  EXPECT_EQ(message([&] { (void)whole(batch.x, batch.labels); }),
            "step: grains of 3 samples, but the function takes no Grain");
  const auto part = [&](const train::Grain& g, const auto& x, const auto& labels) {
    return part_of_loss<A>(model, g, x, labels);
  };
  train::Step step(model, adam, part, {.grain = 3});
  EXPECT_EQ(message([&] { (void)step(batch.x, more.labels); }),
            "step: inputs have 6 and 7 samples; grains need as many of each, and one at least");
  EXPECT_EQ(message([&] { train::Step(model, adam, part, {.grain = -1}); }),
            "step: grains of -1 samples");
  EXPECT_EQ(step.steps(), 0);
}

// Row-major numbers of a shape, of any size between 2^-8 and 2^8.
template <class B>
Tensor<B> some(std::uint64_t seed, const Shape& shape, Dtype dtype) {
  Rng rng{.seed = seed};
  return (normal<Cpu>(rng, shape, 0, 1, Dtype::f32) *
          exp(uniform<Cpu>(rng, shape, -5, 5, Dtype::f32)))
      .to(dtype)
      .template to<B>();
}
// The canonical sum of parts, added with tensors; one that is missing is +0.
Tensor<Cpu> tree(std::span<const std::optional<Tensor<Cpu>>> parts, const Shape& shape,
                 Dtype dtype) {
  if (parts.size() == 1)
    return parts[0] ? nn::as_dtype(*parts[0], dtype) : zeros<Cpu>(shape, dtype);
  std::size_t left = 1;
  while (2 * left < parts.size()) left *= 2;
  return tree(parts.first(left), shape, dtype) + tree(parts.subspan(left), shape, dtype);
}

template <class B>
void expect_sums() {
  struct Case {
    Dtype from, to;
    Shape shape;
  };
  const std::vector<Case> cases = {
      {Dtype::f32, Dtype::f32, {3, 5}}, {Dtype::bf16, Dtype::bf16, {1025}},
      {Dtype::f16, Dtype::f16, {7}},    {Dtype::f64, Dtype::f64, {300}},
      {Dtype::f32, Dtype::f64, {}},     {Dtype::bf16, Dtype::f32, {2, 640}},
      {Dtype::f32, Dtype::f32, {0, 4}}, {Dtype::f32, Dtype::f32, {40000}}};
  for (const std::size_t n : {1u, 2u, 3u, 4u, 5u, 8u, 13u, 400u}) {
    std::vector<optim::Summands> wanted;
    std::vector<Tensor<Cpu>> sums;
    for (std::size_t c = 0; c < cases.size(); ++c) {
      const auto& [from, to, shape] = cases[c];
      std::vector<std::optional<Tensor<Cpu>>> parts(n);
      optim::Summands s{.parts = std::vector<std::optional<StoredView>>(n), .to = to};
      for (std::size_t k = 0; k < n; ++k) {
        if (n > 1 && (k + c) % 4 == 3) continue;
        parts[k] = some<Cpu>(100 * k + c, shape, from);
        s.parts[k] = some<B>(100 * k + c, shape, from).primitive();
      }
      const bool wide = from == Dtype::f64 || to == Dtype::f64;
      sums.push_back(nn::as_dtype(tree(parts, shape, wide ? Dtype::f64 : Dtype::f32), to));
      wanted.push_back(std::move(s));
    }
    const auto found = optim::sums_of(B::default_device(), wanted);
    ASSERT_EQ(found.size(), cases.size());
    for (std::size_t c = 0; c < cases.size(); ++c)
      EXPECT_EQ(nn::to_entry(Tensor<B>(typename B::FloatTensor{found[c]})), nn::to_entry(sums[c]))
          << n << " parts, case " << c;
  }
}

TEST(Sums, AreCanonical) { expect_sums<Cpu>(); }
TEST(Sums, OfTooManyPartsAreRefused) {
  const optim::Summands s{std::vector<std::optional<StoredView>>(1025), Dtype::f32};
  EXPECT_EQ(message([&] {
              (void)optim::sums_of(Stream::cpu(1), {&s, 1});
            }),
            "sums: 1025 parts, there may be 1024");
}
TEST(Sums, OnCudaHaveTheSameBits) {
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  with_backend_of(*gpu, []<class B>(std::type_identity<B>) { expect_sums<B>(); });
}

TEST(GrainsOnCuda, HaveTheSameBitsInAnyWay) {
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  with_backend_of(*gpu, []<class B>(std::type_identity<B>) {
    for_each_model([](const std::string& what, const auto& make, Dtype dtype) {
      const auto wanted = shared(make, 12, dtype);
      for (const bool record : {false, true})
        for (const bool side_by_side : {false, true}) {
          const auto found = stepped<Autodiff<B>>(make, 12, dtype,
                                                  {.highest_norm = 0.5,
                                                   .record = record,
                                                   .grain = kGrain,
                                                   .side_by_side = side_by_side});
          const auto how = what + (record ? ", recorded" : "") +
                           (side_by_side ? ", side by side" : ", one after the other");
          expect_same(how, found, wanted);
          EXPECT_EQ(found.why_not, record ? "" : "the options say so") << how;
          EXPECT_EQ(found.replayed, record ? 11 : 0) << how;
        }
    });
  });
}
TEST(GrainsOnCuda, DrawTheSame) {
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  with_backend_of(*gpu, []<class B>(std::type_identity<B>) {
    const auto make = plain_model<Dropping>();
    const auto wanted = stepped<Autodiff<Cpu>>(make, 12, Dtype::f32, {.grain = kGrain});
    for (const bool side_by_side : {false, true}) {
      const auto found = stepped<Autodiff<B>>(make, 12, Dtype::f32,
                                              {.grain = kGrain, .side_by_side = side_by_side});
      expect_same("dropping", found, wanted);
      EXPECT_EQ(found.why_not, "");
      EXPECT_EQ(found.replayed, 11);
    }
  });
}

}  // namespace

}  // namespace planck::test
