// cuda:tiles: chooses the width of tiles, finds delta, and lets rows that have a NaN be done again
// by definition.
#include <algorithm>
#include <type_traits>

#include "planck/loops/cuda/chain.cuh"
#include "planck/ops/attention/cuda/call.cuh"
#include "planck/ops/attention/cuda/chain.cuh"
#include "planck/ops/attention/cuda/kernels.h"
#include "planck/ops/attention/cuda/tensor_cores.cuh"

namespace planck {

namespace {

using namespace attention_device;

// delta and a copy of lse, of every query; those that fill up the last tile are zeros. A lane has 4
// elements of dy and y, and `lanes` a row: the canonical sum over E.
__global__ void find_chain_stats(Call c, float* lse, int lanes, bool chunks) {
  const int e = static_cast<int>(threadIdx.x) % lanes * 4;
  const Index rows = c.batch * c.heads * c.delta_rows, each = blockDim.x / lanes;
  for (Index first = Index{blockIdx.x} * each; first < rows; first += Index{gridDim.x} * each) {
    const Index row = first + threadIdx.x / lanes;  // the same for all lanes of it
    const Index i = row % c.delta_rows, head = row / c.delta_rows % c.heads,
                n = row / c.delta_rows / c.heads;
    const bool there = row < rows && i < c.queries;
    float p[4] = {};
    if (there) {
      const float *y = at_row<float>(c.y, n, head, i), *dy = at_row<float>(c.dy, n, head, i);
      if (chunks && e < c.out_width) {
        const float4 a = *reinterpret_cast<const float4*>(dy + e),
                     b = *reinterpret_cast<const float4*>(y + e);
        p[0] = a.x * b.x, p[1] = a.y * b.y, p[2] = a.z * b.z, p[3] = a.w * b.w;
      } else {
#pragma unroll
        for (int x = 0; x < 4; ++x)
          if (e + x < c.out_width) p[x] = dy[(e + x) * c.dy.stride[3]] * y[(e + x) * c.y.stride[3]];
      }
    }
    float sum = (p[0] + p[1]) + (p[2] + p[3]);
    for (int by = 1; by < lanes; by *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (e == 0 && row < rows) {
      static_cast<float*>(c.delta)[row] = sum;
      lse[row] = there ? *at_row<float>(c.lse, n, head, i) : 0.0f;
    }
  }
}

// Whether 16 bytes of rows of x, [N, H, rows, width], lie together.
bool in_chunks(const View& x) {
  if (reinterpret_cast<std::uintptr_t>(x.data) % 16 != 0 || x.shape[3] % 4 != 0) return false;
  for (int d = 0; d < 3; ++d)
    if (x.shape[d] > 1 && x.strides[d] % 4 != 0) return false;
  return x.strides[3] == 1;
}

template <int kWidth>
Result<void> run_forward(const Stream& stream, const Call& c, const ChainWays& ways,
                         const ChosenRows& again) {
  if (auto ok = attend_chain<kWidth>(stream, c, ways, again); !ok) return ok;
  return attend_again<float>(stream, c, again, Part::forward);
}

template <int kWidth>
Result<void> run_backward(const Stream& stream, const Call& c, const ChainWays& ways, float* lse,
                          const KeptSlopes& kept, const ChosenRows& again_dq,
                          const ChosenRows& again_dk_dv) {
  int lanes = 1;
  while (4 * lanes < c.out_width) lanes *= 2;
  constexpr int kThreads = 256;
  const Index blocks = ceil_div(c.batch * c.heads * c.delta_rows * lanes, kThreads);
  if (auto ok = launch(stream, "attention_backward", find_chain_stats,
                       std::min<Index>(blocks, 1 << 20), kThreads, c, lse, lanes, ways.chunks);
      !ok)
    return ok;
  const ChainStats stats{lse, static_cast<const float*>(c.delta), c.delta_rows};
  if (kept.data == nullptr)
    if (auto ok = sum_dq_chain<kWidth>(stream, c, ways, stats, again_dq); !ok) return ok;
  if (auto ok = sum_dk_dv_chain<kWidth>(stream, c, ways, stats, kept, again_dk_dv); !ok) return ok;
  if (kept.data != nullptr)
    if (auto ok = sum_kept_dq_chain<kWidth>(stream, c, ways, kept, again_dq); !ok) return ok;
  if (auto ok = attend_again<float>(stream, c, again_dq, Part::dq); !ok) return ok;
  return attend_again<float>(stream, c, again_dk_dv, Part::dk_dv);
}

// f(a constant): the width of tiles.
template <class F>
auto with_width(const AttentionProblem& p, F f) {
  const Index width = std::max(p.width(), p.out_width());
  if (width <= 32) return f(std::integral_constant<int, 32>());
  if (width <= 64) return f(std::integral_constant<int, 64>());
  return f(std::integral_constant<int, 128>());
}

Result<void> run(const Stream& stream, Workspace workspace, const AttentionProblem& p,
                 const Operands& o, bool keeps_slopes) {
  using namespace attention_operand;
  const bool backward = p.backward();
  const std::size_t memory =
      with_width(p, [&](auto width) { return chain_memory<width()>(backward); });
  if (p.batch() * p.heads() == 0 || p.queries() == 0 || p.keys() == 0 ||
      !has_shared_memory(stream, memory))
    return attention_cuda(stream, workspace, p, o);
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  Call c = call_of(p, o);
  if (auto ok = find_random(stream, p, c); !ok) return ok;
  const AttentionTilesLayout layout(p, keeps_slopes);
  char* const room = static_cast<char*>(workspace.data);
  c.delta = room + layout.delta, c.delta_rows = layout.rows_of_head;
  ChainWays ways{in_chunks(o[q]) && in_chunks(o[k]) && in_chunks(o[v]), has_options(c)};
  c.packs = backward ? in_chunks(o[dq]) && in_chunks(o[dk]) && in_chunks(o[dv]) : in_chunks(o[y]);
  const ChosenRows again{reinterpret_cast<RowBits*>(room + layout.again), c.queries},
      again_keys{reinterpret_cast<RowBits*>(room + layout.again_keys), c.keys};
  if (!backward)
    return with_width(p, [&](auto width) { return run_forward<width()>(stream, c, ways, again); });
  ways.chunks = ways.chunks && in_chunks(o[dy]) && in_chunks(o[saved_y]);
  float* const lse = reinterpret_cast<float*>(room + layout.lse);
  const AttentionSlopeTiles tiles(p);
  KeptSlopes kept{nullptr, tiles.of_head, static_cast<int>(tiles.keys), tiles.triangle};
  if (keeps_slopes) kept.data = reinterpret_cast<float*>(room + layout.slopes);
  return with_width(p, [&](auto width) {
    return run_backward<width()>(stream, c, ways, lse, kept, again, again_keys);
  });
}

}  // namespace

Result<void> attention_tiles(const Stream& stream, Workspace workspace, const AttentionProblem& p,
                             const Operands& o) {
  return run(stream, workspace, p, o, true);
}
Result<void> attention_tiles_twice(const Stream& stream, Workspace workspace,
                                   const AttentionProblem& p, const Operands& o) {
  return run(stream, workspace, p, o, false);
}

}  // namespace planck
