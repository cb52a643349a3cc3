// The points of the output put into the lists of the tiles that they add to (bins.cuh), in any
// order. Of few channels, dgrid on the way: what a point needs for one is most of what it needs for
// the other.
#pragma once

#include "planck/ops/grid_sample/slopes.tile.cuh"

namespace planck::sample_device {

// One warp's points into list `bin` of those for which `some` is true.
__device__ __forceinline__ void append(const BinCall& t, std::int64_t image, std::int32_t bin,
                                       bool some, std::uint32_t point) {
  const unsigned active = __ballot_sync(~0u, some);
  if (!some) return;
  const unsigned same = __match_any_sync(active, bin);
  const int first = __ffs(static_cast<int>(same)) - 1, lane = static_cast<int>(threadIdx.x) % 32;
  std::uint32_t slot = 0;
  if (lane == first)
    slot = atomicAdd(t.placed + (image + bin), static_cast<unsigned>(__popc(same)));
  slot = __shfl_sync(active, slot, first) +
         static_cast<std::uint32_t>(__popc(same & ((1u << lane) - 1)));
  if (slot < static_cast<unsigned>(BinLayout::kRound))
    t.lists[(image + bin) * BinLayout::kRound + slot] = point;
}

// A block 32 × 8 points. kFew: also dgrid, of as many channels, or of up to four where it is 4.
template <class T, bool kZeros, int kFew>
__global__ void __launch_bounds__(256) place_points(const __grid_constant__ TileCall<T> a) {
  using C = Compute<T>;
  wait_for_previous();
  const int tid = static_cast<int>(threadIdx.x), lane = tid % 32;
  const int down = static_cast<int>(a.out_across.quotient(blockIdx.x));
  const int along = static_cast<int>(blockIdx.x) - down * static_cast<int>(a.out_across.value);
  const int width = static_cast<int>(a.frame.out[2]), height = static_cast<int>(a.frame.out[1]);
  const int ox = along * 32 + lane, oy = down * 8 + tid / 32;
  const bool valid = ox < width && oy < height;
  const OutputAt at = {0, min(oy, height - 1), min(ox, width - 1)};
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    C g[3];
    coordinates<2>(a.grid, n, at, g);
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
    std::int32_t bins[4];
    unsigned which = TileBins<T, kZeros>::tiles(x.base, y.base, a.frame, a.across, bins);
    if (!valid) which = 0;
    const auto point = static_cast<std::uint32_t>(oy * width + ox);
    append(a.bins, n * a.tiles, bins[0], which & 1, point);
#pragma unroll
    for (int k = 1; k < 4; ++k)
      if (__any_sync(~0u, which >> k & 1))
        append(a.bins, n * a.tiles, bins[k], which >> k & 1, point);
    if constexpr (kFew > 0) {
      const SlopePoint<T, C> p(a, n, at, x.base, y.base, x.upper, y.upper);
      C along_x, along_y;
      if (__all_sync(~0u, p.inside == 15u))
        sum_few<true, kFew>(a, p, along_x, along_y);
      else
        sum_few<false, kFew>(a, p, along_x, along_y);
      if (valid) put_slopes(a, n, at, x.slope, along_x, y.slope, along_y);
    }
  }
}

}  // namespace planck::sample_device
