// A team of lanes that sums lists of entries for one tile of columns.
//
// The lanes look up one entry each; the rows these name then stream through a Ring, and sums end
// where rows do. The partial sums of a hot row's chunks are summed, 64 at a time, by the team that
// finishes the last of them, which then is the last, or not, of the next level: who it is depends
// on the run, the order of the additions does not.
#pragma once

#include "planck/loops/cuda/division.cuh"
#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/table/cuda/ring.cuh"
#include "planck/loops/table/cuda/sources.cuh"

namespace planck::table_device {

template <class T>
struct SumRows {
  SortedIndex index;
  Source<T> source;
  ClearRows clear;
  bool clear_rest = false;  // rows from counters->rows on, not from 0
  T* out;
  std::int64_t row_stride, column_stride, columns;
  std::uint32_t tiles, hot_tiles;  // cuts of a light row, of a hot one
  Divisor by_tiles, by_hot_tiles;
  int log2_lanes;   // of a team
  bool accumulate;  // add to what is there
  bool mean;        // divide by the number of entries
};

template <class T, int kBytes, int kVectors, SourceKind kSource>
struct RowTeam {
  using C = Compute<T>;
  static constexpr int kElements = kBytes / static_cast<int>(sizeof(T));
  static constexpr bool kRings = kBytes == 16;
  using Values = C[kVectors][kElements];

  const SumRows<T>& a;
  Ring<kVectors> ring;
  int lane, lanes;               // of the team
  unsigned mask;                 // its lanes in the warp
  int shift;                     // the first of them
  std::int64_t column, vectors;  // the lane's first vector, vectors of a row

  __device__ __forceinline__ RowTeam(const SumRows<T>& arguments, uint4* shared)
      : a(arguments), ring(shared) {
    lanes = kVectors > 1 ? 32 : 1 << a.log2_lanes;
    lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    shift = static_cast<int>(threadIdx.x) % 32 & ~(lanes - 1);
    mask = lanes == 32 ? ~0u : ((1u << lanes) - 1) << shift;
    vectors = a.columns / kElements;
    column = 0;
  }
  __device__ __forceinline__ void enter_tile(std::uint32_t tile) {
    column = std::int64_t{tile} * (lanes * kVectors) + lane;
  }
  __device__ __forceinline__ bool has(int v) const { return column + v * 32 < vectors; }
  __device__ __forceinline__ std::int64_t at(int v) const {
    return column * kElements + v * (32 * kElements);
  }
  template <class V>
  __device__ __forceinline__ V of_lane(V value, int source) const {
    return __shfl_sync(mask, value, source, lanes);
  }
  __device__ __forceinline__ unsigned which(bool flag) const {
    return __ballot_sync(mask, flag) >> shift;
  }

  // ---- lists of entries ----------------------------------------------------------------------

  // One position of a list: an entry, and the row it is added to.
  struct Position {
    std::uint32_t entry = 0, row = 0, many = 0;
    bool begins = false, ends = false;  // first and last of its row, or chunk
  };

  __device__ __forceinline__ static void take_in(C& sum, C value, bool begins) {
    sum = begins ? value : sum + value;
  }

