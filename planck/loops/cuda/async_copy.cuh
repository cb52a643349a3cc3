// Copies to shared memory that run while a thread goes on: they are started, closed as a group, and
// awaited group by group.
#pragma once

namespace planck {

__device__ __forceinline__ unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// 16, 8 or 4 bytes. Those of 16 go past the first-level cache.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* shared, const void* from) {
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)),
                 "l"(from)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(shared)),
                 "l"(from), "n"(kBytes)
                 : "memory");
}
// 16 bytes, or zeros where there are none; `from` is a valid address even then.
__device__ __forceinline__ void copy_async_if(bool there, void* shared, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(from), "r"(there ? 16 : 0)
               : "memory");
}

// Ends a group of copies, which may be empty.
__device__ __forceinline__ void end_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// All of this thread's groups but the last kLeft have arrived.
template <int kLeft>
__device__ __forceinline__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

}  // namespace planck
