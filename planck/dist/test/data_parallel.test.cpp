// One hash for any number of workers: training steps of a model with everything that depends on how
// a batch is cut, against a plain loop over grains.
#include "planck/dist/data_parallel.h"

#include <gtest/gtest.h>

#include <mutex>

#include "planck/dist/transport/threads.h"
#include "planck/training.h"

namespace planck::dist {

namespace {

using A = Autodiff<Cpu>;
const Stream kOne = Stream::cpu(1);

// An embedding, batch norm, dropout, and a layer that only odd grains use, one that none does.
struct Net {
  nn::Embedding<A> table;
  nn::Linear<A> first, odd, unused, last;
  nn::BatchNorm<A> norm;
  nn::Dropout dropout{0.25, 5};

  explicit Net(Rng rng)
      : table(rng, 50, 8, kOne),
        first(rng, {8, 12}, kOne),
        odd(rng, {12, 12}, kOne),
        unused(rng, {3, 3}, kOne),
        last(rng, {12, 5}, kOne),
        norm(12, kOne) {}
  Tensor<A> operator()(const Tensor<A, IntKind>& x, bool use_odd) {
    auto y = dropout(relu(norm(first(table(x)))));
    if (use_odd) y = y + odd(y);
    return last(y);
  }
  void visit(auto&& part) {
    part("table", table);
    part("first", first);
    part("odd", odd);
    part("unused", unused);
    part("last", last);
    part("norm", norm);
    part("dropout", dropout);
  }
};

struct Batch {
  std::vector<std::int64_t> words, labels;
};
Batch batch_of(std::int64_t step, std::int64_t samples) {
  Batch b;
  for (std::int64_t i = 0; i < samples; ++i) {
    b.words.push_back((step * 31 + i * 17 + i * i) % 50);
    b.labels.push_back((step + i * 3) % 5);
  }
  return b;
}

constexpr std::int64_t kGrain = 3;
std::int64_t grains_of(const Batch& b) {
  return (static_cast<std::int64_t>(b.words.size()) + kGrain - 1) / kGrain;
}
Tensor<A> grain_loss(Net& net, const Batch& b, std::int64_t grain) {
  const auto n = static_cast<std::int64_t>(b.words.size());
  const std::int64_t first = grain * kGrain, count = std::min(kGrain, n - first);
  const auto part = [&](const std::vector<std::int64_t>& all) {
    return Tensor<A, IntKind>::from(
        std::span(all).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
        {count}, kOne);
  };
  const auto logits = net(part(b.words), grain % 2 == 1);
  return sum(cross_entropy(logits, part(b.labels))) * (1.0 / static_cast<double>(n));
}

struct Trained {
  std::string hash;
  std::vector<double> losses;
  std::vector<std::string> paths;  // with a gradient
  bool operator==(const Trained&) const = default;
};

Trained train(Communicator& workers, const DataParallelOptions& options, int steps = 4) {
  Net net(Rng{.seed = 3 + static_cast<std::uint64_t>(workers.rank())});
  broadcast_state(workers, net);
  DataParallel<A> parallel(workers, options);
  optim::Adam<A> adam({.rate = 1e-2, .weight_decay = 0.01});
  Trained t;
  for (int step = 0; step < steps; ++step) {
    const Batch b = batch_of(step, step == 2 ? 23 : 48);
    auto found = parallel(net, grains_of(b), [&](std::int64_t g) { return grain_loss(net, b, g); });
    optim::clip_norm(found.gradients, 1.0);
    adam.step(net, found.gradients);
    t.losses.push_back(found.loss);
    if (step == 0)
      for (const auto& [path, g] : found.gradients) t.paths.push_back(path);
  }
  EXPECT_EQ(difference(workers, net), std::nullopt);
  t.hash = nn::sha256_of(nn::state(net));
  return t;
}

// All workers' results, which must be equal.
Trained trained_on(int workers, const DataParallelOptions& options = {}) {
  Trained first;
  std::mutex mutex;
  int different = 0;
  Threads::run(workers, [&](Communicator& c) {
    const Trained mine = train(c, options);
    std::lock_guard lock(mutex);
    if (first.hash.empty()) first = mine;
    different += !(mine == first);
  });
  EXPECT_EQ(different, 0);
  return first;
}

// Nothing of planck/dist but the definition: gradients of every grain, added recursively.
using Found = std::map<std::string, Tensor<Cpu>>;
Found sum_of(const std::vector<Found>& all, std::size_t first, std::size_t n) {
  if (n == 1) return all[first];
  std::size_t p = 1;
  while (2 * p < n) p *= 2;
  Found left = sum_of(all, first, p);
  const Found right = sum_of(all, first + p, n - p);
  for (auto& [path, g] : left) g = right.contains(path) ? g + right.at(path) : g + zeros_like(g);
  for (const auto& [path, g] : right)
    if (!left.contains(path)) left.emplace(path, zeros_like(g) + g);
  return left;
}

TEST(DataParallel, ALossThatThrowsLeavesTheModelAsItWas) {
  Alone alone;
  Net net(Rng{.seed = 3});
  DataParallel<A> parallel(alone);
  const Batch b = batch_of(0, 23);
  const auto before = nn::sha256_of(nn::state(net));
  int called = 0;  // a hook of the grain that throws
  EXPECT_THROW((void)parallel(net, grains_of(b),
                              [&](std::int64_t g) {
                                const auto loss = grain_loss(net, b, g);
                                A::add_hook(net.first.weight->primitive(),
                                            [&](const Cpu::FloatTensor& gradient) {
                                              ++called;
                                              return gradient;
                                            });
                                if (g == 2) raise(ErrorCode::io, "no data");
                                return loss;
                              }),
               Exception);
  EXPECT_EQ(called, 2);
  EXPECT_EQ(nn::sha256_of(nn::state(net)), before);
  Net fresh(Rng{.seed = 3});
  DataParallel<A> other(alone);
  const auto again = parallel(net, grains_of(b), [&](auto g) { return grain_loss(net, b, g); });
  const auto right = other(fresh, grains_of(b), [&](auto g) { return grain_loss(fresh, b, g); });
  EXPECT_EQ(called, 2);
  EXPECT_EQ(again.loss, right.loss);
  for (const auto& [path, g] : right.gradients)
    EXPECT_EQ(nn::to_entry(again.gradients.at(path)), nn::to_entry(g)) << path;
}

TEST(DataParallel, IsThePlainSumOverGrains) {
  Net net(Rng{.seed = 3});
  const Batch b = batch_of(0, 23);
  std::vector<Found> all;
  std::vector<double> losses;
  const auto before = nn::state(net);
  std::vector<Found> buffers;
  for (std::int64_t g = 0; g < grains_of(b); ++g) {
    nn::load_state(net, before);
    net.dropout.rng = {grain_seed(5, 0, g), 0};
    const auto loss = grain_loss(net, b, g);
    losses.push_back(loss.inner().item<float>());
    all.emplace_back();
    for (auto& [path, gradient] : optim::collect<A>(net, loss.backward()))
      all.back().emplace(path, gradient);
    buffers.push_back({{"mean", net.norm.running_mean.value}, {"var", net.norm.running_var.value}});
  }
  const Found right = sum_of(all, 0, all.size());
  Threads::run(3, [&](Communicator& c) {
    Net mine(Rng{.seed = 3});
    DataParallel<A> parallel(c);
    const auto found =
        parallel(mine, grains_of(b), [&](std::int64_t g) { return grain_loss(mine, b, g); });
    ASSERT_EQ(found.gradients.size(), right.size());
    for (const auto& [path, g] : found.gradients)
      EXPECT_EQ(nn::to_entry(g), nn::to_entry(right.at(path))) << path;
    EXPECT_EQ(found.gradients.count("unused.weight"), 0u);
    EXPECT_EQ(found.gradients.count("odd.weight"), 1u);
    EXPECT_EQ(found.loss,
              ordered_sum(
                  c, Grains(grains_of(b), 3),
                  std::span(losses).subspan(
                      static_cast<std::size_t>(Grains(grains_of(b), 3).share(c.rank()).first),
                      static_cast<std::size_t>(Grains(grains_of(b), 3).share(c.rank()).count()))));
    const Found sums = sum_of(buffers, 0, buffers.size());
    const auto n = static_cast<double>(buffers.size());
    EXPECT_EQ(nn::to_entry(mine.norm.running_mean.value), nn::to_entry(sums.at("mean") / n));
    EXPECT_EQ(nn::to_entry(mine.norm.running_var.value), nn::to_entry(sums.at("var") / n));
    EXPECT_EQ(mine.dropout.rng.offset, 1u);
  });
}

TEST(DataParallel, OneHashForAnyNumberOfWorkers) {
  const Trained one = trained_on(1);
  EXPECT_GT(one.losses.front(), one.losses.back());
  for (const int workers : {2, 3, 4, 5, 6, 7, 8, 16, 19})
    EXPECT_EQ(trained_on(workers), one) << workers << " workers";
}

TEST(DataParallel, BucketsOverlapAndRowsChangeNothing) {
  const Trained one = trained_on(1);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{300}, std::size_t{5000}})
    for (const bool overlap : {false, true})
      EXPECT_EQ(trained_on(3, {.bucket_bytes = bytes, .overlap = overlap}), one);
  for (const int workers : {1, 3, 4})
    EXPECT_EQ(trained_on(workers, {.by_rows = {"table.weight"}}), one);
}

