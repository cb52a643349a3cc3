// The points of the output put into the lists of the tiles that they add to (bins.cuh), in any
// order. Of few channels, dgrid on the way: what a point needs for one is most of what it needs for
// the other.
#pragma once

#include "planck/ops/grid_sample/cuda/slopes.tile.cuh"

namespace planck::sample_device {

// Places in the list of a tile for those of a warp's points that are in it: one addition for all of
// them. It starts here, and its result is awaited when a place is needed.
struct Places {
  std::uint32_t from = 0;
  unsigned same = 0;  // lanes with the same tile; none where this one has no place

  __device__ __forceinline__ Places(bool some, std::uint32_t* counters, std::int32_t tile) {
    const unsigned active = __ballot_sync(~0u, some);
    if (!some) return;
    same = __match_any_sync(active, tile);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == __ffs(static_cast<int>(same)) - 1)
      from = atomicAdd(counters + std::int64_t{tile} * BinLayout::kApart,
                       static_cast<unsigned>(__popc(same)));
  }
  // By the whole warp.
  __device__ __forceinline__ std::uint32_t place() const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return __shfl_sync(~0u, from, (__ffs(static_cast<int>(same)) + 31) % 32) +
           static_cast<std::uint32_t>(__popc(same & ((1u << lane) - 1)));
  }
};

// One block per 32 × 8 points. kFew: also dgrid, of as many channels, or of up to four where it is
// 4; positions are joined.
template <class T, bool kZeros, int kFew>
__global__ void __launch_bounds__(256, sizeof(Compute<T>) == 8 ? 1
                                       : kFew == 0             ? 8
                                                               : 6)
    place_points(const __grid_constant__ TileCall<T> a) {
  using C = Compute<T>;
  using Tiles = TileBins<T, kZeros>;
  wait_for_previous();
  const int tid = static_cast<int>(threadIdx.x), lane = tid % 32;
  const int down = static_cast<int>(a.out_across.quotient(blockIdx.x));
  const int along = static_cast<int>(blockIdx.x) - down * static_cast<int>(a.out_across.value);
  const int width = static_cast<int>(a.frame.out[2]), height = static_cast<int>(a.frame.out[1]);
  const int ox = along * 32 + lane, oy = down * 8 + tid / 32;
  const bool valid = ox < width && oy < height;
  const int y = min(oy, height - 1), x = min(ox, width - 1), point = y * width + x;
  const OutputAt at = kFew > 0 ? OutputAt{0, 0, point} : OutputAt{0, y, x};
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    C g[3];
    coordinates<2>(a.grid, n, at, g);
    FewValues<kFew, C> dout;
    if constexpr (kFew > 0) dout.load(a, n, at);
    const auto tx = taps_of<kZeros>(g[0], a.frame.axis[0]);
    const auto ty = taps_of<kZeros>(g[1], a.frame.axis[1]);
    if (a.neighbours != nullptr && blockIdx.x % 16 == 0) {
      const int dx = tx.base - __shfl_up_sync(~0u, tx.base, 1);
      const int dy = ty.base - __shfl_up_sync(~0u, ty.base, 1);
      const bool looked = valid && lane > 0;
      const unsigned seen = __ballot_sync(~0u, looked);
      const unsigned far = __ballot_sync(~0u, looked && (abs(dx) > 4 || abs(dy) > 4));
      if (lane == 0)
        atomicAdd(a.neighbours, static_cast<Neighbours>(__popc(seen)) << 32 |
                                    static_cast<Neighbours>(__popc(far)));
    }
    const auto in_x = Tiles::span(tx.base, a.frame.axis[0], 5);
    const auto in_y = Tiles::span(ty.base, a.frame.axis[1], 3);
    const bool some = valid && in_x.high >= in_x.low && in_y.high >= in_y.low;
    const bool right = some && in_x.high > in_x.low, under = some && in_y.high > in_y.low;
    const std::int32_t tile = in_y.low * a.across + in_x.low;
    std::uint32_t* const counters = a.bins.placed + n * a.tiles * BinLayout::kApart;
    std::uint32_t* const lists = a.bins.lists + n * a.tiles * BinLayout::kRound;
    const auto put = [&](const Places& places, std::int32_t in) {
      if (!__any_sync(~0u, places.same != 0)) return;
      const std::uint32_t place = places.place();
      if (places.same != 0 && place < static_cast<unsigned>(BinLayout::kRound))
        lists[std::int64_t{in} * BinLayout::kRound + place] = static_cast<std::uint32_t>(point);
    };
    const Places here(some, counters, tile), beside(right, counters, tile + 1),
        below(under, counters, tile + a.across);
    if (__any_sync(~0u, right && under))
      put(Places(right && under, counters, tile + a.across + 1), tile + a.across + 1);
    if constexpr (kFew > 0) {
      const SlopePoint<T, C> p(a, n, at, tx.base, ty.base, tx.upper, ty.upper);
      C along_x, along_y;
      if (__all_sync(~0u, p.inside == 15u))
        sum_few<true, kFew>(a, p, dout, along_x, along_y);
      else
        sum_few<false, kFew>(a, p, dout, along_x, along_y);
      if (valid) put_slopes(a, n, at, tx.slope, along_x, ty.slope, along_y);
    }
    put(here, tile);
    put(beside, tile + 1);
    put(below, tile + a.across);
  }
}

}  // namespace planck::sample_device
