#include "planck/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "planck/io/sha256.h"

namespace planck {
namespace {

using Order = std::vector<std::int64_t>;

std::string digest(const Order& order) {
  Sha256 sha;
  sha.update(std::as_bytes(std::span(order)));
  return sha.hex();
}

// Orders and digests come from a second implementation of the header's words, in Python.
TEST(Shuffled, PinnedOrders) {
  EXPECT_EQ(shuffled(10, 0, 0), (Order{1, 9, 4, 7, 5, 3, 6, 0, 8, 2}));
  EXPECT_EQ(shuffled(10, 42, 0), (Order{5, 8, 4, 6, 1, 7, 0, 9, 3, 2}));
  EXPECT_EQ(shuffled(10, 42, 1), (Order{7, 4, 1, 8, 0, 5, 9, 6, 2, 3}));
  EXPECT_EQ(digest(shuffled(1437, 2024, 3)),
            "b2f8dcecdf41c1bf512f12df6e6be96bc65502bb95b2d1a69e6ae1e0a8c0c82d");
  EXPECT_EQ(digest(shuffled(60000, ~std::uint64_t{0}, std::uint64_t{1} << 40)),
            "645411075e48649287919fd516304744dba7ba4a7872fe2002e55818535435e3");
}

TEST(Shuffled, IsAPermutation) {
  for (const std::int64_t n : {0, 1, 2, 3, 63, 64, 65, 1000}) {
    Order order = shuffled(n, 5, 6), expected(static_cast<std::size_t>(n));
    std::sort(order.begin(), order.end());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(order, expected) << n;
  }
  EXPECT_TRUE(shuffled(-3, 0, 0).empty());
}

// 60,000 shuffles of five: chi squared of the 120 permutations has mean 119 and deviation 15.4.
TEST(Shuffled, EveryPermutationIsAsLikely) {
  constexpr double kExpected = 500;
  for (const bool by_epoch : {true, false}) {
    std::map<Order, int> seen;
    for (std::uint64_t i = 0; i < 60'000; ++i)
      ++seen[by_epoch ? shuffled(5, 9, i) : shuffled(5, i, 9)];
    EXPECT_EQ(seen.size(), 120u);
    double chi = 0;
    for (const auto& [order, count] : seen)
      chi += (count - kExpected) * (count - kExpected) / kExpected;
    EXPECT_GT(chi, 119 - 4 * 15.4);
    EXPECT_LT(chi, 119 + 4 * 15.4);
  }
}

std::vector<Order> parts(const Batches& batches) {
  std::vector<Order> all;
  for (const std::span<const std::int64_t> batch : batches)
    all.emplace_back(batch.begin(), batch.end());
  EXPECT_EQ(static_cast<std::int64_t>(all.size()), batches.count());
  return all;
}

TEST(Batches, KeepsOrDropsTheShortOne) {
  const Order order = {4, 2, 0, 1, 3};
  EXPECT_EQ(parts(*Batches::create(order, 2)), (std::vector<Order>{{4, 2}, {0, 1}, {3}}));
  EXPECT_EQ(parts(*Batches::create(order, 2, LastBatch::drop)),
            (std::vector<Order>{{4, 2}, {0, 1}}));
  EXPECT_EQ(parts(*Batches::create(order, 5)), std::vector<Order>{order});
  EXPECT_EQ(parts(*Batches::create(order, 5, LastBatch::drop)), std::vector<Order>{order});
  EXPECT_EQ(parts(*Batches::create(order, INT64_MAX)), std::vector<Order>{order});
  EXPECT_TRUE(parts(*Batches::create({}, 3)).empty());
  EXPECT_TRUE(parts(*Batches::create({}, 3, LastBatch::drop)).empty());
}

TEST(Batches, RefusesSizesThatLeaveNothing) {
  EXPECT_EQ(Batches::create({1, 2}, 0).error().message,
            "batches: batch_size is 0, must be 1 or more");
  EXPECT_EQ(Batches::create({1, 2}, -8).error().message,
            "batches: batch_size is -8, must be 1 or more");
  const auto none = Batches::create({1, 2}, 3, LastBatch::drop);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::invalid_problem);
  EXPECT_EQ(none.error().message, "batches: batch_size is 3, 2 examples do not fill a single one");
}

}  // namespace
}  // namespace planck
