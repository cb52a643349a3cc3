// Grains that meet: sums over all of them in the middle of their work, whoever has which.
#include "planck/dist/meeting.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>

#include "planck/core/exception.h"
#include "planck/dist/transport/threads.h"

namespace planck::dist {

namespace {

float element(std::int64_t g, std::int64_t i) {
  const auto mixed =
      static_cast<std::uint32_t>(g * 2654435761 + i * 40503 + 12345) * std::uint32_t{2246822519};
  return std::ldexp(static_cast<float>(mixed >> 8) - 8388608.0f, static_cast<int>(mixed % 13) - 24);
}
float canonical(std::int64_t first, std::int64_t n, std::int64_t i) {
  if (n == 1) return element(first, i);
  std::int64_t p = 1;
  while (2 * p < n) p *= 2;
  return canonical(first, p, i) + canonical(first + p, n - p, i);
}

// A grain's own work between sums, which nobody else may see or change.
struct Model {
  std::int64_t state = 0;
};

TEST(Meeting, SumsAreCanonicalAndStateIsEachGrainsOwn) {
  for (const int workers : {1, 2, 3, 4, 8})
    for (const std::int64_t n : {1, 2, 5, 8, 13}) {
      std::atomic<int> met{0};
      Threads::run(workers, [&](Communicator& c) {
        const Grains grains(n, c.size());
        Meeting meeting(c);
        Model model;
        std::vector<std::int64_t> kept(static_cast<std::size_t>(n)), order;
        GrainWork work;
        work.pauses = [&](std::int64_t g) { kept[static_cast<std::size_t>(g)] = model.state; };
        work.goes_on = [&](std::int64_t g) { model.state = kept[static_cast<std::size_t>(g)]; };
        work.run = [&](std::int64_t g) {
          EXPECT_EQ(Meeting::current(), &meeting);
          order.push_back(g);
          model.state = 100 * g;
          for (const std::int64_t count : {0, 1, 40}) {
            std::vector<float> mine;
            for (std::int64_t i = 0; i < count; ++i) mine.push_back(element(g, i));
            meeting.sum(mine.data(), count, Dtype::f32);
            for (std::int64_t i = 0; i < count; ++i)
              EXPECT_EQ(std::bit_cast<std::uint32_t>(mine[static_cast<std::size_t>(i)]),
                        std::bit_cast<std::uint32_t>(canonical(0, n, i)));
            EXPECT_EQ(model.state, 100 * g + (count > 1 ? 2 : count));
            ++model.state;
          }
          EXPECT_EQ(model.state, 100 * g + 3);
          EXPECT_EQ(meeting.total(g + 1), n * (n + 1) / 2);
          ++met;
        };
        for (int twice = 0; twice < 2; ++twice) meeting.run(grains, work);
        EXPECT_EQ(Meeting::current(), nullptr);
        const Range share = grains.share(c.rank());
        ASSERT_EQ(order.size(), 2 * static_cast<std::size_t>(share.count()));
        for (std::size_t i = 0; i < order.size(); ++i)
          EXPECT_EQ(order[i], share.first + static_cast<std::int64_t>(i) % share.count());
      });
      EXPECT_EQ(met, 2 * n) << workers << " workers, " << n << " grains";
    }
}

std::string refusal(int workers, std::int64_t n,
                    const std::function<void(Meeting&, std::int64_t)>& grain) {
  try {
    Threads::run(workers, [&](Communicator& c) {
      Meeting meeting(c);
      const auto nothing = [](std::int64_t) {};
      meeting.run(Grains(n, c.size()),
                  {[&](std::int64_t g) { grain(meeting, g); }, nothing, nothing});
    });
  } catch (const Exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Meeting, GrainsThatAskForOtherThingsAreTold) {
  const auto sums = [](Meeting& m, std::int64_t g) {
    std::vector<float> mine(static_cast<std::size_t>(g < 3 ? 4 : 5));
    m.sum(mine.data(), static_cast<std::int64_t>(mine.size()), Dtype::f32);
  };
  EXPECT_EQ(refusal(1, 4, sums),
            "meeting: grain 0 asks for a sum of 4 f32, grain 3 asks for a sum of 5 f32; all must "
            "ask for the same");
  EXPECT_EQ(refusal(4, 4, sums),
            "meeting: worker 0 asks for a sum of 4 f32, worker 3 asks for a sum of 5 f32; all must "
            "ask for the same");
  const auto ends = [](Meeting& m, std::int64_t g) {
    if (g != 1) (void)m.total(1);
  };
  EXPECT_EQ(refusal(1, 2, ends),
            "meeting: grain 0 asks for a whole number, grain 1 ends; all must ask for the same");
  EXPECT_EQ(refusal(3, 2, ends),  // one worker has no grain
            "meeting: worker 0 asks for a whole number, worker 1 ends; all must ask for the same");
}

TEST(Meeting, AGrainThatFailsEndsTheOthers) {
  for (const std::int64_t which : {0, 3, 5})
    for (const int workers : {1, 2, 3})
      EXPECT_EQ(refusal(workers, 6,
                        [&](Meeting& m, std::int64_t g) {
                          (void)m.total(1);
                          if (g == which) raise(ErrorCode::io, "the disk is full");
                          (void)m.total(1);
                        }),
                "the disk is full");
}

}  // namespace
}  // namespace planck::dist
