// Launches of var and logsumexp of groups side by side.
#include <cstdlib>

#include "planck/ops/reduce/cuda/cuts.h"
#include "planck/ops/reduce/cuda/outer_map.cuh"
#include "planck/ops/reduce/cuda/reduce_pass.h"
#include "planck/ops/reduce/cuda/stats_columns.cuh"
#include "planck/ops/reduce/cuda/stats_joins.cuh"

namespace planck::reduce_device {

namespace {

template <class T, bool kVar, bool kPacks>
Result<void> launch_columns(const Stream& stream, const StatColumns<T>& a, std::int64_t blocks) {
  constexpr const char* kName = "reduce columns in chunks";
  const auto kernel = stat_columns<T, kVar, kPacks>;
  if (auto ok = cuda_result(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kStatBytes),
          kName);
      !ok)
    return ok;
  if (blocks > INT32_MAX)
    return fail(ErrorCode::device, std::string(kName) + ": more blocks than a grid has");
  kernel<<<static_cast<unsigned>(blocks), kStatThreads, kStatBytes, native(stream)>>>(a);
  return cuda_result(cudaGetLastError(), kName);
}

template <class T, bool kVar>
Result<void> run_columns(const Stream& stream, const ReducePass& pass) {
  const ReduceLayout& l = pass.layout;
  StatColumns<T> a{};
  a.in = static_cast<const T*>(pass.x);
  a.inner = l.inner();
  a.outer = l.groups / a.inner;
  a.length = l.length;
  a.outer_map = outer_map_of(l);
  a.reduced = AxisMap::of(l.reduced);
  a.packs = ceil_div(a.inner, kRunOf<T>);
  a.sink = NodeSink<T>::make(pass);
  const bool packs = reinterpret_cast<std::uintptr_t>(pass.x) % 16 == 0 &&
                     a.inner % kRunOf<T> == 0 && a.reduced.rank == 1 &&
                     std::abs(a.reduced.stride[0]) <= INT32_MAX / 32 &&
                     a.outer_map.aligned(sizeof(T)) && a.reduced.aligned(sizeof(T));
  // Short columns: few threads each. Long ones: all of them to a CUDA block, unless that leaves
  // too few.
  while (a.log2_lanes < 5 && kStatRows << a.log2_lanes < l.length) ++a.log2_lanes;
  const std::int64_t chunks = ceil_div(l.length, kChunk);
  const auto grid = [&] {
    return ceil_div(a.outer * ceil_div(chunks, a.turns) * a.packs, kStatThreads >> a.log2_lanes);
  };
  a.turns = 1;
  while (a.turns < kStatTurns && a.turns < chunks) a.turns *= 2;
  while (a.turns > 1 && grid() < reduce_cuts::kEnoughStatBlocks) a.turns /= 2;
  a.sink.parts = ceil_div(chunks, a.turns);
  if (auto ok = packs ? launch_columns<T, kVar, true>(stream, a, grid())
                      : launch_columns<T, kVar, false>(stream, a, grid());
      !ok || a.sink.parts == 1)
    return ok;
  return join_parts<T, kVar>(stream, a.sink, l.groups, l.length, a.turns * kChunk);
}

}  // namespace

Result<void> stat_columns_pass(const Stream& stream, const ReducePass& pass) {
  return visit_float(pass.problem.element_dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return pass.problem.kind == ReduceKind::var ? run_columns<T, true>(stream, pass)
                                                : run_columns<T, false>(stream, pass);
  });
}

}  // namespace planck::reduce_device
