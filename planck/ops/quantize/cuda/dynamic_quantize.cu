// DynamicQuantize in one pass over memory: groups that lie in one piece and fit a block.
//
// A thread keeps its runs in registers between finding the range and quantizing.
//
//   lanes   groups of up to 32 runs: 4 to 32 lanes of a warp each, four groups per lane
//   rows    longer ones: a group of warps each, eight runs per lane
//
// Versions on an H200, 8192 x 8192, ratio to bare movement:  per token   groups of 128   of 32
//   bf16: general teams of four runs, a scale for each       0.41        0.29            0.30
//         a scale for each lane, shared by shuffles          0.81        0.69            0.73
//         runs that store 16 bytes, warps reduced by
//         integers                                           0.95        0.91            0.73
//   f32                                                      0.97        0.92            0.93
//   bf16 to s4                                               0.88        0.79            0.61
#include "planck/ops/quantize/cuda/range.cuh"
#include "planck/ops/quantize/cuda/runs.cuh"

namespace planck::quantize_device {

namespace {

// The cell of a group whose scale comes from its data.
template <class T, class S>
__device__ __forceinline__ Cell<T> cell_of(Compute<T> scale, std::int32_t z,
                                           const GridAttributes& grid) {
  using Op = Quantize<T, S>;
  const Compute<T> inverse = inverse_of<T>(scale, grid);
  Cell<T> c = Op::derive(scale, inverse, z, grid);
  c.quick = Op::quick(scale, inverse, z, grid);
  return c;
}

__device__ __forceinline__ GridAttributes divide_only(GridAttributes grid) {
  grid.reciprocal = false;
  return grid;
}

// ---- lanes -----------------------------------------------------------------------------

// Teams have at least four runs: lane k of four finds the scale of run k's group for all.
constexpr int kLeastTeam = 2, kMostLanes = 32;

template <class T, class S, bool kWide>
__global__ void __launch_bounds__(kThreads)
    dynamic_lanes_kernel(const __grid_constant__ RangeArguments<T, true> args,
                         const __grid_constant__ TeamMap map) {
  using C = Compute<T>;
  constexpr int R = kRangeRun<T, true> * (kWide ? 2 : 1);
  const TeamThread at(map);
  const GridAttributes grid = divide_only(args.grid);
  const std::int64_t origin = at.origin_group * map.runs;
  const auto offset = [&](int k) { return origin + (at.group(k) * at.runs + at.run(k)); };
  RunPack<T, R> x[kTeamRuns] = {};
  Two<C> range[kTeamRuns];
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k)
    if (at.valid(k)) x[k] = load_pack<R * sizeof(T), false>(args.x, offset(k));
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k) range[k] = range_of<T, R>(x[k]);
  team_reduce<C>(range, map.log2_team, nullptr, Widen<C>());

  const int lane = static_cast<int>(threadIdx.x) % 32, mine = lane % kTeamRuns;
  Two<C> my_range = range[0];
#pragma unroll
  for (int k = 1; k < kTeamRuns; ++k)
    if (mine == k) my_range = range[k];
  const DynamicGroup<T> group = dynamic_group<T>(my_range, args.symmetric, grid);
  const std::uint32_t my_group = at.group(mine);
  if ((lane & static_cast<int>(at.mask)) == mine && my_group < at.groups)
    store_group(args, at.origin_group + my_group, group);
  const C my_scale = widen(group.scale);
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k) {
    const int from = lane - mine + k;
    const C scale = __shfl_sync(~0u, my_scale, from);
    const Cell<T> cell = cell_of<T, S>(scale, __shfl_sync(~0u, group.zero_point, from), grid);
    if (at.valid(k))
      store_pack<false>(args.q, offset(k),
                        map_run<Quantize<T, S>, R>(x[k], RunPack<None, R>(), cell, grid));
  }
}

// ---- rows ------------------------------------------------------------------------------

constexpr int kMostRowWarps = 16;

// Runs of R elements, K of them per lane. Long runs store 16 bytes at once; short ones divide more
// rows.
template <class T, bool kWide>
struct RowShape {
  static constexpr int R = kRangeRun<T, true> * (kWide ? 2 : 1), K = kWide ? 4 : 8;
};

struct RowMap {
  std::int64_t groups;
  std::uint32_t runs;  // per group
  int log2_warps;      // warps per group
};

template <class C>
__device__ __forceinline__ Two<C> widest_of_warp(Two<C> v) {
  if constexpr (std::is_same_v<C, float>) {  // not negative: ordered like integers
    const unsigned lo = __reduce_max_sync(~0u, __float_as_uint(v.first) & 0x7fffffffu);
    const unsigned hi = __reduce_max_sync(~0u, __float_as_uint(v.second) & 0x7fffffffu);
    return {-__uint_as_float(lo), __uint_as_float(hi)};
  } else {
#pragma unroll
    for (int lanes = 1; lanes < 32; lanes *= 2) v = Widen<C>()(v, shuffle_xor(v, lanes));
    return v;
  }
}