TEST(DataParallel, GradientsTravelWhileBackwardGoesOn) {
  // A bucket for every layer: the hooks of the last grain fill the last layer's first.
  Threads::run(2, [](Communicator& c) {
    Rng rng{.seed = 1};
    nn::Sequential net(nn::Linear<A>(rng, {4, 4}, kOne), nn::Tanh{},
                       nn::Linear<A>(rng, {4, 4}, kOne));
    std::vector<std::string> order;
    DataParallel<A> parallel(c, {.bucket_bytes = 1});
    const auto found = parallel(net, 4, [&](std::int64_t g) {
      const auto x = full<A>({2, 4}, static_cast<double>(g + 1), Dtype::f32, kOne);
      if (g == 3 || (c.rank() == 0 && g == 1))
        nn::for_each_parameter<A>(net, [&](const std::string& path, nn::Parameter<A>& p) {
          A::add_hook(p->primitive(), [&order, path](const auto& gradient) {
            order.push_back(path);
            return gradient;
          });
        });
      return sum(net(x));
    });
    EXPECT_EQ(found.gradients.size(), 4u);
    ASSERT_EQ(order.size(), 4u);
    EXPECT_EQ(order[0].substr(0, 1), "2") << "the last layer's gradients are complete first";
    EXPECT_EQ(order[3].substr(0, 1), "0");
  });
}

