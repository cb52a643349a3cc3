// Who multiplies what, where the last tiles of exact products are cut along k: each step of each
// tile once, and parts that are found again.
#include "planck/loops/gemm/cuda/exact_cut.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace planck::gemm_device {
namespace {

struct Shape {
  int tiles, k, clusters;
};

TEST(ExactCut, EveryStepIsMultipliedOnce) {
  std::size_t cut_shapes = 0;
  for (const auto& [tiles, k, clusters] :
       {Shape{72, 8192, 66}, Shape{18, 8192, 66}, Shape{54, 8192, 66}, Shape{1, 262144, 66},
        Shape{65, 131072, 66}, Shape{67, 1552, 66}, Shape{3, 1600, 72}, Shape{1, 1296, 2},
        Shape{133, 4112, 57}, Shape{5, 10 * 128, 66}, Shape{200, 768, 66}}) {
    const int steps = (k + kExactDepth - 1) / kExactDepth;
    const int cut = tiles_to_cut(tiles, steps, clusters);
    cut_shapes += cut > 0 ? 1 : 0;
    const ExactShares shares{cut, steps, clusters};
    std::map<int, std::set<int>> done;   // steps of a tile
    std::map<int, std::set<int>> parts;  // of a tile
    std::set<int> places;                // of parts, in memory
    for (int c = 0; c < clusters; ++c) {
      const ExactTask task{shares, c, tiles, k};
      for (ExactWork work(task); work.next(task);) {
        ASSERT_LT(work.tile, tiles);
        ASSERT_EQ(work.k0 % kExactDepth, 0);
        ASSERT_LT(work.k0, work.k1);
        ASSERT_TRUE(work.k1 == k || work.k1 % kExactDepth == 0);
        for (int at = work.k0; at < work.k1; at += kExactDepth)
          EXPECT_TRUE(done[work.tile].insert(at / kExactDepth).second);
        if (work.part < 0) continue;
        EXPECT_LT(work.part, 2 * clusters);
        EXPECT_TRUE(places.insert(work.part).second) << "two parts in one place";
        EXPECT_GE(work.tile, tiles - cut);
        parts[work.tile - (tiles - cut)].insert(work.part);
      }
    }
    ASSERT_EQ(done.size(), static_cast<std::size_t>(tiles));
    for (const auto& [tile, of] : done) EXPECT_EQ(of.size(), static_cast<std::size_t>(steps));
    for (int tile = 0; tile < cut; ++tile) {
      std::set<int> found;
      for (int c = shares.begin(tile); !shares.ended(c, tile); ++c)
        if (shares.has_part(c, tile)) found.insert(shares.part_of(c, tile));
      EXPECT_EQ(found, parts[tile]) << tiles << " " << k << " " << clusters << ": " << tile;
    }
  }
  EXPECT_GE(cut_shapes, 8u);
}

TEST(ExactCut, OnlyWhereItPays) {
  EXPECT_EQ(tiles_to_cut(72, 64, 66), 6);
  EXPECT_EQ(tiles_to_cut(18, 64, 66), 18);
  EXPECT_EQ(tiles_to_cut(132, 64, 66), 0);  // no round is left unfinished
  EXPECT_EQ(tiles_to_cut(67, 6, 66), 0);    // few steps
  EXPECT_EQ(tiles_to_cut(65, 64, 66), 0);   // few clusters wait
}

}  // namespace
}  // namespace planck::gemm_device
