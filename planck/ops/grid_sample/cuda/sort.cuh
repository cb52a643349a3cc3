// Points sorted into bins, stably: within a bin they stay in ascending order of their position. For
// all ways of sampling without tiles, and where a tile has more points than its list holds.
//
//   count_bins   a warp counts the points of its segment in each bin
//   scan_bins    where each bin starts, and each segment within it
//   fill_bins    a warp writes the points of its segment to their places
//   sort_cells   a block sorts a bin by cell, stably
//
// Which points a bin holds and their order do not depend on how the work is cut: integer atomics
// only count, or hand out places between which order does not matter.
#pragma once

#include "planck/ops/grid_sample/cuda/bins.cuh"

namespace planck::sample_device {

inline constexpr int kAhead = 4;  // rounds of 32 points that are loaded at once

// What a run counts up is set to zero.
template <int kUnused = 0>
__global__ void __launch_bounds__(256) clear_counts(std::uint32_t* words, std::int64_t count) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * 256 + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * 256)
    words[i] = 0;
}

template <class Bins>
__global__ void __launch_bounds__(32)
    count_bins(const __grid_constant__ Bins b, const __grid_constant__ BinCall t) {
  extern __shared__ std::uint32_t histogram[];
  wait_for_previous();
  if (t.nothing_crowded()) return;
  const bool whole = t.bands == 1;
  const std::int64_t begin = blockIdx.x * t.segment;
  const std::int64_t end = begin + t.segment < t.points ? begin + t.segment : t.points;
  for (std::int64_t n = blockIdx.z; n < t.batch; n += gridDim.z)
    for (std::int64_t band = blockIdx.y; band < t.bands; band += gridDim.y) {
      const std::int64_t low = band * t.band;
      const std::int64_t width = low + t.band < t.bins ? t.band : t.bins - low;
      for (std::int64_t i = threadIdx.x; i < width; i += 32) histogram[i] = 0;
      __syncwarp();
      for (std::int64_t first = begin; first < end; first += kAhead * 32) {
        typename Bins::C g[kAhead][3];
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          const std::int64_t p = first + u * 32 + threadIdx.x;
          b.load(n, static_cast<std::uint32_t>(p < end ? p : end - 1), g[u]);
        }
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          typename Bins::Index bins[Bins::kMost];
          unsigned which = b.bins(g[u], bins);
          if (first + u * 32 + threadIdx.x >= end) which = 0;
#pragma unroll
          for (int k = 0; k < Bins::kMost; ++k)
            if ((which >> k & 1) && (whole || (bins[k] >= low && bins[k] < low + width)))
              atomicAdd(&histogram[bins[k] - low], 1u);
        }
      }
      __syncwarp();
      std::uint32_t* row = t.counts + (n * t.segments + blockIdx.x) * t.bins + low;
      for (std::int64_t i = threadIdx.x; i < width; i += 32) row[i] = histogram[i];
      __syncwarp();
    }
}

// The sum of the values of all threads before this one; `total` of all.
template <int kWarps>
__device__ __forceinline__ std::uint32_t block_scan(std::uint32_t v, std::uint32_t& total) {
  __shared__ std::uint32_t warps[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  std::uint32_t sum = v;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const std::uint32_t up = __shfl_up_sync(~0u, sum, d);
    if (lane >= d) sum += up;
  }
  __syncthreads();
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  std::uint32_t before = 0, all = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const std::uint32_t s = warps[w];
    before += w < warp ? s : 0;
    all += s;
  }
  total = all;
  return before + sum - v;
}

