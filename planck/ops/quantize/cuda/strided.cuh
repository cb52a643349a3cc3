// The loop over elementwise ops for operands of any strides: one element at a time, or a pair where
// outputs are packed.
#pragma once

#include "planck/loops/cuda/division.cuh"
#include "planck/loops/nest.h"
#include "planck/ops/quantize/cuda/units.cuh"

namespace planck::quantize_device {

// Operands of a nest, in its order.
enum NestOperand { kOut, kA, kB, kScale, kZero, kNestOperands };

struct Offsets {
  std::int64_t at[kNestOperands];
};

struct StridedMap {
  int rank;
  bool small;  // all elements have 31-bit numbers
  std::int64_t extent[kMaxNestRank];
  Divisor divisor[kMaxNestRank];
  std::int64_t stride[kNestOperands][kMaxNestRank];
  Offsets start;

  __device__ __forceinline__ Offsets locate(std::int64_t index) const {
    Offsets o = start;
    for (int d = rank - 1; d >= 0; --d) {
      const std::int64_t rest =
          small ? divisor[d].quotient(static_cast<std::uint32_t>(index)) : index / extent[d];
      const std::int64_t coordinate = index - rest * extent[d];
      index = rest;
#pragma unroll
      for (int k = 0; k < kNestOperands; ++k) o.at[k] += coordinate * stride[k][d];
    }
    return o;
  }
};

// A pair is neighbours in the output, not always along one axis: an odd group ends within a pair.
template <class Op>
__global__ void __launch_bounds__(kThreads)
    strided_kernel(const __grid_constant__ Arguments<typename Op::Element> args,
                   const __grid_constant__ StridedMap map, std::int64_t units) {
  using C = Compute<typename Op::Element>;
  constexpr int kUnits = 4 / kUnit<Op>;
  Offsets o[kUnits] = {}, next[kUnits] = {};
  C x[kUnits][kUnit<Op>], y[kUnits][kUnit<Op>];
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * (kThreads * kUnits) + threadIdx.x;
  const auto step = [&](int u, int k) { return next[u].at[k] - o[u].at[k]; };
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    if (first + u * kThreads >= units) continue;
    o[u] = map.locate((first + u * kThreads) * kUnit<Op>);
    next[u] = kUnit<Op> == 1 ? o[u] : map.locate((first + u * kThreads) * kUnit<Op> + 1);
    load_unit<Op>(args, o[u].at[kA], step(u, kA), o[u].at[kB], step(u, kB), x[u], y[u]);
  }
#pragma unroll
  for (int u = 0; u < kUnits; ++u) {
    if (first + u * kThreads >= units) return;
    map_unit<Op>(args, x[u], y[u], o[u].at[kOut], [&](int e) {
      return make_cell_of<Op>(load_stored<Op>(args, o[u].at[kScale] + e * step(u, kScale),
                                              o[u].at[kZero] + e * step(u, kZero)),
                              args.grid);
    });
  }
}

}  // namespace planck::quantize_device
