// Points sorted by cell: the same lists however the work is cut and however wide their entries are,
// and those of a plain stable sort.
#include "planck/ops/grid_sample/cpu/cell_lists.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace planck {
namespace {

struct Sorted {
  std::vector<std::int64_t> ends, points;
  std::vector<float> fractions;
  bool operator==(const Sorted&) const = default;
};

template <class P>
Sorted sort(const GridSampleProblem& p, const View& grid, std::int64_t group, int threads) {
  const Stream stream = Stream::cpu(threads);
  const PointLocator<float> where(p, grid);
  const std::size_t bytes = CellLists<float, P>(p, group, nullptr).bytes();
  std::vector<std::byte> memory(bytes + 64);
  void* aligned = memory.data();
  std::size_t room = memory.size();
  std::align(64, bytes, aligned, room);
  CellLists<float, P> lists(p, group, static_cast<std::byte*>(aligned));
  const std::int64_t cells = lists.cells(0) * lists.cells(1) * lists.cells(2);
  Sorted all;
  for (std::int64_t n0 = 0; n0 < p.input[0]; n0 += group) {
    const std::int64_t images = std::min(group, p.input[0] - n0);
    lists.sort(stream, where, n0, images);
    for (std::int64_t image = 0; image < images; ++image) {
      const P* ends = lists.ends(image);
      all.ends.insert(all.ends.end(), ends, ends + cells + 1);
      for (std::int64_t k = 0; k < std::int64_t{ends[cells]}; ++k) {
        all.points.push_back(lists.entries(image)[k].point);
        all.fractions.push_back(lists.entries(image)[k].t[2]);
      }
    }
  }
  return all;
}

TEST(CellLists, AreThoseOfAStableSort) {
  GridSampleProblem p;
  p.backward = true;
  p.input = {9, 1, 40, 50};
  p.grid = {9, 150, 230, 2};  // three blocks of points
  std::vector<float> grid(static_cast<std::size_t>(numel(p.grid)));
  for (std::size_t i = 0; i < grid.size(); ++i)
    grid[i] = 1.2f * std::sin(static_cast<float>(i) * 0.7311f);
  const View view{grid.data(), Dtype::f32, p.grid, row_major(p.grid), true};

  Sorted expected;
  for (std::size_t n = 0; n < 9; ++n) {
    std::vector<std::vector<std::int64_t>> cells(41 * 51);
    std::vector<float> t(150 * 230);
    for (std::size_t i = 0; i < 150 * 230; ++i) {
      const float* g = grid.data() + 2 * (n * 150 * 230 + i);
      const float x = ((g[0] + 1) * 50 - 1) / 2, y = ((g[1] + 1) * 40 - 1) / 2;
      t[i] = x - std::floor(x);
      if (x > -1 && x < 50 && y > -1 && y < 40)
        cells[static_cast<std::size_t>(std::floor(y) + 1) * 51 +
              static_cast<std::size_t>(std::floor(x) + 1)]
            .push_back(static_cast<std::int64_t>(i));
    }
    std::int64_t end = 0;
    expected.ends.push_back(0);
    for (const auto& cell : cells) {
      expected.ends.push_back(end += static_cast<std::int64_t>(cell.size()));
      for (std::int64_t i : cell) {
        expected.points.push_back(i);
        expected.fractions.push_back(t[static_cast<std::size_t>(i)]);
      }
    }
  }
  for (std::int64_t group : {1, 4, 9})  // few images: in bands of cells; many: each as a whole
    for (int threads : {1, 3}) {
      EXPECT_TRUE(sort<std::int32_t>(p, view, group, threads) == expected) << group;
      EXPECT_TRUE(sort<std::int64_t>(p, view, group, threads) == expected) << group;
    }
}

// Every tap of every cell falls on exactly the elements that list it.
TEST(CellLists, PairsAreTheInverseOfTaps) {
  for (SamplePadding padding :
       {SamplePadding::zeros, SamplePadding::border, SamplePadding::reflection})
    for (bool align : {false, true})
      for (std::int64_t size : {1, 2, 3, 4, 7}) {
        const auto axis = grid_sample_math::make_axis<float>(size, padding, align);
        std::vector<std::vector<std::pair<std::int64_t, int>>> expected(
            static_cast<std::size_t>(size));
        for (std::int64_t cell = 0; cell < cells_of(SampleMode::bicubic, axis); ++cell)
          for (int tap = 0; tap < 4; ++tap)
            if (const std::int64_t i = grid_sample_math::cubic_index(cell, tap, axis); i >= 0)
              expected[static_cast<std::size_t>(i)].push_back({cell, tap});
        for (std::int64_t i = 0; i < size; ++i) {
          const AxisPairs pairs = pairs_of(SampleMode::bicubic, axis, i);
          std::vector<std::pair<std::int64_t, int>> got;
          for (int k = 0; k < pairs.count; ++k)
            got.push_back({pairs.pair[k].cell, pairs.pair[k].tap});
          EXPECT_EQ(got, expected[static_cast<std::size_t>(i)])
              << static_cast<int>(padding) << " " << align << " " << size << " " << i;
        }
      }
}

}  // namespace
}  // namespace planck
