// f32 cut into s8 digits and laid along rows of cells (host/cells.h): [part][digit][channel][k],
// k = (i wide + j) batch + n. NaN and infinities are zeros here.
#pragma once

#include "planck/loops/cuda/division.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/cutter.cuh"
#include "planck/ops/conv/cuda/digit_tiles.cuh"
#include "planck/ops/conv/cuda/magnitudes.cuh"
#include "planck/ops/conv/host/cells.h"

namespace planck::conv_device {

inline constexpr int kCellLanes = 32, kCellImages = 64, kCellThreads = 256;

// What one tensor is laid from, and where to. A block has 64 images, or fewer of several 32 lanes.
struct CellSource {
  Tensor4 x;
  Magnitudes magnitudes;  // by channel
  std::int8_t* out;
  std::int64_t pitch;                         // of k
  int channels, batch, high, wide;            // pixels
  int cells, cells_wide;                      // of a part; of a row of them
  Divisor line;                               // cells_wide
  int parts, parts_across, steps[2];          // pixels from cell to cell
  int remainders[2][conv_detail::kMostStep];  // the first pixel of a part
  int lane_tiles, image_tiles, shift;         // 2^shift images of a block
  bool along_channels;                        // lanes go along channels, or along cells

  std::int64_t blocks() const {
    return std::int64_t{parts} * (along_channels ? cells : channels) * image_tiles * lane_tiles;
  }
};

// The places of dy, or the pixels of x.
inline CellSource cell_source(const View& v, const conv_detail::Cells& c, bool is_image,
                              const Magnitudes& magnitudes, std::int8_t* out, std::int64_t pitch) {
  CellSource s{Tensor4(v), magnitudes, out, pitch, 0, 0, 0, 0, 0, 0, {}, 0, 0, {}, {}, 0, 0, 0, 0};
  s.channels = static_cast<int>(v.shape[1]), s.batch = static_cast<int>(v.shape[0]);
  s.high = static_cast<int>(v.shape[2]), s.wide = static_cast<int>(v.shape[3]);
  s.cells_wide = c.wide, s.cells = (is_image ? c.down.cells() : c.down.places) * c.wide;
  s.line = Divisor(static_cast<std::uint32_t>(c.wide));
  s.parts = is_image ? c.parts() : 1, s.parts_across = is_image ? c.across.parts : 1;
  s.steps[0] = s.steps[1] = 1;
  if (is_image) {
    s.steps[0] = c.down.step, s.steps[1] = c.across.step;
    std::copy(c.down.remainder, c.down.remainder + conv_detail::kMostStep, s.remainders[0]);
    std::copy(c.across.remainder, c.across.remainder + conv_detail::kMostStep, s.remainders[1]);
  }
  s.along_channels = v.strides[1] == 1 && v.shape[1] > 1;
  const std::int64_t lanes = s.along_channels ? s.channels : s.cells;
  while (s.shift < 6 && 1 << s.shift < s.batch) ++s.shift;
  s.lane_tiles = static_cast<int>(ceil_div(lanes, kCellLanes * (kCellImages >> s.shift)));
  s.image_tiles = static_cast<int>(ceil_div(s.batch, 1 << s.shift));
  return s;
}

struct CellSpot {
  int cell, channel, image;
};

inline __global__ void __launch_bounds__(kCellThreads)
    lay_cells(const __grid_constant__ CellSource first, const __grid_constant__ CellSource second,
              unsigned blocks_of_first) {
  follow();
  constexpr int kWords = kCellImages / 4;
  __shared__ __align__(4) std::uint8_t laid[kDigits][kCellLanes][kCellImages + 4];
  const bool is_first = blockIdx.x < blocks_of_first;
  const CellSource& s = is_first ? first : second;
  int id = static_cast<int>(blockIdx.x - (is_first ? 0 : blocks_of_first));
  const int lane0 = id % s.lane_tiles * (kCellImages >> s.shift) * kCellLanes;
  id /= s.lane_tiles;
  const int image0 = id % s.image_tiles << s.shift;
  id /= s.image_tiles;
  const int rows = s.along_channels ? s.cells : s.channels, row = id % rows, part = id / rows;
  const int first_h = s.remainders[0][part / s.parts_across],
            first_w = s.remainders[1][part % s.parts_across];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  // Lane l and number e of 64: an image, and a cell of a channel.
  const auto spot = [&](int l, int e) {
    const int at = lane0 + (e >> s.shift) * kCellLanes + l;
    return CellSpot{s.along_channels ? row : at, s.along_channels ? at : row,
                    image0 + (e & ((1 << s.shift) - 1))};
  };
  float v[kCellImages / 8];
#pragma unroll
  for (int e = 0; e < kCellImages / 8; ++e) {
    const CellSpot at = spot(lane, warp + 8 * e);
    const int i = static_cast<int>(s.line.quotient(static_cast<std::uint32_t>(at.cell)));
    const int h = i * s.steps[0] + first_h, w = (at.cell - i * s.cells_wide) * s.steps[1] + first_w;
    const bool inside = at.cell < s.cells && at.channel < s.channels && at.image < s.batch &&
                        h < s.high && w < s.wide;
    v[e] = inside ? s.x.at<float>(at.image, at.channel, h, w) : 0.0f;
  }
#pragma unroll
  for (int e = 0; e < kCellImages / 8; ++e) {
    const CellSpot at = spot(lane, warp + 8 * e);
    const gemm_device::Cutter cut(at.channel < s.channels ? s.magnitudes.exponent(at.channel) : 0);
    const bool finite = math::exact::magnitude_of(v[e]) < 0x7f800000u;
    const std::uint32_t bytes = cut.bytes_of(finite ? v[e] : 0.0f) ^ 0x808080u;
#pragma unroll
    for (int d = 0; d < kDigits; ++d)
      laid[d][lane][warp + 8 * e] = static_cast<std::uint8_t>(bytes >> (16 - 8 * d));
  }
  __syncthreads();
  const auto is_there = [&](const CellSpot& at) {
    return at.cell < s.cells && at.channel < s.channels && at.image < s.batch;
  };
  for (int u = static_cast<int>(threadIdx.x); u < kDigits * kCellLanes * kWords;
       u += kCellThreads) {
    const int d = u / (kCellLanes * kWords), l = u / kWords % kCellLanes, e = u % kWords * 4;
    const auto to = [&](const CellSpot& at) {
      return s.out + ((std::int64_t{part} * kDigits + d) * s.channels + at.channel) * s.pitch +
             std::int64_t{at.cell} * s.batch + at.image;
    };
    if (s.batch % 4 == 0) {
      if (const CellSpot at = spot(l, e); is_there(at))
        *reinterpret_cast<std::uint32_t*>(to(at)) =
            *reinterpret_cast<const std::uint32_t*>(&laid[d][l][e]);
    } else {
      for (int i = 0; i < 4; ++i)
        if (const CellSpot at = spot(l, e + i); is_there(at))
          *to(at) = static_cast<std::int8_t>(laid[d][l][e + i]);
    }
  }
}

inline Result<void> lay_both(const Stream& stream, const CellSource& first,
                             const CellSource& second) {
  return launch_next(stream, "conv2d_weight", lay_cells, first.blocks() + second.blocks(),
                     kCellThreads, first, second, static_cast<unsigned>(first.blocks()));
}

}  // namespace planck::conv_device
