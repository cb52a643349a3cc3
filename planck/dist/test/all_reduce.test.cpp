// The ordered all-reduce against a recursive sum, for any number of workers, ways and cuts.
#include "planck/dist/all_reduce.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include "planck/core/exception.h"
#include "planck/dist/transport/threads.h"

namespace planck::dist {

namespace {

// As docs/numerics.md writes it.
template <class T>
T canonical(const std::vector<T>& a, std::size_t first, std::size_t n) {
  if (n == 1) return a[first];
  std::size_t p = 1;
  while (2 * p < n) p *= 2;
  return canonical(a, first, p) + canonical(a, first + p, n - p);
}

// Element i of grain g: sums of these depend on their order.
float element(std::int64_t g, std::int64_t i) {
  const auto mixed =
      static_cast<std::uint32_t>(g * 2654435761 + i * 40503 + 12345) * std::uint32_t{2246822519};
  return std::ldexp(static_cast<float>(mixed >> 8) - 8388608.0f, static_cast<int>(mixed % 13) - 24);
}

// The roots of a worker's share, each summed by itself.
std::vector<std::vector<float>> roots_of(const Grains& grains, int rank, std::int64_t count) {
  std::vector<std::vector<float>> roots;
  for (const Range& root : grains.roots(rank)) {
    std::vector<float> sums;
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<float> values;
      for (std::int64_t g = root.first; g < root.end; ++g) values.push_back(element(g, i));
      sums.push_back(canonical(values, 0, values.size()));
    }
    roots.push_back(std::move(sums));
  }
  return roots;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  for (const float v : values) bits.push_back(std::bit_cast<std::uint32_t>(v));
  return bits;
}

std::vector<float> expected(std::int64_t grains, std::int64_t count) {
  std::vector<float> sums;
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<float> values;
    for (std::int64_t g = 0; g < grains; ++g) values.push_back(element(g, i));
    sums.push_back(canonical(values, 0, values.size()));
  }
  return sums;
}

void compare(int workers, std::int64_t grains, std::int64_t count, const AllReduceOptions& how) {
  const auto right = bits_of(expected(grains, count));
  std::atomic<int> equal{0};
  Threads::run(workers, [&](Communicator& c) {
    const Grains cut(grains, c.size());
    const auto roots = roots_of(cut, c.rank(), count);
    std::vector<const void*> pointers;
    for (const auto& r : roots) pointers.push_back(r.data());
    std::vector<float> sum(static_cast<std::size_t>(count), -1);
    AllReduce reduce(c, how);
    for (int twice = 0; twice < 2; ++twice) reduce(cut, pointers, sum.data(), count, Dtype::f32);
    if (bits_of(sum) == right) ++equal;
  });
  EXPECT_EQ(equal, workers) << workers << " workers, " << grains << " grains, " << count;
}

TEST(Grains, SharesAreWholeAndRootsAreNodes) {
  for (int workers = 1; workers <= 17; ++workers)
    for (std::int64_t n = 1; n <= 70; ++n) {
      const Grains grains(n, workers);
      std::int64_t at = 0, most = 0;
      std::vector<Range> all;
      for (int w = 0; w < workers; ++w) {
        const Range share = grains.share(w);
        ASSERT_EQ(share.first, at);
        at = share.end;
        most = std::max(most, share.count());
        std::int64_t root_at = share.first;
        for (const Range& r : grains.roots(w)) {
          ASSERT_EQ(r.first, root_at);
          ASSERT_TRUE(is_node(r, n)) << r.first << " " << r.end << " of " << n;
          root_at = r.end;
          all.push_back(r);
        }
        ASSERT_EQ(root_at, share.end);
        ASSERT_LE(grains.roots(w).size(), 2 * std::bit_width(static_cast<unsigned>(n)));
      }
      ASSERT_EQ(at, n);
      EXPECT_LE(most, (n + workers - 1) / workers) << "the busiest worker of " << workers;
      int merges = 0;
      for (const int m : joining_of(grains).merges) merges += m;
      ASSERT_EQ(merges + 1, static_cast<int>(all.size())) << "one sum is left";
    }
}

