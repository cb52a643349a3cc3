// Batch norm over several grains, both kinds: one hash for any number of workers, and the formula.
#include "planck/dist/sync_batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "planck/dist/transport/threads.h"
#include "planck/training.h"

namespace planck::dist {

namespace {

using A = Autodiff<Cpu>;
const Stream kOne = Stream::cpu(1);
constexpr std::int64_t kGrain = 3, kFeatures = 5, kHidden = 7;

// Two of them, so that sums follow each other; dropout, whose generator each grain has its own of.
template <class Norm>
struct Net {
  nn::Linear<A> first, second;
  Norm norm1, norm2;
  nn::Dropout dropout{0.25, 5};

  explicit Net(Rng rng)
      : first(rng, {kFeatures, kHidden}, kOne),
        second(rng, {kHidden, kHidden}, kOne),
        norm1(kHidden, kOne),
        norm2(kHidden, kOne) {}
  Tensor<A> operator()(const Tensor<A>& x) { return norm2(second(dropout(relu(norm1(first(x)))))); }
  void visit(auto&& part) {
    part("first", first);
    part("second", second);
    part("norm1", norm1);
    part("norm2", norm2);
    part("dropout", dropout);
  }
};

Tensor<A> samples(std::int64_t step, std::int64_t first, std::int64_t count,
                  Dtype dtype = Dtype::f32) {
  Rng rng{.seed = 11, .offset = static_cast<std::uint64_t>((step * 1000 + first) * kFeatures)};
  return uniform<A>(rng, {count, kFeatures}, -1, 2, dtype, kOne);
}
// Not invariant under anything that batch norm normalizes away.
Tensor<A> loss_of(const Tensor<A>& y, std::int64_t samples_of_batch) {
  return sum(square(y) * sigmoid(y)) * (1.0 / static_cast<double>(samples_of_batch));
}

struct Seen {
  std::string gradients, state;  // of the first batch; after all
  std::vector<double> losses;
  bool operator==(const Seen&) const = default;
};

template <class Norm>
Seen trained_on(int workers, std::int64_t batch) {
  Seen first;
  std::mutex mutex;
  int different = 0;
  Threads::run(workers, [&](Communicator& c) {
    Net<Norm> net(Rng{.seed = 3});
    DataParallel<A> parallel(c);
    optim::Adam<A> adam({.rate = 1e-2});
    Seen mine;
    for (int step = 0; step < 3; ++step) {
      const std::int64_t grains = (batch + kGrain - 1) / kGrain;
      const auto found = parallel(net, grains, [&](std::int64_t g) {
        const std::int64_t at = g * kGrain;
        return loss_of(net(samples(step, at, std::min(kGrain, batch - at))), batch);
      });
      if (step == 0) {
        nn::StateDict all;
        for (const auto& [path, g] : found.gradients) all[path] = nn::to_entry(g);
        EXPECT_EQ(all.size(), 8u);
        mine.gradients = nn::sha256_of(all);
      }
      mine.losses.push_back(found.loss);
      adam.step(net, found.gradients);
    }
    mine.state = nn::sha256_of(nn::state(net));  // with running statistics
    std::lock_guard lock(mutex);
    if (first.state.empty()) first = mine;
    different += !(mine == first);
  });
  EXPECT_EQ(different, 0);
  return first;
}

TEST(SyncBatchNorm, OneHashForAnyNumberOfWorkers) {
  for (const std::int64_t batch : {24, 23, 4}) {  // 8 grains; the last is smaller; two of them
    const Seen one = trained_on<SyncBatchNorm<A>>(1, batch);
    for (const int workers : {2, 3, 4, 8})
      EXPECT_EQ(trained_on<SyncBatchNorm<A>>(workers, batch), one) << workers << " of " << batch;
  }
}
TEST(SyncBatchNorm, PerGrainHasOneHashAndAnotherOne) {
  const Seen one = trained_on<nn::BatchNorm<A>>(1, 24);
  for (const int workers : {2, 3, 4, 8}) EXPECT_EQ(trained_on<nn::BatchNorm<A>>(workers, 24), one);
  EXPECT_NE(one.losses, trained_on<SyncBatchNorm<A>>(1, 24).losses);
}

// One layer in f64, in numbers: forward, backward and running statistics of the whole batch.
struct Plain {
  std::vector<double> y, dx, dweight, dbias, mean, var;
};
Plain plain(const std::vector<double>& x, const std::vector<double>& dy,
            const std::vector<double>& weight, std::int64_t n, std::int64_t channels) {
  Plain p;
  p.y.resize(x.size()), p.dx.resize(x.size());
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto at = [&](std::int64_t i) { return static_cast<std::size_t>(i * channels + c); };
    const auto count = static_cast<double>(n);
    double mean = 0, var = 0, dweight = 0, dbias = 0;
    for (std::int64_t i = 0; i < n; ++i) mean += x[at(i)] / count;
    for (std::int64_t i = 0; i < n; ++i) var += std::pow(x[at(i)] - mean, 2) / count;
    const double rstd = 1 / std::sqrt(var + 1e-5), w = weight[static_cast<std::size_t>(c)];
    for (std::int64_t i = 0; i < n; ++i) {
      const double hat = (x[at(i)] - mean) * rstd;
      p.y[at(i)] = hat * w + 0.5;
      dweight += dy[at(i)] * hat;
      dbias += dy[at(i)];
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const double hat = (x[at(i)] - mean) * rstd;
      p.dx[at(i)] = w * rstd * (dy[at(i)] - dbias / count - hat * dweight / count);
    }
    p.dweight.push_back(dweight), p.dbias.push_back(dbias);
    p.mean.push_back(0.1 * mean);
    p.var.push_back(0.9 + 0.1 * var * count / (count - 1));
  }
  return p;
}
void near(const std::vector<double>& a, const std::vector<double>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << what << " " << i;
}

TEST(SyncBatchNorm, IsBatchNormOfTheWholeBatch) {
  constexpr std::int64_t kSamples = 11, kChannels = 4;
  const auto numbers = [](std::uint64_t seed, std::int64_t n) {
    Rng rng{.seed = seed};
    return uniform<Cpu>(rng, {n}, -2, 3, Dtype::f64, kOne).to_vector<double>();
  };
  const auto x = numbers(1, kSamples * kChannels), dy = numbers(2, kSamples * kChannels),
             weight = numbers(3, kChannels);
  const Plain right = plain(x, dy, weight, kSamples, kChannels);
  const auto tensor = [](const std::vector<double>& v, std::int64_t first, std::int64_t rows) {
    return Tensor<A>::from(
        std::span<const double>(v).subspan(static_cast<std::size_t>(first * kChannels),
                                           static_cast<std::size_t>(rows * kChannels)),
        {rows, kChannels}, kOne);
  };
  for (const int workers : {1, 2, 4, 8})  // 4 grains: one worker has them all, some have none
    Threads::run(workers, [&](Communicator& c) {
      SyncBatchNorm<A> norm(kChannels, kOne);
      norm.weight =
          nn::Parameter<A>(Tensor<Cpu>::from(std::span<const double>(weight), {kChannels}, kOne));
      norm.bias = nn::Parameter<A>(full<Cpu>({kChannels}, 0.5, Dtype::f64, kOne));
      norm.running_mean.value = zeros<Cpu>({kChannels}, Dtype::f64, kOne);
      norm.running_var.value = ones<Cpu>({kChannels}, Dtype::f64, kOne);
      DataParallel<A> parallel(c);
      std::map<std::int64_t, Tensor<A>> outputs;
      std::map<std::int64_t, Tensor<Cpu>> dx;
      const auto found = parallel(norm, 4, [&](std::int64_t g) {
        const std::int64_t at = g * 3, rows = std::min<std::int64_t>(3, kSamples - at);
        auto mine = tensor(x, at, rows).require_grad();
        A::add_hook(mine.primitive(), [&, g](const Cpu::FloatTensor& gradient) {
          dx.emplace(g, Tensor<Cpu>(gradient));
          return gradient;
        });
        const auto y = norm(mine);
        outputs.emplace(g, y);
        return sum(y * tensor(dy, at, rows));
      });
      for (const auto& [g, y] : outputs) {
        const auto part = [&](const std::vector<double>& all) {
          const auto first = all.begin() + g * 3 * kChannels;
          return std::vector<double>(first, first + y.numel());
        };
        near(y.inner().to_vector<double>(), part(right.y), "y");
        near(dx.at(g).to_vector<double>(), part(right.dx), "dx");
      }
      near(found.gradients.at("weight").to_vector<double>(), right.dweight, "dweight");
      near(found.gradients.at("bias").to_vector<double>(), right.dbias, "dbias");
      near(norm.running_mean.value.to_vector<double>(), right.mean, "running mean");
      near(norm.running_var.value.to_vector<double>(), right.var, "running variance");
    });
}

TEST(SyncBatchNorm, ASegmentThatIsRecomputedMeetsAgain) {
  const auto run = [](int workers, bool segment) {
    std::string hash;
    std::mutex mutex;
    Threads::run(workers, [&](Communicator& c) {
      SyncBatchNorm<A> norm(kFeatures, kOne);
      DataParallel<A> parallel(c);
      const auto found = parallel(norm, 5, [&](std::int64_t g) {
        const auto f = [&](const Tensor<A>& t) { return tanh(norm(t)); };
        const auto x = samples(0, g * 2, 2).require_grad();
        return sum(square(segment ? checkpoint(f, x) : f(x)));
      });
      auto all = nn::state(norm);
      for (const auto& [path, g] : found.gradients) all["gradient." + path] = nn::to_entry(g);
      std::lock_guard lock(mutex);
      hash = nn::sha256_of(all);
    });
    return hash;
  };
  EXPECT_EQ(run(1, false), run(1, true));
  EXPECT_EQ(run(1, false), run(3, true));
}

TEST(SyncBatchNorm, AloneAndInEvaluationIsBatchNorm) {
  SyncBatchNorm<A> norm(kFeatures, kOne);
  nn::BatchNorm<A> whole(kFeatures, kOne);
  const auto x = samples(0, 0, 9);
  const auto a = norm(x).inner().to_vector<float>(), b = whole(x).inner().to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
  nn::load_state(whole, nn::state(norm));  // the names are the same
  nn::eval(norm), nn::eval(whole);
  EXPECT_EQ(nn::to_entry(norm(x).inner()), nn::to_entry(whole(x).inner()));
}

std::string refusal(int workers, const std::function<void(Communicator&)>& work) {
  try {
    Threads::run(workers, work);
  } catch (const Exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(SyncBatchNorm, GrainsThatDoNotMeetAreTold) {
  for (const int workers : {1, 2}) {
    const std::string said = refusal(workers, [](Communicator& c) {
      SyncBatchNorm<A> norm(kFeatures, kOne);
      DataParallel<A> parallel(c);
      parallel(norm, 2, [&](std::int64_t g) {
        const auto x = samples(0, g, 2);
        return sum(g == 0 ? norm(x) : x * *norm.weight);
      });
    });
    EXPECT_NE(said.find("0 asks for a whole number"), std::string::npos) << said;
    EXPECT_NE(said.find("1 ends; all must ask for the same"), std::string::npos) << said;
  }
  const std::string failed = refusal(2, [](Communicator& c) {
    SyncBatchNorm<A> norm(kFeatures, kOne);
    DataParallel<A> parallel(c);
    parallel(norm, 6, [&](std::int64_t g) {
      if (g == 4) raise(ErrorCode::io, "a picture is missing");
      return sum(norm(samples(0, g, 2)));
    });
  });
  EXPECT_EQ(failed, "a picture is missing");
}

TEST(SyncBatchNorm, StepsOneAfterTheOtherAreRefused) {
  const std::string said = refusal(1, [](Communicator& c) {
    SyncBatchNorm<A> norm(kFeatures, kOne);
    DataParallel<A> parallel(c);
    const auto parts = nn::parts_of(norm);
    parallel.begin(parts, 2);
    parallel.enter(0);
    parallel.add(sum(norm(samples(0, 0, 2))));
  });
  EXPECT_NE(said.find("grains run one after the other"), std::string::npos) << said;
  const std::string half = refusal(1, [](Communicator&) {
    SyncBatchNorm<A> norm(kFeatures, kOne);
    (void)norm(samples(0, 0, 2).to(Dtype::f16));
  });
  EXPECT_EQ(half, "sync_batch_norm: x is f16, it must be f32 or f64");
}

}  // namespace
}  // namespace planck::dist