  // Adds the positions of lanes [0, n); calls finish(k) at the end of a row.
  template <class Finish>
  __device__ __forceinline__ void add_positions(Values& sum, const Position& mine, int n,
                                                const Finish& finish) {
    const unsigned begins = which(mine.begins), ends = which(mine.ends);
    SourceRow<T, kSource> held;
    if (lane < n) held = a.source.template find<kSource>(mine.entry);
    if constexpr (kRings) {
      const auto fetch = [&](int k) {
        const std::uint32_t from = of_lane(held.row, k & (lanes - 1));
        const T* p = a.source.data + from * a.source.rows.stride[0];
#pragma unroll
        for (int v = 0; v < kVectors; ++v)
          if (k < n && has(v)) ring.fetch(k, v, p + at(v));
        ring.end_fetch();
      };
#pragma unroll 4
      for (int k = 0; k < ring.kDepth; ++k) fetch(k);
#pragma unroll 1
      for (int k = 0; k < n; ++k) {
        ring.wait();
        const auto scale = of_team(held, k);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
          const Pack<16> pack = ring.take(k, v);
#pragma unroll
          for (int e = 0; e < kElements; ++e)
            take_in(sum[v][e],
                    a.source.template scaled<kSource>(element_of<T>(pack, e), scale, at(v) + e),
                    begins >> k & 1);
        }
        fetch(k + ring.kDepth);
        if (ends >> k & 1) finish(k);
      }
    } else {
      constexpr int kAhead = 4;
      for (int first = 0; first < n; first += kAhead) {
        Pack<kBytes> packs[kAhead][kVectors];
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          const std::uint32_t from = of_lane(held.row, (first + u) & (lanes - 1));
          const T* p = a.source.data + a.source.rows(from);
#pragma unroll
          for (int v = 0; v < kVectors; ++v)
            if (first + u < n && has(v))
              packs[u][v] = load_pack<kBytes, false>(p + at(v) * a.source.column_stride, 0);
        }
#pragma unroll
        for (int u = 0; u < kAhead; ++u) {
          const int k = first + u;
          if (k >= n) break;
          const auto scale = of_team(held, k);
#pragma unroll
          for (int v = 0; v < kVectors; ++v)
            if (has(v))
              take_in(
                  sum[v][0],
                  a.source.template scaled<kSource>(element_of<T>(packs[u][v], 0), scale, at(v)),
                  begins >> k & 1);
          if (ends >> k & 1) finish(k);
        }
      }
    }
  }
  // What lane k found.
  __device__ __forceinline__ SourceRow<T, kSource> of_team(const SourceRow<T, kSource>& held,
                                                           int k) const {
    SourceRow<T, kSource> r = held;
    if constexpr (kSource == SourceKind::mapped) r.scale = of_lane(held.scale, k);
    if constexpr (kSource == SourceKind::chosen) {
      r.row = of_lane(held.row, k);
      r.entry = of_lane(held.entry, k);
    }
    return r;
  }

  // ---- results -------------------------------------------------------------------------------

  // Stores the finished sum of a row that has `entries` entries.
  __device__ __forceinline__ void store(std::uint32_t row, [[maybe_unused]] std::uint32_t entries,
                                        Values& sum) const {
    T* to = a.out + row * a.row_stride;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!has(v)) continue;
      T* p = to + at(v) * (kRings ? 1 : a.column_stride);
      if constexpr (kSource == SourceKind::mapped) {
        if (a.mean) {
#pragma unroll
          for (int e = 0; e < kElements; ++e) sum[v][e] = sum[v][e] / static_cast<C>(entries);
        }
      }
      if (a.accumulate) {
        const Pack<kBytes> old = load_pack<kBytes, false>(p, 0);
#pragma unroll
        for (int e = 0; e < kElements; ++e) sum[v][e] = element_of<T>(old, e) + sum[v][e];
      }
      store_pack<false>(p, 0, packed<T, kBytes>(sum[v]));
    }
  }

  // ---- light rows ----------------------------------------------------------------------------

  static constexpr int kLight = 4;

  // The rows of lanes [0, kLight), each for the same tile; many = 0: none.
  __device__ __forceinline__ void light_rows(const Item& item) {
    int many[kLight], total = 0;
#pragma unroll
    for (int j = 0; j < kLight; ++j) total += many[j] = static_cast<int>(of_lane(item.many, j));
    Values sum;
    for (int base = 0; base < total; base += lanes) {
      int j = 0, k = base + lane;
#pragma unroll
      for (int i = 0; i + 1 < kLight; ++i)
        if (j == i && k >= many[i]) k -= many[i], ++j;
      Position mine;
      mine.row = of_lane(item.row, j);
      mine.many = of_lane(item.many, j);
      const std::uint32_t start = of_lane(item.start, j), first = of_lane(item.extra, j);
      if (base + lane < total) {
        mine.entry = k == 0 ? first : a.index.sorted()[start + k].entry;
        mine.begins = k == 0;
        mine.ends = k + 1 == static_cast<int>(mine.many);
      }
      add_positions(sum, mine, min(lanes, total - base),
                    [&](int p) { store(of_lane(mine.row, p), of_lane(mine.many, p), sum); });
    }
  }

  // ---- chunks of hot rows --------------------------------------------------------------------

  __device__ __forceinline__ C* partial(std::int64_t slot, int v) const {
    return static_cast<C*>(a.index.partials) + slot * a.columns + at(v);
  }
  static constexpr int kPart = 16 / static_cast<int>(sizeof(C));  // partial sums per vector
  __device__ __forceinline__ void put_partial(std::int64_t slot, const Values& sum) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      if (!has(v)) continue;
      C* p = partial(slot, v);
      if constexpr (kElements == 1) {
        *p = sum[v][0];
      } else {
#pragma unroll
        for (int e = 0; e < kElements; e += kPart) store_part(p + e, &sum[v][e]);
      }
    }
  }
  __device__ __forceinline__ static void store_part(float* p, const float* v) {
    *reinterpret_cast<float4*>(p) = make_float4(v[0], v[1], v[2], v[3]);
  }
  __device__ __forceinline__ static void store_part(double* p, const double* v) {
    *reinterpret_cast<double2*>(p) = make_double2(v[0], v[1]);
  }
  // Sum of `many` nodes of a level, `step` chunks apart, from chunk `first` of the row on. Through
  // the second-level cache: other multiprocessors wrote them.
  __device__ __forceinline__ void sum_nodes(Values& sum, std::uint32_t start, std::uint32_t first,
                                            std::uint32_t step, int many) {
    if constexpr (kRings) {
      static_assert(kVectors == 1);
      constexpr int kParts = kElements / kPart;  // vectors per node
      const auto fetch = [&](int k) {
        const C* p = partial(slot_of(start, first + k / kParts * step), 0) + k % kParts * kPart;
        if (k < many * kParts && has(0)) ring.fetch(k, 0, p);
        ring.end_fetch();
      };
#pragma unroll 1
      for (int k = 0; k < ring.kDepth; ++k) fetch(k);
#pragma unroll 1
      for (int node = 0; node < many; ++node)
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          const int k = node * kParts + part;
          ring.wait();
          const Pack<16> pack = ring.take(k, 0);
#pragma unroll
          for (int e = 0; e < kPart; ++e)
            take_in(sum[0][part * kPart + e], element_of<C>(pack, e), node == 0);
          fetch(k + ring.kDepth);
        }
    } else {
      for (int node = 0; node < many; ++node)
#pragma unroll
        for (int v = 0; v < kVectors; ++v)
          if (has(v))
            take_in(sum[v][0], __ldcg(partial(slot_of(start, first + node * step), v)), node == 0);
    }
  }

  __device__ __forceinline__ void chunk(const Item& item, std::uint32_t tile) {
    const std::uint32_t start = item.start - item.extra * kSumChunk;
    const int many = static_cast<int>(
        min(static_cast<std::uint32_t>(kSumChunk), item.many - item.extra * kSumChunk));
    Values sum;
    for (int base = 0; base < many; base += lanes) {
      Position mine;
      mine.begins = base + lane == 0;
      if (base + lane < many) mine.entry = a.index.sorted()[item.start + base + lane].entry;
      add_positions(sum, mine, min(lanes, many - base), [](int) {});
    }
    // Up the tree: nodes of a level are `step` chunks apart, `nodes` of them.
    std::uint32_t chunk = item.extra, step = 1, nodes = (item.many + kSumChunk - 1) / kSumChunk;
    for (int level = 0; nodes > 1; ++level) {
      put_partial(slot_of(start, chunk), sum);
      const std::uint32_t parent = chunk / (step * kSumChunk) * (step * kSumChunk);
      const std::uint32_t children =
          min(static_cast<std::uint32_t>(kSumChunk), nodes - parent / step);
      __threadfence();
      __syncwarp(mask);
      std::uint32_t arrived = 0;
      if (lane == 0) {
        const unsigned long long before = atomicAdd(
            a.index.arrivals + slot_of(start, parent) * a.hot_tiles + tile, 1ull << 8 * level);
        arrived = static_cast<std::uint32_t>(before >> 8 * level & 255) + 1;
      }
      if (of_lane(arrived, 0) < children) return;
      __threadfence();
      sum_nodes(sum, start, parent, step, static_cast<int>(children));
      chunk = parent;
      step *= kSumChunk;
      nodes = (nodes + kSumChunk - 1) / kSumChunk;
    }
    store(item.row, item.many, sum);
  }
};

}  // namespace planck::table_device
