// Learned scales of groups that are columns of a dense matrix. A thread walks down kSlotRows rows
// of a run of columns, a batch at a time, while the next batch is loaded.
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/ops/quantize/cuda/kept_columns.cuh"
#include "planck/ops/quantize/cuda/learn.cuh"

namespace planck::quantize_device {

inline constexpr int kLearnColumnThreads = 128;

// Columns per run: 8 bytes, for the sums and cells of more would not fit the registers. B rows per
// batch: as many as fit.
template <class T>
inline constexpr int kColumnRun = sizeof(T) == 2 ? 4 : 2;
template <class T>
inline constexpr int kColumnBatch = sizeof(T) == 4 ? 8 : 4;

template <class T>
using LearnKept = KeptColumns<T, kColumnRun<T>, kLearnColumnThreads>;

// Sums of 2^kLevels terms of R columns, in the order of a tree.
template <class C, int R, int kLevels>
struct ColumnTree {
  Two<C> level[kLevels][R];

  // Term number k: v becomes the sum of the terms that are complete with it.
  __device__ __forceinline__ void push(int k, Two<C> (&v)[R]) {
    bool open = true;
#pragma unroll
    for (int l = 0; l < kLevels; ++l) {
      const bool joins = (k >> l) & 1;
#pragma unroll
      for (int e = 0; e < R; ++e) {
        if (open && joins) v[e] = AddTwo<C>()(level[l][e], v[e]);
        if (open && !joins) level[l][e] = v[e];
      }
      open = open && joins;
    }
  }
};

// B rows of R columns, quick throughout. sums[e]: of the terms of column e.
template <Way kWay, class T, int R, int B>
__device__ __forceinline__ void learn_columns(const LearnKept<T>& kept, const GridAttributes& grid,
                                              const RunPack<T, R> (&x)[B],
                                              const RunPack<T, R> (&dy)[B], RunPack<T, R> (&dx)[B],
                                              Two<Compute<T>> (&sums)[R]) {
  using C = Compute<T>;
#pragma unroll
  for (int e = 0; e < R; e += 2) {
    const Cell<T> cell[2] = {kept.cell(e, grid), kept.cell(e + 1, grid)};
    Two<C> terms[2][B];
#pragma unroll
    for (int k = 0; k < B; ++k) {
      C both[2];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        terms[i][k] = learn_element<T, kWay>(element_of<T>(x[k], e + i),
                                             element_of<T>(dy[k], e + i), cell[i], grid, both[i]);
      put_floats<T, false>(dx[k], e, both[0], both[1]);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int half = 1; half < B; half *= 2)
#pragma unroll
        for (int k = 0; k < B; k += 2 * half)
          terms[i][k] = AddTwo<C>()(terms[i][k], terms[i][k + half]);
      sums[e + i] = terms[i][0];
    }
  }
}

// The same, a row at a time and the careful way; of the `left` rows that there are.
template <int B, class T, int R, class CellOf>
__device__ __forceinline__ void learn_columns_careful(const GridAttributes& grid,
                                                      const ColumnCursor<R * sizeof(T)>& x,
                                                      const ColumnCursor<R * sizeof(T)>& dy,
                                                      const ColumnCursor<R * sizeof(T)>& dx,
                                                      int left, const CellOf& cell_of,
                                                      Two<Compute<T>> (&sums)[R]) {
  using C = Compute<T>;
  ColumnTree<C, R, B == 8 ? 3 : 2> tree;
#pragma unroll 1
  for (int k = 0; k < B; ++k) {
    LearnedRun<T, R> run;
#pragma unroll
    for (auto& t : run.terms) t = {kNothing<C>, kNothing<C>};
    if (k < left) {
      learn_careful<T, R>(x.template load<false>(k), dy.template load<false>(k), grid, cell_of,
                          run);
      dx.template store<false>(k, run.dx);
    }
    tree.push(k, run.terms);
#pragma unroll
    for (int e = 0; e < R; ++e) sums[e] = run.terms[e];
  }
}

