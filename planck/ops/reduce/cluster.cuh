// Clusters: blocks that run at the same time, on multiprocessors next to one another, and write to
// one another's shared memory. What is sent is counted by a barrier of the receiver: nobody waits
// for more than it reads, and copies that are under way stay so (a barrier of the whole cluster
// waits for them).
#pragma once

#include <cstdint>

namespace planck {

// Whether this code has clusters; the host asks the device (has_clusters).
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define PLANCK_CLUSTERS 1
#endif

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

#ifdef PLANCK_CLUSTERS
// This block's number in its cluster.
__device__ __forceinline__ int cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// All threads of the cluster.
__device__ __forceinline__ void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// A count of bytes that arrive, in shared memory.
struct Arrivals {
  std::uint64_t barrier;

  __device__ __forceinline__ void init() {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(this)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  // One thread, once a phase.
  __device__ __forceinline__ void expect(int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }
  __device__ __forceinline__ void await(int phase) {
    asm volatile(
        "{\n"
        ".reg .pred arrived;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 arrived, [%0], %1;\n"
        "@!arrived bra again;\n"
        "}" ::"r"(shared_address(this)),
        "r"(phase)
        : "memory");
  }
};

// Writes 4 bytes to the same place of another block's shared memory, and counts them there.
__device__ __forceinline__ void send(float value, float* place, Arrivals* arrivals, int rank) {
  unsigned to, counter;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(to)
               : "r"(shared_address(place)), "r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(counter)
               : "r"(shared_address(arrivals)), "r"(rank));
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
      "r"(__float_as_uint(value)), "r"(counter)
      : "memory");
}
#endif

}  // namespace planck
