// The CUDA ceiling: 16-byte loads and stores, each warp on neighbouring addresses.
//
// A unit of work is one 16-byte vector of the smallest operand that counts; every other operand
// gives as many vectors per unit as it is larger. Operands below 1/64 of the largest are left out.
#include <cuda_runtime.h>

#include <algorithm>

#include "planck/verify/bench/ceiling.h"

namespace planck::verify {

namespace {

constexpr int kMaxSides = 8;

struct Side {
  uint4* data;
  int vectors;  // per unit
};
struct Plan {
  Side reads[kMaxSides], writes[kMaxSides];
  int read_count = 0, write_count = 0;
  long long units = 0;
};

__device__ long long vector_index(long long unit, int vectors, int j) {
  return (unit & ~31ll) * vectors + j * 32 + (unit & 31);
}

template <bool kStreaming>
__device__ uint4 load(const uint4* p) {
  return kStreaming ? __ldcs(p) : *p;
}

// V vectors of each of U units, all requested before the first is used.
template <bool kStreaming, int U, int V>
__device__ void read_side(const Side& side, long long unit, long long step, uint4& sum) {
  uint4 v[U][V];
#pragma unroll
  for (int u = 0; u < U; ++u)
#pragma unroll
    for (int j = 0; j < V; ++j)
      v[u][j] = load<kStreaming>(side.data + vector_index(unit + u * step, side.vectors, j));
#pragma unroll
  for (int u = 0; u < U; ++u)
#pragma unroll
    for (int j = 0; j < V; ++j) {
      sum.x ^= v[u][j].x;
      sum.y ^= v[u][j].y;
      sum.z ^= v[u][j].z;
      sum.w ^= v[u][j].w;
    }
}

template <bool kStreaming, int U>
__device__ void move_units(const Plan& plan, long long unit, long long step) {
  uint4 sum = {static_cast<unsigned>(unit), 1, 2, 3};
  for (int r = 0; r < plan.read_count; ++r) {
    const Side& side = plan.reads[r];
    if (side.vectors == 1) {
      read_side<kStreaming, U, 1>(side, unit, step, sum);
    } else if (side.vectors == 2) {
      read_side<kStreaming, U, 2>(side, unit, step, sum);
    } else if (side.vectors == 4) {
      read_side<kStreaming, U, 4>(side, unit, step, sum);
    } else if (side.vectors == 8) {
      read_side<kStreaming, U, 8>(side, unit, step, sum);
    } else {
      for (int j = 0; j < side.vectors; ++j)
        for (int u = 0; u < U; ++u) {
          const uint4 v =
              load<kStreaming>(side.data + vector_index(unit + u * step, side.vectors, j));
          sum.x ^= v.x ^ v.y ^ v.z ^ v.w;
        }
    }
  }
  for (int w = 0; w < plan.write_count; ++w) {
    const Side& side = plan.writes[w];
    for (int u = 0; u < U; ++u)
      for (int j = 0; j < side.vectors; ++j) {
        uint4* to = side.data + vector_index(unit + u * step, side.vectors, j);
        if (kStreaming)
          __stcs(to, sum);
        else
          *to = sum;
      }
  }
}

template <bool kStreaming, int U>
__global__ void __launch_bounds__(256) move(const __grid_constant__ Plan plan) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  long long unit = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; unit + (U - 1) * step < plan.units; unit += U * step)
    move_units<kStreaming, U>(plan, unit, step);
  for (; unit < plan.units; unit += step) move_units<kStreaming, 1>(plan, unit, step);
}

__global__ void nothing() {}

Result<void> launched(const char* what) {
  const cudaError_t status = cudaGetLastError();
  if (status == cudaSuccess) return {};
  return fail(ErrorCode::device, std::string(what) + ": " + cudaGetErrorString(status));
}

Plan plan_of(const Traffic& traffic) {
  std::size_t largest = 0;
  for (const auto* side : {&traffic.reads, &traffic.writes})
    for (const Bytes& b : *side) largest = std::max(largest, b.count);
  std::size_t smallest = largest;
  const auto counts = [&](const Bytes& b) { return b.count * 64 >= largest && b.count >= 512; };
  for (const auto* side : {&traffic.reads, &traffic.writes})
    for (const Bytes& b : *side)
      if (counts(b)) smallest = std::min(smallest, b.count);
  Plan plan;
  plan.units = static_cast<long long>(smallest / 512 * 32);
  const auto add = [&](const Bytes& b, Side* sides, int& count) {
    if (counts(b) && count < kMaxSides)
      sides[count++] = {static_cast<uint4*>(b.data),
                        static_cast<int>(b.count / 16 / std::max(1ll, plan.units))};
  };
  for (const Bytes& b : traffic.reads) add(b, plan.reads, plan.read_count);
  for (const Bytes& b : traffic.writes) add(b, plan.writes, plan.write_count);
  return plan;
}

}  // namespace

namespace ceiling_detail {

Result<void> move_bytes_cuda(const Stream& stream, const Traffic& traffic, std::size_t variant) {
  const Plan plan = plan_of(traffic);
  if (plan.units == 0) return {};
  const bool streaming = variant % 2 == 1, two = variant >= 2;  // in the order of their names
  const long long all = (plan.units + (two ? 511 : 255)) / (two ? 512 : 256);
  const auto blocks = static_cast<unsigned>(all);
  auto* native = static_cast<cudaStream_t>(stream.native());
  auto* kernel = two ? (streaming ? move<true, 2> : move<false, 2>)
                     : (streaming ? move<true, 1> : move<false, 1>);
  kernel<<<blocks, 256, 0, native>>>(plan);
  return launched("ceiling");
}

}  // namespace ceiling_detail

Result<void> launch_nothing(const Stream& stream) {
  nothing<<<1, 32, 0, static_cast<cudaStream_t>(stream.native())>>>();
  return launched("empty kernel");
}

}  // namespace planck::verify
