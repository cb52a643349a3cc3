// dinput of up to four channels, by tiles (tiles.cuh): dout goes with the points to where they are
// sorted to, and elements are summed from shared memory alone.
#pragma once

#include "planck/ops/grid_sample/tiles.direct.cuh"

namespace planck::sample_device {

// Up to four channels of dout go with their points.
template <class T>
struct FewRow {
  static constexpr int kMost = 4;
  alignas(16) Compute<T> v[kMost];
};
template <int kFew, class T>
struct CarriedChannels {
  static constexpr bool kEager = true;
  using C = Compute<T>;
  const TileCall<T>& a;
  const T* dout;  // of the image
  FewRow<T>* rows;
  C v[OwnPoints::kSlots][FewRow<T>::kMost] = {};

  __device__ __forceinline__ CarriedChannels(const TileCall<T>& call, std::int64_t n, FewRow<T>* to)
      : a(call), dout(call.dout.data + n * call.dout.n), rows(to) {}
  __device__ __forceinline__ void fetch(int k, std::uint32_t point) {
    const T* p = dout + std::int64_t{static_cast<std::int32_t>(point)} * a.dout_step;
#pragma unroll
    for (int e = 0; e < kFew; ++e) {
      if (kFew != 4 || e < a.frame.channels) v[k][e] = load(p);
      p += a.dout.c;
    }
  }
  __device__ __forceinline__ void put(int k, int slot, std::uint32_t) {
    store_row<FewRow<T>::kMost>(rows[slot].v, v[k]);
  }
};

// The sum of one run of contributions, which goes on from `sum`: points [from, middle) with tap
// kTap, [middle, to) with the next one.
template <int kTap, int kFew, class T, class C>
__device__ __forceinline__ void add_run(const TilePoints<C>& s, const FewRow<T>* rows, int from,
                                        int middle, int to, C (&sum)[kFew]) {
#pragma unroll 1
  for (int slot = from; slot < to; ++slot) {
    const C w = s.weight[slot * 4 + (slot >= middle ? kTap + 1 : kTap)];
    const FewRow<T> row = rows[slot];
#pragma unroll
    for (int e = 0; e < kFew; ++e) sum[e] = sum[e] + w * row.v[e];
  }
}

// All channels of one element of dinput.
template <int kFew, class T, class C>
__device__ __forceinline__ void gather_few(const TileCall<T>& a, const TilePoints<C>& s,
                                           const FewRow<T>* rows, const Reach& r, T* dinput) {
  C sum[kFew];
  if (r.count() <= kSumChunk) {
#pragma unroll
    for (int e = 0; e < kFew; ++e) sum[e] = r.count() == 0 ? C(0) : C(-0.0);
    add_run<0>(s, rows, r.a0, r.a1, r.a2, sum);
    add_run<2>(s, rows, r.b0, r.b1, r.b2, sum);
  } else {
    const auto load_row = [&](int slot, C(&v)[kFew]) {
      const FewRow<T> row = rows[slot];
#pragma unroll
      for (int e = 0; e < kFew; ++e) v[e] = row.v[e];
    };
    sum_points<true, 1>(s, r, load_row, sum);
  }
  put(dinput, a.dinput.c, kFew == 4 ? static_cast<int>(a.frame.channels) : kFew, a.accumulate, sum);
}

template <class T>
struct FewShared {
  TilePoints<Compute<T>> points;
  FewRow<T> rows[BinLayout::kRound];
};

// kFew: channels, or up to four where it is 4; positions are joined.
template <class T, int kFew, bool kZeros, int kBlocks>
__global__ void __launch_bounds__(256, kBlocks)
    backward_few(const __grid_constant__ TileCall<T> a) {
  __shared__ __align__(16) unsigned char memory[sizeof(FewShared<T>)];
  FewShared<T>& s = *reinterpret_cast<FewShared<T>*>(memory);
  wait_for_previous();
  const int tid = static_cast<int>(threadIdx.x), tile = static_cast<int>(blockIdx.x);
  const int tile_y = tile / a.across, tile_x = tile - tile_y * a.across;
  const int x0 = tile_x * BinLayout::kTileWidth, y0 = tile_y * BinLayout::kTileHeight;
  const int x = x0 + tid % BinLayout::kTileWidth, y = y0 + tid / BinLayout::kTileWidth;
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    OwnPoints own;
    if (!sort_tile<Reached::joined, kZeros>(a, s.points, n, tile, x0, y0, own,
                                            CarriedChannels<kFew, T>(a, n, s.rows)))
      continue;
    const Reach reach = reach_of(s.points, tid);
    if (x < a.frame.axis[0].size && y < a.frame.axis[1].size &&
        !(a.accumulate && reach.count() == 0))
      gather_few<kFew>(a, s.points, s.rows, reach,
                       a.dinput.data + n * a.dinput.n + y * a.dinput.y + x * a.dinput.x);
    __syncthreads();
  }
}

}  // namespace planck::sample_device
