// Steps with quantization in the loop, recorded on CUDA: the bits of those that are not, and of the
// CPU, while layers observe and when they round, with steps that are learned and that follow; and
// that a step which sets a parameter is not recorded.
#include <gtest/gtest.h>

#include "planck/train/step.h"
#include "tests/train/models.h"

namespace planck::test {

namespace {

template <class B>
struct Rounded {
  nn::Quantizable<nn::Conv2d<B>> conv;
  nn::Quantizable<nn::Linear<B>> output;

  Rounded(Rng& rng, bool learned, bool starts)
      : conv(nn::Conv2d<B>(rng, {.in = 1, .out = 4, .shape = {.padding = {1, 1}}})),
        output(nn::Linear<B>(rng, {4 * 6, 4})) {
    nn::prepare_qat(*this, nn::qat_options(Dtype::s8, Granularity::per_channel, learned));
    if (!starts) return;
    (void)(*this)(Batch<B>(9, 6).x);
    nn::start_quantizing(*this);
  }
  Tensor<B> operator()(const Tensor<B>& x) {
    const auto y = max_pool2d(relu(conv(reshape(x, {-1, 1, 3, 4}))), {.kernel = {1, 2}});
    return output(reshape(y, {y.extent(0), -1}));
  }
  void visit(auto&& part) {
    part("conv", conv);
    part("output", output);
  }
};
template <class B>
struct Learned : Rounded<B> {
  explicit Learned(Rng& rng) : Rounded<B>(rng, true, true) {}
};
template <class B>
struct Followed : Rounded<B> {  // scales are those of the weight, and of the inputs seen so far
  explicit Followed(Rng& rng) : Rounded<B>(rng, false, true) {}
};
template <class B>
struct Observing : Rounded<B> {
  explicit Observing(Rng& rng) : Rounded<B>(rng, false, false) {}
};

template <template <class> class M>
void expect_same_bits(const std::string& what) {
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  const auto wanted = written_out<Autodiff<Cpu>, M>(12);
  EXPECT_NE(wanted.losses[11], wanted.losses[2]) << what << " changes, on the same batch";
  with_backend_of(*gpu, [&]<class B>(std::type_identity<B>) {
    using A = Autodiff<B>;
    const auto recorded = stepped<A, M>(12), plain = stepped<A, M>(12, usual_size, false);
    EXPECT_EQ(recorded.why_not, "") << what;
    EXPECT_EQ(recorded.recorded, 1) << what;
    EXPECT_EQ(recorded.replayed, 11) << what;
    for (const Trained* found : {&recorded, &plain}) {
      EXPECT_EQ(found->losses, wanted.losses) << what << ", recorded: " << found->recorded;
      EXPECT_EQ(found->optimizer, wanted.optimizer) << what << ", recorded: " << found->recorded;
      for (const auto& [path, entry] : wanted.model)
        EXPECT_EQ(found->model.at(path), entry)
            << what << ": " << path << ", recorded: " << found->recorded;
    }
  });
}

TEST(QuantizedStep, LearnedScalesHaveTheSameBits) { expect_same_bits<Learned>("learned"); }
TEST(QuantizedStep, ScalesThatFollowHaveTheSameBits) { expect_same_bits<Followed>("followed"); }
TEST(QuantizedStep, ObservingHasTheSameBits) { expect_same_bits<Observing>("observing"); }

// Quantizing may start between two steps.
TEST(QuantizedStep, StartsBetweenSteps) {
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  const auto start = [](int i, auto& model, auto&) {
    if (i == 5) nn::start_quantizing(model);
  };
  const auto wanted = stepped<Autodiff<Cpu>, Observing>(10, usual_size, true, start);
  with_backend_of(*gpu, [&]<class B>(std::type_identity<B>) {
    const auto found = stepped<Autodiff<B>, Observing>(10, usual_size, true, start);
    EXPECT_EQ(found.why_not, "");
    EXPECT_EQ(found.recorded, 2) << "and once more when it rounds";
    EXPECT_TRUE(same_bits(found, wanted));
  });
}

// What the first batch observes has nothing before it, what the next ones do has.
TEST(QuantizedStep, ForgetsWhatItObservedBetweenSteps) {
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  const auto trained = [](auto backend) {
    nn::StateDict first;
    return stepped<typename decltype(backend)::type, Observing>(10, usual_size, true,
                                                                [&](int i, auto& model, auto&) {
                                                                  if (i == 0)
                                                                    first = nn::state(model);
                                                                  if (i == 5)
                                                                    nn::load_state(model, first);
                                                                });
  };
  const auto wanted = trained(std::type_identity<Autodiff<Cpu>>{});
  with_backend_of(*gpu, [&]<class B>(std::type_identity<B>) {
    const auto found = trained(std::type_identity<Autodiff<B>>{});
    EXPECT_EQ(found.why_not, "");
    EXPECT_EQ(found.recorded, 2);
    EXPECT_EQ(found.replayed, 8) << "the first of all, and the first that observes anew, are not";
    EXPECT_TRUE(same_bits(found, wanted));
  });
}

// While layers observe, each batch sets the steps that are to be learned.
TEST(QuantizedStep, WhatSetsAParameterIsNotRecorded) {
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  with_backend_of(*gpu, [&]<class B>(std::type_identity<B>) {
    const auto trained = [](auto backend, bool record) {
      using A = typename decltype(backend)::type;
      Rng rng{.seed = 3};
      Rounded<A> model(rng, true, false);
      optim::Sgd<A> sgd({.rate = 0.05});
      train::Step step(
          model, sgd,
          [&](const auto& x, const auto& labels) { return loss_of<A>(model, x, labels); },
          {.record = record});
      for (int i = 0; i < 5; ++i) {
        const Batch<A> batch(i, 6);
        step(batch.x, batch.labels);
      }
      step.check();
      if (record && step.why_not() != "the CPU runs what it is given at once") {
        EXPECT_EQ(step.why_not(), "the step sets the parameter conv.input_quant.step");
      }
      return nn::state(model);
    };
    const auto wanted = trained(std::type_identity<Autodiff<Cpu>>{}, true);
    EXPECT_EQ(trained(std::type_identity<Autodiff<B>>{}, true), wanted);
    EXPECT_EQ(trained(std::type_identity<Autodiff<B>>{}, false), wanted);
  });
}

}  // namespace

}  // namespace planck::test
