// dinput of up to four channels, by tiles (tiles.cuh): dout goes with the points to where they are
// sorted to, and elements are summed from shared memory alone.
#pragma once

#include "planck/ops/grid_sample/cuda/tiles.direct.cuh"

namespace planck::sample_device {

// Points sorted by cell, then position: how far they are from the element up and left of them, and
// their channels of dout. Threads read those of neighbouring slots: 16 bytes at once, then the
// rest.
template <class C, int kFew>
struct FewPoints {
  static constexpr int kRest = kFew - 2;
  alignas(16) C first[BinLayout::kRound * 4];  // tx, ty, channels 0 and 1
  alignas(16) C rest[BinLayout::kRound * kRest];
  TileCells cells;
};

// kFew: channels, or up to four where it is 4.
template <int kFew, class T>
struct CarriedChannels {
  static constexpr bool kEager = true;
  using C = Compute<T>;
  const TileCall<T>& a;
  const T* dout;  // of the image
  FewPoints<C, kFew>& s;
  C v[OwnPoints::kSlots][kFew] = {};

  __device__ __forceinline__ CarriedChannels(const TileCall<T>& call, std::int64_t n,
                                             FewPoints<C, kFew>& to)
      : a(call), dout(call.dout.data + n * call.dout.n), s(to) {}
  __device__ __forceinline__ void fetch(int k, std::uint32_t point) {
    const T* p = dout + std::int64_t{static_cast<std::int32_t>(point)} * a.dout_step;
#pragma unroll
    for (int e = 0; e < kFew; ++e) {
      if (kFew != 4 || e < a.frame.channels) v[k][e] = load(p);
      p += a.dout.c;
    }
  }
  __device__ __forceinline__ void put(int k, int slot, std::uint32_t, C tx, C ty) {
    const C first[4] = {tx, ty, v[k][0], v[k][1]};
    store_row<4>(s.first + slot * 4, first);
#pragma unroll
    for (int e = 2; e < kFew; ++e) s.rest[slot * s.kRest + e - 2] = v[k][e];
  }
};

// The sum of an element's contributions, one after the other. kLong: there may be more than one
// chunk. −0 is what leaves every number as it is when added to it.
template <bool kLong, int kFew, class C>
struct FewSum {
  C sum[kFew], outer[kLong ? kFew : 1];
  int count = 0;

  __device__ __forceinline__ FewSum() {
#pragma unroll
    for (int e = 0; e < kFew; ++e) sum[e] = outer[kLong ? e : 0] = C(-0.0);
  }
  // A run of points: [from, middle) with their upper tap along x, [middle, to) with the lower one;
  // all with the upper one along y, or (kUnder) the lower.
  template <bool kUnder>
  __device__ __forceinline__ void add(const FewPoints<C, kFew>& s, int from, int middle, int to) {
#pragma unroll 1
    for (int slot = from; slot < to; ++slot) {
      const auto first = *reinterpret_cast<const Vector<C, 4>*>(s.first + slot * 4);
      const C wx = slot < middle ? first.v[0] : C(1) - first.v[0];
      const C w = wx * (kUnder ? C(1) - first.v[1] : first.v[1]);
      if (kLong && count > 0 && count % kSumChunk == 0) {
#pragma unroll
        for (int e = 0; e < kFew; ++e) {
          outer[kLong ? e : 0] = outer[kLong ? e : 0] + sum[e];
          sum[e] = C(-0.0);
        }
      }
      if (kLong) ++count;
#pragma unroll
      for (int e = 0; e < kFew; ++e)
        sum[e] = sum[e] + w * (e < 2 ? first.v[2 + e % 2] : s.rest[slot * s.kRest + e - 2]);
    }
  }
};

// All channels of one element of dinput.
template <bool kLong, int kFew, class T, class C>
__device__ __forceinline__ void gather_few(const TileCall<T>& a, const FewPoints<C, kFew>& s,
                                           const Reach& r, T* dinput) {
  FewSum<kLong, kFew, C> total;
  total.template add<false>(s, r.a0, r.a1, r.a2);
  total.template add<true>(s, r.b0, r.b1, r.b2);
#pragma unroll
  for (int e = 0; e < kFew; ++e) {
    if (kLong) total.sum[e] = total.outer[kLong ? e : 0] + total.sum[e];
    if (r.count() == 0) total.sum[e] = C(0);
  }
  put(dinput, a.dinput.c, kFew == 4 ? static_cast<int>(a.frame.channels) : kFew, a.accumulate,
      total.sum);
}

// kFew: as in CarriedChannels; positions are joined.
template <class T, int kFew, bool kZeros, int kBlocks>
__global__ void __launch_bounds__(256, kBlocks)
    backward_few(const __grid_constant__ TileCall<T> a) {
  using Shared = FewPoints<Compute<T>, kFew>;
  __shared__ __align__(16) unsigned char memory[sizeof(Shared)];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  wait_for_previous();
  const int tid = static_cast<int>(threadIdx.x), tile = static_cast<int>(blockIdx.x);
  const int tile_y = tile / a.across, tile_x = tile - tile_y * a.across;
  const int x0 = tile_x * BinLayout::kTileWidth, y0 = tile_y * BinLayout::kTileHeight;
  const int x = x0 + tid % BinLayout::kTileWidth, y = y0 + tid / BinLayout::kTileWidth;
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    OwnPoints own;
    if (!sort_tile<Reached::joined, kZeros>(a, s.cells, n, tile, x0, y0, own,
                                            CarriedChannels<kFew, T>(a, n, s)))
      continue;
    const Reach reach = reach_of(s.cells, tid);
    T* const dinput = a.dinput.data + n * a.dinput.n + y * a.dinput.y + x * a.dinput.x;
    if (x < a.frame.axis[0].size && y < a.frame.axis[1].size &&
        !(a.accumulate && reach.count() == 0)) {
      if (reach.count() <= kSumChunk)
        gather_few<false, kFew>(a, s, reach, dinput);
      else
        gather_few<true, kFew>(a, s, reach, dinput);
    }
    __syncthreads();
  }
}

}  // namespace planck::sample_device
