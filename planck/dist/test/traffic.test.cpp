// What DataParallel sends, and when: seen by a communicator that counts.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "planck/dist/checkpoint.h"
#include "planck/dist/data_parallel.h"
#include "planck/dist/sharded.h"
#include "planck/dist/transport/threads.h"
#include "planck/io/test/temporary_directory.test.h"
#include "planck/training.h"

namespace planck::dist {

namespace {

using A = Autodiff<Cpu>;
const Stream kOne = Stream::cpu(1);

struct Counts {
  std::atomic<std::int64_t> exchanges{0}, bytes{0};
  std::atomic<std::int64_t> last_bytes{0};        // of the last exchange
  std::atomic<std::int64_t> by_other_threads{0};  // exchanges, than the one that counts from here
  const std::thread::id thread = std::this_thread::get_id();
};

// Passes everything on. Duplicates count into the same numbers.
class Counting final : public Communicator {
 public:
  Counting(Communicator& inner, Counts& counts) : inner_(inner), counts_(counts) {}
  Counting(std::unique_ptr<Communicator> own, Counts& counts)
      : own_(std::move(own)), inner_(*own_), counts_(counts) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                const Arrived& arrived) override {
    inner_.exchange(outgoing, incoming, arrived);
    std::int64_t bytes = 0;
    for (const Outgoing& o : outgoing) bytes += static_cast<std::int64_t>(o.bytes);
    counts_.bytes += bytes, counts_.last_bytes = bytes;
    ++counts_.exchanges;
    if (std::this_thread::get_id() != counts_.thread) ++counts_.by_other_threads;
  }
  void abort(std::string_view line) override {
    inner_.abort(line);
    std::terminate();  // not reached
  }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<Counting>(inner_.duplicate(), counts_);
  }

 private:
  std::unique_ptr<Communicator> own_;
  Communicator& inner_;
  Counts& counts_;
};

struct Net {
  nn::Linear<A> first, second;
  explicit Net(Rng rng) : first(rng, {64, 64}, kOne), second(rng, {64, 64}, kOne) {}
  Tensor<A> operator()(const Tensor<A>& x) { return second(tanh(first(x))); }
  void visit(auto&& part) {
    part("first", first);
    part("second", second);
  }
};
Tensor<A> input(std::int64_t grain) {
  Rng rng{.seed = 9, .offset = static_cast<std::uint64_t>(grain) * 128};
  return normal<A>(rng, {2, 64}, 0, 1, Dtype::f32, kOne);
}

TEST(Traffic, GrainsAreAddedWithoutAny) {
  std::vector<std::int64_t> bytes;
  for (const std::int64_t grains : {2, 4, 64})
    Threads::run(2, [&](Communicator& threads) {
      Counts counts;
      Counting c(threads, counts);
      Net net(Rng{.seed = 1});
      DataParallel<A> parallel(c);
      const auto found = parallel(net, grains, [&](std::int64_t g) {
        EXPECT_EQ(counts.exchanges, 1) << "what the batch is like, and nothing more before this "
                                          "worker's last grain has gone backward";
        return sum(square(net(input(g)))) * 0.01;
      });
      EXPECT_EQ(found.gradients.size(), 4u);
      if (c.rank() == 0) bytes.push_back(counts.bytes);
    });
  ASSERT_EQ(bytes.size(), 3u);
  EXPECT_EQ(bytes[0], bytes[1]);
  EXPECT_EQ(bytes[0], bytes[2]);
  const std::int64_t numbers = 2 * (64 * 64 + 64);  // half of them out, the other half back
  EXPECT_GE(bytes[0], numbers * 4);
  EXPECT_LE(bytes[0], numbers * 4 + 1000) << "and a few for the loss";
}

