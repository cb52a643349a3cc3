// Launches the kernels of chain_forward.cuh and chain_backward.cuh. The build makes one source for
// each width (planck/ops/attention/CMakeLists.txt).
#pragma once

#include <utility>

#include "planck/ops/attention/cuda/chain.cuh"
#include "planck/ops/attention/cuda/chain_backward.cuh"
#include "planck/ops/attention/cuda/chain_forward.cuh"

namespace planck::attention_device {

// A block for every 64 rows of so many heads.
template <class W, class... P, class... A>
Result<void> launch_chain(const Stream& stream, const char* name, void (*kernel)(P...), Index heads,
                          Index rows, const A&... arguments) {
  const Index blocks = heads * ceil_div(rows, kOwnRows);
  if (blocks > INT32_MAX)
    return fail(ErrorCode::device,
                std::string(name) + ": " + std::to_string(blocks) + " blocks exceed a grid");
  // Kept by the function, for whichever device is current: it costs a microsecond.
  for (const auto& [attribute, value] :
       {std::pair(cudaFuncAttributeMaxDynamicSharedMemorySize, W::kShared),
        std::pair(cudaFuncAttributePreferredSharedMemoryCarveout,
                  int{cudaSharedmemCarveoutMaxShared})})
    if (auto ok = cuda_result(cudaFuncSetAttribute(kernel, attribute, value), name); !ok) return ok;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(kChainThreads);
  config.dynamicSmemBytes = W::kShared;
  config.stream = native(stream);
  return cuda_result(cudaLaunchKernelEx(&config, kernel, P(arguments)...), name);
}

template <int kWidth>
std::size_t chain_memory(bool backward) {
  return backward ? ChainBackward<kWidth>::kShared : ChainForward<kWidth>::kShared;
}

template <int kWidth>
Result<void> attend_chain(const Stream& stream, const Call& c, const ChainWays& ways,
                          const ChosenRows& again) {
  using W = ChainForward<kWidth>;
  return launch_chain<W>(stream, "attention", attend_chain_tiles<W>, c.batch * c.heads, c.queries,
                         c, ways, again);
}
template <int kWidth>
Result<void> sum_dq_chain(const Stream& stream, const Call& c, const ChainWays& ways,
                          const ChainStats& stats, const ChosenRows& again) {
  using W = ChainBackward<kWidth>;
  return launch_chain<W>(stream, "attention_backward", sum_dq_chain_tiles<W>, c.batch * c.heads,
                         c.queries, c, ways, stats, again);
}
template <int kWidth>
Result<void> sum_dk_dv_chain(const Stream& stream, const Call& c, const ChainWays& ways,
                             const ChainStats& stats, const ChosenRows& again) {
  using W = ChainBackward<kWidth>;
  return launch_chain<W>(stream, "attention_backward", sum_dk_dv_chain_tiles<W>, c.batch * c.groups,
                         c.keys, c, ways, stats, again);
}

}  // namespace planck::attention_device

#define PLANCK_INSTANTIATE(WIDTH)                                                            \
  namespace planck::attention_device {                                                       \
  template std::size_t chain_memory<WIDTH>(bool);                                            \
  template Result<void> attend_chain<WIDTH>(const Stream&, const Call&, const ChainWays&,    \
                                            const ChosenRows&);                              \
  template Result<void> sum_dq_chain<WIDTH>(const Stream&, const Call&, const ChainWays&,    \
                                            const ChainStats&, const ChosenRows&);           \
  template Result<void> sum_dk_dv_chain<WIDTH>(const Stream&, const Call&, const ChainWays&, \
                                               const ChainStats&, const ChosenRows&);        \
  }
