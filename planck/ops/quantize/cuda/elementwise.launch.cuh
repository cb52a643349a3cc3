// Picks the loop for an elementwise op and queues it.
#pragma once

#include "planck/loops/cuda/launch.cuh"
#include "planck/ops/quantize/cuda/elementwise.cuh"
#include "planck/ops/quantize/cuda/layout.cuh"
#include "planck/ops/quantize/cuda/tuning.cuh"

namespace planck::quantize_device {

template <class T>
Arguments<T> arguments_of(const ElementwiseCall& call) {
  return {call.base(kA),
          call.base(kB),
          call.base(kOut),
          static_cast<const T*>(call.base(kScale)),
          static_cast<const std::int32_t*>(call.base(kZero)),
          call.map.step[0],
          call.map.step[1],
          call.grid};
}

template <class S, int R>
bool aligned_for(const ElementwiseCall& call, int operand) {
  return std::is_same_v<S, None> || call.aligned(operand, RunPack<S, R>::kAlignment);
}

inline GroupMap group_map(const DenseMap& map, std::int64_t runs, int run_length) {
  GroupMap g;
  g.inner = std::max<std::int64_t>(1, map.inner / run_length);
  g.channels = map.channels;
  g.small = runs < kDivisorLimit;
  g.wrap = map.outer > 1;
  if (g.small) {
    g.inner_divisor = Divisor(static_cast<std::uint32_t>(g.inner));
    g.channels_divisor = Divisor(static_cast<std::uint32_t>(g.channels));
  }
  return g;
}

inline ColumnMap column_map(const DenseMap& map, int run_length) {
  ColumnMap c;
  c.rows = map.outer;
  c.runs = map.channels / run_length;
  c.column_blocks = ceil_div(c.runs, kThreads);
  c.width = static_cast<int>(ceil_div(c.runs, c.column_blocks));
  c.lanes = kThreads / c.width;
  return c;
}

inline StridedMap strided_map(const ElementwiseCall& call) {
  StridedMap m = {};
  m.rank = call.nest.rank;
  m.small = call.count < kDivisorLimit;
  for (int d = 0; d < m.rank; ++d) {
    m.extent[d] = call.nest.extent[static_cast<std::size_t>(d)];
    if (m.small) m.divisor[d] = Divisor(static_cast<std::uint32_t>(m.extent[d]));
  }
  for (std::size_t k = 0; k < kNestOperands; ++k) {
    m.start.at[k] = call.nest.offset[k];
    for (std::size_t d = 0; d < kMaxNestRank; ++d) m.stride[k][d] = call.nest.stride[k][d];
  }
  return m;
}

template <class Op, int R>
bool all_aligned(const ElementwiseCall& call) {
  return aligned_for<typename Op::A, R>(call, kA) && aligned_for<typename Op::B, R>(call, kB) &&
         aligned_for<typename Op::Out, R>(call, kOut);
}

// A tensor that is one group may have a rest.
template <class Op, class Tune>
bool can_launch_runs(const ElementwiseCall& call) {
  return call.map.dense && (call.map.inner % Tune::R == 0 || call.map.channels == 1) &&
         all_aligned<Op, Tune::R>(call);
}

template <class Op, class Tune>
Result<void> launch_runs(const Stream& stream, const ElementwiseCall& call) {
  const std::int64_t runs = call.count / Tune::R;
  const int tail = static_cast<int>(call.count % Tune::R);
  const std::int64_t blocks = ceil_div(runs, kThreads * Tune::K);
  const auto args = arguments_of<typename Op::Element>(call);
  const GroupMap map = group_map(call.map, runs, Tune::R);
  return launch(stream, "quantize runs", runs_kernel<Op, Tune>, blocks + (tail > 0), kThreads, args,
                map, runs, tail);
}

template <class Op, class Tune>
bool can_launch_columns(const ElementwiseCall& call) {
  return call.map.dense && call.map.inner == 1 && call.map.channels % Tune::kColumns == 0 &&
         all_aligned<Op, Tune::kColumns>(call);
}

template <class Op, class Tune>
Result<void> launch_columns(const Stream& stream, const ElementwiseCall& call) {
  const ColumnMap map = column_map(call.map, Tune::kColumns);
  const std::int64_t tiles = ceil_div(map.rows, map.lanes * Tune::kRows);
  return launch(stream, "quantize columns", columns_kernel<Op, Tune>, tiles * map.column_blocks,
                kThreads, arguments_of<typename Op::Element>(call), map);
}

template <class Op>
Result<void> launch_strided(const Stream& stream, const ElementwiseCall& call) {
  using T = typename Op::Element;
  Arguments<T> args = arguments_of<T>(call);
  args.a = call.view[kA]->data;
  args.b = call.view[kB]->data;
  args.out = call.view[kOut]->data;
  args.scale = static_cast<const T*>(call.view[kScale]->data);
  args.zero_point = static_cast<const std::int32_t*>(call.view[kZero]->data);
  const std::int64_t units = call.count / kUnit<Op>;
  return launch(stream, "quantize strided", strided_kernel<Op>,
                ceil_div(units, kThreads * 4 / kUnit<Op>), kThreads, args, strided_map(call),
                units);
}

template <class Op>
Result<void> launch_elementwise(const Stream& stream, const ElementwiseCall& call) {
  using Wide = typename TuningOf<Op>::type;
  using Narrow = typename TuningOf<Op>::narrow;
  if (call.count == 0) return {};
  if (call.strided) return launch_strided<Op>(stream, call);
  if (can_launch_runs<Op, Wide>(call)) return launch_runs<Op, Wide>(stream, call);
  if (can_launch_columns<Op, Wide>(call)) return launch_columns<Op, Wide>(stream, call);
  if constexpr (!std::is_same_v<Wide, Narrow>)
    if (can_launch_runs<Op, Narrow>(call)) return launch_runs<Op, Narrow>(stream, call);
  return launch_strided<Op>(stream, call);
}

}  // namespace planck::quantize_device