template <int kUnused = 0>
__global__ void __launch_bounds__(256) scan_bins(const __grid_constant__ BinCall t) {
  __shared__ std::uint32_t base;
  wait_for_previous();
  if (t.nothing_crowded()) return;
  const std::int64_t bin = std::int64_t{blockIdx.x} * 256 + threadIdx.x;
  for (std::int64_t n = blockIdx.z; n < t.batch; n += gridDim.z) {
    std::uint32_t run = 0;
    if (bin < t.bins) {
      std::uint32_t* column = t.counts + n * t.segments * t.bins + bin;
      constexpr int kAhead = 16;
      std::int64_t s = 0;
      for (; s + kAhead <= t.segments; s += kAhead) {
        std::uint32_t v[kAhead];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) v[k] = column[(s + k) * t.bins];
#pragma unroll
        for (int k = 0; k < kAhead; ++k) {
          column[(s + k) * t.bins] = run;
          run += v[k];
        }
      }
      for (; s < t.segments; ++s) {
        const std::uint32_t v = column[s * t.bins];
        column[s * t.bins] = run;
        run += v;
      }
    }
    std::uint32_t total;
    const std::uint32_t before = block_scan<8>(run, total);
    if (threadIdx.x == 0) base = atomicAdd(&t.cursors[n], total);
    __syncthreads();
    if (bin < t.bins) {
      t.totals[n * t.bins + bin] = run;
      t.starts[n * t.bins + bin] = base + before;
    }
    __syncthreads();
  }
}

// The places of up to 32 keys among `counters`, in the order of lanes.
__device__ __forceinline__ std::uint32_t take_place(std::uint32_t* counters, std::uint32_t key,
                                                    unsigned active) {
  const unsigned same = __match_any_sync(active, key);
  const unsigned below = (1u << (threadIdx.x % 32)) - 1;
  const std::uint32_t from = counters[key];
  __syncwarp(active);
  if ((same & below) == 0) counters[key] = from + static_cast<std::uint32_t>(__popc(same));
  __syncwarp(active);
  return from + static_cast<std::uint32_t>(__popc(same & below));
}

template <class Bins>
__global__ void __launch_bounds__(32)
    fill_bins(const __grid_constant__ Bins b, const __grid_constant__ BinCall t) {
  constexpr unsigned kQueue = 256;  // more than a round's leftovers and four bins per lane
  extern __shared__ std::uint32_t place[];
  __shared__ std::uint32_t queue_bin[kQueue], queue_point[kQueue];
  wait_for_previous();
  if (t.nothing_crowded()) return;
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned below = (1u << lane) - 1;
  const bool whole = t.bands == 1;
  const std::int64_t begin = blockIdx.x * t.segment;
  const std::int64_t end = begin + t.segment < t.points ? begin + t.segment : t.points;
  for (std::int64_t n = blockIdx.z; n < t.batch; n += gridDim.z)
    for (std::int64_t band = blockIdx.y; band < t.bands; band += gridDim.y) {
      const std::int64_t low = band * t.band;
      const std::int64_t width = low + t.band < t.bins ? t.band : t.bins - low;
      const std::uint32_t* row = t.counts + (n * t.segments + blockIdx.x) * t.bins + low;
      const std::uint32_t* start = t.starts + n * t.bins + low;
      for (std::int64_t i = lane; i < width; i += 32) place[i] = start[i] + row[i];
      __syncwarp();
      std::uint32_t* const to = t.entries_of(n);
      unsigned head = 0, tail = 0;
      const auto write = [&](unsigned count) {
        const unsigned active = count == 32 ? ~0u : (1u << count) - 1;
        if (static_cast<unsigned>(lane) < count) {
          const unsigned at = (head + static_cast<unsigned>(lane)) % kQueue;
          const std::uint32_t point = queue_point[at];
          to[take_place(place, queue_bin[at], active)] = point;
        }
        __syncwarp();
        head += count;
      };
      for (std::int64_t round = begin; round < end; round += kAhead * 32) {
        typename Bins::C g[kAhead][3];
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          const std::int64_t p = round + u * 32 + lane;
          b.load(n, static_cast<std::uint32_t>(p < end ? p : end - 1), g[u]);
        }
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          const std::int64_t p = round + u * 32 + lane;
          typename Bins::Index bins[Bins::kMost];
          unsigned which = b.bins(g[u], bins);
          if (p >= end) which = 0;
          if (!whole) {
#pragma unroll
            for (int k = 0; k < Bins::kMost; ++k)
              if (bins[k] < low || bins[k] >= low + width) which &= ~(1u << k);
          }
          unsigned mine = tail, more = 0;
#pragma unroll
          for (int k = 0; k < Bins::kMost; ++k) {
            const unsigned have = __ballot_sync(~0u, which >> k & 1);
            mine += static_cast<unsigned>(__popc(have & below));
            more += static_cast<unsigned>(__popc(have));
          }
#pragma unroll
          for (int k = 0; k < Bins::kMost; ++k)
            if (which >> k & 1) {
              queue_bin[mine % kQueue] = static_cast<std::uint32_t>(bins[k] - low);
              queue_point[mine++ % kQueue] = static_cast<std::uint32_t>(p);
            }
          tail += more;
          __syncwarp();
          while (tail - head >= 32) write(32);
        }
      }
      if (tail != head) write(tail - head);
      __syncwarp();
    }
}

