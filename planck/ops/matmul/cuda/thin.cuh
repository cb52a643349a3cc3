// Products of few rows on the GPU, where reading B is what takes time: a block owns 32 columns and
// up to 16 rows, and keeps three steps of 64 k of B in flight, past the registers.
//
// N = K = 4096, f32, one H200, us:              M = 1                      8      32
//   three steps in flight                       71 (59 if k is dense)     84     240
//   tiles of 16 × 32 that load one step ahead                            186     188
//   cublasLt                                    21                        47
#pragma once

#include <cuda_pipeline.h>

#include "planck/loops/gemm/cuda/tile.cuh"

namespace planck::gemm_device {

inline constexpr std::int64_t kThinRows = 16, kThinColumns = 32, kThinDepth = 64;
inline constexpr int kThinWarps = 4, kThinStages = 4;

// Four consecutive elements, in the type they are multiplied in.
template <class T>
__device__ __forceinline__ void read_four(const T* from, Compute<T>* to) {
  struct alignas(sizeof(T) == 2 ? 8 : 16) Raw {
    T element[4];
  };
  const Raw raw = *reinterpret_cast<const Raw*>(from);
#pragma unroll
  for (int e = 0; e < 4; ++e) to[e] = widen(raw.element[e]);
}

// Steps of B lie as [k][column] (along) or [column][k] (across), the latter with rows padded by 16
// bytes, so that lanes that go down columns do not meet in a bank.
template <class T, Reading kB>
struct ThinPart {
  static constexpr int kChunk = 16 / static_cast<int>(sizeof(Compute<T>));
  static constexpr bool kAlong = kB == Reading::along;
  static constexpr int kLong = kAlong ? kThinColumns : kThinDepth;
  static constexpr int kLines = kAlong ? kThinDepth : kThinColumns;
  static constexpr int kStep = kLong + (kAlong ? 0 : 16 / static_cast<int>(sizeof(T)));
  T element[kLines * kStep];

  __device__ __forceinline__ void fetch(const Operand<T>& b, const T* from, std::int64_t columns,
                                        std::int64_t depth) {
    constexpr int kChunks = kLong / kChunk;
    for (int u = static_cast<int>(threadIdx.x); u < kLines * kChunks; u += 32 * kThinWarps) {
      const int line = u / kChunks, at = u % kChunks * kChunk;
      const int k = kAlong ? line : at, j = kAlong ? at : line;
      const bool inside = k < depth && j < columns;
      const T* source = inside ? from + k * b.depth + j * b.along : from;
      __pipeline_memcpy_async(element + line * kStep + at, source, kChunk * sizeof(T),
                              inside ? 0 : kChunk * sizeof(T));
    }
  }
  __device__ __forceinline__ void four_of_k(int k, int j, Compute<T>* to) const {
    if constexpr (kAlong) {
#pragma unroll
      for (int e = 0; e < 4; ++e) to[e] = widen(element[(k + e) * kStep + j]);
    } else {
      read_four(element + j * kStep + k, to);
    }
  }
};

// Warp w has rows w, w + 4, …, kRows of them; lanes have columns.
template <class T, Reading kB, int kRows>
__global__ void __launch_bounds__(32 * kThinWarps) multiply_thin(const ProductArgs<T> p) {
  using C = Compute<T>;
  constexpr int kThreads = 32 * kThinWarps, kDepth = static_cast<int>(kThinDepth);
  constexpr int kUnits = kThinWarps * kRows * kDepth / kThreads;
  extern __shared__ __align__(16) unsigned char shared[];
  auto* b_parts = reinterpret_cast<ThinPart<T, kB>*>(shared);
  auto* a_parts = reinterpret_cast<C*>(shared + kThinStages * sizeof(ThinPart<T, kB>));

  const std::int64_t batch = blockIdx.x / p.tiles_across;
  const std::int64_t j0 = (blockIdx.x - batch * p.tiles_across) * kThinColumns;
  const T* a = p.a.data + p.batches.offset(0, batch);
  const T* b = p.b.data + p.batches.offset(1, batch) + j0 * p.b.along;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  T raw[kUnits];
  const auto load_a = [&](std::int64_t k0) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int unit = static_cast<int>(threadIdx.x) + u * kThreads;
      const int i = unit / kDepth;
      const std::int64_t k = k0 + unit % kDepth;
      raw[u] = i < p.m && k < p.k ? a[i * p.a.along + k * p.a.depth] : T{};
    }
  };
  const auto store_a = [&](std::int64_t step) {
    C* to = a_parts + (step & 1) * kThinWarps * kRows * kDepth;
#pragma unroll
    for (int u = 0; u < kUnits; ++u)
      to[static_cast<int>(threadIdx.x) + u * kThreads] = widen(raw[u]);
  };
  const std::int64_t steps = (p.k + kDepth - 1) / kDepth;
  const auto fetch_b = [&](std::int64_t step) {
    if (step < steps)
      b_parts[step % kThinStages].fetch(p.b, b + step * kDepth * p.b.depth, p.n - j0,
                                        p.k - step * kDepth);
    __pipeline_commit();
  };
  for (int s = 0; s + 1 < kThinStages; ++s) fetch_b(s);
  load_a(0);
  store_a(0);
  C sums[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) sums[r] = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    __pipeline_wait_prior(kThinStages - 2);
    __syncthreads();
    fetch_b(step + kThinStages - 1);
    load_a((step + 1) * kDepth);
    const ThinPart<T, kB>& part = b_parts[step % kThinStages];
    const C* rows = a_parts + (step & 1) * kThinWarps * kRows * kDepth;
    const std::int64_t left = p.k - step * kDepth;
    const int depth = left < kDepth ? static_cast<int>(left) : kDepth;
    int k = 0;
