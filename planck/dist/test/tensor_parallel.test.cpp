// Layers in parts: the bits of the whole, whatever products mean.
#include "planck/dist/split/tensor_parallel.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planck/dist/split/split_state.h"
#include "planck/dist/transport/threads.h"
#include "planck/training.h"

namespace planck::dist {

namespace {

using A = Autodiff<Cpu>;
const Stream kOne = Stream::cpu(1);

Tensor<A> input(std::int64_t rows, std::int64_t columns, std::uint64_t seed,
                const nn::Options<A>& at = kOne) {
  Rng rng{.seed = seed};
  return normal<A>(rng, {rows, columns}, 0, 1, at.dtype, at.device);
}

nn::StateEntry entry_of(const Tensor<Cpu>& t) { return nn::to_entry(t); }

// A layer in parts against the whole one: output, dx, and every part of dweight and dbias.
template <class Split>
void compare_linear(int workers, std::int64_t rows, std::int64_t in_features,
                    std::int64_t out_features, int weight_axis, bool split_bias,
                    const nn::Options<A>& at = kOne) {
  Rng rng{.seed = 4};
  const nn::Linear<A> whole(rng, {in_features, out_features}, at);
  const auto x = input(rows, in_features, 8, at).require_grad();
  const auto weigh = input(rows, out_features, 9, at);
  const auto y = whole(x);
  const auto found = sum(y * weigh).backward();
  const auto dweight = *whole.weight->grad(found), dbias = *(*whole.bias)->grad(found);
  Threads::run(workers, [&](Communicator& c) {
    const Split split(c, whole);
    const auto mine = x.detach().require_grad();
    const auto got = split(mine);
    EXPECT_EQ(entry_of(got.inner()), entry_of(y.inner())) << workers;
    const auto g = sum(got * weigh).backward();
    EXPECT_EQ(entry_of(*mine.grad(g)), entry_of(*x.grad(found))) << workers;
    EXPECT_EQ(entry_of(*split.weight->grad(g)),
              entry_of(slice(dweight, weight_axis, split.part.first, split.part.end)));
    EXPECT_EQ(entry_of(*(*split.bias)->grad(g)),
              entry_of(split_bias ? slice(dbias, 0, split.part.first, split.part.end) : dbias));
  });
}

TEST(TensorParallel, LinearHasTheBitsOfTheWhole) {
  for (const int workers : {1, 2, 3, 4, 5})
    for (const std::int64_t rows : {1, 5, 200}) {
      compare_linear<ColumnLinear<A>>(workers, rows, 37, 41, 0, true);
      compare_linear<RowLinear<A>>(workers, rows, 37, 41, 1, false);
      compare_linear<RowLinear<A>>(workers, rows, 600, 19, 1, false);
    }
}

TEST(TensorParallel, LinearHasTheBitsOfTheWholeWhateverProductsMean) {
  const Stream exact = kOne.with_math(ProductMath::exact),
               cores = kOne.with_math(ProductMath::tensor_core),
               chain = kOne.with_math(ProductMath::chain);
  for (const nn::Options<A>& at :
       {nn::Options<A>(kOne, Dtype::f64), nn::Options<A>(kOne, Dtype::bf16),
        nn::Options<A>(kOne, Dtype::f16), nn::Options<A>(chain, Dtype::bf16),
        nn::Options<A>(cores, Dtype::f32), nn::Options<A>(exact, Dtype::f32),
        nn::Options<A>(exact, Dtype::bf16)})
    for (const int workers : {1, 2, 3, 5}) {
      SCOPED_TRACE(std::string(name(at.dtype)) + ", " +
                   std::string(name(at.device.product_math(at.dtype))));
      compare_linear<ColumnLinear<A>>(workers, 7, 37, 43, 0, true, at);
      compare_linear<RowLinear<A>>(workers, 7, 37, 43, 1, false, at);
      compare_linear<RowLinear<A>>(workers, 30, 700, 150, 1, false,
                                   at);  // several steps and panels
    }
}

// Of [5, 40] × [40, 35], whose k is cut anywhere, with all that is not finite.
TEST(TensorParallel, ChainsOfOddNumbers) {
  constexpr std::int64_t kM = 5, kK = 40, kN = 35;
  auto a = input(kM, kK, 1).inner().to_vector<float>();
  auto b = input(kK, kN, 2).inner().to_vector<float>();
  a[1 * kK + 3] = INFINITY, a[2 * kK + 20] = -INFINITY, a[2 * kK + 33] = INFINITY;
  a[3 * kK + 7] = NAN, a[4 * kK + 1] = 1e-44f, a[4 * kK + 30] = 3e38f;
  b[3 * kN + 4] = 0, b[12 * kN + 5] = INFINITY, b[39 * kN + 5] = -INFINITY, b[30 * kN + 6] = 3e38f;
  for (const ProductMath math : kAllProductMath) {
    const Stream on = kOne.with_math(math);
    const auto whole = matmul(Tensor<Cpu>::from(std::span<const float>(a), {kM, kK}, on),
                              Tensor<Cpu>::from(std::span<const float>(b), {kK, kN}, on));
    for (const int workers : {1, 2, 3, 7, 45})
      Threads::run(workers, [&](Communicator& c) {
        const Range mine = part_of(c, kK);
        std::vector<float> left;
        for (std::int64_t i = 0; i < kM; ++i)
          left.insert(left.end(), a.begin() + i * kK + mine.first, a.begin() + i * kK + mine.end);
        std::vector<float> got(kM * kN);
        multiply(c, {Dtype::f32, math, kM, kN, mine.count(), left.data(),
                     b.data() + mine.first * kN, got.data()});
        EXPECT_EQ(entry_of(Tensor<Cpu>::from(std::span<const float>(got), {kM, kN}, on)),
                  entry_of(whole))
            << name(math) << ", " << workers;
      });
  }
}

TEST(TensorParallel, MeaningsThatDoNotServeAreRefused) {
  Alone alone;
  double one = 1, out = 0;
  try {
    multiply(alone, {Dtype::f64, ProductMath::exact, 1, 1, 1, &one, &one, &out});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Exception& e) {
    EXPECT_EQ(std::string(e.what()).find("chained product: exact products of f64"), 0u) << e.what();
  }
}

TEST(TensorParallel, ColumnThenRowWithoutGathering) {
  Rng rng{.seed = 4};
  const nn::Linear<A> up(rng, {12, 30}, kOne), down(rng, {30, 8}, kOne);
  const auto x = input(6, 12, 8).require_grad();
  const auto y = down(tanh(up(x)));
  const auto found = sum(square(y)).backward();
  for (const int workers : {2, 3})
    Threads::run(workers, [&](Communicator& c) {
      const ColumnLinear<A> first(c, up, {.whole = false});
      const RowLinear<A> second(c, down, {.whole = false});
      const auto mine = x.detach().require_grad();
      const auto got = second(tanh(first(reshape(mine, {2, 3, 12}))));
      EXPECT_EQ(got.shape(), (Shape{2, 3, 8}));
      EXPECT_EQ(entry_of(reshape(got.inner(), {6, 8})), entry_of(y.inner()));
      EXPECT_EQ(entry_of(*mine.grad(sum(square(got)).backward())), entry_of(*x.grad(found)));
    });
}

struct Whole {
  nn::Embedding<A> table;
  nn::Linear<A> up, down, last;
  Tensor<A> operator()(const Tensor<A, IntKind>& at) { return last(down(tanh(up(table(at))))); }
  void visit(auto&& part) {
    part("table", table), part("up", up), part("down", down), part("last", last);
  }
};
struct Parts {
  RowEmbedding<A> table;
  ColumnLinear<A> up;
  RowLinear<A> down;
  nn::Linear<A> last;
  Parts(Communicator& c, const Whole& w)
      : table(c, w.table),
        up(c, w.up, {.whole = false}),
        down(c, w.down, {.whole = false}),
        last(w.last) {}
  Tensor<A> operator()(const Tensor<A, IntKind>& at) { return last(down(tanh(up(table(at))))); }
  void visit(auto&& part) {
    part("table", table), part("up", up), part("down", down), part("last", last);
  }
};

// A model in parts, saved as the whole one, goes on on other workers with the bits of the whole.
TEST(TensorParallel, ACheckpointOfPartsIsTheWholeModels) {
  const auto made = [](std::uint64_t seed) {
    Rng rng{.seed = seed};
    return Whole{nn::Embedding<A>(rng, 11, 6, kOne), nn::Linear<A>(rng, {6, 9}, kOne),
                 nn::Linear<A>(rng, {9, 5}, kOne), nn::Linear<A>(rng, {5, 2}, kOne)};
  };
  const auto steps = [](auto& net, auto& adam, int from, int to) {
    for (std::int64_t s = from; s < to; ++s) {
      const auto at = Tensor<A, IntKind>::from({s, (s + 3) % 11, (s * s + 1) % 11}, {3}, kOne);
      adam.step(net, optim::collect<A>(net, sum(square(net(at))).backward()));
    }
  };
  const optim::AdamOptions options{.rate = 0.05, .weight_decay = 0.1};
  Whole whole = made(4);
  optim::Adam<A> adam(options);
  nn::StateDict model = nn::state(whole), optimizer;
  int from = 0;
  for (const int workers : {3, 1, 4, 2}) {
    steps(whole, adam, from, from + 2);
    nn::StateDict model_after, optimizer_after;
    Threads::run(workers, [&](Communicator& c) {
      Parts net(c, made(99));  // of other weights
      optim::Adam<A> own(options);
      load_whole_state(net, model);
      if (from > 0) load_whole_state(net, own, optimizer, kOne);
      steps(net, own, from, from + 2);
      const auto all = whole_state(net), kept = whole_state(net, own);
      if (c.rank() == 0) model_after = all, optimizer_after = kept;
    });
    EXPECT_EQ(model_after, nn::state(whole)) << workers;
    EXPECT_EQ(optimizer_after, adam.state()) << workers;
    model = model_after, optimizer = optimizer_after, from += 2;
  }
  Threads::run(2, [&](Communicator& c) {
    Parts net(c, made(99));
    auto wrong = model;
    wrong.at("up.weight").shape = {6, 9};
    EXPECT_THROW(load_whole_state(net, wrong), Exception);
  });
}

TEST(TensorParallel, EmbeddingHasTheBitsOfTheWhole) {
  Rng rng{.seed = 4};
  nn::Embedding<A> whole(rng, 23, 7, kOne, 3);
  auto values = whole.weight.value().to_vector<float>();
  values[5] = -0.0f;  // must stay −0
  whole.weight.set(Tensor<Cpu>::from(std::span<const float>(values), {23, 7}, kOne));
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < 90; ++i) indices.push_back(i * i % 23);
  const auto at = Tensor<A, IntKind>::from(std::span<const std::int64_t>(indices), {9, 10}, kOne);
  const auto weigh = reshape(input(90, 7, 9), {9, 10, 7});
  const auto y = whole(at);
  const auto dweight = *whole.weight->grad(sum(y * weigh).backward());
  for (const int workers : {1, 2, 3, 5})
    Threads::run(workers, [&](Communicator& c) {
      const RowEmbedding<A> rows(c, whole);
      const ColumnEmbedding<A> columns(c, whole);
      const auto by_rows = rows(at), by_columns = columns(at);
      EXPECT_EQ(entry_of(by_rows.inner()), entry_of(y.inner()));
      EXPECT_EQ(entry_of(by_columns.inner()), entry_of(y.inner()));
      EXPECT_EQ(entry_of(*rows.weight->grad(sum(by_rows * weigh).backward())),
                entry_of(slice(dweight, 0, rows.part.first, rows.part.end)));
      EXPECT_EQ(entry_of(*columns.weight->grad(sum(by_columns * weigh).backward())),
                entry_of(slice(dweight, 1, columns.part.first, columns.part.end)));
      try {
        (void)rows(at + 21);
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Exception& e) {
        EXPECT_STREQ(e.what(),
                     "embedding: indices[0, 2] is 25, must be 0 to 22; 79 of 90 are out of range");
      }
    });
}

}  // namespace
}  // namespace planck::dist
