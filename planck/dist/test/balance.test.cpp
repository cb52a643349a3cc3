// Shares that let all workers end together, and that they change no bit.
#include "planck/dist/balance.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "planck/core/exception.h"
#include "planck/dist/data_parallel.h"
#include "planck/dist/transport/threads.h"
#include "planck/training.h"

namespace planck::dist {
namespace {

std::vector<std::int64_t> counts(const Grains& grains) {
  std::vector<std::int64_t> all;
  for (int w = 0; w < grains.workers(); ++w) all.push_back(grains.share(w).count());
  return all;
}
std::vector<std::int64_t> shares(std::int64_t grains, const std::vector<std::int64_t>& took) {
  const Grains found = balanced(grains, took);
  EXPECT_EQ(found.count(), grains);
  std::int64_t next = 0;
  for (int w = 0; w < found.workers(); ++w) {
    EXPECT_EQ(found.share(w).first, next);
    next = found.share(w).end;
    std::int64_t first = found.share(w).first;
    for (const Range& root : found.roots(w)) {  // whole subtrees, side by side
      EXPECT_TRUE(is_node(root, grains));
      EXPECT_EQ(root.first, first);
      first = root.end;
    }
    EXPECT_EQ(first, next);
  }
  EXPECT_EQ(next, grains);
  return counts(found);
}
using Shares = std::vector<std::int64_t>;

TEST(Balance, WhoIsFasterGetsMore) {
  EXPECT_EQ(shares(32, {5, 5, 5, 5, 8, 8, 8, 8}), (Shares{5, 5, 5, 5, 3, 3, 3, 3}));
  EXPECT_EQ(shares(8, {3000, 1000}), (Shares{2, 6}));
  EXPECT_EQ(shares(101, {100, 1}), (Shares{1, 100}));
  EXPECT_EQ(shares(10, {1, 1000000000, 1}), (Shares{5, 1, 4}));
  const Shares many = shares(4096, {1000, 1600});  // in steps of 128
  EXPECT_EQ(many[0] % 128, 0);
  EXPECT_NEAR(static_cast<double>(many[0]), 4096 * 16 / 26.0, 128);
}
TEST(Balance, EqualSharesWhereOthersAreNoFaster) {
  EXPECT_EQ(shares(8, {1000, 1040}), (Shares{4, 4}));
  EXPECT_EQ(shares(32, {0, 5, 5, 5}), (Shares{8, 8, 8, 8})) << "one of them is not known";
  EXPECT_EQ(shares(4, {1, 9, 9, 9}), (Shares{1, 1, 1, 1})) << "nobody has none";
  EXPECT_EQ(shares(2, {1, 9, 9}), (Shares{1, 1, 0}));
  EXPECT_TRUE(balanced(8, std::vector<std::int64_t>{7, 7}).is_binary());
  EXPECT_THROW(Grains(std::vector<std::int64_t>{0, 0}), Exception);
  EXPECT_THROW(Grains(std::vector<std::int64_t>{4, -1}), Exception);
}

using A = Autodiff<Cpu>;
const Stream kOne = Stream::cpu(1);

struct Net {
  nn::Linear<A> first, second;
  nn::BatchNorm<A> norm;
  explicit Net(Rng rng) : first(rng, {16, 64}, kOne), second(rng, {64, 1}, kOne), norm(64, kOne) {}
  Tensor<A> operator()(const Tensor<A>& x) { return second(norm(tanh(first(x)))); }
  void visit(auto&& part) {
    part("first", first);
    part("second", second);
    part("norm", norm);
  }
};

// Workers that get slower and faster: the state after eight batches, and shares that were seen.
struct Trained {
  std::vector<std::string> states;
  std::set<std::int64_t> shares;  // of worker 0
};
Trained train(int workers, bool balance, std::size_t bucket_bytes = 25 << 20) {
  Trained found;
  std::mutex mutex;
  Threads::run(workers, [&](Communicator& c) {
    Net net(Rng{.seed = 1});
    DataParallel<A> parallel(c, {.bucket_bytes = bucket_bytes, .balance = balance});
    optim::Adam<A> adam({.rate = 1e-2});
    for (int step = 0; step < 8; ++step) {
      const int slow = step / 2 % c.size();
      std::int64_t mine = 0;
      const auto batch = parallel(net, step % 3 == 2 ? 11 : 16, [&](std::int64_t g) {
        ++mine;
        if (balance)
          std::this_thread::sleep_for(std::chrono::milliseconds(c.rank() == slow ? 6 : 2));
        Rng rng{.seed = 9, .offset = static_cast<std::uint64_t>(step * 64 + g) * 128};
        const auto x = normal<A>(rng, {4, 16}, 0, 1, Dtype::f32, kOne);
        return sum(square(net(x))) * 0.01;
      });
      adam.step(net, batch.gradients);
      const std::lock_guard lock(mutex);
      if (c.rank() == 0) found.shares.insert(mine);
    }
    EXPECT_FALSE(difference(c, net));
    const std::lock_guard lock(mutex);
    found.states.push_back(nn::sha256_of(nn::state(net)));
  });
  return found;
}

TEST(Balance, ChangesNoBit) {
  const std::string right = train(1, false).states.at(0);
  for (const int workers : {2, 3, 4})
    for (const std::size_t bucket : {std::size_t{25} << 20, std::size_t{1000}}) {
      const Trained balanced = train(workers, true, bucket);
      for (const std::string& state : balanced.states) EXPECT_EQ(state, right) << workers;
      EXPECT_GT(balanced.shares.size(), 2u) << "shares have changed, beside the shorter batches'";
    }
  EXPECT_EQ(train(1, true).states.at(0), right);
}

TEST(Balance, WorkersThatDisagreeAreRefused) {
  std::atomic<int> refused{0};
  try {
    Threads::run(2, [&](Communicator& c) {
      Net net(Rng{.seed = 1});
      DataParallel<A> parallel(c, {.balance = c.rank() == 0});
      try {
        (void)parallel(net, 8, [&](std::int64_t) {
          return sum(square(net(full<A>({4, 16}, 1, Dtype::f32, kOne))));
        });
      } catch (const Exception&) {
        ++refused;
        throw;
      }
    });
  } catch (const Exception&) {
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace planck::dist
