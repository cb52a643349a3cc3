// cross_entropy of dense rows, each read once: its terms wait for no largest element where all lie
// between −64 and 64, which is known afterwards (math/exp_terms.h). Other rows are read again.
//
// A warp goes through its share of a row in tiles, a tile in chunks of 128 runs of 16 bytes; a lane
// has neighbouring runs in pairs. Lanes, then pairs, tiles and warps are the canonical tree. The
// next chunk of a tile is loaded meanwhile.
//
// On an H200, f32 [16384, 4096] and bf16 [2048, 32768]; reading takes 61 and 32 us:
//   f32   bf16
//   71 us 63 us  a row in the registers of a block: the largest element first, then exponentials
//   67 us 44 us  terms that wait for nothing
// bf16 is bound by its instructions, 13 per element. Tried, no faster: blocks that stay, with the
// next row under way; 16-bit floats widened by the tensor cores, or n and r found there.
#pragma once

#include "planck/ops/softmax/cuda/entropy.cuh"

namespace planck::row_device {

// The largest and the least of a thread's elements; NaN is the largest.
template <class T>
struct Span : Extremes<T> {
  __device__ __forceinline__ void take(const Pack<16> (&p)[4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k) this->add(p[k]);
    if (!__any_sync(~0u, this->all_negative())) return;
#pragma unroll
    for (int k = 0; k < 4; ++k) this->add_negative(p[k]);
  }
};
template <>
struct Span<float> {
  float high[2] = {-INFINITY, -INFINITY}, low[2] = {INFINITY, INFINITY};

  __device__ __forceinline__ void take(const Pack<16> (&p)[4]) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float v = element_of<float>(p[k], e);
        high[e % 2] = larger(high[e % 2], v);
        low[e % 2] = fminf(low[e % 2], v);
      }
  }
  __device__ __forceinline__ float largest() const { return larger(high[0], high[1]); }
  __device__ __forceinline__ float least() const { return fminf(low[0], low[1]); }
};

// A warp's share of a row, by tiles.
inline constexpr int kChunkRuns = 4 * 32;
template <class T>
inline constexpr int kTileChunks = sizeof(T) == 2 ? 4 : 2;
template <class T>
struct StreamedShare {
  static constexpr int kRun = 16 / static_cast<int>(sizeof(T)), kChunks = kTileChunks<T>;
  static constexpr int kTileRuns = kChunks * kChunkRuns;
  const uint4* from;  // this lane's first run
  std::int64_t runs;  // that are there
  int lane;

  // The canonical sum of term(x); seen(packs, whether they are the first) is called with all
  // elements, while those after them are being loaded. kWhole: whole tiles have code of their own.
  template <bool kWhole, class F, class S>
  __device__ __forceinline__ float sum(const F& term, const S& seen) const {
    if (runs <= 0) return -0.0f;
    const int tiles = static_cast<int>(ceil_div(runs, kTileRuns));
    float kept = -0.0f, digits[32];  // kept: lane l has the sum of tile l
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) {
      const std::int64_t begin = static_cast<std::int64_t>(tile) * kTileRuns;
      const bool whole = kWhole && begin + kTileRuns <= runs;
      const float sum = whole ? sum_of<true>(begin, term, seen) : sum_of<false>(begin, term, seen);
      if (tiles == 1) return sum;
      if (lane == tile % 32) kept = sum;
      const bool last = tile + 1 == tiles;
      if (tile % 32 < 31 && !last) continue;
      for (int bit = 1; bit < 32; bit *= 2) kept += across(kept, bit);
      int turn = tile / 32, d = 0;
      for (; turn & 1; turn /= 2) kept = digits[d++] + kept;
      if (last) {
        for (; turn > 0; turn /= 2, ++d)
          if (turn & 1) kept = digits[d] + kept;
      } else {
        digits[d] = kept;
        kept = -0.0f;
      }
    }
    return kept;
  }

 private:
  template <bool kWhole, class F, class S>
  __device__ __forceinline__ float sum_of(std::int64_t begin, const F& term, const S& seen) const {
    // Runs 2 lane, 2 lane + 1, 64 + 2 lane and 64 + 2 lane + 1 of a chunk.
    const auto place = [](int chunk, int k) { return chunk * kChunkRuns + 64 * (k / 2) + k % 2; };
    const auto there = [&](int chunk, int k) {
      return kWhole || begin + place(chunk, k) + 2 * lane < runs;
    };
    Pack<16> p[2][4];
    const auto load = [&](int chunk) {  // the share's first run for what is not there
#pragma unroll
      for (int k = 0; k < 4; ++k)
        p[chunk % 2][k] = load_pack<16, true>(
            there(chunk, k) ? from + begin + place(chunk, k) : from - 2 * lane, 0);
    };
    float pairs[2 * kChunks];
    load(0);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (c + 1 < kChunks) load(c + 1);
      seen(p[c % 2], c == 0 && begin == 0);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        float v[kRun];
#pragma unroll
        for (int e = 0; e < kRun; ++e) v[e] = term(element_of<T>(p[c % 2][k], e));
        const float all = reduce_device::join_run<rm::Add>(v), sum = there(c, k) ? all : -0.0f;
        float& pair = pairs[2 * c + k / 2];
        pair = k % 2 == 0 ? sum : pair + sum;
      }
    }
    return join_lanes<rm::Add, 2 * kChunks, float>(pairs);
  }
};

