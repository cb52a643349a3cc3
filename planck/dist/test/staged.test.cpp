// Gradients that are summed in a GPU's memory: the bits of those that are summed on the host. What
// can be seen without a GPU is seen on the CPU's streams; the rest is skipped there.
#include "planck/dist/transport/staged.h"

#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <optional>

#include "planck/core/cuda/runtime.h"
#include "planck/dist/data_parallel.h"
#include "planck/dist/transport/nccl.h"
#include "planck/dist/transport/threads.h"
#include "planck/training.h"

namespace planck::dist {

namespace {

const Stream kOne = Stream::cpu(1);

struct Seen {
  std::string hash;
  std::vector<double> losses;
  bool operator==(const Seen&) const = default;
};

template <class A>
struct Net {
  nn::Embedding<A> table;
  nn::Linear<A> first, last, unused;
  nn::BatchNorm<A> norm;
  void visit(auto&& part) {
    part("table", table);
    part("first", first);
    part("last", last);
    part("unused", unused);
    part("norm", norm);
  }
};

// Three steps with tables by rows, f64 and f32 parameters, one that is unused, several buckets.
template <class D>
Seen train(Communicator& workers, const Stream& stream) {
  using A = Autodiff<D>;
  Rng rng{.seed = 3};
  Net<A> net{nn::Embedding<A>(rng, 40, 8, stream), nn::Linear<A>(rng, {8, 300}, stream),
             nn::Linear<A>(rng, {300, 5}, stream), nn::Linear<A>(rng, {2, 2}, stream),
             nn::BatchNorm<A>(300, stream)};
  DataParallel<A> parallel(workers, {.bucket_bytes = 4096, .by_rows = {"table.weight"}});
  optim::Adam<A> adam({.rate = 1e-2});
  Seen seen;
  for (int step = 0; step < 3; ++step) {
    const auto found = parallel(net, 5, [&](std::int64_t g) {
      std::vector<std::int64_t> words, labels;
      for (std::int64_t i = 0; i < 6; ++i) {
        words.push_back((step * 7 + g * 6 + i) * 11 % 40);
        labels.push_back((g + i) % 5);
      }
      const auto at = Tensor<A, IntKind>::from(std::span<const std::int64_t>(words), {6}, stream);
      const auto is = Tensor<A, IntKind>::from(std::span<const std::int64_t>(labels), {6}, stream);
      const auto y = net.last(relu(net.norm(net.first(net.table(at)))));
      return sum(cross_entropy(y, is)) * (1.0 / 30);
    });
    EXPECT_EQ(found.gradients.count("unused.weight"), 0u);
    adam.step(net, found.gradients);
    seen.losses.push_back(found.loss);
  }
  seen.hash = nn::sha256_of(nn::state(net));
  return seen;
}

// Workers of which those that `on_gpu` says sum on the GPU.
template <class OnGpu>
Seen trained_on(int workers, const OnGpu& on_gpu) {
  Seen first;
  std::mutex mutex;
  int different = 0;
  Threads::run(workers, [&](Communicator& c) {
    const Seen mine = on_gpu(c);
    std::lock_guard lock(mutex);
    if (first.hash.empty()) first = mine;
    different += !(mine == first);
  });
  EXPECT_EQ(different, 0);
  return first;
}
Seen train_on(Communicator& workers, const Stream& stream) {
  return with_backend_of(stream,
                         [&]<class B>(std::type_identity<B>) { return train<B>(workers, stream); });
}
Seen on_the_host(Communicator& c) { return train<Cpu>(c, kOne); }

TEST(Staged, ExchangesCollectivesAndGroups) {
  Threads::run(4, [](Communicator& c) {
    Staged staged(c, kOne);
    std::vector<int> all(4);
    const int mine = 10 + c.rank();
    staged.all_gather(&mine, sizeof mine, all.data());
    EXPECT_EQ(all, (std::vector{10, 11, 12, 13}));
    int value = c.rank() == 2 ? 5 : 0;
    staged.broadcast(&value, sizeof value, 2);
    EXPECT_EQ(value, 5);
    const auto apart = staged.duplicate();
    apart->barrier();
    EXPECT_NE(&apart->host(), &c);
    Group pair(staged, c.rank() < 2 ? std::vector{0, 1} : std::vector{3, 2});
    EXPECT_NE(&pair.host(), &pair);
    std::vector<int> two(2);
    pair.host().all_gather(&mine, sizeof mine, two.data());
    EXPECT_EQ(two, (c.rank() < 2 ? std::vector{10, 11} : std::vector{13, 12}));
    staged.exchange({}, {});
  });
}

// A communicator of the host with collectives of its own, as MPI has: no exchange meets them.
class OwnCollectives final : public Communicator {
 public:
  explicit OwnCollectives(Communicator& inner) : inner_(inner) {}
  explicit OwnCollectives(std::unique_ptr<Communicator> own)
      : own_(std::move(own)), inner_(*own_) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                const Arrived& arrived) override {
    inner_.exchange(outgoing, incoming, arrived);
  }
  void broadcast(void* data, std::size_t bytes, int from) override {
    knock();
    inner_.broadcast(data, bytes, from);
  }
  void all_gather(const void* mine, std::size_t bytes, void* all) override {
    knock();
    inner_.all_gather(mine, bytes, all);
  }
  void abort(std::string_view line) override {
    inner_.abort(line);
    std::terminate();  // not reached
  }
  std::unique_ptr<Communicator> duplicate() override {
    return std::make_unique<OwnCollectives>(inner_.duplicate());
  }

