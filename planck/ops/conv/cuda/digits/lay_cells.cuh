// f32 cut into s8 digits and laid along rows of cells (host/cells.h): [part][digit][channel][k],
// k = (i wide + j) images + n. NaN and infinities are zeros here.
#pragma once

#include "planck/loops/cuda/division.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/cutter.cuh"
#include "planck/ops/conv/cuda/digits/digit_tiles.cuh"
#include "planck/ops/conv/cuda/magnitudes.cuh"
#include "planck/ops/conv/host/cells.h"

namespace planck::conv_device {

inline constexpr int kCellLanes = 32, kCellImages = 64, kCellThreads = 256;

struct CellSpot {
  int cell, channel, image;
};

// What one tensor is laid from, and where to. A block has 64 images, or fewer of several 32 lanes.
struct CellSource {
  Tensor4 x;
  Magnitudes magnitudes;  // by channel
  std::int8_t* out;
  std::int64_t pitch;                         // of k
  int channels, batch, images, high, wide;    // pixels
  int cells, cells_wide;                      // of a part; of a row of them
  Divisor line;                               // cells_wide
  int parts, parts_across, steps[2];          // pixels from cell to cell
  int remainders[2][conv_detail::kMostStep];  // the first pixel of a part
  int lane_tiles, image_tiles, shift;         // 2^shift images of a block
  bool along_channels;                        // lanes go along channels, or along cells

  std::int64_t blocks() const {
    return std::int64_t{parts} * (along_channels ? cells : channels) * image_tiles * lane_tiles;
  }
  __device__ bool is_there(const CellSpot& at) const {
    return at.cell < cells && at.channel < channels && at.image < images;
  }
  __device__ std::int8_t* to(const CellSpot& at, int part, int digit) const {
    return out + ((std::int64_t{part} * kDigits + digit) * channels + at.channel) * pitch +
           std::int64_t{at.cell} * images + at.image;
  }
  // A pixel of image 0, or null: behind a row of them there are zeros.
  __device__ __forceinline__ const float* pixel(const CellSpot& at, int part) const {
    const int i = static_cast<int>(line.quotient(static_cast<std::uint32_t>(at.cell)));
    const int h = i * steps[0] + remainders[0][part / parts_across];
    const int w = (at.cell - i * cells_wide) * steps[1] + remainders[1][part % parts_across];
    return at.cell < cells && at.channel < channels && h < high && w < wide
               ? &x.at<float>(0, at.channel, h, w)
               : nullptr;
  }
  __device__ __forceinline__ float read(const float* pixel, int image) const {
    const float v = pixel != nullptr && image < batch ? pixel[image * x.strides[0]] : 0.0f;
    return math::exact::magnitude_of(v) < 0x7f800000u ? v : 0.0f;
  }
};

// The places of dy, or the pixels of x.
inline CellSource cell_source(const View& v, const conv_detail::Cells& c, bool is_image,
                              const Magnitudes& magnitudes, std::int8_t* out, std::int64_t pitch) {
  CellSource s{Tensor4(v), magnitudes, out, pitch, 0,  0,  0, 0, 0, 0,
               0,          {},         0,   0,     {}, {}, 0, 0, 0, 0};
  s.channels = static_cast<int>(v.shape[1]), s.batch = static_cast<int>(v.shape[0]);
  s.images = c.images;
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
  for (s.shift = 4; s.shift < 6 && 1 << s.shift < s.images;) ++s.shift;
  s.lane_tiles = static_cast<int>(ceil_div(lanes, kCellLanes * (kCellImages >> s.shift)));
  s.image_tiles = static_cast<int>(ceil_div(s.images, 1 << s.shift));
  return s;
}

inline __global__ void __launch_bounds__(kCellThreads)
    lay_cells(const __grid_constant__ CellSource first, const __grid_constant__ CellSource second,
              unsigned blocks_of_first, uint4* cleared, std::int64_t to_clear) {
  follow();
  for (std::int64_t i = std::int64_t{blockIdx.x} * kCellThreads + threadIdx.x; i < to_clear;
       i += std::int64_t{gridDim.x} * kCellThreads)
    cleared[i] = {0, 0, 0, 0};
  constexpr int kEights = kCellImages / 8;
  __shared__ __align__(8) std::uint32_t laid[kDigits][kCellLanes][kCellImages / 4 + 2];
  // From the end on: what was looked at last is in the cache.
  const unsigned block = gridDim.x - 1 - blockIdx.x;
  const bool is_first = block < blocks_of_first;
  const CellSource& s = is_first ? first : second;
  int id = static_cast<int>(block - (is_first ? 0 : blocks_of_first));
  const int lane0 = id % s.lane_tiles * (kCellImages >> s.shift) * kCellLanes;
  id /= s.lane_tiles;
  const int image0 = id % s.image_tiles << s.shift;
  id /= s.image_tiles;
  const int rows = s.along_channels ? s.cells : s.channels, row = id % rows, part = id / rows;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  // Lane l and number e of 64: an image, and a cell of a channel.
  const auto spot = [&](int l, int e) {
    const int at = lane0 + (e >> s.shift) * kCellLanes + l;
    return CellSpot{s.along_channels ? row : at, s.along_channels ? at : row,
                    image0 + (e & ((1 << s.shift) - 1))};
  };
  {  // eight images of one cell
    const CellSpot at = spot(lane, warp * 8);
    const float* const from = s.pixel(at, part);
    float v[8];
#pragma unroll
    for (int e = 0; e < 8; ++e) v[e] = s.read(from, at.image + e);
    const gemm_device::Cutter cut(at.channel < s.channels ? s.magnitudes.exponent(at.channel) : 0);
#pragma unroll
    for (int e = 0; e < 8; e += 4) {
      std::uint32_t words[kDigits];
      cut(v + e, words);
#pragma unroll
      for (int d = 0; d < kDigits; ++d) laid[d][lane][warp * 2 + e / 4] = words[d];
    }
  }
  __syncthreads();
#pragma unroll
  for (int d = 0; d < kDigits; ++d) {
    const int l = thread / kEights, e = thread % kEights * 8;
    if (const CellSpot at = spot(l, e); s.is_there(at))
      *reinterpret_cast<uint2*>(s.to(at, part, d)) =
          *reinterpret_cast<const uint2*>(&laid[d][l][e / 4]);
  }
}

// Also clears so many bytes, a multiple of 16.
inline Result<void> lay_both(const Stream& stream, const CellSource& first,
                             const CellSource& second, void* cleared, std::size_t bytes) {
  return launch_next(stream, "conv2d_weight", lay_cells, first.blocks() + second.blocks(),
                     kCellThreads, first, second, static_cast<unsigned>(first.blocks()),
                     static_cast<uint4*>(cleared), static_cast<std::int64_t>(bytes / 16));
}

}  // namespace planck::conv_device
