// Backward of 2-D bilinear sampling by tiles (tiles.cuh): after the sort, every thread reads what
// it needs from memory on its own, and the first-level cache serves the overlap. No barrier holds
// the warps together while they go through the channels. For grids whose neighbours read near each
// other.
#pragma once

#include "planck/ops/grid_sample/cuda/slopes.tile.cuh"

namespace planck::sample_device {

// Channels of one element in memory; those past `count` are left 0.
template <int kChannels, class T, class C>
__device__ __forceinline__ void fetch(const T* p, std::int64_t step, int count, C (&v)[kChannels]) {
  if (count >= kChannels) {
#pragma unroll
    for (int k = 0; k < kChannels; ++k) {
      v[k] = load(p);
      p += step;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kChannels; ++k) v[k] = k < count ? load(p + k * step) : C(0);
  }
}

// The same the other way, added to what is there or not.
template <int kChannels, class T, class C>
__device__ __forceinline__ void put(T* p, std::int64_t step, int count, bool accumulate,
                                    const C (&v)[kChannels]) {
  if (count >= kChannels && !accumulate) {
#pragma unroll
    for (int k = 0; k < kChannels; ++k) {
      *p = narrow<T>(v[k]);
      p += step;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kChannels; ++k)
      if (k < count) {
        T* const to = p + k * step;
        *to = narrow<T>(accumulate ? widen(*to) + v[k] : v[k]);
      }
  }
}

// One element of dinput, kChannels at a time, `channels` in all.
template <bool kLong, Reached kReached, int kChannels, class T, class C>
__device__ __forceinline__ void gather_channels(const TileCall<T>& a, const TilePoints<C>& s,
                                                const Reach& r, const T* dout, T* dinput,
                                                int channels) {
#pragma unroll 1
  for (int c = 0; c < channels; c += kChannels) {
    const int left = channels - c;
    const auto load_point = [&](int slot, C(&v)[kChannels]) {
      const std::uint32_t point = s.sorted[slot];
      if constexpr (kReached == Reached::joined)
        fetch(dout + std::int64_t{static_cast<std::int32_t>(point)} * a.dout_step, a.dout.c, left,
              v);
      else
        fetch(dout + offset_in(a.dout, 0, output_at<2>(a.frame, point)), a.dout.c, left, v);
    };
    C sum[kChannels];
    sum_points<kLong, 1>(s, r, load_point, sum);
    put(dinput, a.dinput.c, left, a.accumulate, sum);
    dout += kChannels * a.dout.c;
    dinput += kChannels * a.dinput.c;
  }
}

// ---- dout by way of shared memory ----

inline constexpr int kKept = 8;  // contributions of an element that are kept in registers

// What a thread adds to its element.
template <class C>
struct KeptPoints {
  unsigned slots[kKept / 2];  // two of them each
  C weight[kKept];
  int count;

  __device__ __forceinline__ KeptPoints(const TilePoints<C>& s, const Reach& r, bool valid)
      : count(valid ? r.count() : 0) {
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      Contribution<C> c = {0, C(0)};
      if (i < count) c = contribution(s, r, i);
      const auto slot = static_cast<unsigned>(c.slot);
      slots[i / 2] = i % 2 == 0 ? slot : slots[i / 2] | slot << 16;
      weight[i] = c.weight;
    }
  }
  __device__ __forceinline__ unsigned slot(int i) const {
    return i % 2 == 0 ? slots[i / 2] & 0xffff : slots[i / 2] >> 16;
  }
};

// Channels of a point that are brought to shared memory at a time. f16 and bf16: 8 bytes, because
// what is prefetched takes one register per channel.
template <class T>
inline constexpr int kStagedChannels = sizeof(T) == 8 ? 2 : 4;

// A row of them.
template <class T>
struct StagedRow {
  static constexpr int kWords = kStagedChannels<T> * static_cast<int>(sizeof(T)) / 4;
  alignas(4 * kWords) unsigned word[kWords];

  __device__ __forceinline__ explicit StagedRow(const T (&v)[kStagedChannels<T>]) {
#pragma unroll
    for (int k = 0; k < kWords; ++k) {
      if constexpr (sizeof(T) == 2)
        word[k] = v[2 * k].bits | static_cast<unsigned>(v[2 * k + 1].bits) << 16;
      else if constexpr (sizeof(T) == 4)
        word[k] = __float_as_uint(v[k]);
      else
        word[k] =
            static_cast<unsigned>(k % 2 == 0 ? __double2loint(v[k / 2]) : __double2hiint(v[k / 2]));
    }
  }
  __device__ __forceinline__ Compute<T> channel(int e) const {
    if constexpr (sizeof(T) == 2)
      return widen(T::from_bits(static_cast<std::uint16_t>(word[e / 2] >> (16 * (e % 2)))));
    else if constexpr (sizeof(T) == 4)
      return __uint_as_float(word[e]);
    else
      return __hiloint2double(static_cast<int>(word[2 * e + 1]), static_cast<int>(word[2 * e]));
  }
};

