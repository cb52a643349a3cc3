// Where steps for mma.sync lie in shared memory: every element has a place of its own, every lane
// finds what its registers are to hold (as the PTX manual draws fragments), and nobody meets
// another in a bank.
#include "planck/loops/gemm/cuda/mma_layout.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

namespace planck::gemm_device {
namespace {

struct Place {
  int row = -1, byte = -1;  // of a row's 64 bytes of k
};

template <int kRows, int kSize, bool kDeep>
struct Memory {
  using Layout = MmaLayout<kRows, kSize, kDeep>;
  std::array<Place, Layout::kBytes> at;

  Memory() {
    for (int row = 0; row < kRows; ++row)
      for (int k = 0; k < Layout::kDepth; ++k)
        for (int byte = 0; byte < kSize; ++byte) {
          Place& p = at.at(static_cast<std::size_t>(Layout::element(row, k) + byte));
          EXPECT_EQ(p.row, -1) << "two elements in one place";
          p = {row, k * kSize + byte};
        }
  }

  // What register q of each lane holds, byte by byte, of the operand at `row`.
  template <bool kOfA>
  std::array<Place, 4> read(int lane, int q, int row, int further_rows, int slice) const {
    const auto where = [&](int of_lane, int rows, int halves) {
      return Layout::further(Layout::template lane_at<kOfA>(of_lane, row), further_rows + rows,
                             2 * slice + halves);
    };
    std::array<Place, 4> got;
    for (int byte = 0; byte < 4; ++byte) {
      int from = 0;
      if (!kDeep && kSize == 4) {
        from = where(lane, Layout::template lower<kOfA>(q) * 8, Layout::template later<kOfA>(q)) +
               byte;
      } else if (kDeep) {  // ldmatrix: of the chunk that lane 8 q + lane / 4 gives
        from = where(8 * q + lane / 4, 0, 0) + lane % 4 * 4 + byte;
      } else {  // transposed: element lane / 4 of two chunks
        from = where(8 * q + lane % 4 * 2 + byte / 2, 0, 0) + lane / 4 * 2 + byte % 2;
      }
      got[static_cast<std::size_t>(byte)] = at.at(static_cast<std::size_t>(from));
    }
    return got;
  }
};

template <int kRows, int kSize, bool kDeep, bool kOfA>
void expect_fragments(int warp_rows) {
  const Memory<kRows, kSize, kDeep> memory;
  for (int row = 0; row < kRows; row += warp_rows)
    for (int more = 0; more < warp_rows; more += 16)
      for (int slice = 0; slice < kMmaSlices; ++slice)
        for (int lane = 0; lane < 32; ++lane)
          for (int q = 0; q < 4; ++q) {
            const auto got = memory.template read<kOfA>(lane, q, row, more, slice);
            // A: registers are (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4) in words of k.
            // B: (g, t), (g, t + 4) of one instruction, then of the next, 8 columns on.
            const int down = kOfA ? q % 2 : q / 2, along = kOfA ? q / 2 : q % 2;
            for (int byte = 0; byte < 4; ++byte) {
              const Place& p = got[static_cast<std::size_t>(byte)];
              ASSERT_EQ(p.row, row + more + lane / 4 + 8 * down) << lane << " " << q;
              ASSERT_EQ(p.byte, 32 * slice + 4 * (lane % 4) + 16 * along + byte)
                  << lane << " " << q;
            }
          }
}

// Eight lanes of ldmatrix, or of a copy, take 16 bytes each; words are taken by 32.
template <int kRows, int kSize, bool kDeep>
void expect_no_conflicts() {
  using Layout = MmaLayout<kRows, kSize, kDeep>;
  if (kDeep || kSize == 2)
    for (int first = 0; first < 32; first += 8)
      for (int row = 0; row < kRows; row += 16) {
        std::set<int> groups;
        for (int lane = first; lane < first + 8; ++lane)
          groups.insert(Layout::template lane_at<true>(lane, row) / 16 % 8);
        EXPECT_EQ(groups.size(), 8u) << first;
      }
  else
    for (int row = 0; row < kRows; row += 16) {
      std::set<int> banks;
      for (int lane = 0; lane < 32; ++lane)
        banks.insert(Layout::template lane_at<true>(lane, row) / 4 % 32);
      EXPECT_EQ(banks.size(), 32u);
    }
  for (int chunk = 0; chunk < Layout::kLines * Layout::kChunks; chunk += 8) {
    std::set<int> groups;
    for (int c = chunk; c < chunk + 8; ++c)
      groups.insert(Layout::at(c / Layout::kChunks, c % Layout::kChunks) / 16 % 8);
    EXPECT_EQ(groups.size(), 8u) << chunk;
  }
}

template <int kRows, int kSize, bool kDeep>
void expect_layout(int columns_of_warp) {
  SCOPED_TRACE(std::to_string(kRows) + " rows of " + std::to_string(kSize) + " bytes" +
               (kDeep ? ", deep" : ", wide"));
  expect_fragments<kRows, kSize, kDeep, true>(32);
  expect_fragments<kRows, kSize, kDeep, false>(columns_of_warp);
  expect_no_conflicts<kRows, kSize, kDeep>();
}

TEST(MmaLayout, LanesFindTheirFragmentsWithoutConflicts) {
  expect_layout<128, 1, true>(64);
  expect_layout<128, 2, true>(64);
  expect_layout<128, 4, true>(64);
  expect_layout<128, 2, false>(64);
  expect_layout<128, 4, false>(64);
  expect_layout<64, 1, true>(32);
  expect_layout<64, 2, true>(32);
  expect_layout<64, 4, true>(32);
  expect_layout<64, 2, false>(32);
  expect_layout<64, 4, false>(32);
}

}  // namespace
}  // namespace planck::gemm_device
