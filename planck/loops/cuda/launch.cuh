// Launching kernels on a Stream: its device made current for the time of a call, errors as values.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "planck/core/result.h"
#include "planck/core/stream.h"

namespace planck {

inline Result<void> cuda_result(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return {};
  (void)cudaGetLastError();  // clears the copy that the runtime keeps for the next caller
  return fail(ErrorCode::device, std::string(what) + ": " + cudaGetErrorString(status));
}

// Makes the stream's device current, and puts the caller's back.
class DeviceScope {
 public:
  explicit DeviceScope(int ordinal) : ordinal_(ordinal) {
    status_ = cudaGetDevice(&before_);
    if (status_ == cudaSuccess && before_ != ordinal_) status_ = cudaSetDevice(ordinal_);
  }
  ~DeviceScope() {
    if (before_ >= 0 && before_ != ordinal_) (void)cudaSetDevice(before_);
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;
  Result<void> entered() const { return cuda_result(status_, "cuda set device"); }

 private:
  int ordinal_, before_ = -1;
  cudaError_t status_;
};

inline cudaStream_t native(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.native());
}

// Queues one kernel; does nothing for an empty grid.
template <class... P, class... A>
Result<void> launch(const Stream& stream, const char* name, void (*kernel)(P...),
                    std::int64_t blocks, int threads, const A&... arguments) {
  if (blocks == 0) return {};
  if (blocks > INT32_MAX)
    return fail(ErrorCode::device,
                std::string(name) + ": " + std::to_string(blocks) + " blocks exceed a grid");
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = native(stream);
  return cuda_result(cudaLaunchKernelEx(&config, kernel, P(arguments)...), name);
}

// Whether a block can have so much shared memory: up to 227 KB on some GPUs, 99 on others.
inline bool has_shared_memory(const Stream& stream, std::size_t bytes) {
  int most = 0;
  const cudaError_t status = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                                    stream.device().ordinal);
  return status == cudaSuccess && bytes <= static_cast<std::size_t>(most);
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace planck