// Some channels at a time: every thread brings those of its points, which lie next to each other in
// the order of the list, to where the points were sorted to. Two rounds of rows: one barrier per
// round. What is fetched ahead stays in registers of its own: combining 16-bit values would wait
// for them.
template <class T, class C>
__device__ __forceinline__ void gather_staged(const TileCall<T>& a, const OwnPoints& own,
                                              const KeptPoints<C>& kept, StagedRow<T>* rows,
                                              const T* dout, T* dinput, bool written) {
  constexpr int kVector = kStagedChannels<T>, kSlots = OwnPoints::kSlots;
  const int channels = static_cast<int>(a.frame.channels);
  const int most = __reduce_max_sync(~0u, kept.count);
  const T* from[kSlots];
#pragma unroll
  for (int k = 0; k < kSlots; ++k)
    from[k] =
        dout +
        (own.slot[k] < 0 ? 0 : std::int64_t{static_cast<std::int32_t>(own.point[k])} * a.dout_step);
  T next[kSlots][kVector];
  const auto fetch_next = [&](int left) {
#pragma unroll
    for (int k = 0; k < kSlots; ++k) {
      if (own.slot[k] < 0) continue;
#pragma unroll
      for (int e = 0; e < kVector; ++e) {
        if (e < left) next[k][e] = from[k][0];
        from[k] += a.dout.c;
      }
    }
  };
  fetch_next(channels);
  int round = 0;
#pragma unroll 1
  for (int c = 0; c < channels; c += kVector, round ^= BinLayout::kRound) {
#pragma unroll
    for (int k = 0; k < kSlots; ++k)
      if (own.slot[k] >= 0) rows[round + own.slot[k]] = StagedRow<T>(next[k]);
    __syncthreads();
    const int left = channels - c;
    fetch_next(left - kVector);
    C sum[kVector];
#pragma unroll
    for (int e = 0; e < kVector; ++e) sum[e] = C(-0.0);
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (i >= most) break;
      if (i < kept.count) {
        const StagedRow<T> r = rows[static_cast<unsigned>(round) + kept.slot(i)];
#pragma unroll
        for (int e = 0; e < kVector; ++e) sum[e] = sum[e] + kept.weight[i] * r.channel(e);
      }
    }
    if (kept.count == 0) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) sum[e] = C(0);
    }
    if (written) put(dinput, a.dinput.c, left, a.accumulate, sum);
    dinput += kVector * a.dinput.c;
  }
}

// ---- kernel ----

template <class T, bool kStaged>
union DirectShared {
  TilePoints<Compute<T>> points;
  unsigned char rows[kStaged ? 2 * BinLayout::kRound * sizeof(StagedRow<T>) : 1];
};

// One block in two has a tile of dinput, the other one (kSlopes) a tile of the output's points:
// both read dout, at about the same time. kUnit: the input's neighbours along x lie next to each
// other. kChannels: at a time.
template <class T, int kChannels, bool kSlopes, Reached kReached, bool kUnit, bool kZeros,
          int kBlocks>
__global__ void __launch_bounds__(256, kBlocks)
    backward_direct(const __grid_constant__ TileCall<T> a) {
  using C = Compute<T>;
  constexpr bool kStaged = kReached == Reached::joined;
  __shared__ __align__(16) unsigned char memory[sizeof(DirectShared<T, kStaged>)];
  auto& s = reinterpret_cast<DirectShared<T, kStaged>*>(memory)->points;
  wait_for_previous();
  if (is_not_meant(a)) return;
  const int tile = static_cast<int>(kSlopes ? blockIdx.x / 2 : blockIdx.x);
  if (kSlopes && blockIdx.x % 2 == 1) {
    tile_slopes<kUnit, kZeros>(a, tile);
    return;
  }
  if (tile >= a.tiles) return;
  const int tid = static_cast<int>(threadIdx.x);
  const int tile_y = tile / a.across, tile_x = tile - tile_y * a.across;
  const int x0 = tile_x * BinLayout::kTileWidth, y0 = tile_y * BinLayout::kTileHeight;
  const int x = x0 + tid % BinLayout::kTileWidth, y = y0 + tid / BinLayout::kTileWidth;
  const bool valid = x < a.frame.axis[0].size && y < a.frame.axis[1].size;
  const int channels = static_cast<int>(a.frame.channels);
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    OwnPoints own;
    if (!sort_tile<kReached, kZeros>(a, s.cells, n, tile, x0, y0, own, CarriedWeights<C>{s}))
      continue;
    const Reach reach = reach_of(s.cells, tid);
    const bool written = valid && !(a.accumulate && reach.count() == 0);
    T* dinput = a.dinput.data + n * a.dinput.n + y * a.dinput.y + x * a.dinput.x;
    const T* dout = a.dout.data + n * a.dout.n;
    bool staged = false;
    if constexpr (kStaged) {
      const KeptPoints<C> kept(s, reach, valid);
      staged = __syncthreads_or(kept.count > kKept) == 0;
      if (staged)
        gather_staged(a, own, kept, reinterpret_cast<StagedRow<T>*>(memory), dout, dinput, written);
    }
    if (!staged && written) {
      if (reach.count() <= kSumChunk)
        gather_channels<false, kReached, kChannels>(a, s, reach, dout, dinput, channels);
      else
        gather_channels<true, kReached, 4>(a, s, reach, dout, dinput, channels);
    }
    __syncthreads();
  }
}

}  // namespace planck::sample_device
