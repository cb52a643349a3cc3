// Rows of cells (host/cells.h) against windows: what each tap reads at each place.
#include "planck/ops/conv/host/cells.h"

#include <gtest/gtest.h>

#include <vector>

#include "planck/ops/conv/host/windows.h"

namespace planck {
namespace {

// Numbers of pixels of a batch, from 1 on, as they are laid; 0 where there is none.
std::vector<std::vector<std::int64_t>> laid(const conv_detail::Cells& c, const Shape& x) {
  std::vector<std::vector<std::int64_t>> parts;
  for (int part = 0; part < c.parts(); ++part) {
    std::vector<std::int64_t>& row = parts.emplace_back();
    for (int i = 0; i < c.down.cells(); ++i)
      for (int j = 0; j < c.wide; ++j)
        for (int n = 0; n < c.images; ++n) {
          const int h = i * c.down.step + c.down.remainder[part / c.across.parts];
          const int w = j * c.across.step + c.across.remainder[part % c.across.parts];
          row.push_back(n < x[0] && h < x[2] && w < x[3] ? 1 + (n * x[2] + h) * x[3] + w : 0);
        }
  }
  return parts;
}

// How many reads differ from those of windows.
std::int64_t wrong_reads(const ConvProblem& p) {
  const conv_detail::Cells c(p);
  const conv_detail::Windows windows = conv_detail::windows_of(p, 0);
  const auto parts = laid(c, p.x);
  std::int64_t wrong = 0;
  for (int tap = 0; tap < p.taps(); ++tap)
    for (std::int64_t i = 0; i < c.down.places; ++i)
      for (std::int64_t j = 0; j < c.across.places; ++j)
        for (std::int64_t n = 0; n < p.batch(); ++n) {
          const auto from = c.of(tap);
          const auto& row = parts[static_cast<std::size_t>(from.part)];
          const std::int64_t at = (i * c.wide + j) * c.images + n + from.move;
          const bool inside = at >= 0 && at < static_cast<std::int64_t>(row.size());
          const std::int64_t h = windows.down.read(i, tap / p.weight[3]),
                             w = windows.across.read(j, tap % p.weight[3]);
          const bool pixel = h >= 0 && h < p.x[2] && w >= 0 && w < p.x[3];
          wrong += (inside ? row[static_cast<std::size_t>(at)] : 0) !=
                   (pixel ? 1 + (n * p.x[2] + h) * p.x[3] + w : 0);
        }
  return wrong;
}

TEST(ConvCells, TapsReadWhatWindowsCover) {
  std::size_t tried = 0;
  for (std::int64_t stride : {1, 2, 3, 8})
    for (std::int64_t padding : {0, 1, 4})
      for (std::int64_t dilation : {1, 2, 3})
        for (std::int64_t kernel : {1, 2, 3, 5})
          for (std::int64_t extent : {1, 4, 7, 11}) {
            ConvProblem p{
                ConvKind::conv2d_weight, Dtype::f32, {3, 1, extent, 6}, {1, 1, 2, kernel}, {}};
            p.options = {.stride = {stride, 3}, .padding = {padding, 2}, .dilation = {dilation, 1}};
            for (bool turned : {false, true}) {
              if (turned) {
                std::swap(p.x[2], p.x[3]), std::swap(p.weight[2], p.weight[3]);
                std::swap(p.options.stride[0], p.options.stride[1]);
                std::swap(p.options.padding[0], p.options.padding[1]);
                std::swap(p.options.dilation[0], p.options.dilation[1]);
              }
              if (p.extent(0) < 1 || p.extent(1) < 1) continue;
              EXPECT_EQ(wrong_reads(p), 0) << stride << " " << padding << " " << dilation << " "
                                           << kernel << " " << extent << " " << turned;
              ++tried;
            }
          }
  EXPECT_GT(tried, 500u);
}

// One column of zeros lies behind a row of 3 × 3 windows with a border, none of single pixels.
TEST(ConvCells, LeaveFewFree) {
  ConvProblem p{ConvKind::conv2d_weight, Dtype::f32, {4, 8, 7, 7}, {8, 8, 3, 3}, {}};
  p.options.padding = {1, 1};
  EXPECT_EQ(conv_detail::Cells(p).wide, 8);
  p.weight = {8, 8, 1, 1}, p.options.padding = {0, 0};
  EXPECT_EQ(conv_detail::Cells(p).wide, 7);
}

}  // namespace
}  // namespace planck
