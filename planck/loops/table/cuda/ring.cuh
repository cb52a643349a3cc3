// Rows in flight: asynchronous copies into shared memory that a thread waits for only when it needs
// them, so that many are in flight and none holds a register.
#pragma once

#include <cstdint>

#include "planck/loops/cuda/pack.cuh"

namespace planck::table_device {

inline constexpr int kSumThreads = 128;

// What a lane has in flight: kDepth times kVectors vectors of 16 bytes.
template <int kVectors>
class Ring {
 public:
  static constexpr int kPlaces = 16, kDepth = kPlaces / kVectors;
  static constexpr int kVectorsABlock = kPlaces * kSumThreads;

  __device__ __forceinline__ explicit Ring(uint4* shared) : mine_(shared + threadIdx.x) {}
  // Vector v of the k-th fetch, which end_fetch ends.
  __device__ __forceinline__ void fetch(int k, int v, const void* p) {
    const auto to = static_cast<unsigned>(__cvta_generic_to_shared(place(k, v)));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(p) : "memory");
  }
  __device__ __forceinline__ void end_fetch() {
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  // Waits for the first of the last kDepth fetches.
  __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kDepth - 1) : "memory");
  }
  __device__ __forceinline__ Pack<16> take(int k, int v) {
    const uint4 w = *place(k, v);
    return {{w.x, w.y, w.z, w.w}};
  }

 private:
  __device__ __forceinline__ uint4* place(int k, int v) {
    return mine_ + (k % kDepth * kVectors + v) * kSumThreads;
  }
  uint4* mine_;
};

}  // namespace planck::table_device
