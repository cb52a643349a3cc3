// The stable sort of an index: histograms of all digits, then one pass per digit.
//
// A tile is kSortThreads · kItems entries; warp w of a block holds entries [w · 32 · kItems, …) of
// it, item k of lane l is the entry at 32 · k + l, so that ranks follow the order of the entries.
#pragma once

#include "planck/loops/table/cuda/sorted_index.cuh"

namespace planck::table_device {

// ---- a tile's ranks --------------------------------------------------------------------------

// Lanes with the same digit of `bits` bits, those without one among themselves. Ballots bit by bit:
// match_any takes ten times as long where digits differ.
__device__ __forceinline__ unsigned peers_of(std::uint32_t digit, bool valid, int bits) {
  const unsigned all = __ballot_sync(~0u, valid);
  unsigned peers = valid ? all : ~all;
#pragma unroll 5
  for (int b = 0; b < bits; ++b) {
    const bool set = digit >> b & 1;
    const unsigned with = __ballot_sync(~0u, set);
    peers &= set ? with : ~with;
  }
  return peers;
}

// counts: [warps][bins], zero before. Gives the number of entries of the same digit before this
// one in its warp. Every lane must call; one that is not valid takes no part.
__device__ __forceinline__ std::uint32_t rank_in_warp(std::uint16_t* counts, std::uint32_t digit,
                                                      bool valid, unsigned peers) {
  const unsigned before = peers & ((1u << threadIdx.x % 32) - 1);
  const std::uint32_t old = valid ? counts[digit] : 0;
  __syncwarp();
  if (valid && before == 0) counts[digit] = static_cast<std::uint16_t>(old + __popc(peers));
  __syncwarp();
  return old + __popc(before);
}

// Turns a bin's counts into the entries of that bin in the warps before; returns their total.
__device__ __forceinline__ std::uint32_t scan_warps(std::uint16_t* counts, int bins, int bin) {
  std::uint32_t n[kSortWarps], sum = 0;
#pragma unroll
  for (int w = 0; w < kSortWarps; ++w) n[w] = counts[w * bins + bin];
#pragma unroll
  for (int w = 0; w < kSortWarps; ++w) {
    counts[w * bins + bin] = static_cast<std::uint16_t>(sum);
    sum += n[w];
  }
  return sum;
}

// Exclusive scan of values[0 … n), n <= kMaxBins, by a block of kSortThreads; returns the total.
// shared: one entry per warp.
__device__ __forceinline__ std::uint32_t scan_block(std::uint32_t* values, int n,
                                                    std::uint32_t* shared) {
  constexpr int kEach = kMaxBins / kSortThreads;
  static_assert(kEach == 2);
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
  const std::uint32_t a = 2 * t < n ? values[2 * t] : 0, b = 2 * t + 1 < n ? values[2 * t + 1] : 0;
  std::uint32_t sum = a + b;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const std::uint32_t other = __shfl_up_sync(~0u, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == 31) shared[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    std::uint32_t total = lane < kSortWarps ? shared[lane] : 0;
#pragma unroll
    for (int step = 1; step < kSortWarps; step *= 2) {
      const std::uint32_t other = __shfl_up_sync(~0u, total, step);
      if (lane >= step) total += other;
    }
    if (lane < kSortWarps) shared[lane] = total;
  }
  __syncthreads();
  const std::uint32_t before = (warp > 0 ? shared[warp - 1] : 0) + sum - a - b;
  if (2 * t < n) values[2 * t] = before;
  if (2 * t + 1 < n) values[2 * t + 1] = before + a;
  const std::uint32_t total = shared[kSortWarps - 1];
  __syncthreads();
  return total;
}

// ---- tiles before this one -------------------------------------------------------------------

// A tile's count of a bin, alone or with all tiles before it; 0: not yet known.
inline constexpr std::uint32_t kAlone = 1u << 30, kWithAll = 2u << 30, kCountMask = (1u << 30) - 1;

__device__ __forceinline__ std::uint32_t load_status(const std::uint32_t* p) {
  std::uint32_t v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_status(std::uint32_t* p, std::uint32_t v) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// Sum over the tiles before `tile`. status: of tile 0 and this bin; `bins` apart.
__device__ __forceinline__ std::uint32_t look_back(const std::uint32_t* status, std::int64_t tile,
                                                   int bins) {
  constexpr int kWindow = 16;
  std::uint32_t sum = 0;
  for (std::int64_t at = tile - 1; at >= 0;) {
    std::uint32_t seen[kWindow];
#pragma unroll
    for (int k = 0; k < kWindow; ++k)
      seen[k] = at >= k ? load_status(status + (at - k) * bins) : kWithAll;
    int k = 0;
#pragma unroll
    for (int j = 0; j < kWindow; ++j) {
      if (k != j || seen[j] == 0) continue;
      sum += seen[j] & kCountMask;
      if (seen[j] >= kWithAll) return sum;
      ++k;
    }
    at -= k;
  }
  return sum;
}

// ---- kernels ---------------------------------------------------------------------------------

__global__ void __launch_bounds__(kSortThreads)
    clear_index(uint4* zeroed, std::int64_t vectors, unsigned long long* bad) {
  if (bad != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *bad = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kSortThreads + threadIdx.x; i < vectors;
       i += std::int64_t{gridDim.x} * kSortThreads)
    zeroed[i] = uint4{};
}

// Adds to *to what the threads of a block counted.
__device__ __forceinline__ void add_bad(unsigned long long* to, std::uint32_t mine) {
  mine = __reduce_add_sync(~0u, mine);
  if (threadIdx.x % 32 == 0 && mine > 0) atomicAdd(to, static_cast<unsigned long long>(mine));
}

template <bool kWide>
__global__ void __launch_bounds__(kSortThreads)
    count_digits(const __grid_constant__ SortedIndex index, const __grid_constant__ Keys keys,
                 unsigned long long* bad) {
  // Three digits of 10 bits, four of 8, or seven of 10 of a wide key.
  __shared__ std::uint32_t counts[kMaxBins * (kWide ? kMaxPasses - 1 : 3)];
  const int bins = 1 << index.digit_bits, all = bins * index.passes;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kSortThreads) counts[i] = 0;
  __syncthreads();
  follow();
  std::uint32_t outside = 0;
  constexpr int kAtOnce = 4;
  const std::int64_t step = std::int64_t{gridDim.x} * kSortThreads;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kSortThreads + threadIdx.x;
       first < index.count; first += kAtOnce * step) {
    std::int64_t indices[kAtOnce];
    keys.indices.load(indices, first, step, index.count);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const std::int64_t i = first + k * step;
      if (i >= index.count) continue;
      bool wrong;
      const std::uint32_t key = keys.of(i, indices[k], wrong);
      outside += wrong;
      if (key == kNoKey) continue;
      for (int p = 0; p < index.passes; ++p)
        atomicAdd(counts + p * bins + index.digit<kWide>({key, static_cast<std::uint32_t>(i)}, p),
                  1u);
    }
  }
  if (bad != nullptr) add_bad(bad, outside);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < all; i += kSortThreads)
    if (counts[i] > 0) atomicAdd(index.histogram + i, counts[i]);
}

