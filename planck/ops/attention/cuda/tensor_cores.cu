// cuda:warpgroups, cuda:mma_sync: chooses the width of tiles, makes maps for the copy engine, and
// lets rows that have a NaN be done again by definition.
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/cuda/tensor_map.cuh"
#include "planck/ops/attention/cuda/call.cuh"
#include "planck/ops/attention/cuda/kernels.h"
#include "planck/ops/attention/cuda/tensor_cores.cuh"

namespace planck {

namespace {

using namespace attention_device;

// delta and a copy of lse, of every query; those that fill up the last step are zeros. A lane has 8
// elements of dy and y, and lanes / 4 … 32 of them a row: the canonical sum over E.
template <class T>
__global__ void find_stats(Call c, float* lse, int lanes) {
  const int lane = static_cast<int>(threadIdx.x) % lanes, e = 8 * lane;
  const Index rows = c.batch * c.heads * c.delta_rows, each = blockDim.x / lanes;
  for (Index first = Index{blockIdx.x} * each; first < rows; first += Index{gridDim.x} * each) {
    const Index row = first + threadIdx.x / lanes;  // the same for all lanes of it
    const Index i = row % c.delta_rows, head = row / c.delta_rows % c.heads,
                n = row / c.delta_rows / c.heads;
    const bool there = row < rows && i < c.queries;
    float sum = 0;
    if (there && e < c.out_width) {
      const auto y = load_pack<16, false>(at_row<T>(c.y, n, head, i), lane);
      const auto dy = load_pack<16, false>(at_row<T>(c.dy, n, head, i), lane);
      float p[8];
#pragma unroll
      for (int x = 0; x < 8; ++x) p[x] = element_of<T>(dy, x) * element_of<T>(y, x);
      sum = ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));
    }
    for (int by = 1; by < lanes; by *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (lane == 0 && row < rows) {
      static_cast<float*>(c.delta)[row] = sum;
      lse[row] = there ? *at_row<float>(c.lse, n, head, i) : 0.0f;
    }
  }
}

// Whether x, [N, H, rows, width] of 16-bit elements, is read in chunks of 16 bytes.
bool copyable(const View& x) {
  if (reinterpret_cast<std::uintptr_t>(x.data) % 16 != 0 || x.strides[3] != 1) return false;
  for (int d = 0; d < 3; ++d) {
    const Index bytes = 2 * x.strides[d];
    if (x.shape[d] == 1 || (bytes == 0 && d < 2)) continue;
    if (bytes <= 0 || bytes % 16 != 0 || bytes >= Index{1} << 40) return false;
  }
  return true;
}

Result<void> make_map(CUtensorMap& map, const View& x) {
  const auto encode = tensor_map_encoder();
  if (encode == nullptr) return fail(ErrorCode::device, "attention: the driver has no tensor maps");
  cuuint64_t extents[4], strides[3];
  for (int d = 0; d < 4; ++d) {  // the map begins with the last axis
    const bool one = d < 3 && (x.strides[d] == 0 || x.shape[d] == 1);
    extents[3 - d] = static_cast<cuuint64_t>(one ? 1 : x.shape[d]);
    if (d < 3) strides[2 - d] = one ? 16 : static_cast<cuuint64_t>(2 * x.strides[d]);
  }
  extents[1] = static_cast<cuuint64_t>(x.shape[2]);
  const cuuint32_t box[4] = {64, 64, 1, 1}, steps[4] = {1, 1, 1, 1};
  if (encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 4, x.data, extents, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    return fail(ErrorCode::device, "attention: the driver refuses a tensor map");
  return {};
}

// Rows of a result are stored in chunks of 16 bytes, and found again in 32 bits.
bool packs(const View& x) {
  return copyable(x) && x.strides[0] % 8 == 0 && x.strides[1] % 8 == 0 && x.strides[2] % 8 == 0;
}

template <class T>
Result<void> run_forward(const Stream& stream, const Call& c, const TileMaps* maps,
                         const ChosenRows& again) {
  const int width = std::max(c.width, c.out_width);
  const bool wide = width > 64 || has_options(c);
  if (maps != nullptr)  // these do rows again themselves
    return width > 128 ? attend_tiles<T, 256>(stream, c, *maps)
           : wide      ? attend_tiles<T, 128>(stream, c, *maps)
                       : attend_tiles<T, 64>(stream, c, *maps);
  const auto ok =
      wide ? attend_warps<T, 128>(stream, c, again) : attend_warps<T, 64>(stream, c, again);
  if (!ok) return ok;
  return attend_again<T>(stream, c, again, Part::forward);
}

template <class T>
Result<void> run_backward(const Stream& stream, const Call& c, const TileMaps* maps, float* lse,
                          const ChosenRows& dq, const ChosenRows& dk_dv) {
  int lanes = 1;
  while (8 * lanes < c.out_width) lanes *= 2;
  constexpr int kThreads = 256;
  const Index rows = c.batch * c.heads * c.delta_rows;
  if (auto ok = launch(stream, "attention_backward", find_stats<T>,
                       std::min<Index>(ceil_div(rows * lanes, kThreads), 1 << 20), kThreads, c, lse,
                       lanes);
      !ok)
    return ok;
  const Stats stats{lse, static_cast<const float*>(c.delta)};
  const bool wide = std::max(c.width, c.out_width) > 64 || has_options(c);
  auto ok = maps == nullptr ? wide ? sum_warps<T, 128>(stream, c, stats, dq, dk_dv)
                                   : sum_warps<T, 64>(stream, c, stats, dq, dk_dv)
            : wide ? sum_tiles<T, 128>(stream, c, *maps, stats, dq, dk_dv)
                            : sum_tiles<T, 64>(stream, c, *maps, stats, dq, dk_dv);
  if (!ok) return ok;
  if (ok = attend_again<T>(stream, c, dq, Part::dq); !ok) return ok;
  return attend_again<T>(stream, c, dk_dv, Part::dk_dv);
}

Result<void> make_maps(TileMaps& maps, const AttentionProblem& p, const Operands& o) {
  using namespace attention_operand;
  for (const auto& [map, operand] :
       {std::pair(&maps.q, q), std::pair(&maps.k, k), std::pair(&maps.v, v)})
    if (auto ok = make_map(*map, o[operand]); !ok) return ok;
  return p.backward() ? make_map(maps.dy, o[dy]) : Result<void>();
}

// Operands that are not read in chunks go to cuda:rows.
Result<void> run(const Stream& stream, Workspace workspace, const AttentionProblem& p,
                 const Operands& o, bool by_warpgroups) {
  using namespace attention_operand;
  const bool backward = p.backward();
  bool fits = copyable(o[q]) && copyable(o[k]) && copyable(o[v]) && p.queries() > 0 && p.keys() > 0;
  if (backward) fits = fits && copyable(o[saved_y]) && copyable(o[dy]);
  if (!fits || p.batch() * p.heads() == 0) return attention_cuda(stream, workspace, p, o);
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  Call c = call_of(p, o);
  if (auto ok = find_random(stream, p, c); !ok) return ok;
  const AttentionTilesLayout layout(p);
  char* const room = static_cast<char*>(workspace.data);
  c.delta = room + layout.delta, c.delta_rows = layout.rows_of_head;
  c.packs = backward ? packs(o[dq]) && packs(o[dk]) && packs(o[dv]) : packs(o[y]);
  TileMaps made;
  const TileMaps* const maps = by_warpgroups ? &made : nullptr;
  if (by_warpgroups)
    if (auto ok = make_maps(made, p, o); !ok) return ok;
  const ChosenRows again{reinterpret_cast<RowBits*>(room + layout.again), c.queries},
      again_keys{reinterpret_cast<RowBits*>(room + layout.again_keys), c.keys};
  const bool is_f16 = p.element_dtype == Dtype::f16;
  if (!backward)
    return is_f16 ? run_forward<f16>(stream, c, maps, again)
                  : run_forward<bf16>(stream, c, maps, again);
  float* const lse = reinterpret_cast<float*>(room + layout.lse);
  return is_f16 ? run_backward<f16>(stream, c, maps, lse, again, again_keys)
                : run_backward<bf16>(stream, c, maps, lse, again, again_keys);
}

}  // namespace

Result<void> attention_warpgroups(const Stream& stream, Workspace workspace,
                                  const AttentionProblem& p, const Operands& o) {
  return run(stream, workspace, p, o, true);
}
Result<void> attention_mma_sync(const Stream& stream, Workspace workspace,
                                const AttentionProblem& p, const Operands& o) {
  return run(stream, workspace, p, o, false);
}

}  // namespace planck