// Where the sums of chunks lie: [chunks, channels] or, for few channels, [channels, chunks] as
// those of rows do.
struct ColumnPartials {
  std::int64_t of_chunk, of_channel;
  static bool across(std::int64_t chunks, std::int64_t channels) {
    return chunks <= 64 || channels >= 1024;
  }
  static ColumnPartials make(std::int64_t chunks, std::int64_t channels) {
    return across(chunks, channels) ? ColumnPartials{channels, 1} : ColumnPartials{1, chunks};
  }
};

template <class T>
__global__ void __launch_bounds__(kLearnColumnThreads, sizeof(T) == 8 ? 2 : 4)
    learn_columns_kernel(const __grid_constant__ LearnArguments<T, true> args,
                         const __grid_constant__ ColumnSlots map, ColumnPartials partials) {
  using C = Compute<T>;
  constexpr int R = kColumnRun<T>, B = kColumnBatch<T>;
  using Run = RunPack<T, R>;
  __shared__ Two<C> shared[kLearnColumnThreads * R];
  __shared__ LearnKept<T> kept;
  follow();
  const int lane = static_cast<int>(threadIdx.x) % map.width;
  const int slot = static_cast<int>(threadIdx.x) / map.width;
  const std::int64_t chunk = blockIdx.x / map.tiles;
  const std::int64_t column = (blockIdx.x - chunk * map.tiles) * map.width + lane;
  const std::int64_t first = (chunk * map.slots + slot) * kSlotRows;
  const auto stored = [&](int e) { return load_stored(args, column * R + e); };
  const auto group_of = [&](int e) { return learn_cell(stored(e), args.grid); };
  const int columns = map.width * R;
  Two<C> sums[R];
#pragma unroll
  for (auto& s : sums) s = {kNothing<C>, kNothing<C>};

  if (column < map.runs && first < map.rows) {
    StoredGroup<T> groups[R];
#pragma unroll
    for (int e = 0; e < R; ++e) groups[e] = stored(e);
    const std::int64_t start = first * map.runs + column;
    ColumnCursor<R * sizeof(T)> dy_at(args.dy, start, map.runs), x_at(args.x, start, map.runs),
        dx_at(args.dx, start, map.runs);
    int left = static_cast<int>(min(map.rows - first, std::int64_t{kSlotRows}));
    Run x[B] = {}, dy[B] = {}, next_x[B] = {}, next_dy[B] = {};
    const auto load_row = [&](int row, Run& to_x, Run& to_dy) {
      to_dy = dy_at.template load<false>(row);
      to_x = x_at.template load<false>(row);
    };
    const auto load = [&](int begin, Run(&to_x)[B], Run(&to_dy)[B]) {
      if (left >= begin + B) {
#pragma unroll
        for (int k = 0; k < B; ++k) load_row(begin + k, to_x[k], to_dy[k]);
      } else {
#pragma unroll
        for (int k = 0; k < B; ++k)
          if (begin + k < left) load_row(begin + k, to_x[k], to_dy[k]);
      }
    };
    load(0, x, dy);
    bool quick = true;
#pragma unroll
    for (int e = 0; e < R; ++e) {
      const Cell<T> cell = learn_cell(groups[e], args.grid);
      quick = quick && cell.quick;
      kept.keep(e, cell);
    }
    ColumnTree<C, R, B == 8 ? 2 : 3> tree;
#pragma unroll 1
    for (int batch = 0; batch < kSlotRows / B; ++batch, left -= B) {
#pragma unroll
      for (auto& s : sums) s = {kNothing<C>, kNothing<C>};
      if (left > 0) {
        load(B, next_x, next_dy);
        bool whole = quick && left >= B;
#pragma unroll
        for (int k = 0; k < B; ++k) whole = whole && !any_delicate<T, R>(x[k], dy[k]);
        if (whole) {
          Run dx[B];
          if (args.grid.reciprocal)
            learn_columns<Way::reciprocal, T, R, B>(kept, args.grid, x, dy, dx, sums);
          else
            learn_columns<Way::divide, T, R, B>(kept, args.grid, x, dy, dx, sums);
#pragma unroll
          for (int k = 0; k < B; ++k) dx_at.template store<false>(k, dx[k]);
        } else {  // rare: once more, a row at a time
          learn_columns_careful<B, T, R>(args.grid, x_at, dy_at, dx_at, left, group_of, sums);
        }
        dy_at.advance(B);
        x_at.advance(B);
        dx_at.advance(B);
#pragma unroll
        for (int k = 0; k < B; ++k) {
          x[k] = next_x[k];
          dy[k] = next_dy[k];
        }
      }
      tree.push(batch, sums);
    }
  }
#pragma unroll
  for (int e = 0; e < R; ++e) shared[slot * columns + lane * R + e] = sums[e];
  reduce_slots(shared, columns, map.slots, AddTwo<C>());
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += kLearnColumnThreads) {
    const std::int64_t channel = (blockIdx.x - chunk * map.tiles) * columns + i;
    if (channel >= map.runs * R) continue;
    if (map.chunks == 1) {
      store_sum(args, 1, channel, 0, false, shared[i].first);
      store_sum(args, 1, channel, 0, true, shared[i].second);
    } else {
      const std::int64_t at = chunk * partials.of_chunk + channel * partials.of_channel;
      args.partials[0][at] = shared[i].first;
      args.partials[1][at] = shared[i].second;
    }
  }
}