TEST(Traffic, LeafHooksSendWhileBackwardGoesOn) {
  constexpr std::int64_t kHalf = 64 * 64 * 4 / 2;  // bytes of the second layer's weight
  for (const bool overlap : {true, false})
    Threads::run(2, [&](Communicator& threads) {
      Counts counts;
      Counting c(threads, counts);
      Net net(Rng{.seed = 1});
      DataParallel<A> parallel(c, {.bucket_bytes = 1 << 14, .overlap = overlap});
      std::int64_t during = 0;
      const auto found = parallel(net, 2, [&](std::int64_t g) {
        // The first layer's weight comes last: the second one's is on its way, or has arrived.
        A::add_hook(net.first.weight->primitive(), [&](const Cpu::FloatTensor& gradient) {
          const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
          while (counts.bytes < kHalf && std::chrono::steady_clock::now() < until)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          during = counts.bytes;
          return gradient;
        });
        return sum(square(net(input(g)))) * 0.01;
      });
      EXPECT_GE(during, kHalf);
      EXPECT_EQ(found.gradients.size(), 4u);
    });
}

// One exchange of few bytes, for which workers wait, then the array's, for which nobody does.
TEST(Traffic, WhoComesLastIsAwaitedOnce) {
  for (const int workers : {2, 3, 4})
    Threads::run(workers, [&](Communicator& threads) {
      Counts counts;
      Counting c(threads, counts);
      Net net(Rng{.seed = 1});
      DataParallel<A> parallel(c);
      const auto step = [&] {
        const std::int64_t before = counts.exchanges;
        (void)parallel(net, 4, [&](std::int64_t g) { return sum(square(net(input(g)))) * 0.01; });
        return counts.exchanges - before;
      };
      step();
      // Halving goes log2 rounds there and back, the direct way one.
      EXPECT_EQ(step(), 1 + (workers == 4 ? 4 : 2)) << workers;
      EXPECT_GE(counts.last_bytes, 64 * 64 * 4 / workers) << "of the array";
    });
}

// Of two buckets the first has a thread; one alone, which is complete when backward ends, has none.
TEST(Traffic, TheLastBucketIsSentByWhoWaitsForIt) {
  for (const bool one : {true, false})
    Threads::run(2, [&](Communicator& threads) {
      Counts counts;
      Counting c(threads, counts);
      Net net(Rng{.seed = 1});
      DataParallel<A> parallel(c, {.bucket_bytes = one ? std::size_t{1} << 20 : 20000});
      (void)parallel(net, 2, [&](std::int64_t g) { return sum(square(net(input(g)))) * 0.01; });
      EXPECT_EQ(counts.by_other_threads > 0, !one);
    });
}

TEST(Traffic, AStragglerChangesNothing) {
  const auto run = [](bool slow) {
    std::string hash;
    std::mutex mutex;
    Threads::run(3, [&](Communicator& c) {
      Net net(Rng{.seed = 1});
      DataParallel<A> parallel(c, {.bucket_bytes = 1 << 14});
      optim::Sgd<A> sgd({.rate = 0.01});
      for (int step = 0; step < 3; ++step) {
        const auto found = parallel(net, 6, [&](std::int64_t g) {
          if (slow && c.rank() == (step + 1) % 3)
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
          return sum(square(net(input(g + 6 * step)))) * 0.01;
        });
        sgd.step(net, found.gradients);
      }
      std::lock_guard lock(mutex);
      hash = nn::sha256_of(nn::state(net));
    });
    return hash;
  };
  EXPECT_EQ(run(true), run(false));
}