TEST(DataParallel, ASegmentThatIsRecomputedGivesTheSameBits) {
  const auto run = [](int workers, bool segment) {
    std::string hash;
    std::mutex mutex;
    Threads::run(workers, [&](Communicator& c) {
      Rng rng{.seed = 1};
      nn::Linear<A> layer(rng, {4, 4}, kOne);
      DataParallel<A> parallel(c);
      const auto found = parallel(layer, 5, [&](std::int64_t g) {
        const auto x = full<A>({2, 4}, 0.1 * static_cast<double>(g + 1), Dtype::f32, kOne);
        const auto y = layer(x);  // the layer's leaves are reached inside and outside the segment
        const auto f = [&](const Tensor<A>& t) { return tanh(layer(t)); };
        return sum(segment ? checkpoint(f, y) : f(y));
      });
      nn::StateDict all;
      for (const auto& [path, g] : found.gradients) all[path] = nn::to_entry(g);
      std::lock_guard lock(mutex);
      hash = nn::sha256_of(all);
    });
    return hash;
  };
  EXPECT_EQ(run(1, false), run(1, true));
  EXPECT_EQ(run(1, false), run(3, true));
}

TEST(DataParallel, TablesReadByRowsAreSummedLikeOthers) {
  const auto run = [](int workers, bool sparse, const DataParallelOptions& options) {
    nn::StateDict all;
    std::mutex mutex;
    Threads::run(workers, [&](Communicator& c) {
      Rng rng{.seed = 1};
      nn::Embedding<A> table(rng, 20, 4, kOne, kNoPaddingIndex, sparse);
      DataParallel<A> parallel(c, options);
      const auto found = parallel(table, 5, [&](std::int64_t g) {
        const auto at = Tensor<A, IntKind>::from({g, 3 * g % 20, g * g % 20}, {3}, kOne);
        return sum(square(table(at)));
      });
      const auto& rows = found.gradients.rows;
      std::lock_guard lock(mutex);
      all = {{"weight", nn::to_entry(rows.empty() ? found.gradients.at("weight")
                                                  : rows.at("weight").dense())}};
    });
    return all;
  };
  const auto right = run(1, false, {});
  for (const int workers : {1, 2, 3}) {
    EXPECT_EQ(run(workers, true, {}), right);
    EXPECT_EQ(run(workers, true, {.by_rows = {"weight"}}), right);
  }
}

