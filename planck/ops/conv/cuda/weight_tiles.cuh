// dweight as products of matrices, which are never stored: rows are filters, columns the elements
// (c, u, v) of a filter, k the places of one chunk. The tiles and the loop over k are those of
// loops/gemm/cuda. A second kernel adds up sums of chunks in ascending order.
//
// f32 on one H200, TFLOP/s            [16,64,56,56] 64 3×3   [16,256,14,14] 1024 1×1
//   one thread per element and chunk          0.61                   0.60
//   tiles                                     18.7                   17.3
#pragma once

#include "planck/ops/conv/cuda/places.cuh"

namespace planck::conv_device {

using conv_detail::Position;

template <class T>
struct WeightArgs {
  const T *x, *dy;
  Compute<T>* sums;  // [chunk][element]
  T* out;
  Four x_strides, dy_strides, out_strides, shape;  // shape: of dweight
  std::int64_t places;                             // of all images
  std::int64_t groups, filters, columns;           // filters of a group, elements of a filter
  unsigned x_height, x_width;
  int stride[2], padding[2], dilation[2];
  conv_detail::Positions place, element;
  conv_detail::Position step;  // what a tile's step adds to a place
  std::int64_t chunks, length;
};

// The places that a thread reads at once, for the rows and the columns of its tile.
template <class T, int kCount>
struct Walk {
  const WeightArgs<T>& a;
  std::int64_t left;  // places from the first one to the end of the chunk
  Position first;
  std::int64_t dy[kCount], x[kCount];
  int h[kCount], w[kCount];

  __device__ Walk(const WeightArgs<T>& args, std::int64_t begin, std::int64_t end, int k)
      : a(args), left(end - begin - k), first(args.place.of(begin + k)) {}

  __device__ __forceinline__ void look() {
    Position p = first;
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      dy[e] = p.outer * a.dy_strides.at[0] + p.middle * a.dy_strides.at[2] +
              p.inner * a.dy_strides.at[3];
      h[e] = p.middle * a.stride[0] - a.padding[0];
      w[e] = p.inner * a.stride[1] - a.padding[1];
      x[e] = p.outer * a.x_strides.at[0] + h[e] * a.x_strides.at[2] + w[e] * a.x_strides.at[3];
      a.place.next(p);
    }
  }
  __device__ __forceinline__ void advance(int depth) {
    left -= depth;
    a.place.advance(first, a.step);
  }
};

// Either side of the product: neighbouring places of several rows (columns).
template <class T, int kCount, int kDepth, int kThreads>
struct PlacesSide {
  using Word = Compute<T>;
  static constexpr int kV = 16 / sizeof(Word), kChunks = kDepth / kV;
  static constexpr int kUnits = kCount * kDepth / kV / kThreads;
  static_assert(kUnits * kV * kThreads == kCount * kDepth && kThreads % kChunks == 0);
  T raw[kUnits][kV];

  __device__ static int k() { return static_cast<int>(threadIdx.x) % kChunks * kV; }
  __device__ static int number(int u) {
    return (static_cast<int>(threadIdx.x) + u * kThreads) / kChunks;
  }
  __device__ __forceinline__ void store(Word (*to)[kCount + kV]) const {
#pragma unroll
    for (int u = 0; u < kUnits; ++u)
#pragma unroll
      for (int e = 0; e < kV; ++e) to[k() + e][number(u)] = widen(raw[u][e]);
  }
};

template <class T, int kRows, int kDepth, int kThreads>
struct SlopeLoader : PlacesSide<T, kRows, kDepth, kThreads> {
  using Side = PlacesSide<T, kRows, kDepth, kThreads>;
  Walk<T, Side::kV>& walk;
  const T* from;
  int rest;  // rows

  __device__ SlopeLoader(Walk<T, Side::kV>& w, std::int64_t group, std::int64_t first) : walk(w) {
    from = w.a.dy + (group * w.a.filters + first + Side::number(0)) * w.a.dy_strides.at[1];
    rest = static_cast<int>(w.a.filters - first < kRows ? w.a.filters - first : kRows);
  }
  __device__ __forceinline__ void load() {
    walk.look();
#pragma unroll
    for (int u = 0; u < Side::kUnits; ++u)
#pragma unroll
      for (int e = 0; e < Side::kV; ++e)
        this->raw[u][e] =
            e < walk.left && Side::number(u) < rest
                ? from[u * (kThreads / Side::kChunks) * walk.a.dy_strides.at[1] + walk.dy[e]]
                : T{};
  }
};