struct Whole {
  Net net;
  nn::BatchNorm<A> norm;
  nn::Dropout dropout;
  void visit(auto&& part) {
    part("net", net);
    part("norm", norm);
    part("dropout", dropout);
  }
};
TEST(Traffic, BroadcastOfTheInitialState) {
  const auto made = [](int rank) {
    Whole w{Net(Rng{.seed = 1 + static_cast<std::uint64_t>(rank)}), nn::BatchNorm<A>(64, kOne),
            nn::Dropout{0.5, 7 + static_cast<std::uint64_t>(rank)}};
    (void)w.norm(input(rank));  // running statistics of its own
    return w;
  };
  for (const int from : {0, 2}) {
    auto theirs = made(from);
    Threads::run(3, [&](Communicator& c) {
      auto mine = made(c.rank());
      EXPECT_NE(difference(c, mine), std::nullopt);
      broadcast_state(c, mine, from);
      EXPECT_EQ(difference(c, mine), std::nullopt);
      EXPECT_EQ(nn::state(mine), nn::state(theirs));
    });
  }
}

struct Three {
  nn::Linear<A> always, once, never;
  void visit(auto&& part) {
    part("always", always);
    part("once", once);
    part("never", never);
  }
};
TEST(Traffic, UnusedParameters) {
  Threads::run(3, [](Communicator& c) {
    Rng rng{.seed = 1};
    Three net{nn::Linear<A>(rng, {64, 8}, kOne), nn::Linear<A>(rng, {64, 8}, kOne),
              nn::Linear<A>(rng, {64, 8}, kOne)};
    const auto only = [&] {  // what grain 4 alone gives
      return *net.once.weight->grad(sum(net.once(input(4))).backward());
    }();
    DataParallel<A> parallel(c);
    for (int twice = 0; twice < 2; ++twice) {
      const auto found = parallel(net, 6, [&](std::int64_t g) {
        return sum(g == 4 ? net.always(input(g)) + net.once(input(g)) : net.always(input(g)));
      });
      EXPECT_EQ(found.gradients.count("always.weight"), 1u);
      EXPECT_EQ(nn::to_entry(found.gradients.at("once.weight")), nn::to_entry(only));
      EXPECT_EQ(found.gradients.count("never.weight"), 0u);
    }
  });
}

// All of it together: data-parallel, a sharded optimizer, a checkpoint in parts, and a run that is
// resumed by other workers, against one worker that goes through.
TEST(Traffic, ACheckpointInPartsIsResumedByOtherWorkers) {
  const TemporaryDirectory folder;
  const auto run = [&](int workers, int from, int to, const std::string& path) {
    std::string hash;
    std::mutex mutex;
    Threads::run(workers, [&](Communicator& c) {
      Net net(Rng{.seed = 1});
      Sharded<A, optim::Adam<A>> adam(c, optim::Adam<A>({.rate = 0.01}));
      if (from > 0) {
        nn::StateDict model, optimizer;
        for (const auto& [name, entry] : value_or_throw(read_checkpoint(path)).state)
          if (name.starts_with("model."))
            model.emplace(name.substr(6), entry);
          else
            optimizer.emplace(name.substr(10), entry);
        nn::load_state(net, model);
        adam.load_state(net, optimizer, kOne);
      }
      DataParallel<A> parallel(c, {.bucket_bytes = 5000});
      for (int step = from; step < to; ++step) {
        const auto found = parallel(
            net, 8, [&](std::int64_t g) { return sum(square(net(input(g + 8 * step)))) * 0.01; });
        adam.step(net, found.gradients);
      }
      auto mine = nn::with_prefix("optimizer.", adam.own_state());
      if (c.rank() == 0) mine.merge(nn::with_prefix("model.", nn::state(net)));
      save_in_parts(c, path, mine);
      auto all = nn::state(net);
      all.merge(nn::with_prefix("optimizer.", adam.state()));
      std::lock_guard lock(mutex);
      hash = nn::sha256_of(all);
    });
    return hash;
  };
  const std::string right = run(1, 0, 6, folder.file("through.safetensors"));
  const std::string path = folder.file("parts.safetensors");
  int from = 0;
  std::string last;
  for (const int workers : {3, 1, 4, 2, 8, 5}) {
    last = run(workers, from, from + 1, path);
    ++from;
  }
  EXPECT_EQ(last, right);
}

}  // namespace
}  // namespace planck::dist
