// Launches the kernels of chain_forward.cuh, chain_backward.cuh and chain_kept.cuh. The build makes
// one source for each width (planck/ops/attention/CMakeLists.txt).
#pragma once

#include <utility>

#include "planck/ops/attention/cuda/chain.cuh"
#include "planck/ops/attention/cuda/chain_backward.cuh"
#include "planck/ops/attention/cuda/chain_forward.cuh"
#include "planck/ops/attention/cuda/chain_kept.cuh"

namespace planck::attention_device {

// A block for every 64 rows of so many heads; where kFollows, as the next of a chain
// (loops/cuda/chain.cuh).
template <class W, bool kFollows = false, class... P, class... A>
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
  if constexpr (kFollows)
    return launch_next_with(stream, name, W::kShared, kernel, blocks, kChainThreads, arguments...);
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
                             const ChainStats& stats, const KeptSlopes& kept,
                             const ChosenRows& again) {
  using W = ChainBackward<kWidth>;
  return launch_chain<W>(stream, "attention_backward", sum_dk_dv_chain_tiles<W>, c.batch * c.groups,
                         c.keys, c, ways, stats, kept, again);
}
template <int kWidth>
Result<void> sum_kept_dq_chain(const Stream& stream, const Call& c, const ChainWays& ways,
                               const KeptSlopes& kept, const ChosenRows& again) {
  using W = ChainKept<kWidth>;
  return launch_chain<W, true>(stream, "attention_backward", sum_kept_dq_chain_tiles<W>,
                               c.batch * c.heads, c.queries, c, ways, kept, again);
}

}  // namespace planck::attention_device

#define PLANCK_INSTANTIATE(WIDTH)                                                              \
  namespace planck::attention_device {                                                         \
  template std::size_t chain_memory<WIDTH>(bool);                                              \
  template Result<void> attend_chain<WIDTH>(const Stream&, const Call&, const ChainWays&,      \
                                            const ChosenRows&);                                \
  template Result<void> sum_dq_chain<WIDTH>(const Stream&, const Call&, const ChainWays&,      \
                                            const ChainStats&, const ChosenRows&);             \
  template Result<void> sum_dk_dv_chain<WIDTH>(const Stream&, const Call&, const ChainWays&,   \
                                               const ChainStats&, const KeptSlopes&,           \
                                               const ChosenRows&);                             \
  template Result<void> sum_kept_dq_chain<WIDTH>(const Stream&, const Call&, const ChainWays&, \
                                                 const KeptSlopes&, const ChosenRows&);        \
  }
