// dscale and dzero_point: one pass over x and dy, which also writes dx. Sums follow the canonical
// tree (docs/numerics.md). Groups that lie one after another: learn_rows.cuh; columns:
// learn_columns.cuh; all others teams of runs, here. Sums of chunks go to the workspace and are
// summed by the same tree.
//
// Versions on an H200, 8192 x 8192, ratio to bare movement of x, dy and dx; 32, 128: group sizes.
//                                              f32                     bf16
//                                              axis 0  axis 1  32      axis 0  axis 1  32
//   divisions, rint, all lanes shuffle alike   0.70    0.66    0.57    0.54    0.42    0.42
//   corrected quotient, rounding by addition   0.89    0.78    0.74    0.78    0.53    0.65
//   halving exchanges, loads side by side      0.95    0.81    0.87    0.81    0.61    0.67
//   columns: 32 rows, cells in shared memory   0.95    0.92    0.93    0.81    0.69    0.67
//                                              axis 0  axis 1  128     axis 0  axis 1  128
//   the same, measured again                   0.94    0.91    0.93    0.83    0.69    0.77
//   rows: few runs per thread, no teams        0.97            0.98    0.97            0.87
//   columns: the next batch prefetched                 0.94                    0.79
// Teams with two runs per thread reach 0.86: what a thread works out before its first load has to
// be shared by more elements.
#include "planck/ops/quantize/cuda/launchers.cuh"
#include "planck/ops/quantize/cuda/learn_columns.cuh"
#include "planck/ops/quantize/cuda/learn_rows.cuh"

namespace planck::quantize_device {

namespace {

constexpr int kTeamThreads = 256;

// R elements per run, 16 bytes; one where strides are arbitrary.
template <class T, Lie kLie>
inline constexpr int kRun = kLie == Lie::strided ? 1 : 16 / static_cast<int>(sizeof(T));

template <class T, Lie kLie>
__global__ void __launch_bounds__(kTeamThreads, 3)
    learn_kernel(const __grid_constant__ LearnArguments<T, kLie != Lie::strided> args,
                 const __grid_constant__ TeamMap map,
                 const __grid_constant__ Members<kLie> members) {
  using C = Compute<T>;
  constexpr int R = kRun<T, kLie>;
  constexpr bool kEarly = sizeof(T) == 4;  // worth its registers for f32 alone
  __shared__ Two<C> shared[kTeamThreads / 32];
  follow();
  const TeamThread at(map);
  RunPack<T, R> x[kTeamRuns], dy[kTeamRuns];
  StoredGroup<T> groups[kTeamRuns] = {};
  const std::int64_t origin = members.origin(at) * static_cast<int>(R * sizeof(T));
  const auto changes = [&](int k) { return k == 0 || at.group(k) != at.group(k - 1); };
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k) {
    if (!at.valid(k)) continue;
    std::int64_t offset[kElementOperands];
    members.locate(at, k, offset);
    dy[k] =
        load_pack<R * sizeof(T), false>(static_cast<const char*>(args.dy) + origin, offset[kDy]);
    x[k] = load_pack<R * sizeof(T), false>(static_cast<const char*>(args.x) + origin, offset[kX]);
    if (kEarly && changes(k)) groups[k] = load_stored(args, at.origin_group + at.group(k));
  }
  Two<C> sums[kTeamRuns];
  Cell<T> cell = {};
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k) {
    sums[k] = {kNothing<C>, kNothing<C>};
    if (!at.valid(k)) continue;
    if (changes(k)) {
      if (!kEarly) groups[k] = load_stored(args, at.origin_group + at.group(k));
      cell = learn_cell(groups[k], args.grid);
    }
    LearnedRun<T, R> run;
    learn_run<T, R>(x[k], dy[k], cell, args.grid, run);
    std::int64_t offset[kElementOperands];
    members.locate(at, k, offset);
    store_pack<false>(static_cast<char*>(args.dx) + origin, offset[kDx], run.dx);
    sums[k] = run.sum();
  }
  team_sum(sums, map.log2_team, shared, [&](int k, bool second, C sum) {
    if (at.group(k) < at.groups)
      store_sum(args, map.chunks, at.origin_group + at.group(k), at.chunk, second, sum);
  });
}

// Sums of 1,024 chunks at a time: [groups, map.runs] to [groups, map.chunks].
template <class T>
__global__ void __launch_bounds__(kTeamThreads)
    sum_chunks_kernel(const __grid_constant__ LearnArguments<T, false> args,
                      const __grid_constant__ TeamMap map, const Compute<T>* first,
                      const Compute<T>* second) {
  using C = Compute<T>;
  __shared__ Two<C> shared[kTeamThreads / 32];
  follow();
  const TeamThread at(map);
  Two<C> sums[kTeamRuns];
#pragma unroll
  for (int k = 0; k < kTeamRuns; ++k) {
    const std::int64_t i = (at.origin_group + at.group(k)) * map.runs + at.origin_run + at.run(k);
    sums[k] = {at.valid(k) ? first[i] : kNothing<C>, at.valid(k) ? second[i] : kNothing<C>};
  }
  team_sum(sums, map.log2_team, shared, [&](int k, bool second, C sum) {
    if (at.group(k) < at.groups)
      store_sum(args, map.chunks, at.origin_group + at.group(k), at.chunk, second, sum);
  });
}

// Partial sums per group on all levels, where the first has `chunks`.
std::int64_t partial_sums(std::int64_t chunks) {
  std::int64_t total = 0;
  for (; chunks > 1; chunks = ceil_div(chunks, kTeamThreads * kTeamRuns)) total += chunks;
  return total;
}