template <class T, class S, bool kWide>
__global__ void __launch_bounds__(kMostRowWarps * 32)
    dynamic_rows_kernel(const __grid_constant__ RangeArguments<T, true> args, const RowMap map) {
  using C = Compute<T>;
  constexpr int R = RowShape<T, kWide>::R, K = RowShape<T, kWide>::K;
  __shared__ Two<C> shared[kMostRowWarps];
  const GridAttributes grid = divide_only(args.grid);
  const unsigned warp = threadIdx.x / 32, warps = 1u << map.log2_warps;
  const std::int64_t group =
      static_cast<std::int64_t>(blockIdx.x) * ((blockDim.x / 32) >> map.log2_warps) +
      (warp >> map.log2_warps);
  const unsigned first = (warp & (warps - 1)) * 32 + threadIdx.x % 32, step = warps * 32;
  const unsigned runs = group < map.groups ? map.runs : 0;
  const void* x_row = static_cast<const char*>(args.x) + group * map.runs * (R * sizeof(T));
  RunPack<T, R> x[K] = {};
#pragma unroll
  for (int k = 0; k < K; ++k)
    if (first + k * step < runs) x[k] = load_pack<R * sizeof(T), false>(x_row, first + k * step);
  Two<C> range = {C(0), C(0)};
#pragma unroll
  for (int k = 0; k < K; ++k) range = Widen<C>()(range, range_of<T, R>(x[k]));
  range = widest_of_warp(range);
  if (warps > 1) {
    if (threadIdx.x % 32 == 0) shared[warp] = range;
    __syncthreads();
    range = widest_of_warp(shared[(warp & ~(warps - 1)) + (threadIdx.x & (warps - 1))]);
  }
  if (runs == 0) return;
  const DynamicGroup<T> g = dynamic_group<T>(range, args.symmetric, grid);
  if (first == 0) store_group(args, group, g);
  const Cell<T> cell = cell_of<T, S>(widen(g.scale), g.zero_point, grid);
  void* q_row = static_cast<char*>(args.q) + group * map.runs * (R * kBits<S> / 8);
#pragma unroll
  for (int k = 0; k < K; ++k)
    if (first + k * step < runs)
      store_pack<false>(q_row, first + k * step,
                        map_run<Quantize<T, S>, R>(x[k], RunPack<None, R>(), cell, grid));
}

template <class T, class S, bool kWide>
Result<void> launch_rows(const Stream& stream, const QuantProblem& p, const MemberCall& call) {
  using Shape = RowShape<T, kWide>;
  RowMap map{call.groups, static_cast<std::uint32_t>(call.members / Shape::R), 0};
  while (std::int64_t{32} * Shape::K << map.log2_warps < map.runs) ++map.log2_warps;
  const int threads = std::max(kThreads, 32 << map.log2_warps);
  return launch(stream, "dynamic_quantize rows", dynamic_rows_kernel<T, S, kWide>,
                ceil_div(call.groups, threads / 32 >> map.log2_warps), threads,
                range_arguments<T, true>(p, call, nullptr), map);
}

template <class T, class S, bool kWide>
Result<void> launch_lanes(const Stream& stream, const QuantProblem& p, const MemberCall& call) {
  constexpr int R = kRangeRun<T, true> * (kWide ? 2 : 1);
  const TeamMap map = TeamMap::make(call.groups, call.members / R, kThreads, kLeastTeam);
  return launch(stream, "dynamic_quantize lanes", dynamic_lanes_kernel<T, S, kWide>,
                map.blocks(kThreads), kThreads, range_arguments<T, true>(p, call, nullptr), map);
}

template <class T, class S>
Result<void> launch_one_pass(const Stream& stream, const QuantProblem& p, const MemberCall& call) {
  constexpr int R = kRangeRun<T, true>;
  const bool wide =
      call.members % (2 * R) == 0 && call.aligned(kDynamicQ, RunPack<S, 2 * R>::kAlignment);
  const std::int64_t runs = call.members / R;
  if (wide && runs >= 2 << kLeastTeam && runs <= 2 * kMostLanes)
    return launch_lanes<T, S, true>(stream, p, call);
  if (runs <= kMostLanes) return launch_lanes<T, S, false>(stream, p, call);
  return wide ? launch_rows<T, S, true>(stream, p, call)
              : launch_rows<T, S, false>(stream, p, call);
}

}  // namespace

bool can_launch_dynamic_rows(const QuantProblem& p, const MemberCall& call) {
  if (!call.map.dense || call.map.outer != 1 || call.members == 0) return false;
  const int run = 16 * 8 / bits(p.element_dtype);
  return call.members % run == 0 && call.members <= run * 8 * kMostRowWarps * 32 &&
         call.aligned(kDynamicX, 16) && call.aligned(kDynamicQ, run * bits(p.dtype) / 8);
}

Result<void> launch_dynamic_rows(const Stream& stream, const QuantProblem& p,
                                 const MemberCall& call) {
  return visit_float(p.element_dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return is_packed(p.dtype) ? launch_one_pass<T, Nibbles>(stream, p, call)
                              : launch_one_pass<T, Bytes>(stream, p, call);
  });
}

}  // namespace planck::quantize_device
