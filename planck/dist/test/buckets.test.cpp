// Buckets by themselves: sums while others are computed, and workers that disagree. The thread
// sanitizer sees these, too.
#include "planck/dist/buckets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "planck/core/exception.h"
#include "planck/dist/transport/threads.h"

namespace planck::dist {

namespace {

const Stream kOne = Stream::cpu(1);

// Whole numbers, so that any order has one sum.
double element(std::int64_t grain, std::size_t slot, std::int64_t i) {
  return static_cast<double>((grain * 7 + static_cast<std::int64_t>(slot) * 31 + i * 3) % 101);
}
bool is_read(std::size_t slot, std::int64_t row, std::int64_t grain) {
  return (row + grain + static_cast<std::int64_t>(slot)) % 5 == 0;
}
// The sum over some grains of one element of a slot; tables have few rows in each.
double sum_of(const Slot& s, std::size_t slot, std::int64_t i, Range grains) {
  double sum = 0;
  for (std::int64_t g = grains.first; g < grains.end; ++g)
    if (!s.by_rows || is_read(slot, i / s.shape[1], g)) sum += element(g, slot, i);
  return sum;
}
void fill(Buckets& buckets, const Slot& s, std::size_t slot, std::size_t root, Range grains) {
  void* const to = buckets.root(slot, root);
  for (std::int64_t i = 0; i < numel(s.shape); ++i)
    if (s.dtype == Dtype::f64)
      static_cast<double*>(to)[i] = sum_of(s, slot, i, grains);
    else
      static_cast<float*>(to)[i] = static_cast<float>(sum_of(s, slot, i, grains));
}

const std::vector<Slot> kSlots = {{Dtype::f32, {100}},         {Dtype::f32, {40, 8}, true},
                                  {Dtype::f32, {3}},           {Dtype::f64, {77}},
                                  {Dtype::f32, {20, 3}, true}, {Dtype::f32, {9000}}};

// Rounds of several lengths and orders, one of which is given up on its way.
void run_rounds(Communicator& c, std::size_t bucket_bytes, bool overlap) {
  Buckets buckets(c, bucket_bytes, overlap, add_on_host);
  std::vector<std::size_t> order(kSlots.size());
  std::iota(order.begin(), order.end(), 0u);
  for (const std::int64_t n : {8, 8, 3, 8}) {
    const Grains grains(n, c.size());
    buckets.begin(grains, kSlots);
    std::rotate(order.begin(), order.begin() + 1, order.end());
    for (const std::size_t slot : order) {
      const auto& roots = grains.roots(c.rank());
      for (std::size_t r = 0; r < roots.size(); ++r) fill(buckets, kSlots[slot], slot, r, roots[r]);
      buckets.complete(slot, slot != 2 && !roots.empty(), kOne, slot == 3 && c.rank() == 0);
    }
    std::vector<double> numbers;
    for (const Range& r : grains.roots(c.rank())) numbers.push_back(static_cast<double>(r.count()));
    EXPECT_EQ(buckets.finish(numbers), static_cast<double>(n));
    for (std::size_t slot = 0; slot < kSlots.size(); ++slot) {
      const Slot& s = kSlots[slot];
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < numel(s.shape); ++i) {
        const double right = sum_of(s, slot, i, {0, n});
        const double got = s.dtype == Dtype::f64 ? static_cast<const double*>(buckets.sum(slot))[i]
                                                 : static_cast<const float*>(buckets.sum(slot))[i];
        wrong += got != right;
      }
      EXPECT_EQ(wrong, 0) << "slot " << slot << ", " << n << " grains";
      EXPECT_EQ(buckets.present(slot), slot != 2);
      EXPECT_EQ(buckets.marked(slot), slot == 3);
    }
  }
}

TEST(Buckets, SumWhileOthersAreComputed) {
  for (const int workers : {1, 2, 3, 4})
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{25} << 20})
      for (const bool overlap : {true, false})
        Threads::run(workers, [&](Communicator& c) { run_rounds(c, bytes, overlap); });
}

std::string refusal(int workers, const std::function<void(Communicator&)>& work) {
  try {
    Threads::run(workers, work);
  } catch (const Exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}
void one_round(Communicator& c, Buckets& buckets, std::int64_t n, const std::vector<Slot>& slots) {
  const Grains grains(n, c.size());
  buckets.begin(grains, slots);
  for (std::size_t slot = 0; slot < slots.size(); ++slot) buckets.complete(slot, true, kOne);
  (void)buckets.finish(std::vector<double>(grains.roots(c.rank()).size()));
}

TEST(Buckets, WorkersWithOtherGrainsOrArraysAreRefused) {
  const std::vector<Slot> slots = {{Dtype::f32, {100}}, {Dtype::f32, {20}}};
  EXPECT_EQ(refusal(3,
                    [&](Communicator& c) {
                      Buckets buckets(c, 1000, true, add_on_host);
                      one_round(c, buckets, c.rank() == 1 ? 6 : 4, slots);
                    }),
            "buckets: worker 0 has 4 grains and 2 arrays, worker 1 has 6 and 2");
  // The same number of elements, cut in another way.
  const std::vector<Slot> turned = {slots[1], slots[0]};
  const std::string said = refusal(2, [&](Communicator& c) {
    Buckets buckets(c, 1000, true, add_on_host);
    one_round(c, buckets, 4, c.rank() == 1 ? turned : slots);
  });
  EXPECT_EQ(said.find("buckets: workers 0 and 1 have 2 arrays of other shapes"), 0u) << said;
  // In a later round, where one worker sees a change and others do not.
  for (const bool overlap : {true, false})
    for (const int workers : {2, 3, 4}) {
      const std::string later = refusal(workers, [&](Communicator& c) {
        Buckets buckets(c, 1000, overlap, add_on_host);
        one_round(c, buckets, 4, slots);
        one_round(c, buckets, 4, slots);
        one_round(c, buckets, c.rank() == 1 ? 6 : 4, slots);
      });
      EXPECT_NE(later.find(" bytes, worker "), std::string::npos) << later;
    }
}

}  // namespace
}  // namespace planck::dist
