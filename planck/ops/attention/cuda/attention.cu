// cuda:rows: the definition itself, on any GPU, for every dtype, math and stride. A warp has one
// query (dk and dv: one key): its lanes have scores, 128 at a time, which then lie in shared memory
// as weights, and columns of what is summed. Products of tensor_core math are integer arithmetic
// (planck/math/products/tensor_core.h). cuda:warpgroups and cuda:tiles let it do what they
// could not.
#include <algorithm>

#include "planck/loops/cuda/chain.cuh"
#include "planck/math/pairwise_sum.h"
#include "planck/ops/attention/cuda/by_definition.cuh"
#include "planck/ops/attention/cuda/call.cuh"
#include "planck/ops/attention/cuda/kernels.h"

namespace planck {

namespace {

using namespace attention_device;

constexpr int kWarps = 4, kRows = element::kBlock, kColumns = kMostHeadWidth / 32;

// The rows of this warp: one after the other.
__device__ Index first_row() { return Index{blockIdx.x} * kWarps + threadIdx.x / 32; }
__device__ Index row_step() { return Index{gridDim.x} * kWarps; }

template <class T, bool kChain>
__global__ void forward(Call c, Rows rows) {
  __shared__ RowRoom<T, kChain> room[kWarps];
  follow();
  rows.each(first_row(), row_step(), [&](Index row) {
    const Index i = row % c.queries, head = row / c.queries % c.heads,
                n = row / c.queries / c.heads;
    attend_row<T, kChain>(c, n, head, i, room[threadIdx.x / 32]);
  });
}

template <class T>
__global__ void find_delta(Call c) {
  using C = Compute<T>;
  const Index rows = c.batch * c.heads * c.queries;
  for (Index row = Index{blockIdx.x} * blockDim.x + threadIdx.x; row < rows;
       row += Index{gridDim.x} * blockDim.x) {
    const Index i = row % c.queries, head = row / c.queries % c.heads,
                n = row / c.queries / c.heads;
    const T *y = at_row<T>(c.y, n, head, i), *dy = at_row<T>(c.dy, n, head, i);
    PairwiseSum<C, 9> sum;
    for (int e = 0; e < c.out_width; ++e)
      sum.add(C(widen(dy[e * c.dy.stride[3]])) * C(widen(y[e * c.y.stride[3]])));
    static_cast<C*>(c.delta)[row] = sum.result();
  }
}

template <class T, bool kChain>
__device__ Slope<Compute<T>> slope(const Call& c, Index n, Index head, Index i, Index j) {
  using C = Compute<T>;
  const Index group = head / (c.heads / c.groups);
  const C dp = product<T, kChain>(at_row<T>(c.dy, n, head, i), c.dy.stride[3],
                                  at_row<T>(c.v, n, group, j), c.v.stride[3], c.out_width);
  const C delta = static_cast<const C*>(c.delta)[(n * c.heads + head) * c.delta_rows + i];
  return slope_of<T>(c, query_and_key<T, kChain>(c, n, head, i, j), dp,
                     *at_row<C>(c.lse, n, head, i), delta, n, head, i, j);
}

template <class T, bool kChain>
__global__ void find_dq(Call c, Rows rows) {
  using C = Compute<T>;
  __shared__ Weight<T, kChain> shared_weights[kWarps][kRows];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Weight<T, kChain>* const weights = shared_weights[threadIdx.x / 32];
  follow();
  rows.each(first_row(), row_step(), [&](Index row) {
    const Index i = row % c.queries, head = row / c.queries % c.heads,
                n = row / c.queries / c.heads, group = head / (c.heads / c.groups);
    const Range seen = keys_of(c, i);
    C sums[kColumns] = {};
    for (Index start = seen.first / kRows * kRows; start < seen.end; start += kRows) {
      const int count = static_cast<int>(c.keys - start < kRows ? c.keys - start : kRows);
      __syncwarp();
      for (int r = lane; r < kRows; r += 32) {
        const bool sees = seen.has(start + r);
        weights[r] =
            weight_of<T, kChain>(sees ? slope<T, kChain>(c, n, head, i, start + r).ds : C(0));
      }
      __syncwarp();
      for (int x = 0; x < kColumns; ++x)
        if (const int d = lane + 32 * x; d < c.width)
          sums[x] = add_weighted<T, kChain>(sums[x], weights,
                                            at_row<T>(c.k, n, group, start) + d * c.k.stride[3],
                                            c.k.stride[2], count);
    }
    for (int x = 0; x < kColumns; ++x)
      if (const int d = lane + 32 * x; d < c.width)
        store<T>(c.dq, n, head, i, d, element::result(sums[x], static_cast<C>(c.scale)));
  });
}

template <class T, bool kChain>
__global__ void find_dk_dv(Call c, Rows rows) {
  using C = Compute<T>;
  __shared__ Weight<T, kChain> shared_weights[kWarps][2][kRows];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  auto& weights = shared_weights[threadIdx.x / 32];
  const Index in_group = c.heads / c.groups;
  follow();
  rows.each(first_row(), row_step(), [&](Index row) {
    const Index j = row % c.keys, group = row / c.keys % c.groups, n = row / c.keys / c.groups;
    const Range seen = queries_of(c, j);
    C dk[kColumns] = {}, dv[kColumns] = {};
    for (Index head = group * in_group; head < (group + 1) * in_group; ++head)
      for (Index start = seen.first / kRows * kRows; start < seen.end; start += kRows) {
        const int count = static_cast<int>(c.queries - start < kRows ? c.queries - start : kRows);
        __syncwarp();
        for (int r = lane; r < kRows; r += 32) {
          const Slope<C> s =
              seen.has(start + r) ? slope<T, kChain>(c, n, head, start + r, j) : Slope<C>{0, 0};
          weights[0][r] = weight_of<T, kChain>(s.p);
          weights[1][r] = weight_of<T, kChain>(s.ds);
        }
        __syncwarp();
        for (int x = 0; x < kColumns; ++x) {
          const int e = lane + 32 * x;
          if (e < c.out_width)
            dv[x] = add_weighted<T, kChain>(dv[x], weights[0],
                                            at_row<T>(c.dy, n, head, start) + e * c.dy.stride[3],
                                            c.dy.stride[2], count);
          if (e < c.width)
            dk[x] = add_weighted<T, kChain>(dk[x], weights[1],
                                            at_row<T>(c.q, n, head, start) + e * c.q.stride[3],
                                            c.q.stride[2], count);
        }
      }
    for (int x = 0; x < kColumns; ++x) {
      const int e = lane + 32 * x;
      if (e < c.out_width)
        store<T>(c.dv, n, group, j, e, element::result(dv[x], c.drops ? enlarged<C>(c) : C(1)));
      if (e < c.width)
        store<T>(c.dk, n, group, j, e, element::result(dk[x], static_cast<C>(c.scale)));
    }
  });
}

std::int64_t blocks_for(Index rows, int each) {
  return std::min<std::int64_t>(ceil_div(rows, each), 1 << 20);
}

template <class T, bool kChain>
Result<void> run(const Stream& stream, const AttentionProblem& p, const Call& c) {
  const Index rows = c.batch * c.heads * c.queries, keys = c.batch * c.groups * c.keys;
  constexpr int kThreads = 32 * kWarps;
  const char* const name = p.backward() ? "attention_backward" : "attention";
  const Rows queries{rows, {}};
  if (!p.backward())
    return launch(stream, name, forward<T, kChain>, blocks_for(rows, kWarps), kThreads, c, queries);
  if (auto ok = launch(stream, name, find_delta<T>, blocks_for(rows, kThreads), kThreads, c); !ok)
    return ok;
  if (auto ok =
          launch(stream, name, find_dq<T, kChain>, blocks_for(rows, kWarps), kThreads, c, queries);
      !ok)
    return ok;
  return launch(stream, name, find_dk_dv<T, kChain>, blocks_for(keys, kWarps), kThreads, c,
                Rows{keys, {}});
}

template <class T>
Result<void> run_as(const Stream& stream, const AttentionProblem& p, const Call& c) {
  if constexpr (!std::is_same_v<T, double>)
    if (p.math() == ProductMath::tensor_core) return run<T, false>(stream, p, c);
  return run<T, true>(stream, p, c);
}

}  // namespace

Result<void> attention_cuda(const Stream& stream, Workspace workspace, const AttentionProblem& p,
                            const Operands& o) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  Call c = attention_device::call_of(p, o);
  if (auto ok = attention_device::find_random(stream, p, c); !ok) return ok;
  c.delta = workspace.data, c.delta_rows = c.queries;
  switch (p.element_dtype) {
    case Dtype::f64:
      return run_as<double>(stream, p, c);
    case Dtype::f32:
      return run_as<float>(stream, p, c);
    case Dtype::f16:
      return run_as<f16>(stream, p, c);
    default:
      return run_as<bf16>(stream, p, c);
  }
}

namespace attention_device {

// A grid that fits on any GPU at once: it looks whether there are rows, and nearly always ends. It
// is launched while the last kernel ends, where the GPU can do that.
template <class T>
Result<void> attend_again(const Stream& stream, const Call& c, const ChosenRows& chosen,
                          Part part) {
  const Index heads = c.batch * (part == Part::dk_dv ? c.groups : c.heads);
  const Rows rows{heads * chosen.in_head, chosen};
  constexpr bool kChain = std::is_same_v<T, float>;
  const auto kernel = part == Part::forward ? forward<T, kChain>
                      : part == Part::dq    ? find_dq<T, kChain>
                                            : find_dk_dv<T, kChain>;
  return launch_next(stream, "attention", kernel, 264, 32 * kWarps, c, rows);
}
template Result<void> attend_again<bf16>(const Stream&, const Call&, const ChosenRows&, Part);
template Result<void> attend_again<f16>(const Stream&, const Call&, const ChosenRows&, Part);
template Result<void> attend_again<float>(const Stream&, const Call&, const ChosenRows&, Part);

}  // namespace attention_device

}  // namespace planck