// Sums of [chunks, channels], 32 channels per block: a warp adds 8 chunks at a time, a block 64.
template <class T>
__global__ void __launch_bounds__(256)
    sum_columns_kernel(const __grid_constant__ LearnArguments<T, true> args, std::int64_t chunks,
                       std::int64_t channels) {
  using C = Compute<T>;
  constexpr int kWarps = 8, kEach = 8, kLevels = 32;
  __shared__ Two<C> shared[kWarps][32];
  follow();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t channel = std::int64_t{blockIdx.x} * 32 + lane;
  const AddTwo<C> add;
  Two<C> sums = {kNothing<C>, kNothing<C>}, earlier[kLevels];  // sums of 64 · 2^level chunks
  std::int64_t turn = 0;
  for (std::int64_t begin = 0; begin < chunks; begin += kWarps * kEach, ++turn) {
    Two<C> v[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const std::int64_t chunk = begin + warp * kEach + k, i = chunk * channels + channel;
      const bool there = chunk < chunks && channel < channels;
      v[k] = {there ? args.partials[0][i] : kNothing<C>, there ? args.partials[1][i] : kNothing<C>};
    }
#pragma unroll
    for (int half = 1; half < kEach; half *= 2)
#pragma unroll
      for (int k = 0; k < kEach; k += 2 * half) v[k] = add(v[k], v[k + half]);
    __syncthreads();
    shared[warp][lane] = v[0];
    __syncthreads();
    if (warp > 0) continue;
#pragma unroll
    for (int k = 0; k < kWarps; ++k) v[k] = shared[k][lane];
#pragma unroll
    for (int half = 1; half < kWarps; half *= 2)
#pragma unroll
      for (int k = 0; k < kWarps; k += 2 * half) v[k] = add(v[k], v[k + half]);
    sums = v[0];
    int level = 0;
    for (; (turn >> level) & 1; ++level) sums = add(earlier[level], sums);
    earlier[level] = sums;
  }
  if (warp > 0 || channel >= channels) return;
  bool first = true;
  for (int level = 0; turn >> level; ++level) {
    if (!((turn >> level) & 1)) continue;
    sums = first ? earlier[level] : add(earlier[level], sums);
    first = false;
  }
  store_sum(args, 1, channel, 0, false, sums.first);
  store_sum(args, 1, channel, 0, true, sums.second);
}

}  // namespace planck::quantize_device
