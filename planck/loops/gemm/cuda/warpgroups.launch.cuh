// Launching warpgroups.cuh: maps of A and B for the copy engine, tiles, clusters.
#pragma once

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/warpgroups.cuh"

namespace planck::gemm_device {

// A matrix as the copy engine sees it: `along` is the axis with stride 1. rows: of A, columns of B.
struct TensorOperand {
  const void* data;
  std::int64_t rows, k;
  std::int64_t row_stride, k_stride;  // elements; one of them is 1
  std::int64_t batches, batch_stride;
  bool major_k() const { return k_stride == 1; }
};

// Whether the copy engine can read it.
inline bool copyable(const TensorOperand& x, std::int64_t size) {
  const auto whole = [&](std::int64_t stride) {
    const std::int64_t bytes = stride * size;
    return bytes >= 16 && bytes % 16 == 0 && bytes < std::int64_t{1} << 40;
  };
  if (reinterpret_cast<std::uintptr_t>(x.data) % 16 != 0) return false;
  if (x.rows > INT32_MAX || x.k > INT32_MAX || x.batches > INT32_MAX) return false;
  if (x.batches > 1 && x.batch_stride != 0 && !whole(x.batch_stride)) return false;
  if (x.k_stride == 1) return x.rows == 1 || whole(x.row_stride);
  return size == 2 && x.row_stride == 1 && (x.k == 1 || whole(x.k_stride));
}

template <class E>
Result<CUtensorMap> tensor_map(const TensorOperand& x, int box_rows) {
  const auto encode = tensor_map_encoder();
  if (encode == nullptr) return fail(ErrorCode::device, "matmul: the driver has no tensor maps");
  constexpr CUtensorMapDataType kType = sizeof(E) == 4   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                        : sizeof(E) == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                                         : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  constexpr int kDepth = kStepBytes / int{sizeof(E)};
  const bool major_k = x.major_k(), batched = x.batches > 1 && x.batch_stride != 0;
  const std::int64_t across = major_k ? x.row_stride : x.k_stride;
  const std::int64_t lines = major_k ? x.rows : x.k, width = major_k ? x.k : x.rows;
  const auto bytes = [](std::int64_t n) { return static_cast<cuuint64_t>(n) * sizeof(E); };
  const cuuint64_t extents[3] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(lines),
                                 static_cast<cuuint64_t>(batched ? x.batches : 1)};
  const cuuint64_t strides[2] = {lines > 1 ? bytes(across) : 16,
                                 batched ? bytes(x.batch_stride) : 16};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(major_k ? kDepth : 64),
                             static_cast<cuuint32_t>(major_k ? box_rows : kDepth), 1};
  const cuuint32_t steps[3] = {1, 1, 1};
  CUtensorMap map;
  if (encode(&map, kType, 3, const_cast<void*>(x.data), extents, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    return fail(ErrorCode::device, "matmul: the driver refuses a tensor map");
  return map;
}

inline int processors_of(const Stream& stream) {
  int count = 1;
  (void)cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, stream.device().ordinal);
  return count;
}

// Whether rows of C can be stored in chunks of 16 bytes.
template <class Output>
bool packs_rows(const TensorArgs<Output>& p) {
  constexpr std::int64_t kChunk = 16 / sizeof(Output);
  return p.c_column == 1 && p.n % kChunk == 0 && (p.c_row % kChunk == 0 || p.m == 1) &&
         p.c_batch % kChunk == 0 && reinterpret_cast<std::uintptr_t>(p.c) % 16 == 0;
}

// Calls f(count, strides, offsets) for runs of batches with one stride per operand: the innermost
// axis.
template <class F>
Result<void> each_run(const gemm::Batches& batches, F&& f) {
  constexpr int kAll = gemm::kBatchOperands;
  std::int64_t strides[kAll] = {}, offsets[kAll];
  const std::int64_t run = batches.rank == 0 ? 1 : batches.extent[batches.rank - 1];
  for (int o = 0; o < kAll && batches.rank > 0; ++o)
    strides[o] = batches.stride[o][batches.rank - 1];
  for (std::int64_t t = 0; t < batches.count; t += run) {
    for (int o = 0; o < kAll; ++o) offsets[o] = batches.offset(o, t);
    if (auto ok = f(run, strides, offsets); !ok) return ok;
  }
  return {};
}

// Blocks in clusters, one for each processor at most, with the shared memory that they need. Where
// W says kFollows, as the next of a chain (loops/cuda/chain.cuh).
template <class W, class... P>
Result<void> launch_clusters(cudaStream_t stream, void (*kernel)(P...), std::int64_t clusters,
                             const P&... arguments) {
  // Kept by the function, for whichever device is current: it costs a microsecond.
  if (auto ok = cuda_result(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, W::kShared),
          "matmul");
      !ok)
    return ok;
  cudaLaunchAttribute attributes[2];
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {W::kCluster, 1, 1};
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(clusters * W::kCluster));
  config.blockDim = dim3(W::kThreads);
  config.dynamicSmemBytes = W::kShared;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = requires { W::kFollows; }
  ? 2 : 1;
  return cuda_result(cudaLaunchKernelEx(&config, kernel, arguments...), "matmul");
}

template <class W, class Args>
Result<void> launch_warpgroups(cudaStream_t stream, int processors, const TensorOperand& a,
                               const TensorOperand& b, Args p) {
  // Boxes no higher than the matrix: the engine is slow where it has to fill in zeros. What lies in
  // the rest of a stage goes to sums that nobody stores.
  constexpr int kShare = W::kColumns / W::kCluster;
  const auto box = [](const TensorOperand& x, int most) {
    return x.major_k() && W::kCluster == 1 && x.rows < most ? static_cast<int>(x.rows) : most;
  };
  const int box_a = box(a, W::kRows), box_b = box(b, kShare);
  const auto map_a = tensor_map<typename W::Element>(a, box_a);
  if (!map_a) return tl::unexpected(map_a.error());
  const auto map_b = tensor_map<typename W::Element>(b, box_b);
  if (!map_b) return tl::unexpected(map_b.error());
  p.stage_bytes = (box_a + box_b * W::kCluster) * kStepBytes;
  p.a_batches = a.batch_stride != 0, p.b_batches = b.batch_stride != 0;
  p.walk.down = static_cast<int>(ceil_div(p.m, W::kRows * W::kCluster));
  p.walk.across = static_cast<int>(ceil_div(p.n, W::kColumns));
  const std::int64_t tiles = std::int64_t{p.walk.down} * p.walk.across * p.walk.batches;
  return launch_clusters<W>(stream, multiply_warpgroups<W, Args>,
                            std::min<std::int64_t>(tiles, processors / W::kCluster), *map_a, *map_b,
                            p);
}

}  // namespace planck::gemm_device