// Loads after SlopeLoader, whose walk it shares and advances.
template <class T, int kColumns, int kDepth, int kThreads>
struct SeenLoader : PlacesSide<T, kColumns, kDepth, kThreads> {
  using Side = PlacesSide<T, kColumns, kDepth, kThreads>;
  Walk<T, Side::kV>& walk;
  const T* from[Side::kUnits];
  int h[Side::kUnits], w[Side::kUnits];

  __device__ SeenLoader(Walk<T, Side::kV>& shared, std::int64_t group, std::int64_t first)
      : walk(shared) {
    const WeightArgs<T>& a = shared.a;
#pragma unroll
    for (int u = 0; u < Side::kUnits; ++u) {
      const std::int64_t column = first + Side::number(u);
      const Position p = a.element.of(column < a.columns ? column : 0);
      h[u] = column < a.columns ? p.middle * a.dilation[0] : 1 << 30;
      w[u] = p.inner * a.dilation[1];
      from[u] = a.x + (group * a.shape.at[1] + p.outer) * a.x_strides.at[1] +
                p.middle * a.dilation[0] * a.x_strides.at[2] + w[u] * a.x_strides.at[3];
    }
  }
  __device__ __forceinline__ void load() {
#pragma unroll
    for (int u = 0; u < Side::kUnits; ++u)
#pragma unroll
      for (int e = 0; e < Side::kV; ++e) {
        const bool seen = e < walk.left &&
                          static_cast<unsigned>(walk.h[e] + h[u]) < walk.a.x_height &&
                          static_cast<unsigned>(walk.w[e] + w[u]) < walk.a.x_width;
        this->raw[u][e] = seen ? from[u][walk.x[e]] : T{};
      }
    walk.advance(kDepth);
  }
};

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    weight_tiles(const __grid_constant__ WeightArgs<T> a) {
  using Word = Compute<T>;
  using Sums = gemm_device::Sums<Word, Tile>;
  using Slopes = SlopeLoader<T, Sums::kRows, Tile::kDepth, Tile::kThreads>;
  using Seen = SeenLoader<T, Sums::kColumns, Tile::kDepth, Tile::kThreads>;
  const std::int64_t down = (a.filters + Sums::kRows - 1) / Sums::kRows;
  const std::int64_t across = (a.columns + Sums::kColumns - 1) / Sums::kColumns;
  std::int64_t id = blockIdx.x;
  const std::int64_t i0 = id % down * Sums::kRows;
  id /= down;
  const std::int64_t j0 = id % across * Sums::kColumns;
  id /= across;
  const std::int64_t group = id % a.groups, chunk = id / a.groups;
  const std::int64_t begin = chunk * a.length;
  const std::int64_t end = begin + a.length < a.places ? begin + a.length : a.places;
  Walk<T, Sums::kV> walk(a, begin, end, Slopes::k());
  Slopes slopes(walk, group, i0);
  Seen seen(walk, group, j0);
  Sums sums;
  sums.add_products(slopes, seen, end - begin);

  Word* to = a.sums + ((chunk * a.groups + group) * a.filters + i0) * a.columns + j0;
#pragma unroll
  for (int r = 0; r < Sums::kDown; ++r) {
    const int i = sums.row_of(r);
    if (i0 + i >= a.filters) continue;
#pragma unroll
    for (int c = 0; c < Sums::kAcross; ++c) {
      const int j = sums.chunk_of(c / Sums::kV) + c % Sums::kV;
      if (j0 + j < a.columns) to[i * a.columns + j] = sums.v[r][c];
    }
  }
}

inline constexpr int kAddThreads = 256;

template <class T>
__global__ void __launch_bounds__(kAddThreads) add_chunks(const __grid_constant__ WeightArgs<T> a) {
  const std::int64_t elements = a.groups * a.filters * a.columns;
  const std::int64_t id = std::int64_t{blockIdx.x} * kAddThreads + threadIdx.x;
  if (id >= elements) return;
  Compute<T> total = a.chunks > 0 ? a.sums[id] : Compute<T>(0);
  for (std::int64_t chunk = 1; chunk < a.chunks; ++chunk) total += a.sums[chunk * elements + id];
  std::int64_t rest = id, at = 0;
#pragma unroll
  for (int d = 3; d >= 0; --d) {
    at += rest % a.shape.at[d] * a.out_strides.at[d];
    rest /= a.shape.at[d];
  }
  gemm_device::store_one<T>(a.out[at], total);
}

}  // namespace planck::conv_device