TEST(DataParallel, FrozenParametersHaveNoGradient) {
  Threads::run(2, [](Communicator& c) {
    Net net(Rng{.seed = 3});
    net.first.weight.requires_grad(false);
    const Batch b = batch_of(0, 24);
    DataParallel<A> parallel(c);
    const auto found =
        parallel(net, grains_of(b), [&](std::int64_t g) { return grain_loss(net, b, g); });
    EXPECT_EQ(found.gradients.count("first.weight"), 0u);
    EXPECT_EQ(found.gradients.count("first.bias"), 1u);
  });
}

TEST(DataParallel, FindsWhatDiffers) {
  Threads::run(3, [](Communicator& c) {
    Net net(Rng{.seed = 3});
    EXPECT_EQ(difference(c, net), std::nullopt);
    if (c.rank() == 2) net.first.bias->set(net.first.bias->value() + 1e-6);
    EXPECT_EQ(difference(c, net), "first.bias differs: worker 2 from worker 0");
    broadcast_state(c, net, 1);
    EXPECT_EQ(difference(c, net), std::nullopt);
  });
}

TEST(DataParallel, Refuses) {
  Threads::run(2, [](Communicator& c) {
    Net net(Rng{.seed = 3});
    DataParallel<A> rows(c, {.by_rows = {"tabel.weight"}});
    EXPECT_THROW(rows(net, 2, [&](std::int64_t) { return sum(*net.first.weight); }), Exception);
  });
  EXPECT_THROW(Threads::run(2,
                            [](Communicator& c) {
                              Net net(Rng{.seed = 3});
                              DataParallel<A> parallel(c);
                              parallel(net, 2,
                                       [&](std::int64_t) { return *net.first.weight * 2.; });
                            }),
               Exception);
}

// One worker rounds its products in another way, or to other dtypes: their sum would be neither's.
TEST(DataParallel, WorkersWithOtherNumbersAreRefused) {
  const auto refusal = [](Dtype dtype, const Stream& device) {
    try {
      Threads::run(2, [&](Communicator& c) {
        Rng rng{.seed = 3};
        const bool other = c.rank() == 1;
        nn::Linear<A> net(rng, {2, 3},
                          nn::Options<A>(other ? device : kOne, other ? dtype : Dtype::f32));
        DataParallel<A> parallel(c);
        (void)parallel(net, 2, [&](std::int64_t) {
          return sum(nn::as_dtype(square(*net.weight), Dtype::f32));
        });
      });
    } catch (const Exception& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  const std::string other =
      "buckets: workers 0 and 1 have 2 arrays of other shapes, dtypes, math or buckets: they must "
      "train one model, with the same options";
  EXPECT_EQ(refusal(Dtype::bf16, kOne), other);
  EXPECT_EQ(refusal(Dtype::f32, kOne.with_math(ProductMath::exact)), other);
  EXPECT_EQ(refusal(Dtype::f32, kOne.with_math(ProductMath::chain)), "nothing was thrown");
}

TEST(State, WorkersThatWereStartedDifferently) {
  Threads::run(3, [&](Communicator& c) { check_same(c, "2 epochs"); });
  try {
    Threads::run(3, [&](Communicator& c) { check_same(c, c.rank() == 2 ? "3 epochs" : "2"); });
    FAIL() << "nothing was thrown";
  } catch (const Exception& e) {
    EXPECT_STREQ(e.what(), "workers must be started alike: worker 2 has 3 epochs; worker 0 has 2");
  }
}

TEST(State, PacksAndRefusesDamage) {
  Net net(Rng{.seed = 3});
  const auto state = nn::state(net);
  auto bytes = pack(state);
  EXPECT_EQ(unpack(bytes), state);
  bytes.resize(bytes.size() - 3);
  EXPECT_THROW(unpack(bytes), Exception);
}

}  // namespace
}  // namespace planck::dist
