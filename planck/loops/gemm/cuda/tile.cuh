// Tiles of C in registers on the GPU: what a block, a warp and a thread own, and the loop over k.
//
// A warp is 4 × 8 lanes. A lane owns kDown × kAcross chunks of V × V sums (V = 16 bytes of words);
// chunks of one lane lie a lane grid apart, so that fragments are read from shared memory 16 bytes
// at a time without conflicts. Parts of A and B, k in steps of kDepth words, alternate between two
// buffers: the next one is loaded into registers while this one is multiplied.
//
// 4096^3 f32 on one H200 (cublasLt 50.6 TFLOP/s): chunks per lane × warps per block, words of k per
// step, blocks per multiprocessor; A and B as they are, A transposed, B transposed:
//   4×2 × 2×2,  8, 2   42.9  43.7  41.5      4×2 × 2×2, 16, 2   44.9  44.6  43.7 (chosen)
//   2×2 × 4×2,  8, 2   38.0  40.0  38.0      4×2 × 4×2, 16, 1   45.4  45.1  44.4
//   2×4 × 2×2,  8, 2   40.6  42.4  38.6      2×4 × 2×2, 16, 2   41.9  40.4  40.2
//   4×2 × 4×1,  8, 2   39.6  43.1  39.3      4×2 × 4×2,  8, 1   43.6  44.6  42.9
// Before loaders knew addresses and whole steps, 4×2 × 2×2, 8, 2 had 42.1, 43.8 and 40.6: of 1,260
// instructions of a step 1,024 are sums. Tiles of 256 rows leave more of a device idle.
// 2048^3 of 16-bit floats and bytes is faster with 2×2 × 4×2 (30.7 and 86.0, against 25.4
// and 71.6): registers there also hold what decides about the reading.
//
// Every element of C is one thread's chain, k ascending: no part of k is given to anyone else. The
// last step of k stops where k ends: a product of zeros would turn a sum of -0 into +0.
#pragma once

#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/loaders.cuh"
#include "planck/loops/gemm/geometry.h"

namespace planck::gemm_device {

using gemm::Batches;
using gemm::Geometry;

__device__ __forceinline__ float multiply_add(float a, float b, float sum) {
  return __fmaf_rn(a, b, sum);
}
__device__ __forceinline__ double multiply_add(double a, double b, double sum) {
  return __fma_rn(a, b, sum);
}
__device__ __forceinline__ std::int32_t multiply_add(std::int32_t a, std::int32_t b,
                                                     std::int32_t sum) {
  return __dp4a(a, b, sum);
}

// Chunks of a lane, warps of a block, words of k in a step, blocks a multiprocessor should hold.
template <int kDown_, int kAcross_, int kWarpsDown_, int kWarpsAcross_, int kDepth_, int kBlocks_>
struct Tiling {
  static constexpr int kDown = kDown_, kAcross = kAcross_;
  static constexpr int kWarpsDown = kWarpsDown_, kWarpsAcross = kWarpsAcross_;
  static constexpr int kDepth = kDepth_, kBlocks = kBlocks_;
  static constexpr int kThreads = 32 * kWarpsDown * kWarpsAcross;
  template <class Word>
  static constexpr int kRows = kDown * 4 * (16 / sizeof(Word)) * kWarpsDown;
  template <class Word>
  static constexpr int kColumns = kAcross * 8 * (16 / sizeof(Word)) * kWarpsAcross;
};

template <class T>
struct ProductArgs {
  Operand<T> a, b;  // along: M, N
  std::int64_t m, n, k;
  typename Stored<T>::Output* c;
  std::int64_t c_row, c_column;
  bool c_packs;  // rows of C are dense, and 16-byte (8-byte, for 16-bit floats) chunks aligned
  std::int64_t tiles_down, tiles_across;
  Batches batches;
};

// Blocks that run together share rows and columns: tiles go down groups of 8 rows of tiles.
__device__ __forceinline__ void tile_at(std::int64_t id, std::int64_t down, std::int64_t across,
                                        std::int64_t& i, std::int64_t& j) {
  constexpr std::int64_t kGroup = 8;
  const std::int64_t group = id / (kGroup * across);
  const std::int64_t first = group * kGroup, rows = down - first < kGroup ? down - first : kGroup;
  const std::int64_t within = id - group * kGroup * across;
  i = first + within % rows;
  j = within / rows;
}

template <class T>
__device__ __forceinline__ void store_one(typename Stored<T>::Output& to,
                                          typename Stored<T>::Word v) {
  using Output = typename Stored<T>::Output;
  if constexpr (std::is_same_v<Output, std::int32_t>)
    to = v;
  else if constexpr (sizeof(Output) == 2)
    to = Output::from_bits(static_cast<std::uint16_t>(rounded_pair<Output>(v, 0.0f)));
  else
    to = canonical_nan(v);
}

// kV elements that lie densely, 16 (8, for 16-bit floats) bytes at once.
template <class T, int kV>
__device__ __forceinline__ void store_dense(typename Stored<T>::Output* to,
                                            const typename Stored<T>::Word* v) {
  using Output = typename Stored<T>::Output;
  constexpr int kBytes = kV * static_cast<int>(sizeof(Output));
  if constexpr (std::is_same_v<Output, std::int32_t>) {
    *reinterpret_cast<int4*>(to) = make_int4(v[0], v[1], v[2], v[3]);
  } else {
    const Pack<kBytes> pack = packed<Output, kBytes>(v);
    if constexpr (kBytes == 16)
      *reinterpret_cast<uint4*>(to) =
          make_uint4(pack.word[0], pack.word[1], pack.word[2], pack.word[3]);
    else
      *reinterpret_cast<uint2*>(to) = make_uint2(pack.word[0], pack.word[1]);
  }
}

// What a thread owns of a tile.
template <class Word, class Tile>
struct Sums {
  static constexpr int kV = 16 / sizeof(Word);
  static constexpr int kRows = Tile::template kRows<Word>;
  static constexpr int kColumns = Tile::template kColumns<Word>;
  static constexpr int kDown = Tile::kDown * kV, kAcross = Tile::kAcross * kV;

