// What a grain leaves behind, buffers, hooks and rows of tables, does not depend on which worker it
// was on.
#include <gtest/gtest.h>

#include <mutex>

#include "planck/dist/backward.h"
#include "planck/dist/sync_batch_norm.h"
#include "planck/dist/transport/threads.h"
#include "planck/training.h"

namespace planck::dist {

namespace {

using A = Autodiff<Cpu>;
const Stream kOne = Stream::cpu(1);

Tensor<A> samples(std::int64_t grain, std::int64_t features) {
  Rng rng{.seed = 9, .offset = static_cast<std::uint64_t>(grain * 1000)};
  return normal<A>(rng, {3, features}, 0.5, 1, Dtype::f32, kOne);
}

// What all workers found, which must be the same.
template <class Work>
nn::StateDict found_on(int workers, const Work& work) {
  nn::StateDict first;
  std::mutex mutex;
  int different = 0;
  Threads::run(workers, [&](Communicator& c) {
    const nn::StateDict mine = work(c);
    std::lock_guard lock(mutex);
    if (first.empty()) first = mine;
    different += mine != first;
  });
  EXPECT_EQ(different, 0);
  return first;
}

struct Norms {
  nn::BatchNorm<A> some{4, kOne}, none{4, kOne};
  void visit(auto&& part) {
    part("some", some);
    part("none", none);
  }
};
constexpr float kBefore = 0.1f;  // of which three are not 0.3

TEST(GrainsState, ANormThatAGrainLeavesOutCountsAsItWas) {
  constexpr std::int64_t kGrains = 3;
  Norms right;
  const auto before = full<Cpu>({4}, kBefore, Dtype::f32, kOne);
  right.some.running_mean.value = before;
  (void)right.some(samples(1, 4));  // grain 1 alone
  const auto expected = (before + right.some.running_mean.value + before) / 3.0;
  for (const int workers : {1, 2, 3, 4}) {
    const auto state = found_on(workers, [&](Communicator& c) {
      Norms net;
      net.some.running_mean.value = net.none.running_mean.value = before;
      DataParallel<A> parallel(c);
      parallel(net, kGrains, [&](std::int64_t g) {
        return sum(g == 1 ? net.some(samples(g, 4)) : samples(g, 4) * *net.some.weight);
      });
      return nn::state(net);
    });
    EXPECT_EQ(state.at("some.running_mean"), nn::to_entry(expected)) << workers;
    EXPECT_EQ(state.at("none.running_mean"), nn::to_entry(before)) << "which no grain has changed";
  }
}

// A hook that a grain registers doubles that grain's gradient, on any worker, and no other's; one
// that was there before negates all of them.
template <class Norm>
struct Net {
  nn::Linear<A> first, second;
  Norm norm{5, kOne};
  explicit Net(Rng rng) : first(rng, {5, 5}, kOne), second(rng, {5, 5}, kOne) {}
  Tensor<A> operator()(const Tensor<A>& x) { return second(norm(tanh(first(x)))); }
  void visit(auto&& part) {
    part("first", first);
    part("second", second);
    part("norm", norm);
  }
};
template <class Norm>
nn::StateDict with_hooks(int workers, bool registers) {
  return found_on(workers, [&](Communicator& c) {
    Net<Norm> net(Rng{.seed = 2});
    A::add_hook(net.first.weight->primitive(),
                [](const Cpu::FloatTensor& g) { return (-Tensor<Cpu>(g)).primitive(); });
    DataParallel<A> parallel(c);
    nn::StateDict all;
    for (int round = 0; round < 2; ++round) {
      const auto found = parallel(net, 6, [&](std::int64_t g) {
        const double factor = registers ? static_cast<double>(1 << g) : 1;
        A::add_hook(net.first.weight->primitive(), [factor](const Cpu::FloatTensor& gradient) {
          return (Tensor<Cpu>(gradient) * factor).primitive();
        });
        // Powers of two: the same as a factor of the loss, bit for bit, but for the other layer.
        return sum(square(net(samples(g, 5)))) * (registers ? 1 : 1 << g);
      });
      all["round" + std::to_string(round)] = nn::to_entry(found.gradients.at("first.weight"));
    }
    return all;
  });
}
TEST(GrainsState, HooksOfAGrainAreItsOwn) {
  const auto right = with_hooks<nn::BatchNorm<A>>(1, false);
  EXPECT_EQ(right.at("round0"), right.at("round1"));
  for (const int workers : {1, 2, 3, 6, 7})
    EXPECT_EQ(with_hooks<nn::BatchNorm<A>>(workers, true), right) << workers;
  // Grains that go through the model together have theirs, too.
  const auto together = with_hooks<SyncBatchNorm<A>>(1, true);
  for (const int workers : {2, 3, 6, 7})
    EXPECT_EQ(with_hooks<SyncBatchNorm<A>>(workers, true), together) << workers;
}

// Rows that some grain has read, with a gradient of zeros as well; and steps of these rows alone.
nn::StateDict table_run(int workers, bool by_rows, bool dense_too) {
  return found_on(workers, [&](Communicator& c) {
    Rng rng{.seed = 1};
    nn::Embedding<A> table(rng, 20, 4, kOne, kNoPaddingIndex, true);
    DataParallel<A> parallel(
        c, by_rows ? DataParallelOptions{.by_rows = {"weight"}} : DataParallelOptions{});
    optim::Adam<A> adam({.rate = 0.1});
    nn::StateDict all;
    for (std::int64_t step = 0; step < 3; ++step) {
      const auto found = parallel(table, 5, [&](std::int64_t g) {
        const auto at =
            Tensor<A, IntKind>::from({g, (3 * g + step) % 12, std::int64_t{15}}, {3}, kOne);
        const auto weigh = Tensor<A>::from({1.f, 2.f, 0.f}, {3, 1}, kOne);
        auto loss = sum(square(table(at)) * weigh);
        if (dense_too && g == 4) loss = loss + sum(*table.weight);
        return loss;
      });
      EXPECT_EQ(found.gradients.rows.contains("weight"), by_rows && !dense_too);
      EXPECT_EQ(found.gradients.contains("weight"), !by_rows || dense_too);
      const auto& rows = found.gradients.rows;
      if (const auto g = rows.find("weight"); g != rows.end()) {
        all["rows" + std::to_string(step)] = nn::to_entry(g->second.rows);
        all["dense" + std::to_string(step)] = nn::to_entry(g->second.dense());
      } else {
        all["dense" + std::to_string(step)] = nn::to_entry(found.gradients.at("weight"));
      }
      adam.step(table, found.gradients);
    }
    all.merge(nn::state(table));
    return all;
  });
}
TEST(GrainsState, TablesByRowsAreGivenAsRows) {
  const auto rows = table_run(1, true, false);
  const std::vector<std::int64_t> read{0, 1, 2, 3, 4, 6, 9, 15};
  EXPECT_EQ((nn::to_tensor<Cpu, IntKind>(rows.at("rows0"), kOne).to_vector<std::int64_t>()), read);
  EXPECT_EQ(rows.at("dense0"), table_run(1, false, false).at("dense0"));
  for (const int workers : {2, 3, 5, 6})
    EXPECT_EQ(table_run(workers, true, false), rows) << workers;
  // What is used otherwise as well, on one worker, is dense on all.
  const auto dense = table_run(1, true, true);
  for (const int workers : {1, 2, 3, 5})
    EXPECT_EQ(table_run(workers, true, true), dense) << workers;
}
TEST(GrainsState, ATableOfTwoUsesIsRefusedOnAnyNumberOfWorkers) {
  for (const int workers : {1, 2, 5})
    for (const std::int64_t which : {0, 4})
      EXPECT_THROW(Threads::run(workers,
                                [&](Communicator& c) {
                                  Rng rng{.seed = 1};
                                  nn::Embedding<A> table(rng, 20, 4, kOne, kNoPaddingIndex, true);
                                  DataParallel<A> parallel(c);
                                  parallel(table, 5, [&](std::int64_t g) {
                                    const auto read =
                                        sum(table(Tensor<A, IntKind>::from({g}, {1}, kOne)));
                                    return g == which ? read + sum(*table.weight) : read;
                                  });
                                }),
                   Exception)
          << workers << " workers, grain " << which;
}
TEST(GrainsState, RowsAreSteppedLikeThoseOfOneWorker) {
  const auto rows = table_run(3, true, false);
  Rng rng{.seed = 1};
  nn::Embedding<A> table(rng, 20, 4, kOne, kNoPaddingIndex, true);
  const auto before = table.weight.value().to_vector<float>();
  const auto after = nn::to_tensor<Cpu, FloatKind>(rows.at("weight"), kOne).to_vector<float>();
  for (const std::int64_t untouched : {12, 13, 14, 16, 19})
    for (std::int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(after[static_cast<std::size_t>(untouched * 4 + i)],
                before[static_cast<std::size_t>(untouched * 4 + i)])
          << untouched;
  EXPECT_NE(after[0], before[0]);
}

// A loop for one worker, on several: gradients are synchronized when backward ends.
TEST(Backward, IsDataParallelWithAGrainForEachWorker) {
  for (const int workers : {1, 2, 3, 4}) {
    const auto right = found_on(workers, [&](Communicator& c) {
      Net<nn::BatchNorm<A>> net(Rng{.seed = 2});
      optim::Adam<A> adam({.rate = 0.01});
      DataParallel<A> parallel(c);
      for (int step = 0; step < 3; ++step)
        adam.step(net, parallel(net, workers, [&](std::int64_t g) {
                         return sum(square(net(samples(4 * step + g, 5))));
                       }).gradients);
      return nn::state(net);
    });
    const auto got = found_on(workers, [&](Communicator& c) {
      Net<nn::BatchNorm<A>> net(Rng{.seed = 2});
      optim::Adam<A> adam({.rate = 0.01});
      DataParallel<A> parallel(c);
      for (int step = 0; step < 3; ++step) {
        Backward<A> pass(parallel, net);
        const auto loss = sum(square(net(samples(4 * step + c.rank(), 5))));
        const auto gradients = pass(loss);
        if (workers == 1) {
          EXPECT_EQ(pass.loss(), loss.inner().item<float>());
        }
        adam.step(net, optim::collect<A>(net, gradients));
      }
      return nn::state(net);
    });
    EXPECT_EQ(got, right) << workers;
  }
}

TEST(Backward, GradientsOfRowsAndOfWhatOthersUseAreThere) {
  Threads::run(3, [](Communicator& c) {
    Rng rng{.seed = 1};
    nn::Embedding<A> table(rng, 20, 4, kOne, kNoPaddingIndex, true);
    DataParallel<A> parallel(c, {.by_rows = {"weight"}});
    Backward<A> pass(parallel, table);
    const auto at = Tensor<A, IntKind>::from({std::int64_t{c.rank()}}, {1}, kOne);
    const auto gradients = pass(sum(table(at)));
    const auto found = optim::collect<A>(table, gradients);
    std::vector<float> right(80, 0);
    std::fill_n(right.begin(), 12, 1.0f);
    EXPECT_EQ(found.at("weight").to_vector<float>(), right);
    EXPECT_TRUE(found.rows.empty());
  });
}

// What cannot be summed is found before it is: another batch or another model on one worker.
TEST(DataParallelAgrees, OnGrainsAndParameters) {
  const auto refused = [](const std::function<void(Communicator&)>& work) {
    try {
      Threads::run(3, work);
    } catch (const Exception& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  const auto train = [](Communicator& c, std::int64_t features, std::int64_t grains) {
    Rng rng{.seed = 1};
    nn::Linear<A> net(rng, {features, features}, kOne);
    DataParallel<A> parallel(c);
    parallel(net, grains, [&](std::int64_t g) { return sum(net(samples(g, features))); });
  };
  EXPECT_EQ(refused([&](Communicator& c) { train(c, 4, c.rank() == 2 ? 8 : 4); }),
            "buckets: worker 0 has 4 grains and 2 arrays, worker 2 has 8 and 2");
  EXPECT_EQ(refused([&](Communicator& c) {
              train(c, c.rank() == 1 ? 6 : 5, 4);
            }).find("buckets: workers 0 and 1 have 2 arrays of other shapes"),
            0u);
}

}  // namespace
}  // namespace planck::dist
