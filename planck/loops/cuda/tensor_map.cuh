// Maps by which the copy engine finds boxes of a tensor in global memory (compute capability 9.0
// and newer), and the barriers in shared memory on which its copies complete. For older GPUs this
// compiles to nothing; no row that uses it serves them.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "planck/loops/cuda/async_copy.cuh"

namespace planck {

// The driver's encoder, or null where the driver has none.
inline PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encoder() {
  static const auto encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult how;
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                                12000, cudaEnableDefault, &how);
    if (status != cudaSuccess) (void)cudaGetLastError();
    const bool usable = status == cudaSuccess && how == cudaDriverEntryPointSuccess;
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(usable ? found : nullptr);
  }();
  return encode;
}

// The same for windows of images.
inline PFN_cuTensorMapEncodeIm2col_v12000 window_map_encoder() {
  static const auto encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult how;
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", &found,
                                                                12000, cudaEnableDefault, &how);
    if (status != cudaSuccess) (void)cudaGetLastError();
    const bool usable = status == cudaSuccess && how == cudaDriverEntryPointSuccess;
    return reinterpret_cast<PFN_cuTensorMapEncodeIm2col_v12000>(usable ? found : nullptr);
  }();
  return encode;
}

// A barrier's phase ends when all arrivals and all promised bytes are in.
__device__ __forceinline__ void init_barrier(std::uint64_t* barrier, unsigned arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
#endif
}
// Makes initialized barriers known to the copy engine and to the cluster's other blocks.
__device__ __forceinline__ void fence_barriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
__device__ __forceinline__ void await_phase(std::uint64_t* barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#endif
}
// One arrival, and bytes that copies are going to bring.
__device__ __forceinline__ void expect_bytes(std::uint64_t* barrier, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
#endif
}
// One arrival at a barrier of this block.
__device__ __forceinline__ void arrive(std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#endif
}
// One arrival at the barrier that lies at the same place in block `rank` of the cluster.
__device__ __forceinline__ void arrive_at(std::uint64_t* barrier, unsigned rank) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
#endif
}

// Brings a box to shared memory; elements outside the tensor become zeros. blocks: a mask of the
// cluster's blocks that get it, each at the same place, or 0 for this block alone.
__device__ __forceinline__ void copy_box(const CUtensorMap& map, std::uint64_t* barrier, void* to,
                                         int x, int y, int z, std::uint16_t blocks = 0) {
#if __CUDA_ARCH__ >= 900
  if (blocks == 0)
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "h"(blocks)
        : "memory");
#endif
}

// The same of a tensor with four axes.
__device__ __forceinline__ void copy_box4(const CUtensorMap& map, std::uint64_t* barrier, void* to,
                                          int x, int y, int z, int w) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
#endif
}
// Brings bytes that lie side by side; both addresses and `bytes` are multiples of 16.
__device__ __forceinline__ void copy_line(std::uint64_t* barrier, void* to, const void* from,
                                          unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
#endif
}

// Brings channels of pixels to shared memory, as many of both as the map says: the pixels of a
// walk over the map's box that begins at (w, h, n), each moved by (move_w, move_h) of 0 to 255.
// What lies outside of the image becomes zeros. blocks as above.
__device__ __forceinline__ void copy_pixels(const CUtensorMap& map, std::uint64_t* barrier,
                                            void* to, int channel, int w, int h, int n,
                                            std::uint16_t move_w, std::uint16_t move_h,
                                            std::uint16_t blocks = 0) {
#if __CUDA_ARCH__ >= 900
  if (blocks == 0)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(channel), "r"(w), "r"(h), "r"(n), "h"(move_w),
        "h"(move_h)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8}, %9;" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(shared_address(barrier)), "r"(channel), "r"(w), "r"(h), "r"(n), "h"(move_w),
        "h"(move_h), "h"(blocks)
        : "memory");
#endif
}

}  // namespace planck
