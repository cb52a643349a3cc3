// Matrices brought to lie along k, as warpgroups read bytes and words. Rows are those of A, or the
// columns of B.
#pragma once

#include "planck/loops/cuda/launch.cuh"

namespace planck::gemm_device {

// A matrix as it lies: element (r, k) of batch t is t * batch + r * row + k * depth elements on.
template <class T>
struct Lying {
  const T* data;
  std::int64_t rows, k, batches;
  std::int64_t row, depth, batch;
};

inline constexpr int kLayRows = 32, kLayDepth = 128, kLayThreads = 256;

// One tile of 32 rows by 128 of k per block; lanes go along the axis that is dense.
template <class T, class Put>
__device__ __forceinline__ void read_tile(const Lying<T>& x, Put put) {
  const T* const from = x.data + blockIdx.z * x.batch;
  const std::int64_t r0 = std::int64_t{blockIdx.x} * kLayRows,
                     k0 = std::int64_t{blockIdx.y} * kLayDepth;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const bool along_k = x.depth == 1;
#pragma unroll 4
  for (int i = 0; i < kLayRows * kLayDepth / kLayThreads; ++i) {
    const int r = along_k ? warp + i / 4 * 8 : lane, k = along_k ? lane + i % 4 * 32 : warp + i * 8;
    const bool inside = r0 + r < x.rows && k0 + k < x.k;
    put(r, k, inside ? from[(r0 + r) * x.row + (k0 + k) * x.depth] : T{0});
  }
}

// to: [batch][row][depth], depth a multiple of 16 bytes, filled up with zeros.
template <class T>
__global__ void __launch_bounds__(kLayThreads) lay_along_k(Lying<T> x, T* to, std::int64_t depth) {
  constexpr int kPad = 16 / int{sizeof(T)};
  __shared__ __align__(16) T tile[kLayRows][kLayDepth + kPad];
  read_tile(x, [&](int r, int k, T v) { tile[r][k] = v; });
  __syncthreads();
  constexpr int kChunks = kLayDepth / kPad;
  for (int u = static_cast<int>(threadIdx.x); u < kLayRows * kChunks; u += kLayThreads) {
    const std::int64_t r = std::int64_t{blockIdx.x} * kLayRows + u / kChunks;
    const std::int64_t k = std::int64_t{blockIdx.y} * kLayDepth + u % kChunks * kPad;
    if (r < x.rows && k < depth)
      *reinterpret_cast<uint4*>(to + (blockIdx.z * x.rows + r) * depth + k) =
          *reinterpret_cast<const uint4*>(&tile[u / kChunks][u % kChunks * kPad]);
  }
}

template <class T>
dim3 tiles_of(const Lying<T>& x, std::int64_t depth) {
  return dim3(static_cast<unsigned>(ceil_div(x.rows, kLayRows)),
              static_cast<unsigned>(ceil_div(depth, kLayDepth)), static_cast<unsigned>(x.batches));
}

}  // namespace planck::gemm_device