TEST(Grains, APowerOfTwoOfWorkersIsATree) {
  EXPECT_TRUE(Grains(64, 8).is_binary());
  EXPECT_TRUE(Grains(7, 4).is_binary());  // the last has one grain less
  EXPECT_TRUE(Grains(5, 8).is_binary());  // three have none
  EXPECT_FALSE(Grains(64, 6).is_binary());
  EXPECT_FALSE(Grains(24, 4).is_binary());  // shares of 6 are two subtrees
  EXPECT_EQ(Grains(24, 4).most_roots(), 2);
  EXPECT_THROW(Grains(0, 4), Exception);
}

TEST(AllReduce, IsTheCanonicalSumForAnyNumberOfWorkers) {
  for (const int workers : {1, 2, 3, 4, 5, 6, 7, 8, 16})
    for (const std::int64_t grains : {1, 2, 3, 7, 8, 16, 23, 64})
      for (const std::int64_t count : {1, 17, 5000}) compare(workers, grains, count, {});
}

TEST(AllReduce, EveryWayAndPieceGivesTheSameBits) {
  for (const std::int64_t grains : {5, 8, 16})
    for (const std::int64_t count : {1, 3, 16, 1000, 20000})
      for (const std::size_t piece : {1u, 512u, 4096u, 1u << 20}) {
        compare(4, grains, count, {.way = Way::direct, .piece_bytes = piece});
        compare(8, grains, count, {.way = Way::halving, .piece_bytes = piece});
        compare(4, grains, count, {.way = Way::gather, .piece_bytes = piece});
        compare(3, grains, count, {.way = Way::direct, .piece_bytes = piece});
      }
}

TEST(AllReduce, OrderMatters) {  // or the tests above hold nothing
  int different = 0;
  const auto right = expected(16, 1000);
  for (std::int64_t i = 0; i < 1000; ++i) {
    float sum = 0;
    for (std::int64_t g = 0; g < 16; ++g) sum += element(g, i);
    different += sum != right[static_cast<std::size_t>(i)];
  }
  EXPECT_GT(different, 500);
}

TEST(AllReduce, NaNIsCanonical) {
  Threads::run(2, [](Communicator& c) {
    const Grains grains(2, 2);
    const auto odd = std::bit_cast<float>(0xffc12345u);
    const std::vector<float> mine{c.rank() == 0 ? odd : 1.0f, INFINITY * (c.rank() == 0 ? 1 : -1)};
    const void* root = mine.data();
    std::vector<float> sum(2);
    AllReduce reduce(c);
    reduce(grains, {&root, 1}, sum.data(), 2, Dtype::f32);
    for (const float s : sum) EXPECT_EQ(std::bit_cast<std::uint32_t>(s), 0x7fc00000u);
  });
}

TEST(AllReduce, NumbersOfGrains) {
  std::vector<double> all;
  for (int g = 0; g < 23; ++g) all.push_back(static_cast<double>(element(g, 3)) / 3);
  const double right = canonical(all, 0, all.size());
  for (const int workers : {1, 3, 4, 8})
    Threads::run(workers, [&](Communicator& c) {
      const Grains grains(23, c.size());
      const Range r = grains.share(c.rank());
      const auto mine = std::span(all).subspan(static_cast<std::size_t>(r.first),
                                               static_cast<std::size_t>(r.count()));
      EXPECT_EQ(ordered_sum(c, grains, mine), right);
    });
}

TEST(AllReduce, Refuses) {
  Threads::run(1, [](Communicator& c) {
    AllReduce reduce(c);
    float x = 0;
    const void* root = &x;
    EXPECT_THROW(reduce(Grains(4, 2), {&root, 1}, &x, 1, Dtype::f32), Exception);
    EXPECT_THROW(reduce(Grains(4, 1), {}, &x, 1, Dtype::f32), Exception);
    EXPECT_THROW(reduce(Grains(4, 1), {&root, 1}, &x, 1, Dtype::bf16), Exception);
  });
}

TEST(Threads, CollectivesAndDuplicates) {
  for (const int workers : {1, 2, 3, 5, 8})
    Threads::run(workers, [&](Communicator& c) {
      for (int from = 0; from < workers; ++from) {
        int value = c.rank() == from ? 77 + from : 0;
        c.broadcast(&value, sizeof value, from);
        EXPECT_EQ(value, 77 + from);
      }
      const auto apart = c.duplicate();
      std::vector<int> all(static_cast<std::size_t>(workers)), more(all);
      const int mine = c.rank() * c.rank();
      c.all_gather(&mine, sizeof mine, all.data());
      apart->all_gather(&mine, sizeof mine, more.data());
      for (int r = 0; r < workers; ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], r * r);
      EXPECT_EQ(all, more);
      c.barrier();
      const std::vector<std::byte> bytes(static_cast<std::size_t>(c.rank()), std::byte{9});
      const auto gathered = gather_all(c, bytes);
      for (std::size_t r = 0; r < gathered.size(); ++r) EXPECT_EQ(gathered[r].size(), r);
    });
}

