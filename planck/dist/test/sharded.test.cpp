// Optimizers, checkpoints and layers in parts: the bits of the whole.
#include "planck/dist/sharded.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "planck/dist/checkpoint.h"
#include "planck/dist/tensor_parallel.h"
#include "planck/dist/transport/threads.h"
#include "planck/io/test/temporary_directory.test.h"
#include "planck/training.h"

namespace planck::dist {

namespace {

using A = Autodiff<Cpu>;
const Stream kOne = Stream::cpu(1);

struct Net {
  nn::Linear<A> first, second, third;
  explicit Net(Rng rng)
      : first(rng, {7, 9}, kOne), second(rng, {9, 6}, kOne), third(rng, {6, 3}, kOne) {}
  Tensor<A> operator()(const Tensor<A>& x) { return third(tanh(second(tanh(first(x))))); }
  void visit(auto&& part) {
    part("first", first);
    part("second", second);
    part("third", third);
  }
};
Tensor<A> input(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Rng rng{.seed = seed};
  return normal<A>(rng, {rows, columns}, 0, 1, Dtype::f32, kOne);
}
optim::ModelGradients<Cpu> gradients_of(Net& net, int step) {
  const auto x = input(4, 7, static_cast<std::uint64_t>(step));
  return optim::collect<A>(net, sum(square(net(x))).backward());
}

// Steps of the whole optimizer, on one worker.
template <class Optimizer, class Options>
std::string whole_run(const Options& options, int steps) {
  Net net(Rng{.seed = 2});
  Optimizer optimizer(options);
  for (int s = 0; s < steps; ++s) optimizer.step(net, gradients_of(net, s));
  auto all = nn::state(net);
  all.merge(nn::with_prefix("optimizer.", optimizer.state()));
  return nn::sha256_of(all);
}
template <class Optimizer, class Options>
std::string sharded_run(const Options& options, int steps, int workers, int then) {
  nn::StateDict model, state;
  const auto go = [&](int count, int from, int to) {
    nn::StateDict model_after, state_after;
    Threads::run(count, [&](Communicator& c) {
      Net net(Rng{.seed = 2});
      Sharded<A, Optimizer> optimizer(c, Optimizer(options));
      if (from > 0) {
        nn::load_state(net, model);
        optimizer.load_state(net, state, kOne);
      }
      for (int s = from; s < to; ++s) optimizer.step(net, gradients_of(net, s));
      EXPECT_EQ(difference(c, net), std::nullopt);
      const auto all = optimizer.state();
      if (count > 1) {
        EXPECT_LT(optimizer.own_state().size(), all.size());
      }
      if (c.rank() == 0) model_after = nn::state(net), state_after = all;
    });
    model = model_after, state = state_after;
  };
  go(workers, 0, steps / 2);
  go(then, steps / 2, steps);
  model.merge(nn::with_prefix("optimizer.", state));
  return nn::sha256_of(model);
}

TEST(Sharded, StepsLikeTheWholeOptimizerAndResumesOnOtherWorkers) {
  const optim::AdamOptions adam{.rate = 0.01, .weight_decay = 0.1};
  const optim::SgdOptions sgd{.rate = 0.01, .momentum = 0.9};
  const auto right = whole_run<optim::Adam<A>>(adam, 6);
  const auto right_sgd = whole_run<optim::Sgd<A>>(sgd, 6);
  for (const auto& [workers, then] : {std::pair{1, 3}, {2, 2}, {3, 1}, {4, 5}}) {
    EXPECT_EQ(sharded_run<optim::Adam<A>>(adam, 6, workers, then), right) << workers << then;
    EXPECT_EQ(sharded_run<optim::Sgd<A>>(sgd, 6, workers, then), right_sgd);
  }
}

TEST(Sharded, OwnersShareTheElements) {
  const auto owners = owners_of({{"a", 10}, {"b", 10}, {"c", 15}, {"d", 4}}, 2);
  EXPECT_EQ(owners.at("c"), 0);
  EXPECT_EQ(owners.at("a"), 1);
  EXPECT_EQ(owners.at("b"), 1);
  EXPECT_EQ(owners.at("d"), 0);
}

TEST(Checkpoint, InPartsIsReadByAnyNumberOfWorkers) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("run.safetensors");
  const auto part = [](int rank, float value) {
    return nn::StateDict{
        {"own." + std::to_string(rank), nn::to_entry(Tensor<Cpu>::from({value}, {1}))},
        {"all", nn::to_entry(Tensor<Cpu>::from({7.f}, {1}))}};
  };
  for (const float value : {1.f, 2.f})  // the second replaces the first
    Threads::run(3, [&](Communicator& c) {
      save_in_parts(c, path, part(c.rank(), value), {{"run", "a"}});
    });
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 4u) << "parts of the first are gone";
  const auto read = value_or_throw(read_checkpoint(path));
  EXPECT_EQ(read.metadata, (SafetensorsMetadata{{"run", "a"}}));
  EXPECT_EQ(read.state.size(), 4u);
  EXPECT_EQ(read.state.at("own.2"), part(2, 2).at("own.2"));

  // A worker that fails before the list is written leaves the last checkpoint as it was.
  EXPECT_THROW(Threads::run(3,
                            [&](Communicator& c) {
                              if (c.rank() == 1) raise(ErrorCode::io, "no space left on device");
                              save_in_parts(c, path, part(c.rank(), 3), {{"run", "a"}});
                            }),
               Exception);
  EXPECT_EQ(value_or_throw(read_checkpoint(path)).state, read.state);

  // A part that is missing, or is not the one that was written, is refused.
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().filename().string().find(".1-of-3.") != std::string::npos)
      value_or_throw(nn::save_state(entry.path(), part(1, 9)));
  EXPECT_NE(read_checkpoint(path).error().message.find("is not the part"), std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().filename().string().find(".1-of-3.") != std::string::npos)
      std::filesystem::remove(entry.path());
  EXPECT_FALSE(read_checkpoint(path));
  // A whole one is read, too.
  value_or_throw(nn::save_state(path, part(0, 1)));
  EXPECT_EQ(value_or_throw(read_checkpoint(path)).state, part(0, 1));
}

nn::StateEntry entry_of(const Tensor<Cpu>& t) { return nn::to_entry(t); }

// A layer in parts against the whole one: output, dx, and every part of dweight and dbias.
template <class Split>
void compare_linear(int workers, std::int64_t rows, std::int64_t in_features,
                    std::int64_t out_features, int weight_axis, bool split_bias) {
  Rng rng{.seed = 4};
  const nn::Linear<A> whole(rng, {in_features, out_features}, kOne);
  const auto x = input(rows, in_features, 8).require_grad();
  const auto weigh = input(rows, out_features, 9);
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
      EXPECT_THROW(rows(at + 23), Exception);
    });
}

}  // namespace
}  // namespace planck::dist
