// The points of the output put into the lists of the tiles that they add to (bins.cuh), in any
// order. Of few channels, dgrid on the way: what a point needs for one is most of what it needs for
// the other.
#pragma once

#include <climits>

#include "planck/ops/grid_sample/slopes.tile.cuh"

namespace planck::sample_device {

// The tiles that a block's points reach, and how many of the points; for a block whose points are
// near each other.
struct PlaceShared {
  static constexpr int kMost = 64;  // tiles
  int low_x, low_y, high_x, high_y;
  std::uint32_t count[kMost], start[kMost];
};

// A block 32 × 8 points. kFew: also dgrid, of as many channels, or of up to four where it is 4.
template <class T, bool kZeros, int kFew>
__global__ void __launch_bounds__(256, kFew == 3 && sizeof(Compute<T>) == 4 ? 6 : 1)
    place_points(const __grid_constant__ TileCall<T> a) {
  using C = Compute<T>;
  __shared__ PlaceShared s;
  wait_for_previous();
  const int tid = static_cast<int>(threadIdx.x), lane = tid % 32;
  const int down = static_cast<int>(a.out_across.quotient(blockIdx.x));
  const int along = static_cast<int>(blockIdx.x) - down * static_cast<int>(a.out_across.value);
  const int width = static_cast<int>(a.frame.out[2]), height = static_cast<int>(a.frame.out[1]);
  const int ox = along * 32 + lane, oy = down * 8 + tid / 32;
  const bool valid = ox < width && oy < height;
  const OutputAt at = {0, min(oy, height - 1), min(ox, width - 1)};
  const auto point = static_cast<std::uint32_t>(oy * width + ox);
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    C g[3];
    coordinates<2>(a.grid, n, at, g);
    if (tid == 0) {
      s.low_x = s.low_y = INT_MAX;
      s.high_x = s.high_y = -1;
    }
    if (tid < PlaceShared::kMost) s.count[tid] = 0;
    const auto x = taps_of<kZeros>(g[0], a.frame.axis[0]);
    const auto y = taps_of<kZeros>(g[1], a.frame.axis[1]);
    if (a.neighbours != nullptr && blockIdx.x % 16 == 0) {
      const int dx = x.base - __shfl_up_sync(~0u, x.base, 1);
      const int dy = y.base - __shfl_up_sync(~0u, y.base, 1);
      const unsigned seen = __ballot_sync(~0u, valid && lane > 0);
      const unsigned far = __ballot_sync(~0u, valid && lane > 0 && (abs(dx) > 4 || abs(dy) > 4));
      if (lane == 0)
        atomicAdd(a.neighbours, static_cast<Neighbours>(__popc(seen)) << 32 |
                                    static_cast<Neighbours>(__popc(far)));
    }
    using Tiles = TileBins<T, kZeros>;
    const auto in_x = Tiles::span(x.base, a.frame.axis[0], 5);
    const auto in_y = Tiles::span(y.base, a.frame.axis[1], 3);
    const bool some = valid && in_x.high >= in_x.low && in_y.high >= in_y.low;
    const bool right = some && in_x.high > in_x.low, under = some && in_y.high > in_y.low;
    const bool which[4] = {some, right, under, right && under};
    __syncthreads();
    {
      const int low_x = __reduce_min_sync(~0u, some ? in_x.low : INT_MAX);
      const int low_y = __reduce_min_sync(~0u, some ? in_y.low : INT_MAX);
      const int high_x = __reduce_max_sync(~0u, some ? in_x.high : -1);
      const int high_y = __reduce_max_sync(~0u, some ? in_y.high : -1);
      if (lane == 0 && high_x >= 0) {
        atomicMin(&s.low_x, low_x);
        atomicMin(&s.low_y, low_y);
        atomicMax(&s.high_x, high_x);
        atomicMax(&s.high_y, high_y);
      }
    }
    __syncthreads();
    const int across = s.high_x - s.low_x + 1, rows = s.high_y - s.low_y + 1;
    const bool near = s.high_x < 0 || (across <= PlaceShared::kMost && rows <= PlaceShared::kMost &&
                                       across * rows <= PlaceShared::kMost);
    const int local = near ? (in_y.low - s.low_y) * across + in_x.low - s.low_x : 0;
    const std::int64_t tile =
        n * a.tiles + static_cast<std::int64_t>(in_y.low) * a.across + in_x.low;
    std::uint32_t* const list = a.bins.lists + tile * BinLayout::kRound;
    std::uint32_t* const under_list =
        list + static_cast<std::int64_t>(a.across) * BinLayout::kRound;
    const auto put = [&](int k, std::uint32_t slot) {
      if (slot < static_cast<unsigned>(BinLayout::kRound))
        (k & 2 ? under_list : list)[(k & 1 ? BinLayout::kRound : 0) + slot] = point;
    };
    std::uint32_t order = 0;  // among the block's points, a byte for each tile
    if (near) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const unsigned active = __ballot_sync(~0u, which[k]);
        if (!which[k]) continue;
        const int there = local + (k & 1) + (k & 2 ? across : 0);
        const unsigned same = __match_any_sync(active, there);
        const int first = __ffs(static_cast<int>(same)) - 1;
        std::uint32_t from = 0;
        if (lane == first) from = atomicAdd(&s.count[there], static_cast<unsigned>(__popc(same)));
        order |= (__shfl_sync(active, from, first) +
                  static_cast<std::uint32_t>(__popc(same & ((1u << lane) - 1))))
                 << (8 * k);
      }
      __syncthreads();
      if (tid < PlaceShared::kMost && s.count[tid] > 0) {
        const int row = tid / across;
        const std::int64_t to = n * a.tiles + static_cast<std::int64_t>(s.low_y + row) * a.across +
                                s.low_x + (tid - row * across);
        s.start[tid] = atomicAdd(a.bins.placed + to * BinLayout::kApart, s.count[tid]);
      }
    } else {
      std::uint32_t slot[4];
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (which[k])
          slot[k] = atomicAdd(
              a.bins.placed + (tile + (k & 1) + (k & 2 ? a.across : 0)) * BinLayout::kApart, 1u);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (which[k]) put(k, slot[k]);
    }
    if constexpr (kFew > 0) {
      const SlopePoint<T, C> p(a, n, at, x.base, y.base, x.upper, y.upper);
      C along_x, along_y;
      if (__all_sync(~0u, p.inside == 15u))
        sum_few<true, kFew>(a, p, along_x, along_y);
      else
        sum_few<false, kFew>(a, p, along_x, along_y);
      if (valid) put_slopes(a, n, at, x.slope, along_x, y.slope, along_y);
    }
    if (near) {
      __syncthreads();
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (which[k])
          put(k, s.start[local + (k & 1) + (k & 2 ? across : 0)] + (order >> (8 * k) & 255));
    }
    if (n + gridDim.z < a.frame.batch) __syncthreads();
  }
}

}  // namespace planck::sample_device