 private:
  void knock() {  // messages of a length that nobody else sends
    const std::array<std::byte, 3> mine{};
    std::vector<std::byte> all(3 * static_cast<std::size_t>(size()));
    inner_.all_gather(mine.data(), mine.size(), all.data());
  }
  std::unique_ptr<Communicator> own_;
  Communicator& inner_;
};

TEST(Staged, MixesWithWorkersOfOtherCollectives) {
  for (const int workers : {2, 3, 4})
    Threads::run(workers, [&](Communicator& threads) {
      OwnCollectives c(threads);
      std::optional<Staged> staged;
      if (c.rank() % 2 == 1) staged.emplace(c, kOne);
      Communicator& mine = staged ? static_cast<Communicator&>(*staged) : c;
      int value = c.rank() == 1 ? 77 : 0;
      mine.broadcast(&value, sizeof value, 1);
      EXPECT_EQ(value, 77);
      std::vector<int> all(static_cast<std::size_t>(workers));
      value = 10 * c.rank();
      mine.all_gather(&value, sizeof value, all.data());
      for (int r = 0; r < workers; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], 10 * r);
      for (const Way way : {Way::gather, Way::direct}) {
        const Grains grains(5, workers);
        std::vector<std::vector<float>> roots;
        std::vector<const void*> pointers;
        for (const Range& r : grains.roots(c.rank()))
          roots.emplace_back(100, static_cast<float>(r.count()));
        for (const auto& r : roots) pointers.push_back(r.data());
        std::vector<float> sum(100);
        AllReduce reduce(mine, {.way = way});
        reduce(grains, pointers, sum.data(), 100, Dtype::f32);
        EXPECT_EQ(sum, std::vector<float>(100, 5));
      }
      mine.barrier();
    });
}

// Memory of a GPU that nobody has: whatever is given to it is wrong.
class Elsewhere final : public Communicator {
 public:
  explicit Elsewhere(Communicator& host) : host_(host) {}
  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  Communicator& host() override { return host_; }
  void exchange(std::span<const Outgoing>, std::span<const Incoming>, const Arrived&) override {
    raise(ErrorCode::device, "memory of the host is given to a GPU");
  }
  void abort(std::string_view line) override {
    host_.abort(line);
    std::terminate();  // not reached
  }
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<Elsewhere>(host_); }

 private:
  Communicator& host_;
};

TEST(Staged, BarriersAreOfTheHost) {
  Threads::run(4, [](Communicator& c) {
    Elsewhere gpu(c);
    EXPECT_NO_THROW(gpu.barrier());
    Group pair(gpu, c.rank() < 2 ? std::vector{0, 1} : std::vector{3, 2});
    EXPECT_NO_THROW(pair.barrier());
  });
}

// What adds on a GPU, here on the CPU: in place, in any way, with the bits of the host's loop.
TEST(Staged, ThePlanAddsLikeTheHost) {
  constexpr std::int64_t kCount = 3000;
  for (const int workers : {1, 3, 4})
    for (const Way way : {Way::automatic, Way::direct, Way::gather})
      for (const Dtype dtype : {Dtype::f32, Dtype::f64})
        Threads::run(workers, [&](Communicator& c) {
          const Grains grains(8, workers);
          Rng rng{.seed = static_cast<std::uint64_t>(c.rank())};
          std::vector<Tensor<Cpu>> roots;
          std::vector<const void*> pointers;
          for (std::size_t r = 0; r < grains.roots(c.rank()).size(); ++r)
            roots.push_back(normal<Cpu>(rng, {kCount}, 0, 1, dtype, kOne));
          for (const auto& r : roots) pointers.push_back(r.primitive().view.data);
          std::vector<std::byte> by_plan(bytes_for(dtype, kCount)), on_host(by_plan);
          Staged staged(c, kOne);
          AllReduce plan(staged, {.way = way, .add = add_by_plan, .piece_bytes = 1000});
          AllReduce host(c, {.way = way});
          plan(grains, pointers, by_plan.data(), kCount, dtype);
          host(grains, pointers, on_host.data(), kCount, dtype);
          EXPECT_EQ(by_plan, on_host) << workers;
        });
}

