// Launches the kernels of forward.cuh and backward.cuh. The build makes one source for each element
// type and width (planck/ops/attention/CMakeLists.txt); what scores become beside a product times a
// scale is compiled for heads up to 128 alone.
#pragma once

#include "planck/loops/gemm/cuda/warpgroups.launch.cuh"
#include "planck/ops/attention/cuda/backward.cuh"
#include "planck/ops/attention/cuda/forward.cuh"
#include "planck/ops/attention/cuda/tensor_cores.cuh"

namespace planck::attention_device {

template <class W>
Result<void> attend_as(const Stream& stream, const Call& c, const TileMaps& maps) {
  // Narrow heads take less time than what begins and ends a block, so blocks stay.
  Index blocks = c.batch * c.heads * ceil_div(c.queries, W::kQueries);
  if (W::kStays) blocks = std::min(blocks, Index{processors_of(stream)});
  return launch_clusters<W>(native(stream), attend_warpgroups<W>, blocks, maps.q, maps.k, maps.v,
                            c);
}

template <class T, int kWidth>
Result<void> attend_tiles(const Stream& stream, const Call& c, const TileMaps& maps) {
  if constexpr (kWidth == 128)
    if (has_options(c)) return attend_as<Forward<T, kWidth, true, false>>(stream, c, maps);
  return attend_as<Forward<T, kWidth, false, kWidth <= 128>>(stream, c, maps);
}

template <class W>
Result<void> sum_as(const Stream& stream, const Call& c, const TileMaps& maps, const Stats& stats,
                    const ChosenRows& again_dq, const ChosenRows& again_dk_dv) {
  const Index queries = c.batch * c.heads * ceil_div(c.queries, W::kOwn),
              keys = c.batch * c.groups * ceil_div(c.keys, W::kOwn);
  if (auto ok = launch_clusters<W>(native(stream), sum_dq_warpgroups<W>, queries, maps.q, maps.dy,
                                   maps.k, maps.v, c, stats, again_dq);
      !ok)
    return ok;
  return launch_clusters<W>(native(stream), sum_dk_dv_warpgroups<W>, keys, maps.q, maps.dy, maps.k,
                            maps.v, c, stats, again_dk_dv);
}

template <class T, int kWidth>
Result<void> sum_tiles(const Stream& stream, const Call& c, const TileMaps& maps,
                       const Stats& stats, const ChosenRows& again_dq,
                       const ChosenRows& again_dk_dv) {
  if constexpr (kWidth == 128)
    if (has_options(c))
      return sum_as<Backward<T, kWidth, true>>(stream, c, maps, stats, again_dq, again_dk_dv);
  return sum_as<Backward<T, kWidth, false>>(stream, c, maps, stats, again_dq, again_dk_dv);
}

}  // namespace planck::attention_device

#define PLANCK_INSTANTIATE(T, WIDTH)                                                             \
  namespace planck::attention_device {                                                           \
  template Result<void> attend_tiles<T, WIDTH>(const Stream&, const Call&, const TileMaps&);     \
  template Result<void> sum_tiles<T, WIDTH>(const Stream&, const Call&, const TileMaps&,         \
                                            const Stats&, const ChosenRows&, const ChosenRows&); \
  }
