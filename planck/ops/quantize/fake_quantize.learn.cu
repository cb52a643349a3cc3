// dscale and dzero_point: one pass over x and dy, which also writes dx. Sums follow the canonical
// tree (docs/numerics.md): teams of runs for groups along memory, slots of rows for columns; chunk
// sums go to the workspace and are summed by the same tree, 1,024 at a time.
//
// Ladder on an H200, 8192 x 8192, ratio to bare movement of x, dy and dx:
//                                              f32                     bf16
//                                              axis 0  axis 1  32      axis 0  axis 1  32
//   divisions, rint, all lanes shuffle alike   0.70    0.66    0.57    0.54    0.42    0.42
//   corrected quotient, rounding by addition   0.89    0.78    0.74    0.78    0.53    0.65
//   halving exchanges, loads side by side      0.95    0.81    0.87    0.81    0.61    0.67
//   columns: 32 rows, cells in shared memory   0.95    0.92    0.93    0.81    0.69    0.67
// bf16 is bound by instructions: some 42 an element.
#include "planck/ops/quantize/launchers.cuh"
#include "planck/ops/quantize/learn.cuh"

namespace planck::quantize_device {

namespace {

constexpr int kTeamThreads = 256;

// R elements a run, 16 bytes; one where strides are free.
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
#pragma unroll
    for (int half = 1; half < R; half *= 2)
#pragma unroll
      for (int e = 0; e < R; e += 2 * half)
        run.terms[e] = AddTwo<C>()(run.terms[e], run.terms[e + half]);
    sums[k] = run.terms[0];
  }
  team_sum(sums, map.log2_team, shared, [&](int k, bool second, C sum) {
    if (at.group(k) < at.groups)
      store_sum(args, map.chunks, at.origin_group + at.group(k), at.chunk, second, sum);
  });
}

// Columns of a run: 8 bytes, for the sums and cells of more would not fit the registers.
template <class T>
inline constexpr int kColumnRun = sizeof(T) == 2 ? 4 : 2;

template <class T>
__global__ void __launch_bounds__(kColumnThreads, sizeof(T) == 8 ? 2 : 3)
    learn_columns_kernel(const __grid_constant__ LearnArguments<T, true> args,
                         const __grid_constant__ ColumnSlots map) {
  using C = Compute<T>;
  constexpr int R = kColumnRun<T>, kBatch = 4;
  __shared__ Two<C> shared[kColumnThreads * R];
  __shared__ KeptColumns<T, R> kept;
  const int lane = static_cast<int>(threadIdx.x) % map.width;
  const int slot = static_cast<int>(threadIdx.x) / map.width;
  const std::int64_t chunk = blockIdx.x / map.tiles;
  const std::int64_t column = (blockIdx.x - chunk * map.tiles) * map.width + lane;
  const std::int64_t first = (chunk * map.slots + slot) * kSlotRows;
  const auto stored = [&](int e) { return load_stored(args, column * R + e); };
  const auto group_of = [&](int e) { return learn_cell(stored(e), args.grid); };
  const int columns = map.width * R;
  Two<C>* mine = shared + slot * columns + lane * R;
#pragma unroll
  for (int e = 0; e < R; ++e) mine[e] = {kNothing<C>, kNothing<C>};

  const AddTwo<C> add;
  if (column < map.runs && first < map.rows) {
    bool quick = true;
    StoredGroup<T> groups[R];
#pragma unroll
    for (int e = 0; e < R; ++e) groups[e] = stored(e);
#pragma unroll
    for (int e = 0; e < R; ++e) {
      const Cell<T> cell = learn_cell(groups[e], args.grid);
      quick = quick && cell.quick;
      kept.keep(e, cell);
    }
    const std::int64_t start = first * map.runs + column;
    ColumnCursor<R * sizeof(T)> dy_at(args.dy, start, map.runs), x_at(args.x, start, map.runs),
        dx_at(args.dx, start, map.runs);
    int left = static_cast<int>(min(map.rows - first, std::int64_t{kSlotRows}));
    // Sums of 4 rows, of 4 such sums, and of two of those, each as ((a + b) + (c + d)).
    Two<C> sums[R], earlier[R];
#pragma unroll 1
    for (int batch = 0; left > 0; ++batch, left -= kBatch) {
      RunPack<T, R> x[kBatch] = {}, dy[kBatch] = {}, dx[kBatch];
      Two<C> four[R];
      bool whole = quick && left >= kBatch;
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (k >= left) continue;
        dy[k] = dy_at.template load<false>(k);
        x[k] = x_at.template load<false>(k);
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) whole = whole && !any_delicate<T, R>(x[k], dy[k]);
      if (whole) {
        if (args.grid.reciprocal)
          learn_columns<Way::reciprocal, T, R>(kept, args.grid, x, dy, dx, four);
        else
          learn_columns<Way::divide, T, R>(kept, args.grid, x, dy, dx, four);
#pragma unroll
        for (int k = 0; k < kBatch; ++k) dx_at.template store<false>(k, dx[k]);
      } else {  // rare: once more, a row at a time
        learn_columns_careful<T, R>(args.grid, x_at, dy_at, dx_at, left, group_of, four);
      }
      dy_at.advance(kBatch);
      x_at.advance(kBatch);
      dx_at.advance(kBatch);
#pragma unroll
      for (int e = 0; e < R; ++e) {
        const int b = batch % 4;
        if (b == 0) sums[e] = four[e];
        if (b == 1) sums[e] = add(sums[e], four[e]);
        if (b == 2) earlier[e] = four[e];
        if (b == 3) sums[e] = add(sums[e], add(earlier[e], four[e]));
        const bool last = left <= kBatch;
        if (b == 2 && last) sums[e] = add(sums[e], earlier[e]);
        if (b == 3 || last) mine[e] = batch < 4 ? sums[e] : add(mine[e], sums[e]);
      }
    }
  }
  reduce_slots(shared, columns, map.slots, AddTwo<C>());
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += kColumnThreads) {
    const std::int64_t channel = (blockIdx.x - chunk * map.tiles) * columns + i;
    if (channel >= map.runs * R) continue;
    store_sum(args, map.chunks, channel, chunk, false, shared[i].first);
    store_sum(args, map.chunks, channel, chunk, true, shared[i].second);
  }
}

// Sums of 1,024 chunks at a time: [groups, map.runs] to [groups, map.chunks].
template <class T>
__global__ void __launch_bounds__(kTeamThreads)
    sum_chunks_kernel(const __grid_constant__ LearnArguments<T, false> args,
                      const __grid_constant__ TeamMap map, const Compute<T>* first,
                      const Compute<T>* second) {
  using C = Compute<T>;
  __shared__ Two<C> shared[kTeamThreads / 32];
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

// Partial sums of a group on all levels, where the first has `chunks`.
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
  const ColumnSlots slots =
      ColumnSlots::make(call.map.outer, columns ? call.map.channels / kColumns : 1);
  if (columns && fits(slots.chunks) && !args.empty) {
    chunks = slots.chunks;
    take_partials(chunks);
    launched = launch(stream, "fake_quantize_backward columns", learn_columns_kernel<T>,
                      slots.tiles * slots.chunks, kColumnThreads, dense_args(), slots);
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
    launched = launch(stream, "fake_quantize_backward sums of chunks", sum_chunks_kernel<T>,
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
