// DynamicQuantize in one pass over memory: rows and groups that lie in one piece and fit a block.
//
// A thread keeps its four runs in registers between finding the range and quantizing. Groups of a
// few elements share a warp, rows take up to 1,024 threads.
#include "planck/ops/quantize/elementwise.cuh"
#include "planck/ops/quantize/range.cuh"

namespace planck::quantize_device {

namespace {

template <class T, class S>
__global__ void __launch_bounds__(kMostDynamicThreads)
    dynamic_rows_kernel(const __grid_constant__ RangeArguments<T> args,
                        const __grid_constant__ TeamMap map) {
  using C = Compute<T>;
  using Op = Quantize<T, S>;
  constexpr int R = kRangeRun<T, true>;
  constexpr bool kStreaming = sizeof(T) == 2;
  __shared__ Two<C> shared[kMostDynamicThreads / 32];
  RunPack<T, R> x[kTeamRuns];
  Two<C> range[kTeamRuns];
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k) {
    const TeamRun at(map, k);
    if (at.valid) x[k] = load_pack<R * sizeof(T), kStreaming>(args.x, at.group * map.runs + at.run);
  }
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k) {
    range[k] = {C(0), C(0)};
    if (!TeamRun(map, k).valid) continue;
    C v[R];
    unpack<T, R>(x[k], v);
#pragma unroll
    for (int e = 0; e < R; ++e) include(range[k], v[e]);
  }
  team_reduce(range, map.log2_team, shared, Widen<C>());

  Cell<T> cell = {};
  std::int64_t group = -1;
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k) {
    const TeamRun at(map, k);
    if (!at.valid) continue;
    if (at.group != group) {
      group = at.group;
      const DynamicGroup<T> g = dynamic_group<T>(range[k], args.symmetric, args.grid);
      if (at.leads) store_group(args, group, g);
      cell = Op::make(widen(g.scale), g.zero_point, args.grid);
    }
    const auto cell_of = [&](int) -> const auto& { return cell; };
    const auto q =
        map_run<Op, R, true>(x[k], RunPack<None, R>(), cell.quick, args.grid, cell_of, cell_of);
    store_pack<kStreaming>(args.q, at.group * map.runs + at.run, q);
  }
}

int threads_for(std::int64_t runs) {
  int threads = 256;
  while (threads < kMostDynamicThreads && threads * kTeamRuns < runs) threads *= 2;
  return threads;
}

template <class T, class S>
Result<void> launch_rows(const Stream& stream, const QuantProblem& p, const MemberCall& call) {
  const std::int64_t runs = call.members / kRangeRun<T, true>;
  const int threads = threads_for(runs);
  const TeamMap map = TeamMap::make(call.groups, runs, threads);
  return launch(stream, "dynamic_quantize rows", dynamic_rows_kernel<T, S>, map.blocks(threads),
                threads, range_arguments<T>(p, call, nullptr), map);
}

}  // namespace

bool can_launch_dynamic_rows(const QuantProblem& p, const MemberCall& call) {
  if (!call.map.dense || call.map.outer != 1 || call.members == 0) return false;
  const int run = 16 * 8 / bits(p.element_dtype);
  return call.members % run == 0 && call.members / run <= kMostDynamicThreads * kTeamRuns &&
         call.aligned(kDynamicX, 16) && call.aligned(kDynamicQ, run * bits(p.quantized_dtype) / 8);
}

Result<void> launch_dynamic_rows(const Stream& stream, const QuantProblem& p,
                                 const MemberCall& call) {
  return visit_float(p.element_dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return is_packed(p.quantized_dtype) ? launch_rows<T, Nibbles>(stream, p, call)
                                        : launch_rows<T, Bytes>(stream, p, call);
  });
}

}  // namespace planck::quantize_device