TEST(Threads, AGroupIsNumberedFromZero) {
  Threads::run(5, [](Communicator& c) {
    if (c.rank() == 2) {
      EXPECT_THROW(Group(c, {4, 1}), Exception);
      return;
    }
    Group group(c, c.rank() % 3 == 0 ? std::vector{3, 0} : std::vector{4, 1});
    std::vector<int> all(2);
    const int mine = c.rank();
    group.all_gather(&mine, sizeof mine, all.data());
    EXPECT_EQ(all, (c.rank() % 3 == 0 ? std::vector{3, 0} : std::vector{4, 1}));
  });
}

TEST(Threads, AWorkerThatFailsEndsTheOthers) {
  for (const int workers : {2, 3, 7}) {
    std::atomic<int> told{0};
    try {
      Threads::run(workers, [&](Communicator& c) {
        if (c.rank() == 1) raise(ErrorCode::io, "the disk is full");
        try {
          for (int i = 0; i < 3; ++i) c.barrier();
          c.duplicate()->barrier();
        } catch (const Exception& e) {
          if (std::string(e.what()) == "worker 1 failed: the disk is full") ++told;
          throw;
        }
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Exception& e) {
      EXPECT_STREQ(e.what(), "the disk is full");
    }
    EXPECT_EQ(told, workers - 1);
  }
}

// Messages are taken back while they are being fetched: neither side may lose count of them.
TEST(Threads, MessagesOnTheirWayWhenAWorkerFails) {
  constexpr int kMessages = 64;
  for (int round = 0; round < 300; ++round)
    EXPECT_THROW(Threads::run(4,
                              [&](Communicator& c) {
                                std::vector<int> in(2 * kMessages), out(2 * kMessages, c.rank());
                                std::vector<Outgoing> outgoing;
                                std::vector<Incoming> incoming;
                                for (std::size_t i = 0; i < kMessages; ++i)
                                  for (const int d : {1, 2}) {
                                    const std::size_t at = 2 * i + static_cast<std::size_t>(d) - 1;
                                    outgoing.push_back({(c.rank() + d) % 3, &out[at], sizeof(int)});
                                    incoming.push_back({(c.rank() + d) % 3, &in[at], sizeof(int)});
                                  }
                                if (c.rank() == 3) {
                                  for (int i = 0; i < round; ++i) std::this_thread::yield();
                                  raise(ErrorCode::io, "the disk is full");
                                }
                                for (int i = 0; i < 100; ++i) c.exchange(outgoing, incoming);
                                c.barrier();  // which the last one never reaches
                              }),
                 Exception);
}

TEST(Threads, MessagesOfOtherLengthsAreRefused) {
  try {
    Threads::run(2, [](Communicator& c) {
      const double value = 1;
      float shorter = 0;
      if (c.rank() == 0)
        c.send(1, &value, sizeof value);
      else
        c.receive(0, &shorter, sizeof shorter);
    });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Exception& e) {
    EXPECT_STREQ(e.what(), "exchange: worker 0 sent 8 bytes, worker 1 expects 4");
  }
}

TEST(AllReduce, FewBytesAreGathered) {
  const Grains two(2, 2), three(3, 3), many(64, 64);
  EXPECT_EQ(way_for(two, kAtOnceBytes), Way::gather);
  EXPECT_EQ(way_for(two, kAtOnceBytes + 4), Way::halving) << "whose messages go at once";
  EXPECT_EQ(way_for(two, 2 * kAtOnceBytes), Way::halving);
  EXPECT_EQ(way_for(two, 2 * kAtOnceBytes + 4), Way::gather) << "nobody's do";
  EXPECT_EQ(way_for(two, kGatherBytes / 2), Way::gather);
  EXPECT_EQ(way_for(two, kGatherBytes / 2 + 4), Way::halving);
  EXPECT_EQ(way_for(three, kAtOnceBytes + 4), Way::gather);
  EXPECT_EQ(way_for(three, kGatherBytes / 2), Way::direct);
  EXPECT_EQ(way_for(many, 1024), Way::halving);
}

}  // namespace
}  // namespace planck::dist
