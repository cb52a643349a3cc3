// Launches the kernels of mma_sync.cuh. The build makes one source for each element type and width
// (planck/ops/attention/CMakeLists.txt); what scores become beside a product times a scale is
// compiled for heads up to 128 alone.
#pragma once

#include "planck/loops/cuda/launch.cuh"
#include "planck/ops/attention/cuda/mma_sync.cuh"
#include "planck/ops/attention/cuda/tensor_cores.cuh"

namespace planck::attention_device {

// A block for each tile of rows of each head.
template <class W, class... P>
Result<void> launch_warps(const Stream& stream, void (*kernel)(P...), Index heads, Index rows,
                          const P&... arguments) {
  constexpr const char* kName = "attention";
  if (auto ok = cuda_result(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, W::kShared),
          kName);
      !ok)
    return ok;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(heads * ceil_div(rows, kBlockRows)));
  config.blockDim = dim3(kMmaThreads);
  config.dynamicSmemBytes = W::kShared;
  config.stream = native(stream);
  return cuda_result(cudaLaunchKernelEx(&config, kernel, arguments...), kName);
}

template <class W>
Result<void> attend_warps_as(const Stream& stream, const Call& c, const ChosenRows& again) {
  return launch_warps<W>(stream, attend_mma_sync<W>, c.batch * c.heads, c.queries, c, again);
}
template <class T, int kWidth>
Result<void> attend_warps(const Stream& stream, const Call& c, const ChosenRows& again) {
  if constexpr (kWidth == 128)
    if (has_options(c)) return attend_warps_as<MmaForward<T, kWidth, true>>(stream, c, again);
  return attend_warps_as<MmaForward<T, kWidth, false>>(stream, c, again);
}

template <class W>
Result<void> sum_warps_as(const Stream& stream, const Call& c, const Stats& stats,
                          const ChosenRows& again_dq, const ChosenRows& again_dk_dv) {
  if (auto ok = launch_warps<W>(stream, sum_dq_mma_sync<W>, c.batch * c.heads, c.queries, c, stats,
                                again_dq);
      !ok)
    return ok;
  return launch_warps<W>(stream, sum_dk_dv_mma_sync<W>, c.batch * c.groups, c.keys, c, stats,
                         again_dk_dv);
}
template <class T, int kWidth>
Result<void> sum_warps(const Stream& stream, const Call& c, const Stats& stats,
                       const ChosenRows& again_dq, const ChosenRows& again_dk_dv) {
  if constexpr (kWidth == 128)
    if (has_options(c))
      return sum_warps_as<MmaBackward<T, kWidth, true>>(stream, c, stats, again_dq, again_dk_dv);
  return sum_warps_as<MmaBackward<T, kWidth, false>>(stream, c, stats, again_dq, again_dk_dv);
}

}  // namespace planck::attention_device

#define PLANCK_INSTANTIATE(T, WIDTH)                                                           \
  namespace planck::attention_device {                                                         \
  template Result<void> attend_warps<T, WIDTH>(const Stream&, const Call&, const ChosenRows&); \
  template Result<void> sum_warps<T, WIDTH>(const Stream&, const Call&, const Stats&,          \
                                            const ChosenRows&, const ChosenRows&);             \
  }