template <int kItems>
struct PassShared {
  Pair pairs[kSortThreads * kItems];  // in the order of their digits
  std::uint16_t counts[kSortWarps * kMaxBins];
  std::uint32_t base[kMaxBins];   // where the entries of a digit go, less
  std::uint32_t local[kMaxBins];  // where they are in `pairs`
  std::uint32_t sums[kSortWarps];
  std::int64_t ticket;
};

template <int kItems, bool kWide>
__global__ void __launch_bounds__(kSortThreads, 1)
    sort_pass(const __grid_constant__ SortedIndex index, const __grid_constant__ Keys keys,
              int pass) {
  extern __shared__ uint4 shared[];
  auto& s = *reinterpret_cast<PassShared<kItems>*>(shared);
  std::uint16_t* counts = s.counts;
  const int t = static_cast<int>(threadIdx.x), bins = 1 << index.digit_bits;
  for (int i = t; i < (kSortWarps * bins + 1) / 2; i += kSortThreads)
    reinterpret_cast<std::uint32_t*>(counts)[i] = 0;
  follow();
  // Tiles are numbered in the order in which blocks begin, so that none waits for one that has not.
  if (t == 0) s.ticket = atomicAdd(index.counters->tickets + pass, 1u);
  for (int i = t; i < bins; i += kSortThreads) s.base[i] = index.histogram[pass * bins + i];
  __syncthreads();
  const std::int64_t tile = s.ticket;
  const std::uint32_t entries = scan_block(s.base, bins, s.sums);
  const std::int64_t count = pass == 0 ? index.count : entries;
  const int warp = t / 32;
  const std::int64_t first = (tile * kSortWarps + warp) * (32 * kItems) + t % 32;

  Pair pairs[kItems];
  if (pass == 0) {
    std::int64_t indices[kItems];
    keys.indices.load(indices, first, 32, count);
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      const std::int64_t i = first + 32 * k;
      bool bad;
      pairs[k] = {i < count ? keys.of(i, indices[k], bad) : kNoKey, static_cast<std::uint32_t>(i)};
    }
  } else {
    const Pair* from = index.pairs[pass & 1];
#pragma unroll
    for (int k = 0; k < kItems; ++k)
      pairs[k] = first + 32 * k < count ? from[first + 32 * k] : Pair{kNoKey, 0};
  }
  std::uint32_t rank[kItems];
  const auto digit_of = [&](int k) {
    return pairs[k].key != kNoKey ? index.digit<kWide>(pairs[k], pass) : 0;
  };
