// The nodes of a group's parts joined.
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/ops/reduce/cuda/stats.cuh"

namespace planck::reduce_device {

inline constexpr int kJoinWarps = 8;

template <class T>
struct StatJoins {
  NodeSink<T> sink;
  std::int64_t groups, length, part;  // part: elements of one
  int warps;                          // of a group, a power of two
  int each;                           // nodes of a thread, a power of two
};

template <class T, bool kVar>
__global__ void __launch_bounds__(32 * kJoinWarps) stat_joins(const StatJoins<T> a) {
  using N = Node<Compute<T>, kVar>;
  __shared__ N shared[kJoinWarps];
  follow();
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int own = warp & (a.warps - 1);
  const std::int64_t group =
      static_cast<std::int64_t>(blockIdx.x) * (kJoinWarps / a.warps) + warp / a.warps;
  const std::int64_t parts = group < a.groups ? a.sink.parts : 0;
  const std::int64_t first = static_cast<std::int64_t>(own * 32 + lane) * a.each;
  rm::JoinCounter<JoinNodes, N, 24> counter;
  for (std::int64_t i = first; i < min(first + a.each, parts); ++i) {
    const auto v = a.sink.nodes[group * parts + i];
    counter.add(
        node_of<kVar>(v.parameter, v.sum, static_cast<int>(min(a.part, a.length - i * a.part))));
  }
  N node = counter.result();
  const auto threads = [&](std::int64_t before, int most) {  // that have some
    return static_cast<int>(
        max(std::int64_t{0}, min((parts + a.each - 1) / a.each - before, std::int64_t{most})));
  };
  node = join_nodes(node, threads(own * 32, 32));
  if (a.warps > 1) {
    if (lane == 0) shared[warp] = node;
    __syncthreads();
    if (own > 0) return;
    if (lane < a.warps) node = shared[warp + lane];
    node = join_nodes(node, (threads(0, 32 * a.warps) + 31) / 32);
  }
  if (lane == 0 && group < a.groups) {
    const auto v = stored_node(node);
    a.sink.out[a.sink.out_map.offset(group)] = stored<T>(a.sink.finish.of_sum(v.sum, v.parameter));
  }
}

// `part` elements are one node.
template <class T, bool kVar>
Result<void> join_parts(const Stream& stream, const NodeSink<T>& sink, std::int64_t groups,
                        std::int64_t length, std::int64_t part) {
  StatJoins<T> a{sink, groups, length, part, sink.parts > 32 ? kJoinWarps : 1, 1};
  while (32 * a.warps * std::int64_t{a.each} < sink.parts) a.each *= 2;
  return launch_next(stream, "reduce parts", stat_joins<T, kVar>,
                     ceil_div(groups, kJoinWarps / a.warps), 32 * kJoinWarps, a);
}

}  // namespace planck::reduce_device