template <class T>
Result<void> learn(const Stream& stream, Workspace workspace, const QuantProblem& p,
                   const Operands& operands) {
  using C = Compute<T>;
  using O = quant_operand::FakeQuantizeBackward;
  const auto optional = [&](int i) {
    const View& v = operands[static_cast<std::size_t>(i)];
    return v.present ? &v : nullptr;
  };
  const MemberCall call =
      member_call(p,
                  {&operands[O::dy], &operands[O::x], &operands[O::dx], &operands[O::scale],
                   &operands[O::zero_point], optional(O::dscale), optional(O::dzero_point)},
                  kDx, true);
  if (call.groups == 0) return {};

  LearnArguments<T, false> args = {};
  args.dy = call.base(kDy);
  args.x = call.base(kX);
  args.dx = call.base(kDx);
  args.scale = static_cast<const T*>(call.base(kScaleIn));
  args.zero_point = static_cast<const std::int32_t*>(call.base(kZeroIn));
  args.dscale = static_cast<T*>(call.base(kDscale));
  args.dzero_point = static_cast<T*>(call.base(kDzero));
  args.groups = call.groups_as<false>();
  args.empty = call.members == 0;
  args.grid = grid_of(p);
  const auto dense_args = [&] {
    return LearnArguments<T, true>{args.dy,
                                   args.x,
                                   args.dx,
                                   args.scale,
                                   args.zero_point,
                                   args.dscale,
                                   args.dzero_point,
                                   {args.partials[0], args.partials[1]},
                                   call.groups_as<true>(),
                                   args.empty,
                                   args.grid};
  };
  // Each level of partial sums lies behind the one before.
  C* next = static_cast<C*>(workspace.data);
  const auto fits = [&](std::int64_t first_level) {
    return static_cast<std::size_t>(2 * call.groups * partial_sums(first_level)) * sizeof(C) <=
           workspace.bytes;
  };
  const auto take_partials = [&](std::int64_t chunks) {
    for (auto& partials : args.partials) {
      partials = next;
      next += chunks == 1 ? 0 : call.groups * chunks;
    }
  };
  const auto aligned = [&](int bytes) {
    return call.map.dense && call.aligned(kDy, bytes) && call.aligned(kX, bytes) &&
           call.aligned(kDx, bytes);
  };

  std::int64_t chunks = 1;
  Result<void> launched;
  constexpr int R = kRun<T, Lie::rows>, kColumns = kColumnRun<T>;
  const bool rows = call.map.inner % R == 0 && aligned(16);
  const bool columns = !rows && call.map.inner == 1 && call.map.channels % kColumns == 0 &&
                       aligned(kColumns * static_cast<int>(sizeof(T)));
  const ColumnSlots slots = ColumnSlots::make(
      call.map.outer, columns ? call.map.channels / kColumns : 1, kLearnColumnThreads);
  using Rows = LearnRows<T>;
  if (columns && fits(slots.chunks) && !args.empty) {
    chunks = slots.chunks;
    take_partials(chunks);
    launched = launch(stream, "fake_quantize_backward columns", learn_columns_kernel<T>,
                      slots.tiles * chunks, kLearnColumnThreads, dense_args(), slots,
                      ColumnPartials::make(chunks, call.groups));
    if (launched && chunks > 1 && ColumnPartials::across(chunks, call.groups))
      return launch_next(stream, "fake_quantize_backward sums of columns", sum_columns_kernel<T>,
                         ceil_div(call.groups, 32), 256, dense_args(), chunks, call.groups);
  } else if (rows && !args.empty && call.map.outer == 1 &&
             Rows::fits(call.groups, call.members / R)) {
    const Rows map = Rows::make(call.groups, call.members / R);
    chunks = map.chunks;
    take_partials(chunks);
    launched = launch(stream, "fake_quantize_backward rows",
                      map.one() ? learn_rows_kernel<T, true> : learn_rows_kernel<T, false>,
                      map.blocks(), kRowThreads, dense_args(), map);
  } else {
    const bool runs = rows && !args.empty;
    const TeamMap map =
        TeamMap::make(call.groups, runs ? call.members / R : call.members, kTeamThreads);
    const std::int64_t blocks = map.blocks(kTeamThreads);
    chunks = map.chunks;
    take_partials(chunks);
    launched =
        !runs ? launch(stream, "fake_quantize_backward strided sums", learn_kernel<T, Lie::strided>,
                       blocks, kTeamThreads, args, map, call.strided())
        : call.map.outer == 1
            ? launch(stream, "fake_quantize_backward sums", learn_kernel<T, Lie::rows>, blocks,
                     kTeamThreads, dense_args(), map, call.rows(R))
            : launch(stream, "fake_quantize_backward plane sums", learn_kernel<T, Lie::planes>,
                     blocks, kTeamThreads, dense_args(), map, call.planes(R));
  }
  while (launched && chunks > 1) {
    const TeamMap map = TeamMap::make(call.groups, chunks, kTeamThreads);
    const C *first = args.partials[0], *second = args.partials[1];
    chunks = map.chunks;
    take_partials(chunks);
    launched = launch_next(stream, "fake_quantize_backward sums of chunks", sum_chunks_kernel<T>,
                           map.blocks(kTeamThreads), kTeamThreads, args, map, first, second);
  }
  return launched;
}

}  // namespace

Result<void> launch_learn(const Stream& stream, Workspace workspace, const QuantProblem& p,
                          const Operands& operands) {
  return visit_float(p.element_dtype, [&](auto type) {
    return learn<typename decltype(type)::type>(stream, workspace, p, operands);
  });
}

}  // namespace planck::quantize_device
