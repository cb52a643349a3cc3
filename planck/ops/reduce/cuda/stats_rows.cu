// Launches of var and logsumexp of groups of consecutive elements.
#include <algorithm>

#include "planck/ops/reduce/cuda/cuts.h"
#include "planck/ops/reduce/cuda/reduce_pass.h"
#include "planck/ops/reduce/cuda/stats_joins.cuh"
#include "planck/ops/reduce/cuda/stats_rows.cuh"
#include "planck/ops/reduce/cuda/stats_short_rows.cuh"

namespace planck::reduce_device {

namespace {

template <class T, bool kVar>
Result<void> run_rows(const Stream& stream, const ReducePass& pass) {
  constexpr const char* kName = "reduce rows in chunks";
  const ReduceLayout& l = pass.layout;
  StatRows<T> a{};
  a.in.data = static_cast<const T*>(pass.x);
  a.in.rows = AxisMap::of(walk_of(l.kept, 0));
  a.in.elements = AxisMap::of(l.reduced);
  a.in.packs = reinterpret_cast<std::uintptr_t>(pass.x) % 16 == 0 && a.in.rows.aligned(sizeof(T)) &&
               a.in.elements.packs(kRunOf<T>, sizeof(T), l.length);
  const bool dense = a.in.packs && a.in.elements.rank == 1 &&
                     (a.in.rows.rank == 1 || (a.in.rows.rank == 2 && l.groups <= UINT32_MAX));
  if (dense) a.dense = a.in;
  a.groups = l.groups;
  a.length = l.length;
  a.sink = NodeSink<T>::make(pass);
  if (l.length <= kChunk / 2) {
    while ((1 << a.log2_team) * kRunOf<T> < l.length) ++a.log2_team;
    const std::int64_t turns = ceil_div(l.groups, (32 * kChunkRuns<T>) >> a.log2_team);
    a.log2_turns = 3;
    while (a.log2_turns > 0 && turns >> a.log2_turns < reduce_cuts::kEnoughStatWarps)
      --a.log2_turns;
    const std::int64_t warps = ceil_div(turns, 1 << a.log2_turns);
    return launch(stream, kName,
                  dense ? stat_short_rows<T, kVar, true> : stat_short_rows<T, kVar, false>,
                  ceil_div(warps, kFewRowStatWarps), 32 * kFewRowStatWarps, a);
  }
  const std::int64_t chunks = ceil_div(l.length, kChunk);
  // Few chunks of 512 per warp where there are few, but one part per group where possible.
  const auto covers = [&](int log2) { return (std::int64_t{1} << log2) >= chunks; };
  a.log2_turns = 4;
  while (a.log2_turns > 0 && (l.groups * chunks) >> a.log2_turns < reduce_cuts::kEnoughStatWarps &&
         !(chunks <= 32 && !covers(a.log2_turns + 2)))
    --a.log2_turns;
  const int most = std::min(5, a.log2_turns + 3);  // kRowStatWarps warps
  while (a.log2_part < most && !covers(a.log2_part)) ++a.log2_part;
  a.sink.parts = ceil_div(chunks, 1 << a.log2_part);
  const bool whole = dense && l.length % kChunk == 0;
  a.merged =
      whole && a.in.rows.rank == 1 && a.in.rows.stride[0] == l.length && chunks == 1 << a.log2_part;
  const auto kernel = whole   ? stat_rows<T, kVar, RowLoads::whole>
                      : dense ? stat_rows<T, kVar, RowLoads::dense>
                              : stat_rows<T, kVar, RowLoads::strided>;
  const std::int64_t shares =
      ceil_div((l.groups * a.sink.parts) << a.log2_part, std::int64_t{1} << a.log2_turns);
  const int warps = std::max(kFewRowStatWarps, 1 << std::max(0, a.log2_part - a.log2_turns));
  if (auto ok = launch(stream, kName, kernel, ceil_div(shares, warps), 32 * warps, a);
      !ok || a.sink.parts == 1)
    return ok;
  return join_parts<T, kVar>(stream, a.sink, l.groups, l.length, kChunk << a.log2_part);
}

}  // namespace

Result<void> stat_rows_pass(const Stream& stream, const ReducePass& pass) {
  return visit_float(pass.problem.element_dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return pass.problem.kind == ReduceKind::var ? run_rows<T, true>(stream, pass)
                                                : run_rows<T, false>(stream, pass);
  });
}

}  // namespace planck::reduce_device
