// Steps that are recorded on CUDA: the bits of those that are not, and of the CPU; what is recorded
// anew and when; what cannot be; errors in data. Every test says what it recorded and why not.
#include <gtest/gtest.h>

#include <cmath>

#include "planck/backend/profile.h"
#include "planck/core/allocator.h"
#include "planck/core/stream/recording.h"
#include "planck/train/step.h"
#include "tests/nn/thrown.h"
#include "tests/train/models.h"
#include "tests/train/on_cuda.h"

namespace planck::test {

namespace {

void expect_recorded(const std::string& what, const Trained& t, std::int64_t recorded,
                     std::int64_t replayed) {
  EXPECT_EQ(t.why_not, "") << what;
  EXPECT_EQ(t.recorded, recorded) << what;
  EXPECT_EQ(t.replayed, replayed) << what;
}
void expect_bits(const std::string& what, const Trained& found, const Trained& wanted) {
  EXPECT_EQ(found.losses, wanted.losses) << what;
  EXPECT_EQ(found.optimizer, wanted.optimizer) << what;
  ASSERT_EQ(found.model.size(), wanted.model.size()) << what;
  for (const auto& [path, entry] : wanted.model)
    EXPECT_EQ(found.model.at(path), entry) << what << ": " << path;
}

// Recorded, not recorded, by hand and on the CPU.
template <class A, template <class> class M>
void expect_same_bits(const std::string& what) {
  const auto recorded = stepped<A, M>(20);
  expect_recorded(what, recorded, 1, 19);
  const auto plain = stepped<A, M>(20, usual_size, false);
  EXPECT_EQ(plain.why_not, "the options say so");
  expect_bits(what + ", recorded and not", recorded, plain);
  expect_bits(what + ", by hand", plain, written_out<A, M>(20));
  expect_bits(what + ", on the CPU", plain, written_out<Autodiff<Cpu>, M>(20));
}

TEST(StepOnCuda, PerceptronHasTheSameBits) {
  on_cuda([]<class A>(std::type_identity<A>) { expect_same_bits<A, Perceptron>("perceptron"); });
}
TEST(StepOnCuda, PicturesWithBatchNormHaveTheSameBits) {
  on_cuda([]<class A>(std::type_identity<A>) { expect_same_bits<A, Pictures>("pictures"); });
}
TEST(StepOnCuda, TextWithAttentionHasTheSameBits) {
  on_cuda([]<class A>(std::type_identity<A>) { expect_same_bits<A, Text>("text"); });
}

TEST(StepOnCuda, RecordsEveryShapeOnce) {
  on_cuda([]<class A>(std::type_identity<A>) {
    const auto size = [](int i) -> std::int64_t { return i % 3 == 2 ? 5 : 8; };
    const auto found = stepped<A, Pictures>(12, size);
    expect_recorded("two shapes", found, 2, 10);
    expect_bits("two shapes", found, written_out<A, Pictures>(12, size));
  });
}

TEST(StepOnCuda, MemoryOfOthersIsLeftAlone) {
  on_cuda([]<class A>(std::type_identity<A>) {
    using B = nn::Inner<A>;
    std::vector<Tensor<B>> others;
    const auto found = stepped<A, Pictures>(20, usual_size, true, [&](int i, auto&, auto& step) {
      // Takes every cached block of many sizes, and overwrites it.
      for (std::int64_t n = 1; n < 100'000; n = n * 9 / 8 + 1)
        others.push_back(full<B>({n}, NAN, Dtype::f32, B::default_device()));
      if (i % 2 == 1) others.clear();
      if (i == 10) release_cached(B::default_device().device());
      if (i > 2) {
        EXPECT_GT(step.bytes(), 0u);
      }
    });
    expect_recorded("among others", found, 1, 19);
    expect_bits("among others", found, written_out<A, Pictures>(20));
    for (const auto& t : others)
      for (const float v : t.template to_vector<float>()) ASSERT_TRUE(std::isnan(v));
  });
}

TEST(StepOnCuda, CopiesOfAModelKeepTheirValues) {
  on_cuda([]<class A>(std::type_identity<A>) {
    std::optional<Pictures<A>> copy;
    nn::StateDict then;
    const auto found = stepped<A, Pictures>(12, usual_size, true, [&](int i, auto& model, auto&) {
      if (i != 5) return;
      copy = model;
      then = nn::state(model);
    });
    EXPECT_EQ(nn::state(*copy), then);
    EXPECT_EQ(found.why_not, "");
    EXPECT_GE(found.recorded, 2) << "the model's tensors lie elsewhere from then on";
    expect_bits("copied", found, written_out<A, Pictures>(12));
  });
}

TEST(StepOnCuda, IsRecordedAnewWhereTheModelChanges) {
  on_cuda([]<class A>(std::type_identity<A>) {
    const auto changed = [](int i, auto& model, auto&) {
      if (i == 4) nn::eval(model);
      if (i == 7) nn::train(model);
      if (i == 10) nn::requires_grad(model, false, "conv");
      if (i == 13) nn::load_state(model, nn::state(model));
    };
    const auto found = stepped<A, Pictures>(16, usual_size, true, changed);
    const auto plain = stepped<A, Pictures>(16, usual_size, false, changed);
    expect_recorded("changed", found, 5, 15);
    expect_bits("changed", found, plain);
  });
}

TEST(StepOnCuda, WatchedStepsRunAsTheyAreWritten) {
  on_cuda([]<class A>(std::type_identity<A>) {
    std::optional<Profile> profile;
    const auto found = stepped<A, Perceptron>(9, usual_size, true, [&](int i, auto&, auto&) {
      if (i == 3) profile.emplace();
      if (i == 6) profile.reset();
    });
    expect_recorded("watched", found, 1, 5);
    expect_bits("watched", found, written_out<A, Perceptron>(9));
  });
}

// f16 with a loss scale that is too large at first, and once more when a batch is: steps that are
// left out, one of them behind many that were not.
struct Scaled {
  nn::StateDict model, optimizer, scale;
  std::int64_t skipped = 0;
  friend bool operator==(const Scaled&, const Scaled&) = default;
};
template <class A>
Scaled scaled(auto optimizer, bool record, bool asks) {
  Rng rng{.seed = 3};
  Perceptron<A> model(rng, Dtype::f16);
  optim::LossScale scale({.first = 0x1p24, .interval = 4});
  train::Step step(model, optimizer,
                   [&](const auto& x, const auto& labels) { return loss_of<A>(model, x, labels); },
                   {.highest_norm = 0.5, .loss_scale = &scale, .record = record});
  for (int i = 0; i < 30; ++i) {
    const Batch<A> batch(i, 6, Dtype::f16);
    step(i == 22 ? batch.x * 3e4 : batch.x, batch.labels);
    if (asks && i % 8 == 7) {  // the first that count are behind some that are left out
      EXPECT_GT(scale.value(), 0);
      EXPECT_FALSE(optimizer.state().empty());
    }
  }
  if (step.why_not() == "") {
    EXPECT_EQ(step.recorded(), 1) << "the scale moves, what was recorded stays";
    EXPECT_EQ(step.replayed(), 29);
  }
  EXPECT_EQ(step.why_not().empty(),
            record && Stream(model.first.weight->device()).device().kind == DeviceKind::cuda);
  return {nn::state(model), optimizer.state(), scale.state(), scale.skipped()};
}

TEST(StepOnCuda, ScalesTheLoss) {
  on_cuda([]<class A>(std::type_identity<A>) {
    using C = Autodiff<Cpu>;
    const auto check = [](const std::string& what, const auto& here, const auto& there) {
      const Scaled wanted = scaled<C>(here, false, false);
      EXPECT_GT(wanted.skipped, 2) << what;
      EXPECT_LT(wanted.skipped, 20) << what;
      EXPECT_TRUE(scaled<A>(there, false, false) == wanted) << what << ", not recorded";
      EXPECT_TRUE(scaled<A>(there, true, false) == wanted) << what << ", recorded";
      EXPECT_TRUE(scaled<A>(there, true, true) == wanted) << what << ", recorded and asked";
    };
    check("adam", adam_of<C>(), adam_of<A>());
    check("sgd", optim::Sgd<C>({.rate = 0.1, .momentum = 0.9}),
          optim::Sgd<A>({.rate = 0.1, .momentum = 0.9}));
    check("lamb", optim::Lamb<C>({.rate = 0.01}), optim::Lamb<A>({.rate = 0.01}));
    auto without = adam_of<C>();
    auto without_there = adam_of<A>();
    without.master_weights = without_there.master_weights = false;
    without.options.eps = without_there.options.eps = 0.1;  // f16 has no squares below 6e-8
    check("adam without master weights", without, without_there);
  });
}

// The device has moved its scale when the step fails: what follows are the bits of no such step.
TEST(StepOnCuda, AStepWithoutMemoryMovesNoLossScale) {
  on_cuda([]<class A>(std::type_identity<A>) {
    const auto trained = [](auto optimizer, bool fails) {
      using M = typename decltype(optimizer)::Model;
      Rng rng{.seed = 3};
      Perceptron<M> model(rng, Dtype::f16);
      optim::LossScale scale({.first = 0x1p24, .interval = 4});
      train::Step step(
          model, optimizer,
          [&](const auto& x, const auto& labels) { return loss_of<M>(model, x, labels); },
          {.loss_scale = &scale});
      for (int i = 0; i < 12; ++i) {
        const Batch<M> batch(i, 6, Dtype::f16);
        if (i != 2) {
          step(batch.x, batch.labels);
        } else if (fails) {
          fail_allocation(0);
          EXPECT_THROW(step(batch.x, batch.labels), Exception);
          fail_allocation(-1);
          EXPECT_EQ(step.replayed(), 2) << "it has run";
        }
      }
      EXPECT_GT(scale.skipped(), 2) << "it would have been left out";
      return std::tuple(nn::state(model), optimizer.state(), scale.state());
    };
    EXPECT_EQ(trained(adam_of<A>(), true), trained(adam_of<Autodiff<Cpu>>(), false));
  });
}

TEST(StepOnCuda, NamesABrokenIndexAndKeepsTheWeights) {
  on_cuda([]<class A>(std::type_identity<A>) {
    for (const bool record : {true, false}) {
      Rng rng{.seed = 3};
      Text<A> model(rng);
      auto adam = adam_of<A>();
      train::Step step(
          model, adam,
          [&](const auto& text, const auto& labels) { return loss_of<A>(model, text, labels); },
          {.record = record});
      const Batch<A> good(0, 3);
      for (int i = 0; i < 4; ++i) step(good.text, good.labels);
      EXPECT_EQ(message([&] { step.check(); }), "nothing was thrown");
      const auto before = nn::state(model);
      const auto first = good.text.template to_vector<std::int64_t>()[0] + 8;
      const auto text = good.text + 8;
      const auto labels = Tensor<A, IntKind>::from({0, 4, 1}, {3});
      // Of two errors the first one is told, and later steps change nothing.
      const auto loss = step(text, good.labels);
      step(good.text, labels);
      step(good.text, good.labels);
      EXPECT_EQ(message([&] { (void)loss.template item<float>(); }),
                "embedding: indices[0, 0] is " + std::to_string(first) +
                    ", must be 0 to 7; 36 of 36 are out of range");
      EXPECT_EQ(nn::state(model), before) << "recorded: " << record;
      EXPECT_EQ(message([&] { step.check(); }), "nothing was thrown") << "once";
      step(good.text, labels);
      EXPECT_EQ(message([&] { step.check(); }), "cross_entropy: targets[1] is 4, must be 0 to 3");
      EXPECT_EQ(nn::state(model), before);
      step(good.text, good.labels);
      EXPECT_EQ(message([&] { step.check(); }), "nothing was thrown");
      EXPECT_NE(nn::state(model), before) << "and it goes on";
      EXPECT_EQ(step.why_not(), record ? "" : "the options say so");
    }
  });
}

TEST(StepOnCuda, RefusesALossThatIsNoNumber) {
  on_cuda([]<class A>(std::type_identity<A>) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
      Rng rng{.seed = 3};
      Perceptron<A> model(rng, dtype);
      auto adam = adam_of<A>();
      train::Step step(model, adam,
                       [&](const auto& x, const auto& labels) {
                         return nn::cross_entropy_loss(model(x), labels);
                       },
                       {.check_loss = true});
      const Batch<A> good(0, 6, dtype);
      for (int i = 0; i < 3; ++i) step(good.x, good.labels);
      const auto before = nn::state(model);
      step(good.x * NAN, good.labels);
      step(good.x, good.labels);
      EXPECT_EQ(message([&] { step.check(); }), "the loss of step 4 is nan");
      EXPECT_EQ(nn::state(model), before) << "nor did the step behind it change anything";
      step(good.x, good.labels);
      EXPECT_EQ(message([&] { step.check(); }), "nothing was thrown");
      EXPECT_NE(nn::state(model), before);
      EXPECT_EQ(step.why_not(), "");
    }
  });
}

TEST(StepOnCuda, NamesIndicesOfAnyLayout) {
  on_cuda([]<class A>(std::type_identity<A>) {
    using B = nn::Inner<A>;
    const auto says = [](const auto& f) {
      return message([&] {
        f();
        B::synchronize(B::default_device());
      });
    };
    const auto table = ones<B>({4, 2});
    const auto at = Tensor<B, IntKind>::from({0, 1, 9, 3, -1, 2}, {3, 2});  // [[0,1],[9,3],[-1,2]]
    EXPECT_EQ(says([&] { (void)embedding(table, transpose(at)); }),
              "embedding: indices[0, 1] is 9, must be 0 to 3; 2 of 6 are out of range");
    EXPECT_EQ(says([&] { (void)embedding(table, flip(at, {0})); }),
              "embedding: indices[0, 0] is -1, must be 0 to 3; 2 of 6 are out of range");
    const auto narrow = Tensor<B, IntKind>::template from<std::int32_t>({0, 5}, {2});
    EXPECT_EQ(says([&] { (void)embedding(table, narrow); }),
              "embedding: indices[1] is 5, must be 0 to 3");
    const auto many = full_like(ones<B>({1000, 100}), 1.0);
    auto far = to_int(many);
    far[{777, 5}] = 4;
    EXPECT_EQ(says([&] { (void)embedding(table, far); }),
              "embedding: indices[777, 5] is 4, must be 0 to 3");
    const auto list = Tensor<B, IntKind>::from({0, 1, 2}, {3});
    EXPECT_EQ(says([&] {
                (void)embedding_bag(table, list, Tensor<B, IntKind>::from({0, 2, 1}, {3}));
              }),
              "embedding_bag: offsets[2] is 1, must be 2 to 3");
    EXPECT_EQ(says([&] { (void)embedding(table, list); }), "nothing was thrown");
  });
}

// A step that cannot be recorded: why, and the bits of the loop.
template <class A, class M, class F>
void expect_as_written(const std::string& why, const F& function) {
  const auto trained = [&](bool record) {
    Rng rng{.seed = 3};
    M model(rng);
    optim::Sgd<A> sgd({.rate = 0.05});
    train::Step step(model, sgd,
                     [&](const auto& x, const auto& labels) { return function(model, x, labels); },
                     {.record = record});
    for (int i = 0; i < 5; ++i) {
      const Batch<A> batch(i, 6);
      step(input_of(model, batch), batch.labels);
    }
    step.check();
    if (record) {
      EXPECT_EQ(step.why_not(), why);
      EXPECT_EQ(step.replayed(), 0) << why;
    }
    return nn::state(model);
  };
  EXPECT_EQ(trained(true), trained(false)) << why;
}

template <class B>
struct Rows {
  nn::Embedding<B> tokens;
  nn::Linear<B> output;
  explicit Rows(Rng& rng)
      : tokens(rng, 8, 4, nn::Options<B>{}, kNoPaddingIndex, true), output(rng, {4, 4}) {}
  Tensor<B> operator()(const Tensor<B, IntKind>& text) {
    return output(reshape(mean(tokens(text), 1), {text.extent(0), 4}));
  }
  void visit(auto&& part) {
    part("tokens", tokens);
    part("output", output);
  }
};

TEST(StepOnCuda, SaysWhyItIsNotRecorded) {
  on_cuda([]<class A>(std::type_identity<A>) {
    const auto usual = [](auto& model, const auto& x, const auto& labels) {
      return loss_of<A>(model, x, labels);
    };
    expect_as_written<A, Rows<A>>("gradients of rows: the host reads how many there are", usual);
    expect_as_written<A, Perceptron<A>>("recording: the host reads a tensor of shape []",
                                        [](auto& model, const auto& x, const auto& labels) {
                                          const auto loss = loss_of<A>(model, x, labels);
                                          return loss * (loss.template item<float>() > 1 ? 2 : 1);
                                        });
    expect_as_written<A, Perceptron<A>>(
        "recording: a tensor of shape [] is made from values of the host",
        [](auto& model, const auto& x, const auto& labels) {
          return loss_of<A>(model, x, labels) * Tensor<A>::scalar(0.5);
        });
    // A step that was given up goes on, and so does everything else on the stream.
    const auto found = stepped<A, Perceptron>(6);
    expect_recorded("afterwards", found, 1, 5);
    expect_bits("afterwards", found, written_out<A, Perceptron>(6));
  });
}

TEST(StepOnCuda, CopiesToTheDeviceKeepTheirValues) {
  on_cuda([]<class A>(std::type_identity<A>) {
    using B = nn::Inner<A>;
    std::vector<Tensor<B>> all;
    for (int i = 0; i < 300; ++i) {  // more than what may be on its way at once
      std::vector<float> values(static_cast<std::size_t>(1 + i * 4001), static_cast<float>(i));
      all.push_back(Tensor<B>::from(values));
      std::fill(values.begin(), values.end(), -1.f);
    }
    for (int i = 0; i < 300; ++i) {
      const auto found = all[static_cast<std::size_t>(i)].template to_vector<float>();
      EXPECT_EQ(found, std::vector<float>(found.size(), static_cast<float>(i))) << i;
    }
  });
}

}  // namespace

}  // namespace planck::test
