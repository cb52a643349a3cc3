// Picks the loop for an elementwise op and queues it.
#pragma once

#include "planck/loops/launch.cuh"
#include "planck/ops/quantize/layout.cuh"

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

template <class Op>
Result<void> launch_elementwise(const Stream& stream, const ElementwiseCall& call) {
  using T = typename Op::Element;
  using Tune = typename TuningOf<Op>::type;
  constexpr int R = Tune::R;
  const DenseMap& map = call.map;
  if (call.count == 0) return {};
  const bool dense = map.dense && aligned_for<typename Op::A, R>(call, kA) &&
                     aligned_for<typename Op::B, R>(call, kB) &&
                     aligned_for<typename Op::Out, R>(call, kOut);
  const bool one_group = map.channels == 1;
  if (dense && (map.inner % R == 0 || one_group)) {
    const std::int64_t runs = call.count / R;
    const int tail = static_cast<int>(call.count % R);
    const std::int64_t blocks = ceil_div(runs + (tail > 0), kThreads * Tune::K);
    return launch(stream, "quantize runs", runs_kernel<Op, Tune>, blocks, kThreads,
                  arguments_of<T>(call), group_map(map, runs, R), runs, tail);
  }
  if (dense && map.inner == 1 && map.channels % R == 0) {
    const ColumnMap columns = column_map(map, R);
    const std::int64_t tiles = ceil_div(columns.rows, columns.lanes * Tune::kRows);
    return launch(stream, "quantize columns", columns_kernel<Op, Tune>,
                  tiles * columns.column_blocks, kThreads, arguments_of<T>(call), columns);
  }
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

}  // namespace planck::quantize_device
