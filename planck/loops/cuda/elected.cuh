// One thread of a warp, for what one thread does: telling the copy engine what to bring.
#pragma once

#include <cstdint>

namespace planck {

// True for one thread of a warp, all of which must ask. The compiler knows that it is one. Of
// threadIdx.x == 0 it does not, and makes each copy a loop over threads that might say something
// else, of about 15 instructions that wait for one another.
__device__ __forceinline__ bool is_elected() {
  std::uint32_t is = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(is));
#endif
  return is != 0;
}
// The same for one thread of a block's first warp.
__device__ __forceinline__ bool is_elected_of_block() { return threadIdx.x < 32 && is_elected(); }

}  // namespace planck
