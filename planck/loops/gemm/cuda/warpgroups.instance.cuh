// Chooses tiles for warpgroups and launches them. The build makes one source for each element type
// (planck/loops/CMakeLists.txt).
//
// H200, TFLOP/s, cuBLAS in the same run in brackets (s8: TOP/s):
//             2048^3        4096^3        8192^3
//   bf16      555 (508)     755 (712)     754 (748)
//   TF32      321           387           326
//   s8        764           1,318         1,277
// What it took, 4096^3 bf16: tiles of 128 × 256 and two blocks that share B 578; letting go of a
// stage without a fence of the whole GPU 755.
#pragma once

#include "planck/loops/gemm/cuda/lay_along_k.cuh"
#include "planck/loops/gemm/cuda/warpgroups.chained.cuh"
#include "planck/loops/gemm/cuda/warpgroups.h"
#include "planck/loops/gemm/cuda/warpgroups.launch.cuh"

namespace planck::gemm_device {

template <class T>
using WarpgroupArgs =
    std::conditional_t<std::is_same_v<T, std::int8_t>, TensorArgs<std::int32_t>, FollowedArgs<T>>;

// The tiles that take the least time: waves of blocks times what a tile costs.
struct TileChoice {
  int columns, cluster;
};
// Columns that lie beside one another come 64 at a time.
inline TileChoice choose_tiles(std::int64_t m, std::int64_t n, std::int64_t batches, int processors,
                               bool major_k) {
  constexpr TileChoice kTiles[] = {{256, 2}, {128, 2}, {64, 1}, {32, 1}};
  TileChoice best = kTiles[0];
  std::int64_t least = INT64_MAX;
  for (const TileChoice& t : kTiles) {
    if (t.columns < 64 && !major_k) continue;
    const std::int64_t clusters =
        batches * ceil_div(m, kTileRows * t.cluster) * ceil_div(n, t.columns);
    const std::int64_t cost = ceil_div(clusters, processors / t.cluster) * (t.columns + 24);
    if (cost < least) least = cost, best = t;
  }
  return best;
}

template <class T, bool kMajorKA, bool kMajorKB, class Args>
Result<void> launch_tiles(const Stream& stream, const TensorOperand& a, const TensorOperand& b,
                          const Args& p) {
  const int processors = processors_of(stream);
  const cudaStream_t queue = native(stream);
  const TileChoice tiles = choose_tiles(p.m, p.n, p.walk.batches, processors, kMajorKB);
  if (tiles.columns == 256)
    return launch_warpgroups<Chained<T, 256, 2, kMajorKA, kMajorKB>>(queue, processors, a, b, p);
  if (tiles.columns == 128)
    return launch_warpgroups<Chained<T, 128, 2, kMajorKA, kMajorKB>>(queue, processors, a, b, p);
  if constexpr (kMajorKB)
    if (tiles.columns == 32) {
      // Lower tiles where A is read by so few multiprocessors that these are what it waits for.
      const bool low = ceil_div(p.m, 64) * ceil_div(p.n, 32) * p.walk.batches <= processors;
      if constexpr (kMajorKA) {
        if (low) return launch_warpgroups<ThinWarpgroups<T>>(queue, processors, a, b, p);
      } else if (low) {
        return launch_warpgroups<Chained<T, 32, 1, kMajorKA, kMajorKB, 64>>(queue, processors, a, b,
                                                                            p);
      }
      return launch_warpgroups<Chained<T, 32, 1, kMajorKA, kMajorKB>>(queue, processors, a, b, p);
    }
  return launch_warpgroups<Chained<T, 64, 1, kMajorKA, kMajorKB>>(queue, processors, a, b, p);
}

// An operand that lies along k, copied there where it does not.
template <class T>
Result<void> along_k(const Stream& stream, TensorOperand& x, void* room) {
  if (copyable(x, sizeof(T)) && x.major_k()) return {};
  constexpr std::int64_t kChunk = 16 / sizeof(T);
  const std::int64_t own = x.batch_stride != 0 ? x.batches : 1,
                     depth = ceil_div(x.k, kChunk) * kChunk;
  const Lying<T> from{
      static_cast<const T*>(x.data), x.rows, x.k, own, x.row_stride, x.k_stride, x.batch_stride};
  lay_along_k<<<tiles_of(from, depth), kLayThreads, 0, native(stream)>>>(
      from, static_cast<T*>(room), depth);
  x = {room, x.rows, x.k, depth, 1, x.batches, own > 1 ? x.rows * depth : 0};
  return cuda_result(cudaGetLastError(), "matmul");
}

// Args: of integers and of sums that are not rounded TensorArgs, else FollowedArgs.
template <class Args>
Args arguments(const WarpgroupRun& run) {
  const gemm::Geometry& g = run.g;
  Args p{};
  p.c = static_cast<typename Args::Output*>(g.c.data) + run.offsets[2];
  p.c_row = g.c.row, p.c_column = g.c.column, p.c_batch = run.strides[2];
  p.m = static_cast<int>(g.m), p.n = static_cast<int>(g.n), p.k = static_cast<int>(g.k);
  p.c_packs = packs_rows(p);
  p.walk.batches = static_cast<int>(run.batches);
  if constexpr (requires { p.follows; })
    p.follows = following<typename Args::Output>(g, run.offsets[3], run.strides[3]);
  return p;
}

template <class T>
Result<void> run_warpgroups(const Stream& stream, const WarpgroupRun& run, bool& ran) {
  const gemm::Geometry& g = run.g;
  TensorOperand a{static_cast<const T*>(g.a.data) + run.offsets[0],
                  g.m,
                  g.k,
                  g.a.row,
                  g.a.column,
                  run.batches,
                  run.strides[0]};
  TensorOperand b{static_cast<const T*>(g.b.data) + run.offsets[1],
                  g.n,
                  g.k,
                  g.b.column,
                  g.b.row,
                  run.batches,
                  run.strides[1]};
  const auto p = arguments<WarpgroupArgs<T>>(run);
  ran = true;
  if constexpr (sizeof(T) != 2) {
    if (auto ok = along_k<T>(stream, a, run.copies[0]); !ok) return ok;
    if (auto ok = along_k<T>(stream, b, run.copies[1]); !ok) return ok;
    return launch_tiles<T, true, true>(stream, a, b, p);
  } else {
    ran = copyable(a, sizeof(T)) && copyable(b, sizeof(T)) &&
          !(run.sums && (a.major_k() || b.major_k()));
    if (!ran) return {};
    if (run.sums)
      return launch_tiles<T, false, false>(stream, a, b, arguments<TensorArgs<float>>(run));
    if (a.major_k())
      return b.major_k() ? launch_tiles<T, true, true>(stream, a, b, p)
                         : launch_tiles<T, true, false>(stream, a, b, p);
    return b.major_k() ? launch_tiles<T, false, true>(stream, a, b, p)
                       : launch_tiles<T, false, false>(stream, a, b, p);
  }
}

}  // namespace planck::gemm_device

#define PLANCK_INSTANTIATE(T)                                                         \
  namespace planck::gemm_device {                                                     \
  template Result<void> run_warpgroups<T>(const Stream&, const WarpgroupRun&, bool&); \
  }