TEST(Staged, MixesWithWorkersThatAreNot) {
  const Seen right = trained_on(1, on_the_host);
  for (const int workers : {2, 3, 4})
    EXPECT_EQ(trained_on(workers,
                         [](Communicator& c) {
                           if (c.rank() % 2 == 0) return on_the_host(c);
                           Staged staged(c, kOne);
                           return train<Cpu>(staged, kOne);
                         }),
              right)
        << workers;
}

TEST(Staged, WorkersThatShareAGpuHaveTheHostsHash) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const Seen right = trained_on(1, on_the_host);
  const auto staged = [](Communicator& c) {
    const Stream model = value_or_throw(Stream::cuda(0)), other = value_or_throw(Stream::cuda(0));
    Staged gpu(c, c.rank() == 0 ? model : other);  // the model's stream, and one of its own
    return train_on(gpu, model);
  };
  for (const int workers : {1, 2, 3, 4}) EXPECT_EQ(trained_on(workers, staged), right) << workers;
  EXPECT_EQ(trained_on(3,
                       [&](Communicator& c) {  // mixed: GPU through the GPU's memory, GPU
                         if (c.rank() == 0) return staged(c);  // through the host's, CPU
                         if (c.rank() == 1) return train_on(c, value_or_throw(Stream::cuda(0)));
                         return on_the_host(c);
                       }),
            right);
}

TEST(Staged, AModelElsewhereIsRefused) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  Threads::run(1, [](Communicator& c) {
    Staged gpu(c, value_or_throw(Stream::cuda(0)));
    EXPECT_THROW(train<Cpu>(gpu, kOne), Exception);
  });
}

// NCCL takes one worker for each GPU: with one GPU there is one worker, who sends to itself.
TEST(Nccl, MovesBytesAndSumsOnTheGpu) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  if (!Nccl::built()) GTEST_SKIP() << "this build has no NCCL";
  const Seen right = trained_on(1, on_the_host);
  Threads::run(1, [&](Communicator& c) {
    const Stream stream = value_or_throw(Stream::cuda(0));
    auto joined = Nccl::join(c, stream);
    if (!joined) GTEST_SKIP() << joined.error().message;  // the library is not there
    Nccl& nccl = **joined;
    with_backend_of(stream, [&]<class B>(std::type_identity<B>) {
      const auto a = Tensor<B>::from({1.f, 2.f, 3.f}, {3}, stream);
      auto b = zeros<B>({3}, Dtype::f32, stream);
      const Outgoing out{0, a.primitive().view.data, 12};
      const Incoming in{0, b.primitive().view.data, 12};
      nccl.exchange({&out, 1}, {&in, 1});
      EXPECT_EQ(b.template to_vector<float>(), (std::vector{1.f, 2.f, 3.f}));
    });
    nccl.barrier();
    EXPECT_EQ(train_on(nccl, stream), right);
  });
}

// No worker waits inside NCCL for one that has not come.
TEST(Nccl, AllWorkersJoinOrNone) {
  if (!Nccl::built()) GTEST_SKIP() << "this build has no NCCL";
  const bool gpu = cuda::device_count() > 0;
  std::vector<std::string> said(3);
  Threads::run(3, [&](Communicator& c) {
    const bool mine = gpu && c.rank() != 1;
    const auto joined = Nccl::join(c, mine ? value_or_throw(Stream::cuda(0)) : Stream::cpu(1));
    ASSERT_FALSE(joined);
    said[static_cast<std::size_t>(c.rank())] = joined.error().message;
    c.barrier();  // and they go on with what they have
  });
  const std::string own = "nccl: the stream is the CPU's, it must be a GPU's";
  EXPECT_EQ(said[1], own);
  if (!gpu || said[0].find("libnccl") != std::string::npos) return;  // none of them can
  EXPECT_EQ(said[0], "worker 1 cannot join: " + own);
  EXPECT_EQ(said[2], said[0]);
}

TEST(Nccl, TwoWorkersOnOneGpuAreRefused) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  if (!Nccl::built()) GTEST_SKIP() << "this build has no NCCL";
  std::vector<std::string> said(2);
  Threads::run(2, [&](Communicator& c) {
    const auto joined = Nccl::join(c, value_or_throw(Stream::cuda(0)));
    if (!joined) said[static_cast<std::size_t>(c.rank())] = joined.error().message;
    c.barrier();
  });
  for (const std::string& s : said) EXPECT_TRUE(s.find("nccl") != std::string::npos) << s;
}

}  // namespace
}  // namespace planck::dist
