// Steps that draw random numbers. On CUDA each run of a recorded step draws what the step as it is
// written would, wherever generators are by then; what cannot be recorded says so.
#include <gtest/gtest.h>

#include "planck/core/stream/recording.h"
#include "planck/train/step.h"
#include "tests/nn/thrown.h"
#include "tests/train/models.h"
#include "tests/train/on_cuda.h"

namespace planck::test {

namespace {

// Two layers of one seed and one of another.
template <class B>
struct Dropping : Perceptron<B> {
  nn::Dropout first_drop{0.5, 9}, again{0.25, 9}, last{0.1, 4};
  explicit Dropping(Rng& rng) : Perceptron<B>(rng) {}
  Tensor<B> operator()(const Tensor<B>& x) {
    return last(this->second(again(first_drop(relu(this->first(x))))));
  }
  void visit(auto&& part) {
    Perceptron<B>::visit(part);
    part("first_drop", first_drop);
    part("again", again);
    part("last", last);
  }
};
template <class B>
struct Checkpointed : Dropping<B> {
  using Dropping<B>::Dropping;
  Tensor<B> operator()(const Tensor<B>& x) {
    return checkpoint([this](const auto& in) { return Dropping<B>::operator()(in); }, x);
  }
};
// With dropout of attention's probabilities, and noise that is normal.
template <class B>
struct NoisyText {
  nn::Embedding<B> tokens;
  nn::MultiHeadAttention<B> attention;
  nn::Linear<B> output;
  Rng noise{.seed = 77};
  explicit NoisyText(Rng& rng)
      : tokens(rng, 8, 16),
        attention(rng, {.width = 16, .heads = 2, .causal = true, .dropout = 0.2}),
        output(rng, {16, 4}) {}
  Tensor<B> operator()(const Tensor<B, IntKind>& text) {
    auto x = tokens(text);
    x = x + nn::constant<B>(normal<nn::Inner<B>>(noise, x.shape(), 0, 0.1, x.dtype(), x.device()));
    x = x + attention(x);
    return output(reshape(mean(x, 1), {text.extent(0), 16}));
  }
  void visit(auto&& part) {
    part("tokens", tokens);
    part("attention", attention);
    part("output", output);
    part("noise", noise);
  }
};

void expect_bits(const std::string& what, const Trained& found, const Trained& wanted) {
  EXPECT_EQ(found.losses, wanted.losses) << what;
  EXPECT_EQ(found.optimizer, wanted.optimizer) << what;
  for (const auto& [path, entry] : wanted.model)
    EXPECT_EQ(found.model.at(path), entry) << what << ": " << path;
}
template <class A, template <class> class M>
void expect_same_draws(const std::string& what) {
  const auto found = stepped<A, M>(20);
  EXPECT_EQ(found.why_not, "") << what;
  EXPECT_EQ(found.recorded, 1) << what;
  EXPECT_EQ(found.replayed, 19) << what;
  expect_bits(what + ", recorded and not", found, stepped<A, M>(20, usual_size, false));
  expect_bits(what + ", on the CPU", found, written_out<Autodiff<Cpu>, M>(20));
}

TEST(Draws, OfAStepAreThoseOfTheLoopByHand) {
  using A = Autodiff<Cpu>;
  expect_bits("dropping", stepped<A, Dropping>(6), written_out<A, Dropping>(6));
  expect_bits("again", stepped<A, Checkpointed>(6), written_out<A, Dropping>(6));
  expect_bits("noisy", stepped<A, NoisyText>(6), written_out<A, NoisyText>(6));
}
TEST(DrawsOnCuda, OfDropoutAreThoseOfEveryStep) {
  on_cuda([]<class A>(std::type_identity<A>) { expect_same_draws<A, Dropping>("dropping"); });
}
TEST(DrawsOnCuda, OfSegmentsThatRunAgain) {
  on_cuda([]<class A>(std::type_identity<A>) { expect_same_draws<A, Checkpointed>("again"); });
}
TEST(DrawsOnCuda, OfAttentionAndNoise) {
  on_cuda([]<class A>(std::type_identity<A>) { expect_same_draws<A, NoisyText>("noisy"); });
}

TEST(DrawsOnCuda, FollowGeneratorsThatAreSet) {
  on_cuda([]<class A>(std::type_identity<A>) {
    const auto between = [](int i, auto& model, auto&) {
      if (i == 6) model.last.rng = {.seed = 4, .offset = 1000};
      if (i == 9) model.last.rng.seed = 1ull << 63;
      if (i == 12) nn::eval(model);
      if (i == 14) nn::train(model);
    };
    const auto found = stepped<A, Dropping>(20, usual_size, true, between);
    EXPECT_EQ(found.why_not, "");
    EXPECT_EQ(found.replayed, 19);
    EXPECT_EQ(found.recorded, 3) << "for training twice, for evaluation once";
    expect_bits("set", found, stepped<A, Dropping>(20, usual_size, false, between));
    // Those that were alike are no more: the recording cannot tell them apart.
    const auto apart = [](int i, auto& model, auto&) {
      if (i == 6) model.again.rng.offset += 3;
    };
    const auto other = stepped<A, Dropping>(12, usual_size, true, apart);
    EXPECT_EQ(other.why_not, "recording: two generators have the seed 9");
    expect_bits("apart", other, stepped<A, Dropping>(12, usual_size, false, apart));
  });
}

TEST(DrawsOnCuda, OfGeneratorsOutsideAreNotRecorded) {
  on_cuda([]<class A>(std::type_identity<A>) {
    using B = nn::Inner<A>;
    const auto trained = [](bool record) {
      Rng rng{.seed = 3}, outside{.seed = 21};
      Perceptron<A> model(rng);
      optim::Sgd<A> sgd({.rate = 0.05});
      train::Step step(model, sgd,
                       [&](const auto& x, const auto& labels) {
                         const auto noise =
                             normal<B>(outside, x.shape(), 0, 1, x.dtype(), x.device());
                         return loss_of<A>(model, x + nn::constant<A>(noise), labels);
                       },
                       {.record = record});
      for (int i = 0; i < 5; ++i) {
        const Batch<A> batch(i, 6);
        step(batch.x, batch.labels);
      }
      if (record) {
        EXPECT_EQ(step.why_not(),
                  "the step draws random numbers of a generator that is no part of the model");
        EXPECT_EQ(step.replayed(), 0);
      }
      return nn::state(model);
    };
    EXPECT_EQ(trained(true), trained(false));
  });
}

// What is made of constants is made once, before the first run.
TEST(DrawsOnCuda, BesideConstantsAloneAreNotRecorded) {
  on_cuda([]<class A>(std::type_identity<A>) {
    using B = nn::Inner<A>;
    const auto place = B::default_device();
    const auto now = full<B, IntKind>({2}, 0, Dtype::i64, place);
    const auto dropped = [&] {
      const auto x = full<B>({1, 1, 4, 8}, 1.0, Dtype::f32, place);
      (void)scaled_dot_product_attention(x, x, x, {.dropout = 0.5, .seed = 3});
    };
    dropped();
    Recording recording(place);
    recording.draw_from({{3, 0, static_cast<const std::uint64_t*>(now.primitive().view.data)}});
    EXPECT_EQ(message(dropped), "recording: numbers are drawn beside constants alone");
  });
}

}  // namespace

}  // namespace planck::test
