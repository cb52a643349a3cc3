// Exact convolutions by warpgroups on s8 digits (compute capability 9.0a): what a block multiplies,
// whoever brings it.
//
// f32 becomes three digits (planck/math/products/exact_product.h), and the nine products of digits
// i and j belong to five sums, by i + j. A block owns 128 rows by 64 columns, a warpgroup 64 rows,
// so that all five sums fit into registers and each digit is brought once. Rows are read into
// registers, once for three products; columns stay in shared memory. Two blocks of a cluster share
// columns, or rows.
//
// Integers have no order: sums may be cut along k, and are then added in the workspace.
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/cuda/elected.cuh"
#include "planck/loops/gemm/cuda/warpgroups.launch.cuh"
#include "planck/math/products/exact_product.h"

namespace planck::conv_device {

inline constexpr int kDigits = 3;
// Products of one sum of 32 bits: two of digits up to 65 and 128, one of digits up to 128.
inline constexpr std::int64_t kMostIn32Bits = 65'024;

// kBlock: bytes of k of a stage, 64 or 128. kShareRows: whether the two blocks have the same rows
// and columns side by side, or the same columns and rows one above the other.
template <int kBlock_, bool kShareRows_>
struct DigitTiles {
  static constexpr int kBlock = kBlock_;
  static constexpr bool kShareRows = kShareRows_;
  static constexpr int kRows = 128, kColumns = 64, kCluster = 2, kThreads = 3 * 128;
  static constexpr int kPlaneA = kRows * kBlock, kPlaneB = kColumns * kBlock;
  static constexpr int kStage = kDigits * (kPlaneA + kPlaneB);
  static constexpr int kStages = kBlock == 64 ? 6 : 3;
  static constexpr int kShared = 1024 + kStages * (kStage + 16);
  // What one block brings of a tile's rows and columns.
  static constexpr int kOwnRows = kShareRows ? kRows / 2 : kRows;
  static constexpr int kOwnColumns = kShareRows ? kColumns : kColumns / 2;
};

// Where a block's tile begins: a walk counts pairs of tiles, which share the other operand.
struct DigitPlace {
  int row, column;
};
template <class W>
__device__ DigitPlace begin_of(int row, int column, int rank) {
  if (W::kShareRows) return {row * W::kRows, (column * 2 + rank) * W::kColumns};
  return {(row * 2 + rank) * W::kRows, column * W::kColumns};
}
template <class W>
gemm_device::TileWalk walk_over(std::int64_t rows, std::int64_t columns, std::int64_t batches) {
  return {static_cast<int>(ceil_div(rows, W::kRows * (W::kShareRows ? 1 : 2))),
          static_cast<int>(ceil_div(columns, W::kColumns * (W::kShareRows ? 2 : 1))),
          static_cast<int>(batches)};
}
inline __host__ __device__ int count_of(const gemm_device::TileWalk& w) {
  return w.down * w.across * w.batches;
}

// sums += rows in registers by 64 columns, 32 bytes of k. Lane l has of row l / 4, and of that plus
// 8, four bytes from 4 (l % 4) on (a[0], a[1]) and from there plus 16 (a[2], a[3]).
__device__ __forceinline__ void multiply_bytes(std::int32_t (&d)[32], const std::uint32_t (&a)[4],
                                               std::uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 " PLANCK_NUMBERS_64
               ", {%32, %33, %34, %35}, %36, 1;"
               : PLANCK_SUMS_64(PLANCK_INT_SUM, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
// Four matrices of 8 rows by 16 bytes, each lane with the address of a row: what the above wants.
__device__ __forceinline__ void read_rows(std::uint32_t (&a)[4], unsigned at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"(at)
               : "memory");
}

// Sums of a warpgroup, 64 rows by 64 columns: sums[d] of digits i and j with i + j = d.
using DigitSums = std::int32_t[5][32];

// What a warpgroup multiplies: stages of a ring, in turn.
template <class W>
struct DigitRing {
  char* stages;
  std::uint64_t *full, *empty;
  gemm_device::Turn<W::kStages> turn;
  int lead;  // stages after which the second warpgroup may begin; below 0: it has

  __device__ char* rows(int digit) const {
    return stages + turn.stage * W::kStage + digit * W::kPlaneA;
  }
  __device__ char* columns(int digit) const {
    return rows(0) + kDigits * W::kPlaneA + digit * W::kPlaneB;
  }
  // A stage that is free, for all the bytes that this block and its neighbour bring.
  __device__ std::uint64_t* take_free() const {
    await_phase(empty + turn.stage, turn.parity ^ 1);
    expect_bytes(full + turn.stage, W::kStage);
    return full + turn.stage;
  }
  __device__ void release(int stage) const {
    if (threadIdx.x % 128 < W::kCluster) arrive_at(empty + stage, threadIdx.x % 128);
  }

  // The first warpgroup begins some stages ahead, so that it multiplies while the second stores. Of
  // both, before their first tile.
  __device__ void begin(int group, int steps) {
    lead = group == 0 ? min(steps / 2, W::kStages - 2) : -1;
    if (group == 1) asm volatile("bar.sync 1, 256;" ::: "memory");
  }
  __device__ void let_second_begin() {
    asm volatile("bar.arrive 1, 256;" ::: "memory");
    lead = -1;
  }

  // `steps` stages that this warpgroup has no rows of. One is let go when all four warps have seen
  // it: a warp that still stores, alone, would miss it, and wait for a parity that is not to come.
  __device__ void pass_over(int group, int steps) {
    if (lead >= 0) let_second_begin();
#pragma unroll 1
    for (; steps > 0; --steps, turn.next()) {
      await_phase(full + turn.stage, turn.parity);
      asm volatile("bar.sync %0, 128;" ::"r"(2 + group) : "memory");
      release(turn.stage);
    }
  }
  // `steps` stages.
  __device__ __forceinline__ void add_up(DigitSums& sums, int steps) {
    constexpr int kSteps = W::kBlock / 32;
    const int group = static_cast<int>(threadIdx.x) / 128 - 1;
    const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // 16 bytes of a row lie at their place, or others' of the same 64 or 128 bytes: by row.
    const int row = group * 64 + warp * 16 + lane % 16;
    const int turned = W::kBlock == 64 ? row / 2 % 4 : row % 8;
    const unsigned at = static_cast<unsigned>(row * W::kBlock);
    const unsigned chunk = static_cast<unsigned>(lane / 16 ^ turned) * 16;
#pragma unroll
    for (auto& of_digit : sums)
#pragma unroll
      for (std::int32_t& v : of_digit) v = 0;
    std::uint32_t a[2][kDigits][4];
    int last = -1;
#pragma unroll 1
    for (int s = 0; s < steps; ++s) {
      await_phase(full + turn.stage, turn.parity);
      const unsigned from = shared_address(rows(0)) + at;
      const std::uint64_t b = columns_descriptor(columns(0));
#pragma unroll
      for (int i = 0; i < kSteps; ++i) {
        gemm_device::wgmma_await<1>();  // so that a[i % 2] is free again
        if (i == 1 && s > 0) release(last);
#pragma unroll
        for (int d = 0; d < kDigits; ++d)
          read_rows(a[i % 2][d],
                    from + static_cast<unsigned>(d * W::kPlaneA) + (chunk ^ (32u * i)));
        gemm_device::wgmma_begin();
#pragma unroll
        for (int x = 0; x < kDigits; ++x)
#pragma unroll
          for (int y = 0; y < kDigits; ++y)
            multiply_bytes(sums[x + y], a[i % 2][x], b + 2 * i + y * (W::kPlaneB / 16));
        gemm_device::wgmma_end();
      }
      if (s == lead) let_second_begin();
      last = turn.stage;
      turn.next();
    }
    gemm_device::wgmma_await<0>();
    if (steps > 0) release(last);
#pragma unroll
    for (auto& of_digit : sums) hold(of_digit);
  }

 private:
  static __device__ __forceinline__ std::uint64_t columns_descriptor(const char* tile) {
    constexpr std::uint64_t kEight = 8 * W::kBlock / 16, kSwizzle = W::kBlock == 64 ? 2 : 1;
    return (shared_address(tile) & 0x3ffffu) >> 4 | std::uint64_t{1} << 16 | kEight << 32 |
           kSwizzle << 62;
  }
  // Sums are read from here on, not before.
  static __device__ __forceinline__ void hold(std::int32_t (&d)[32]) {
#pragma unroll
    for (std::int32_t& v : d) asm volatile("" : "+r"(v)::"memory");
  }
};

// Sum i of digits as one integer.
__device__ __forceinline__ std::int64_t joined(const DigitSums& s, int i) {
  std::int64_t sum = s[4][i];  // an instruction for each of the others
  sum += std::int64_t{s[3][i]} * 256;
  sum += std::int64_t{s[2][i]} * 65536;
  sum += std::int64_t{s[1][i]} * 16777216;
  return sum + std::int64_t{s[0][i]} * 4294967296;
}

inline __device__ __noinline__ float odd_sum(std::int64_t sum, int n) {
  return math::exact::round_exact(sum, n);
}
// sum · 2^n, rounded once. Away from the ends of f32 the power of two only moves the exponent; odd
// where it does not.
__device__ __forceinline__ float usual_sum(std::int64_t sum, int n, bool& odd) {
  const std::uint32_t bits = __float_as_uint(__ll2float_rn(sum));
  const std::uint32_t exponent = (bits >> 23 & 0xff) + static_cast<std::uint32_t>(n);
  odd = odd || (bits != 0 && exponent - 1 >= 254);
  return bits == 0 ? 0.0f : __uint_as_float(bits + (static_cast<std::uint32_t>(n) << 23));
}

// Product says what tiles there are (count, tile), what is brought (bring), how many stages a tile
// has (steps), which warpgroups have rows of it (has_rows) and where sums go (store).
template <class W, class Product>
__global__ void __launch_bounds__(W::kThreads, 1)
    multiply_digit_tiles(const __grid_constant__ CUtensorMap map_a,
                         const __grid_constant__ CUtensorMap map_b,
                         const __grid_constant__ Product p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  let_next_begin();
  extern __shared__ char shared[];
  DigitRing<W> ring{
      shared + (1024 - (shared_address(shared) & 1023)) % 1024, nullptr, nullptr, {}, -1};
  ring.full = reinterpret_cast<std::uint64_t*>(ring.stages + W::kStages * W::kStage);
  ring.empty = ring.full + W::kStages;
  gemm_device::begin_ring<W>(ring.full, ring.empty);
  await_last();  // what follows reads memory
  const int rank = static_cast<int>(gemm_device::cluster_rank());
  const int first = static_cast<int>(blockIdx.x) / W::kCluster,
            step = static_cast<int>(gridDim.x) / W::kCluster, count = p.count();
  if (threadIdx.x < 128) {
    gemm_device::leave_registers<40>();
    if (is_elected_of_block())
      for (int t = first; t < count; t += step)
        p.template bring<W>(map_a, map_b, p.template tile<W>(t, rank), rank, ring);
  } else {
    gemm_device::take_registers<232>();
    const int group = static_cast<int>(threadIdx.x) / 128 - 1;
    for (int t = first; t < count; t += step) {
      const auto tile = p.template tile<W>(t, rank);
      const int steps = p.template steps<W>(tile);
      if (t == first) ring.begin(group, steps);
      if (!p.has_rows(tile, group)) {
        ring.pass_over(group, steps);
        continue;
      }
      DigitSums sums;
      ring.add_up(sums, steps);
      p.template store<W>(sums, tile);
    }
  }
  gemm_device::cluster_sync();  // nobody leaves while others arrive at its barriers
#endif
}

// The next of a chain.
template <class W, class Product>
Result<void> launch_digit_tiles(const Stream& stream, const CUtensorMap& map_a,
                                const CUtensorMap& map_b, const Product& p) {
  const std::int64_t clusters =
      std::min<std::int64_t>(p.count(), gemm_device::processors_of(stream) / W::kCluster);
  const auto kernel = multiply_digit_tiles<W, Product>;
  if (auto ok = cuda_result(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, W::kShared),
          "conv2d");
      !ok)
    return ok;
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {W::kCluster, 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(clusters * W::kCluster));
  config.blockDim = dim3(W::kThreads);
  config.dynamicSmemBytes = W::kShared;
  config.stream = native(stream);
  config.attrs = attributes;
  config.numAttrs = 2;
  return cuda_result(cudaLaunchKernelEx(&config, kernel, map_a, map_b, p), "conv2d");
}

// The map of a matrix of digits along k: [batch][row][k].
inline Result<CUtensorMap> digit_map(const void* data, std::int64_t rows, std::int64_t depth,
                                     std::int64_t pitch, std::int64_t batches, int box_rows,
                                     int block) {
  const auto encode = tensor_map_encoder();
  if (encode == nullptr) return fail(ErrorCode::device, "conv2d: the driver has no tensor maps");
  const auto count = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t extents[3] = {count(depth), count(rows), count(batches)};
  const cuuint64_t strides[2] = {count(pitch), count(rows * pitch)};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(block), static_cast<cuuint32_t>(box_rows), 1};
  const cuuint32_t steps[3] = {1, 1, 1};
  CUtensorMap map;
  if (encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, const_cast<void*>(data), extents, strides, box,
             steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             block == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    return fail(ErrorCode::device, "conv2d: the driver refuses a tensor map");
  return map;
}

}  // namespace planck::conv_device
