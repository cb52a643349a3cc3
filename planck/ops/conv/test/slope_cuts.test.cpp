// How exact dweight is cut (host/slope_cuts.h): all work is done once, by clusters that have some.
#include "planck/ops/conv/host/slope_cuts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace planck {
namespace {

using conv_detail::cut_slopes;
using conv_detail::SlopeCuts;
using conv_detail::SlopeWork;

// What is wrong: steps of a tile that nobody takes or two do, tiles that say wrongly whether they
// are alone or lie in front of the first that are not, parts without steps or with too many.
std::string wrong(const SlopeWork& w) {
  const SlopeCuts cuts = cut_slopes(w);
  const std::int64_t down = (w.rows + w.rows_at_once - 1) / w.rows_at_once;
  const auto key = [&](const SlopeCuts::Tile& at) {
    return (at.group * down + at.row) * w.across + at.column;
  };
  std::vector<std::vector<bool>> taken(static_cast<std::size_t>(w.groups * down * w.across));
  std::vector<int> parts(taken.size());
  if (cuts.count() < 1) return "no work";
  for (int t = 0; t < cuts.count(); ++t) ++parts[static_cast<std::size_t>(key(cuts.at(t)))];
  const auto first = cuts.first_cut(static_cast<int>(w.groups));
  for (int t = 0; t < cuts.count(); ++t) {
    const SlopeCuts::Tile at = cuts.at(t);
    if (at.group < 0 || at.group >= w.groups || at.row < 0 || at.row >= down || at.column < 0 ||
        at.column >= w.across)
      return "a tile that is none";
    if (at.steps < 1 || at.steps > w.most_steps || at.first + at.steps > w.steps)
      return "steps that are none";
    if (at.alone != (parts[static_cast<std::size_t>(key(at))] == 1)) return "alone";
    if (!at.alone && (at.group < first.group || (at.group == first.group && at.row < first.row)))
      return "sums that are not cleared";
    auto& of_tile = taken[static_cast<std::size_t>(key(at))];
    of_tile.resize(static_cast<std::size_t>(w.steps));
    for (int s = at.first; s < at.first + at.steps; ++s) {
      if (of_tile[static_cast<std::size_t>(s)]) return "a step taken twice";
      of_tile[static_cast<std::size_t>(s)] = true;
    }
  }
  for (const auto& of_tile : taken)
    if (of_tile != std::vector<bool>(static_cast<std::size_t>(w.steps), true)) return "steps left";
  return "";
}

TEST(ConvSlopeCuts, TakeEachStepOnce) {
  for (std::int64_t rows : {1, 2, 3, 4, 5, 9, 18, 72, 73})
    for (std::int64_t groups : {1, 2, 3})
      for (std::int64_t at_once : {2, 4})
        for (std::int64_t across : {1, 3, 4, 8})
          for (std::int64_t steps : {1, 2, 5, 28, 49, 509, 1568})
            for (std::int64_t most : {508, 1016})
              for (std::int64_t clusters : {1, 7, 54, 66}) {
                const SlopeWork w{rows, groups, at_once, across, steps, most, clusters, 2};
                EXPECT_EQ(wrong(w), "") << rows << " " << groups << " " << at_once << " " << across
                                        << " " << steps << " " << most << " " << clusters;
              }
}

// 144 tiles of 49 steps for 66 clusters: two waves that are not cut, the rest in five parts.
TEST(ConvSlopeCuts, CutWhatDoesNotFillProcessors) {
  const SlopeCuts cuts = cut_slopes({72, 1, 2, 4, 49, 1016, 66, 4});
  EXPECT_EQ(cuts.walks[0].count, 132);
  EXPECT_EQ(cuts.walks[0].cuts, 1);
  EXPECT_EQ(cuts.walks[1].count, 12);
  EXPECT_EQ(cuts.walks[1].cuts, 5);
  EXPECT_EQ(cuts.walks[2].count, 0);
  EXPECT_EQ(cuts.first_cut(1).row, 33);
}

}  // namespace
}  // namespace planck
