// Recorded steps whose work runs side by side, and tensors that a recording makes once: the bits of
// the CPU, run after run; that what waits for nothing else is not lost; memory of others.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "planck/core/allocator.h"
#include "planck/core/stream/recording.h"
#include "planck/train/step.h"
#include "tests/train/models.h"
#include "tests/train/on_cuda.h"

namespace planck::test {

namespace {

template <class A, template <class> class M>
Trained trained(int steps, const train::StepOptions& options, const auto& between) {
  Rng rng{.seed = 3};
  M<A> model(rng);
  auto adam = adam_of<A>();
  train::Step step(
      model, adam, [&](const auto& x, const auto& labels) { return loss_of<A>(model, x, labels); },
      options);
  std::vector<Tensor<nn::Inner<A>>> losses;
  for (int i = 0; i < steps; ++i) {
    const Batch<A> batch(i % 3, 6);
    between(i);
    losses.push_back(step(input_of(model, batch), batch.labels));
  }
  step.check();
  Trained found{
      {}, nn::state(model), adam.state(), step.why_not(), step.recorded(), step.replayed()};
  for (const auto& loss : losses) found.losses.push_back(loss.template item<float>());
  return found;
}

template <template <class> class M>
void expect_same_bits(const std::string& what) {
  on_cuda([&]<class A>(std::type_identity<A>) {
    using B = nn::Inner<A>;
    const auto nothing = [](int) {};
    const auto wanted = trained<Autodiff<Cpu>, M>(60, {.highest_norm = 0.5}, nothing);
    std::vector<Tensor<B>> others;
    const auto found =
        trained<Autodiff<B>, M>(60, {.highest_norm = 0.5, .side_by_side = true}, [&](int i) {
          if (i % 8 != 5) return;  // takes every cached block of many sizes, and overwrites it
          for (std::int64_t n = 1; n < 100'000; n = n * 9 / 8 + 1)
            others.push_back(full<B>({n}, NAN, Dtype::f32, B::default_device()));
          if (i % 16 == 5) others.clear();
        });
    EXPECT_EQ(found.why_not, "") << what;
    EXPECT_EQ(found.recorded, 1) << what;
    EXPECT_EQ(found.losses, wanted.losses) << what;
    EXPECT_EQ(found.optimizer, wanted.optimizer) << what;
    for (const auto& [path, entry] : wanted.model)
      EXPECT_EQ(found.model.at(path), entry) << what << ": " << path;
  });
}
TEST(SideBySide, PerceptronHasTheSameBits) { expect_same_bits<Perceptron>("perceptron"); }
TEST(SideBySide, PicturesHaveTheSameBits) { expect_same_bits<Pictures>("pictures"); }
TEST(SideBySide, TextHasTheSameBits) { expect_same_bits<Text>("text"); }

// One weight that is read in many places, tensors that are put together and turned, and numbers
// that are the same in every step.
template <class B>
struct Tangled {
  nn::Linear<B> first, second;
  explicit Tangled(Rng& rng) : first(rng, {12, 12}), second(rng, {12, 4}) {}
  Tensor<B> operator()(const Tensor<B>& x) {
    const auto turn = eye<nn::Inner<B>>(12, 12, Dtype::f32, x.device()) * 0.5;
    auto y = x;
    for (int i = 0; i < 5; ++i) {
      const auto halves = std::vector{slice(y, 1, 6, 12), slice(y, 1, 0, 6)};
      y = first(relu(cat(halves, 1))) + full_like(y, 0.25) + matmul(y, nn::constant<B>(turn));
    }
    const auto places = to_float(arange<B>(12, Dtype::i64, x.device()), Dtype::f32);
    return second(y * places * 0.1);
  }
  void visit(auto&& part) {
    part("first", first);
    part("second", second);
  }
};
TEST(SideBySide, ATangledModelHasTheSameBits) { expect_same_bits<Tangled>("tangled"); }

// What Work says is all that it waits for, and join() waits for everything.
TEST(SideBySide, WorkThatIsNotToldWaitsForAll) {
  on_cuda([]<class A>(std::type_identity<A>) {
    using B = nn::Inner<A>;
    const auto place = B::default_device();
    Rng rng{.seed = 5};
    const auto x = uniform<B>(rng, {100'000}, 0, 1, Dtype::f32, place);
    const auto sum_of_powers = [&] {
      auto a = x, b = x + 1;
      for (int i = 0; i < 20; ++i) {
        a = sin(a);
        b = cos(b);
        if (i == 10) {  // a copy that no Work tells of
          auto copied = Tensor<B>(typename Tensor<B>::Primitive{
              train::detail::own_copy(transpose(reshape(a, {100, 1000})).primitive())});
          b = b + reshape(copied, {100'000});
        }
      }
      return sum(a * b);
    };
    const auto wanted = sum_of_powers().template item<float>();
    std::optional<Tensor<B>> found;
    Recording recording(place);
    {
      Recording::SideBySide all(place);
      auto total = sum_of_powers();
      all.join();
      found = total * 1.0;
    }
    const Recorded work = recording.finish();
    for (int run = 0; run < 20; ++run) {
      work.run();
      EXPECT_EQ(found->template item<float>(), wanted) << run;
    }
  });
}

// Work that reads memory is not waited for by who would be given it next: nobody is, before the
// join. cat() of pieces in another order is put together by copies, which are no Work.
TEST(SideBySide, NoMemoryIsGivenTwice) {
  on_cuda([]<class A>(std::type_identity<A>) {
    using B = nn::Inner<A>;
    const auto place = B::default_device();
    const auto x = full<B>({2, 1000}, 1.0, Dtype::f32, place) + 0.0;
    const auto halves = std::vector{slice(x, 0, 1, 2), slice(x, 0, 0, 1)};
    std::set<const void*> given;
    std::optional<Tensor<B>> found;
    Recording recording(place);
    {
      Recording::SideBySide all(place);
      auto total = zeros_like(x);
      for (int i = 0; i < 8; ++i) {
        const auto turned = cat(halves, 0), plus = turned + total;
        EXPECT_TRUE(given.insert(turned.primitive().view.data).second) << i;
        EXPECT_TRUE(given.insert(plus.primitive().view.data).second) << i;
        total = plus;
      }
      all.join();
      found = total * 1.0;
    }
    const Recorded work = recording.finish();
    work.run();
    EXPECT_EQ(found->template to_vector<float>(), std::vector<float>(2000, 8.f));
  });
}

// A launch that is set up early, the next of a chain, is taken out with what it waits for.
TEST(SideBySide, AProductOfConstantsIsMadeOnce) {
  on_cuda([]<class A>(std::type_identity<A>) {
    using B = nn::Inner<A>;
    const auto place = B::default_device();
    const auto product = [&] {
      const auto x = full<B>({256, 256}, 1.0, Dtype::bf16, place);
      return matmul(x, x);
    };
    (void)product();
    Recording recording(place);
    const auto once = product(), twice = once + once;
    const Recorded work = recording.finish();
    for (int run = 0; run < 2; ++run) {
      work.run();
      EXPECT_EQ(to_float(twice, Dtype::f32).template to_vector<float>(),
                std::vector<float>(65536, 512.f));
    }
  });
}

TEST(SideBySide, WhatIsMadeOnceStaysTheSame) {
  on_cuda([]<class A>(std::type_identity<A>) {
    using B = nn::Inner<A>;
    const auto place = B::default_device();
    std::optional<Tensor<B>> a, b, c;
    auto x = full<B>({64}, 1.0, Dtype::f32, place) + 0.0;
    Recording recording(place);
    {
      const auto two = full<B>({64}, 2.0, Dtype::f32, place);
      auto first = x + two;
      first = first * first;  // memory that is let go of before the constant below is made
      a = first + full<B>({64}, 0.5, Dtype::f32, place);
      const auto steps = to_float(arange<B>(64, Dtype::i64, place), Dtype::f32);
      b = x * (steps * steps + 1.0);
      c = two * 3.0;
    }
    EXPECT_GT(recording.made.size(), 2u) << "fills of one value are one";
    const Recorded work = recording.finish();
    for (int run = 0; run < 3; ++run) {
      for (std::int64_t n = 1; n < 100'000; n = n * 9 / 8 + 1)
        (void)full<B>({n}, NAN, Dtype::f32, place);
      work.run();
      EXPECT_EQ(a->template to_vector<float>(), std::vector<float>(64, 9.5f)) << run;
      EXPECT_EQ(c->template to_vector<float>(), std::vector<float>(64, 6.f)) << run;
      const auto squares = b->template to_vector<float>();
      for (int i = 0; i < 64; ++i)
        EXPECT_EQ(squares[static_cast<std::size_t>(i)], static_cast<float>(i * i + 1)) << run;
    }
  });
}

}  // namespace

}  // namespace planck::test