  Word v[kDown][kAcross];

  __device__ __forceinline__ Sums() {
#pragma unroll
    for (int r = 0; r < kDown; ++r)
#pragma unroll
      for (int c = 0; c < kAcross; ++c) v[r][c] = 0;
  }
  // Within the tile: where sum [r][·] and chunk c of [·][c · kV …] belong.
  __device__ __forceinline__ static int row_of(int r) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    return warp / Tile::kWarpsAcross * (Tile::kDown * 4 * kV) + lane / 8 * kV + r / kV * 4 * kV +
           r % kV;
  }
  __device__ __forceinline__ static int chunk_of(int c) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    return warp % Tile::kWarpsAcross * (Tile::kAcross * 8 * kV) + lane % 8 * kV + c * 8 * kV;
  }

  // Adds the products of all `words` of k. A and B: load() brings the next Tile::kDepth words of k
  // into registers, store(to) puts them into shared memory, word [k][row or column].
  template <class A, class B>
  __device__ __forceinline__ void add_products(A& a, B& b, std::int64_t words) {
    constexpr int kDepth = Tile::kDepth;
    __shared__ __align__(16) Word a_parts[2][kDepth][kRows + kV];
    __shared__ __align__(16) Word b_parts[2][kDepth][kColumns + kV];
    const int row = row_of(0), column = chunk_of(0);
    const auto multiply = [&](const Word(*from_a)[kRows + kV], const Word(*from_b)[kColumns + kV],
                              int k) {
      Word av[kDown], bv[kAcross];
#pragma unroll
      for (int c = 0; c < Tile::kDown; ++c) read_chunk(from_a[k] + row + c * 4 * kV, av + c * kV);
#pragma unroll
      for (int c = 0; c < Tile::kAcross; ++c)
        read_chunk(from_b[k] + column + c * 8 * kV, bv + c * kV);
#pragma unroll
      for (int r = 0; r < kDown; ++r)
#pragma unroll
        for (int c = 0; c < kAcross; ++c) v[r][c] = multiply_add(av[r], bv[c], v[r][c]);
    };
    const auto whole = static_cast<unsigned>(words / kDepth),
               steps = static_cast<unsigned>((words + kDepth - 1) / kDepth);
    if (steps > 0) {
      a.load();
      b.load();
      a.store(a_parts[0]);
      b.store(b_parts[0]);
      __syncthreads();
    }
    for (unsigned step = 0; step < steps; ++step) {
      const unsigned now = step & 1;
      if (step + 1 < steps) {
        a.load();
        b.load();
      }
      if (step < whole) {
#pragma unroll
        for (int k = 0; k < kDepth; ++k) multiply(a_parts[now], b_parts[now], k);
      } else {
        const int rest = static_cast<int>(words % kDepth);
        for (int k = 0; k < rest; ++k) multiply(a_parts[now], b_parts[now], k);
      }
      if (step + 1 < steps) {
        a.store(a_parts[now ^ 1]);
        b.store(b_parts[now ^ 1]);
      }
      __syncthreads();
    }
  }
};

template <class T, class Tile, Reading kA, Reading kB>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    multiply_tiles(const ProductArgs<T> p) {
  using Word = typename Stored<T>::Word;
  using Sums = Sums<Word, Tile>;
  constexpr int kV = Sums::kV, kDepth = Tile::kDepth;
  const std::int64_t tiles = p.tiles_down * p.tiles_across;
  const std::int64_t batch = blockIdx.x / tiles;
  std::int64_t i0, j0;
  tile_at(blockIdx.x - batch * tiles, p.tiles_down, p.tiles_across, i0, j0);
  i0 *= Sums::kRows;
  j0 *= Sums::kColumns;
  Loader<T, Sums::kRows, kDepth, Tile::kThreads, kA> a(p.a, p.batches.offset(0, batch), i0, p.m,
                                                       p.k);
  Loader<T, Sums::kColumns, kDepth, Tile::kThreads, kB> b(p.b, p.batches.offset(1, batch), j0, p.n,
                                                          p.k);
  Sums sums;
  sums.add_products(a, b, (p.k + Stored<T>::kInWord - 1) / Stored<T>::kInWord);

  const std::int64_t c_at = p.batches.offset(2, batch);
#pragma unroll
  for (int r = 0; r < Sums::kDown; ++r) {
    const std::int64_t i = i0 + sums.row_of(r);
    if (i >= p.m) continue;
    const std::int64_t at = c_at + i * p.c_row;
#pragma unroll
    for (int c = 0; c < Tile::kAcross; ++c) {
      const std::int64_t j = j0 + sums.chunk_of(c);
      const Word* v = sums.v[r] + c * kV;
      if (p.c_packs) {
        if (j < p.n) store_dense<T, kV>(p.c + at + j, v);
        continue;
      }
#pragma unroll
      for (int e = 0; e < kV; ++e)
        if (j + e < p.n) store_one<T>(p.c[at + (j + e) * p.c_column], v[e]);
    }
  }
}

}  // namespace planck::gemm_device
