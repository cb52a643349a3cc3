// Cores that are for one worker of several, and whose turn it is to say that it has failed.
#include "planck/dist/transport/cores.h"

#include <gtest/gtest.h>

#include <vector>

#include "planck/dist/transport/communicator.h"

namespace planck::dist {

namespace {

Cores from_to(std::size_t first, std::size_t end) {
  Cores cores{};
  for (std::size_t i = first; i < end; ++i) cores[i / 64] |= std::uint64_t{1} << i % 64;
  return cores;
}

std::vector<int> each(const std::vector<Cores>& workers) {
  std::vector<int> found;
  for (std::size_t i = 0; i < workers.size(); ++i) found.push_back(cores_for(workers, i));
  return found;
}

TEST(Cores, WorkersThatAreNotBoundShareTheMachine) {
  EXPECT_EQ(each({from_to(0, 16)}), std::vector{16});
  EXPECT_EQ(each(std::vector<Cores>(4, from_to(0, 16))), std::vector(4, 4));
  EXPECT_EQ(each(std::vector<Cores>(3, from_to(0, 16))), std::vector(3, 5));
  EXPECT_EQ(each(std::vector<Cores>(3, from_to(0, 2))), std::vector(3, 1));
}
TEST(Cores, WorkersThatAreBoundHaveAllOfTheirOwn) {
  EXPECT_EQ(each({from_to(0, 1), from_to(1, 2)}), (std::vector{1, 1}));
  EXPECT_EQ(each({from_to(0, 8), from_to(8, 16)}), (std::vector{8, 8}));
  EXPECT_EQ(each({from_to(60, 68), from_to(100, 104)}), (std::vector{8, 4}));
}
TEST(Cores, OnlyWhatIsSharedIsDivided) {
  const Cores left = from_to(0, 8), right = from_to(8, 16);
  EXPECT_EQ(each({left, left, right, right}), (std::vector{4, 4, 4, 4}));
  EXPECT_EQ(each({from_to(0, 6), from_to(4, 10)}), (std::vector{5, 5}));
  EXPECT_EQ(each({from_to(0, 3), from_to(0, 3), from_to(0, 3)}), (std::vector{1, 1, 1}));
}
TEST(Cores, OfItsOwnHasWhoSharesWithEnough) {
  EXPECT_TRUE(has_own_core(std::vector<Cores>(4, from_to(0, 16)), 3));
  EXPECT_TRUE(has_own_core(std::vector<Cores>(16, from_to(0, 16)), 15));
  EXPECT_FALSE(has_own_core(std::vector<Cores>(17, from_to(0, 16)), 0));
  const std::vector<Cores> bound{from_to(0, 1), from_to(1, 2), from_to(1, 2)};
  EXPECT_TRUE(has_own_core(bound, 0));
  EXPECT_FALSE(has_own_core(bound, 1));
  EXPECT_FALSE(has_own_core(bound, 2));
}
TEST(Cores, AreCountedAsTheSystemDoes) {
  const std::vector<Cores> alone{cores_of_this_thread()};
  EXPECT_EQ(cores_for(alone, 0), Stream::cpu().threads());
  EXPECT_EQ(Alone().cores(), Stream::cpu().threads());
}

TEST(TurnToSpeak, IsEachWorkersOwn) {
  for (const int size : {2, 16, 1000})
    for (int rank = 1; rank < size; ++rank)
      EXPECT_GT(turn_to_speak(rank, size), turn_to_speak(rank - 1, size)) << rank << " of " << size;
  EXPECT_EQ(turn_to_speak(0, 16).count(), 0);
  EXPECT_LT(turn_to_speak(999, 1000).count(), 3000);
}

}  // namespace
}  // namespace planck::dist
