// A chain of launches on one stream, each of which is set up while the one before still runs.
//
// Every kernel of a chain calls follow() before it touches memory: it returns when the launch
// before has ended and its writes can be seen. All threads must call it, so that the end of a chain
// is the end of all its launches. The first launch of a chain waits for the stream as any other.
#pragma once

#include "planck/core/cuda/architectures.h"
#include "planck/loops/cuda/launch.cuh"

namespace planck {

// From here on the next launch may begin where there is room.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits for the launch before.
__device__ __forceinline__ void await_last() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void follow() {
  let_next_begin();
  await_last();
}

// Whether the code that the device runs has it: PTX of an older GPU has not, and nobody would wait.
inline bool has_follow(const Stream& stream) {
  return cuda::code_of(stream.device().ordinal) >= 90;
}

// With so many bytes of dynamic shared memory per block. Does nothing for an empty grid.
template <class... P, class... A>
Result<void> launch_next_with(const Stream& stream, const char* name, std::size_t shared,
                              void (*kernel)(P...), std::int64_t blocks, int threads,
                              const A&... arguments) {
  if (blocks == 0) return {};
  if (blocks > INT32_MAX)
    return fail(ErrorCode::device,
                std::string(name) + ": " + std::to_string(blocks) + " blocks exceed a grid");
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = native(stream);
  config.attrs = &early;
  config.numAttrs = has_follow(stream) ? 1 : 0;
  return cuda_result(cudaLaunchKernelEx(&config, kernel, P(arguments)...), name);
}

template <class... P, class... A>
Result<void> launch_next(const Stream& stream, const char* name, void (*kernel)(P...),
                         std::int64_t blocks, int threads, const A&... arguments) {
  return launch_next_with(stream, name, 0, kernel, blocks, threads, arguments...);
}

}  // namespace planck
