// How exact y and dx are cut (host/window_cuts.h): all work is done once, and who adds the last of
// a tile's sums is known by how many there are.
#include "planck/ops/conv/host/window_cuts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace planck {
namespace {

std::string wrong(std::int64_t pairs, std::int64_t steps, std::int64_t clusters,
                  std::int64_t most_cut) {
  const conv_detail::WindowCuts cuts = conv_detail::cut_windows(pairs, steps, clusters, most_cut);
  std::vector<std::vector<int>> taken(static_cast<std::size_t>(pairs));
  std::vector<int> parts(taken.size());
  for (int t = 0; t < cuts.count(); ++t) {
    const auto part = cuts.at(t);
    if (part.pair < 0 || part.pair >= pairs) return "a pair that is none";
    if (part.steps < 1 || part.first < 0 || part.first + part.steps > steps)
      return "steps that are none";
    if (part.of_cut >= most_cut || (part.of_cut < 0) != (part.pair < cuts.whole))
      return "sums without room";
    if (part.of_cut >= 0 && part.of_cut != part.pair - cuts.whole) return "sums of another";
    auto& of_pair = taken[static_cast<std::size_t>(part.pair)];
    of_pair.resize(static_cast<std::size_t>(steps));
    for (int s = 0; s < part.steps; ++s) ++of_pair[static_cast<std::size_t>(part.first + s)];
    ++parts[static_cast<std::size_t>(part.pair)];
  }
  for (std::size_t pair = 0; pair < taken.size(); ++pair) {
    if (taken[pair] != std::vector<int>(static_cast<std::size_t>(steps), 1)) return "steps";
    const bool is_cut = static_cast<int>(pair) >= cuts.whole;
    if (parts[pair] != (is_cut ? cuts.cuts : 1)) return "a count that nobody reaches";
  }
  return "";
}

TEST(ConvWindowCuts, TakeEachStepOnce) {
  for (std::int64_t pairs = 1; pairs < 300; ++pairs)
    for (std::int64_t steps : {1, 2, 3, 4, 5, 7, 9, 10, 17, 25, 36, 49, 72})
      for (std::int64_t clusters : {1, 2, 7, 54, 66, 72})
        for (std::int64_t most : {0, 72})
          EXPECT_EQ(wrong(pairs, steps, clusters, most), "")
              << pairs << " " << steps << " " << clusters << " " << most;
}

// 100 pairs of 36 steps for 66 clusters: the second 34 in three parts.
TEST(ConvWindowCuts, CutWhatDoesNotFillProcessors) {
  const auto cuts = conv_detail::cut_windows(100, 36, 66, 72);
  EXPECT_EQ(cuts.whole, 66);
  EXPECT_EQ(cuts.cuts, 3);
  EXPECT_EQ(conv_detail::cut_windows(132, 36, 66, 72).whole, 132);
}

}  // namespace
}  // namespace planck
