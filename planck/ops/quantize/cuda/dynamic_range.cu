// Scale and zero point of groups that do not fit a block or do not lie in one piece; q follows from
// launch_quantize. The ranges of a group's chunks are merged in the workspace by atomic maxima,
// which give the same result in every order.
#include "planck/ops/quantize/cuda/launchers.cuh"
#include "planck/ops/quantize/cuda/range.cuh"

namespace planck::quantize_device {

namespace {

constexpr int kRangeThreads = 256;

template <class T, Lie kLie>
__global__ void __launch_bounds__(kRangeThreads)
    range_kernel(const __grid_constant__ RangeArguments<T, kLie != Lie::strided> args,
                 const __grid_constant__ TeamMap map,
                 const __grid_constant__ Members<kLie> members) {
  using C = Compute<T>;
  constexpr int R = kRangeRun<T, kLie != Lie::strided>;
  __shared__ Two<C> shared[kRangeThreads / 32];
  const TeamThread at(map);
  const char* from =
      static_cast<const char*>(args.x) + members.origin(at) * static_cast<int>(R * sizeof(T));
  RunPack<T, R> x[kTeamRuns] = {};
  Two<C> range[kTeamRuns];
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k) {
    if (!at.valid(k)) continue;
    std::int64_t offset[kElementOperands];
    members.locate(at, k, offset);
    x[k] = load_pack<R * sizeof(T), false>(from, offset[kDynamicX]);
  }
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k) range[k] = range_of<T, R>(x[k]);
  team_reduce(range, map.log2_team, shared, Widen<C>());
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k)
    if (at.leads(k)) store_chunk(args, map.chunks, at.origin_group + at.group(k), range[k]);
}

template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    range_columns_kernel(const __grid_constant__ RangeArguments<T, true> args,
                         const __grid_constant__ ColumnSlots map) {
  using C = Compute<T>;
  constexpr int R = kRangeRun<T, true>, kBatch = 4;
  __shared__ Two<C> shared[kColumnThreads * R];
  const int lane = static_cast<int>(threadIdx.x) % map.width;
  const int slot = static_cast<int>(threadIdx.x) / map.width;
  const std::int64_t chunk = blockIdx.x / map.tiles;
  const std::int64_t column = (blockIdx.x - chunk * map.tiles) * map.width + lane;
  const std::int64_t first = (chunk * map.slots + slot) * kSlotRows;
  Two<C> range[R] = {};
  if (column < map.runs) {
#pragma unroll 1
    for (std::int64_t row = first; row < first + kSlotRows; row += kBatch) {
      RunPack<T, R> x[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k)
        if (row + k < map.rows)
          x[k] = load_pack<R * sizeof(T), false>(args.x, (row + k) * map.runs + column);
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (row + k >= map.rows) continue;
#pragma unroll
        for (int e = 0; e < R; ++e) {
          const C v = element_of<T>(x[k], e);
          const C finite = qm::is_finite(v) ? v : C(0);
          range[e] = Widen<C>()(range[e], {finite, finite});
        }
      }
    }
  }
  const int columns = map.width * R;
#pragma unroll
  for (int e = 0; e < R; ++e) shared[slot * columns + lane * R + e] = range[e];
  reduce_slots(shared, columns, map.slots, Widen<C>());
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += kColumnThreads) {
    const std::int64_t channel = (blockIdx.x - chunk * map.tiles) * columns + i;
    if (channel < map.runs * R) store_chunk(args, map.chunks, channel, shared[i]);
  }
}

// Ranges to scales and zero points, for groups of several chunks.
template <class T>
__global__ void __launch_bounds__(kRangeThreads)
    scales_kernel(const __grid_constant__ RangeArguments<T, false> args, std::int64_t groups) {
  const std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * kRangeThreads + threadIdx.x;
  if (group >= groups) return;
  const Two<Compute<T>> range{-args.ranges[2 * group], args.ranges[2 * group + 1]};
  store_group(args, group, dynamic_group<T>(range, args.symmetric, args.grid));
}

template <class T>
Result<void> find_scales(const Stream& stream, Workspace workspace, const QuantProblem& p,
                         const MemberCall& call) {
  constexpr int R = kRangeRun<T, true>;
  const auto args = range_arguments<T, false>(p, call, workspace.data);
  const auto dense_args = range_arguments<T, true>(p, call, workspace.data);
  const bool dense = call.map.dense && call.members > 0 && call.aligned(kDynamicX, 16);
  const bool rows = dense && call.map.inner % R == 0;
  const std::size_t need = static_cast<std::size_t>(call.groups) * 2 * sizeof(Compute<T>);
  const ColumnSlots slots = ColumnSlots::make(call.map.outer, call.map.channels / R);
  const bool columns = dense && !rows && call.map.inner == 1 && call.map.channels % R == 0 &&
                       (slots.chunks == 1 || workspace.bytes >= need);
  const TeamMap map =
      TeamMap::make(call.groups, rows ? call.members / R : call.members, kRangeThreads);
  const std::int64_t chunks = columns ? slots.chunks : map.chunks;
  if (chunks > 1) {
    auto zeroed =
        cuda_result(cudaMemsetAsync(workspace.data, 0, need, native(stream)), "dynamic_quantize");
    if (!zeroed) return zeroed;
  }
  const std::int64_t blocks = map.blocks(kRangeThreads);
  Result<void> launched =
      columns ? launch(stream, "dynamic_quantize column ranges", range_columns_kernel<T>,
                       slots.tiles * slots.chunks, kColumnThreads, dense_args, slots)
      : !rows ? launch(stream, "dynamic_quantize strided ranges", range_kernel<T, Lie::strided>,
                       blocks, kRangeThreads, args, map, call.strided())
      : call.map.outer == 1
          ? launch(stream, "dynamic_quantize ranges", range_kernel<T, Lie::rows>, blocks,
                   kRangeThreads, dense_args, map, call.rows(R))
          : launch(stream, "dynamic_quantize plane ranges", range_kernel<T, Lie::planes>, blocks,
                   kRangeThreads, dense_args, map, call.planes(R));
  if (!launched || chunks == 1) return launched;
  return launch(stream, "dynamic_quantize scales", scales_kernel<T>,
                ceil_div(call.groups, kRangeThreads), kRangeThreads, args, call.groups);
}

}  // namespace

Result<bool> launch_dynamic(const Stream& stream, Workspace workspace, const QuantProblem& p,
                            const Operands& operands) {
  using O = quant_operand::DynamicQuantize;
  const MemberCall call = member_call(
      p, {&operands[O::x], &operands[O::q], nullptr, &operands[O::scale], &operands[O::zero_point]},
      kDynamicX, false);
  if (call.groups == 0) return true;
  if (can_launch_dynamic_rows(p, call))
    return launch_dynamic_rows(stream, p, call).map([] { return true; });
  return visit_float(p.element_dtype,
                     [&](auto type) {
                       return find_scales<typename decltype(type)::type>(stream, workspace, p,
                                                                         call);
                     })
      .map([] { return false; });
}

}  // namespace planck::quantize_device