#pragma unroll 4
    for (; k + 4 <= depth; k += 4) {
      C bv[4];
      part.four_of_k(k, lane, bv);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (warp + kThinWarps * r >= p.m) break;  // the same for the whole warp
        C av[4];
        read_four(rows + (warp + kThinWarps * r) * kDepth + k, av);
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[r] = multiply_add(av[e], bv[e], sums[r]);
      }
    }
    for (; k < depth; ++k) {
      const C bk = widen(part.element[part.kAlong ? k * part.kStep + lane : lane * part.kStep + k]);
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        sums[r] = multiply_add(rows[(warp + kThinWarps * r) * kDepth + k], bk, sums[r]);
    }
    store_a(step + 1);
  }
  if (j0 + lane >= p.n) return;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t i = warp + kThinWarps * r;
    if (i < p.m)
      store_one<T>(p.c[p.batches.offset(2, batch) + i * p.c_row + (j0 + lane) * p.c_column],
                   sums[r]);
  }
}

template <class T, Reading kB, int kRows>
Result<void> launch_thin_rows(const Stream& stream, ProductArgs<T> p) {
  p.tiles_across = ceil_div(p.n, kThinColumns);
  constexpr std::size_t kShared = kThinStages * sizeof(ThinPart<T, kB>) +
                                  2 * kThinWarps * kRows * kThinDepth * sizeof(Compute<T>);
  if constexpr (kShared > 48 * 1024) {
    const cudaError_t allowed = cudaFuncSetAttribute(multiply_thin<T, kB, kRows>,
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     static_cast<int>(kShared));
    if (auto ok = cuda_result(allowed, "matmul: shared memory"); !ok) return ok;
  }
  const std::int64_t blocks = p.batches.count * p.tiles_across;
  if (blocks > INT32_MAX)
    return fail(ErrorCode::device, "matmul: " + std::to_string(blocks) + " blocks exceed a grid");
  multiply_thin<T, kB, kRows>
      <<<static_cast<unsigned>(blocks), 32 * kThinWarps, kShared, native(stream)>>>(p);
  return cuda_result(cudaGetLastError(), "matmul");
}

template <class T>
bool is_thin(const ProductArgs<T>& p) {
  return p.m <= kThinRows && p.k >= 2 * kThinDepth && p.b.reading != Reading::strided;
}

template <class T>
Result<void> launch_thin(const Stream& stream, const ProductArgs<T>& p) {
  const auto with = [&](auto reading) {
    constexpr Reading kB = decltype(reading)::value;
    if (p.m <= 4) return launch_thin_rows<T, kB, 1>(stream, p);
    if (p.m <= 8) return launch_thin_rows<T, kB, 2>(stream, p);
    return launch_thin_rows<T, kB, 4>(stream, p);
  };
  if (p.b.reading == Reading::along) return with(std::integral_constant<Reading, Reading::along>{});
  return with(std::integral_constant<Reading, Reading::across>{});
}

}  // namespace planck::gemm_device