// Rows of this length and longer are streamed, one tile per warp while 16 warps are enough.
inline constexpr std::int64_t kStreamed = 2048;
template <class T>
void cut_stream(EntropyArguments<T, RowWay::held>& a) {
  const std::int64_t tiles = ceil_div(a.shape.runs, StreamedShare<T>::kTileRuns);
  a.shape.way = RowWay::dense;
  a.shape.warps = a.tiles = 1;
  while (a.shape.warps < 16 && a.shape.warps < tiles) a.shape.warps *= 2;
  while (static_cast<std::int64_t>(a.shape.warps) * a.tiles < tiles) a.tiles *= 2;
}

template <class T>
__global__ void __maxnreg__(64) entropy_streamed(const EntropyArguments<T, RowWay::dense> a) {
  __shared__ float sums[kMostWarps];
  __shared__ std::int32_t keys[kMostWarps];
  const int warps = a.shape.warps, lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const std::int64_t row = warps == 1
                               ? static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + warp
                               : static_cast<std::int64_t>(blockIdx.x);
  if (warps == 1 && row >= a.shape.rows) return;
  const std::int64_t each = static_cast<std::int64_t>(a.tiles) * StreamedShare<T>::kTileRuns;
  const std::int64_t begin = warps == 1 ? 0 : warp * each;
  const StreamedShare<T> share{reinterpret_cast<const uint4*>(a.in[0].row(row)) + begin + 2 * lane,
                               min(each, a.shape.runs - begin), lane};
  // A block of f32 ends so soon that the target's element has to be loaded before the terms; else
  // it is cheaper not to interrupt them.
  constexpr bool kEarly = sizeof(T) == 4;
  const bool leads = (warps == 1 ? lane : static_cast<int>(threadIdx.x)) == 0;
  TargetLogit<T> target;
  if (leads) target.ask(a, row);
  Span<T> span;
  float part = share.template sum<true>([](float x) { return term_near(x); },
                                        [&](const Pack<16>(&p)[4], bool first) {
                                          if (kEarly && first && leads) target.find(a, row);
                                          span.take(p);
                                        });
  if (!kEarly && leads) target.find(a, row);
  float most = -INFINITY;
  bool near = true;
  if (share.runs > 0) {
    most = span.largest();
    near = most < 64.0f && span.least() > -64.0f;
  }
  std::int32_t key = __reduce_max_sync(~0u, rm::key_of(most, 0));
  near = __all_sync(~0u, near);
  const auto join = [&] {
    part = sums[lane & (warps - 1)];
    for (int bit = 1; bit < warps; bit *= 2) part += across(part, bit);
  };
  if (warps > 1) {
    if (lane == 0) {
      sums[warp] = part;
      keys[warp] = key;
    }
    near = __syncthreads_and(near);
    if (near && warp > 0) return;
    key = __reduce_max_sync(~0u, keys[lane & (warps - 1)]);
    join();
  }
  const float largest = rm::value_of<float>(key, 0);
  const float center = near ? 0.0f : math::center_of_terms(largest);
  if (!near) {
    part = share.template sum<false>([&](float x) { return math::exp_term(x - center); },
                                     [](const Pack<16>(&)[4], bool) {});
    if (warps > 1) {
      __syncthreads();  // all have read the sums
      if (lane == 0) sums[warp] = part;
      __syncthreads();
      join();
    }
  }
  if (leads) target.finish(a, row, largest, center, part);
}

}  // namespace planck::row_device