#pragma unroll
  for (int k = 0; k < kItems; ++k)
    rank[k] = peers_of(digit_of(k), pairs[k].key != kNoKey, index.digit_bits);
#pragma unroll
  for (int k = 0; k < kItems; ++k)
    rank[k] = rank_in_warp(counts + warp * bins, digit_of(k), pairs[k].key != kNoKey, rank[k]);
  __syncthreads();

  std::uint32_t* status = index.status + pass * index.tiles * bins;
  std::uint32_t mine[kMaxBins / kSortThreads];
#pragma unroll
  for (int j = 0; j < kMaxBins / kSortThreads; ++j) {
    const int bin = t + j * kSortThreads;
    if (bin >= bins) continue;
    mine[j] = scan_warps(counts, bins, bin);
    s.local[bin] = mine[j];
    store_status(status + tile * bins + bin, mine[j] | (tile == 0 ? kWithAll : kAlone));
  }
  __syncthreads();
  const std::uint32_t valid = scan_block(s.local, bins, s.sums);
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    if (pairs[k].key == kNoKey) continue;
    const std::uint32_t digit = digit_of(k);
    s.pairs[s.local[digit] + counts[warp * bins + digit] + rank[k]] = pairs[k];
  }
#pragma unroll
  for (int j = 0; j < kMaxBins / kSortThreads; ++j) {
    const int bin = t + j * kSortThreads;
    if (bin >= bins) continue;
    std::uint32_t before = 0;
    if (tile > 0) {
      before = look_back(status + bin, tile, bins);
      store_status(status + tile * bins + bin, (before + mine[j]) | kWithAll);
    }
    s.base[bin] += before - s.local[bin];
  }
  __syncthreads();
  // Neighbours of one digit go to neighbouring places: a fourth of the writes that each entry on
  // its own would make.
  Pair* to = index.pairs[(pass + 1) & 1];
  for (std::uint32_t i = threadIdx.x; i < valid; i += kSortThreads) {
    const Pair p = s.pairs[i];
    to[s.base[index.digit<kWide>(p, pass)] + i] = p;
  }
  if (t == 0 && tile == 0 && pass == 0) index.counters->entries = entries;
}

}  // namespace planck::table_device