// A unit of the careful kernels: a crowded tile, or any bin where there are no tiles.
struct BinUnit {
  std::int64_t n, bin, index;
};
__device__ __forceinline__ std::int64_t bin_units(const BinCall& t) {
  return t.tiled ? *t.crowded_count : t.batch * t.bins;
}
__device__ __forceinline__ BinUnit bin_unit(const BinCall& t, std::int64_t unit) {
  const std::int64_t index = t.tiled ? t.crowded[unit] : unit;
  const std::int64_t n = index / t.bins;
  return {n, index - n * t.bins, index};
}

template <class Bins>
__global__ void __launch_bounds__(256)
    sort_cells(const __grid_constant__ Bins b, const __grid_constant__ BinCall t) {
  constexpr int kWarps = 8, kCells = BinLayout::kCellsOfRun;
  __shared__ std::uint32_t place[kWarps][kCells];
  wait_for_previous();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t units = bin_units(t);
  for (std::int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const BinUnit u = bin_unit(t, unit);
    const std::int64_t total = t.totals[u.index];
    const std::uint32_t* from = t.entries_of(u.n) + t.starts[u.index];
    std::uint32_t* to = t.sorted_of(u.n) + t.starts[u.index];
    std::uint32_t* cell_starts = t.cell_starts + u.index * (t.bin_cells + 1);
    for (int i = static_cast<int>(threadIdx.x); i < kWarps * kCells; i += 256)
      place[i / kCells][i % kCells] = 0;
    __syncthreads();
    const std::int64_t part = (total + kWarps * 32 - 1) / (kWarps * 32) * 32;
    const std::int64_t begin = warp * part;
    const std::int64_t end = begin + part < total ? begin + part : total;
    for (std::int64_t first = begin; first < end; first += kAhead * 32) {
      std::uint32_t p[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const std::int64_t i = first + k * 32 + lane;
        p[k] = from[i < end ? i : begin];
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const int key = b.cell(u.n, p[k], u.bin);
        if (first + k * 32 + lane < end) atomicAdd(&place[warp][key], 1u);
      }
    }
    __syncthreads();
    std::uint32_t pair[2], all;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      pair[k] = 0;
      for (int w = 0; w < kWarps; ++w) pair[k] += place[w][2 * threadIdx.x + k];
    }
    std::uint32_t at = block_scan<8>(pair[0] + pair[1], all);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int c = 2 * static_cast<int>(threadIdx.x) + k;
      if (c <= t.bin_cells) cell_starts[c] = at;
      for (int w = 0; w < kWarps; ++w) {
        const std::uint32_t count = place[w][c];
        place[w][c] = at;
        at += count;
      }
    }
    if (threadIdx.x == 0) cell_starts[t.bin_cells] = all;
    __syncthreads();
    for (std::int64_t first = begin; first < end; first += kAhead * 32) {
      std::uint32_t p[kAhead];
      int key[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const std::int64_t i = first + k * 32 + lane;
        p[k] = from[i < end ? i : begin];
      }
#pragma unroll
      for (int k = 0; k < kAhead; ++k) key[k] = b.cell(u.n, p[k], u.bin);
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const bool some = first + k * 32 + lane < end;
        const unsigned active = __ballot_sync(~0u, some);
        if (some) to[take_place(place[warp], static_cast<std::uint32_t>(key[k]), active)] = p[k];
        __syncwarp();
      }
    }
    __syncthreads();
  }
}

}  // namespace planck::sample_device
