// Products on any GPU by the definition itself, a thread for each element (cuda:integer_lanes,
// cuda:integers), those of tensor cores (cuda:warpgroups, cuda:mma_sync), and who serves which
// strides.
#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/gemm/cuda/epilogue.cuh"
#include "planck/loops/gemm/cuda/follows.h"
#include "planck/loops/gemm/cuda/mma_tiles.h"
#include "planck/loops/gemm/cuda/warpgroups.h"
#include "planck/loops/gemm/cuda/warpgroups.launch.cuh"
#include "planck/math/products/exact_product.h"
#include "planck/math/products/tensor_core.h"
#include "planck/ops/matmul/cuda/bytes.cuh"
#include "planck/ops/matmul/cuda/kernels.h"
#include "planck/ops/matmul/host/geometry.h"

namespace planck {

namespace {

namespace rule = math::tensor_core;
using gemm_device::WarpgroupRun;

template <class T>
using FormatOf =
    std::conditional_t<std::is_same_v<T, bf16>, rule::Bf16,
                       std::conditional_t<std::is_same_v<T, f16>, rule::F16, rule::Tf32>>;

template <class T>
__global__ void by_definition(gemm::Geometry g) {
  using Format = FormatOf<T>;
  using Bits = typename Format::Bits;
  const std::int64_t count = g.batches.count * g.m * g.n;
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count;
       at += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t j = at % g.n, i = at / g.n % g.m, t = at / g.n / g.m;
    const auto* a = static_cast<const Bits*>(g.a.data) + g.batches.offset(0, t) + i * g.a.row;
    const auto* b = static_cast<const Bits*>(g.b.data) + g.batches.offset(1, t) + j * g.b.column;
    const float sum = rule::product<Format>(a, g.a.column, b, g.b.row, g.k);
    T* const c = static_cast<T*>(g.c.data) + g.batches.offset(2, t) + i * g.c.row + j * g.c.column;
    if constexpr (sizeof(T) == 2)
      *c = T::from_bits(static_cast<std::uint16_t>(rounded_pair<T>(sum, 0.0f)));
    else
      *c = canonical_nan(sum);
  }
}

constexpr int kThreads = 128;
std::int64_t blocks_for(const gemm::Geometry& g) {
  return std::min<std::int64_t>(ceil_div(g.batches.count * g.m * g.n, kThreads), 1 << 20);
}

template <class T>
Result<void> run_by_definition(const Stream& stream, const gemm::Geometry& g) {
  auto ok = launch(stream, "matmul", by_definition<T>, blocks_for(g), kThreads, g);
  return ok ? gemm_device::follow_in_place<T>(stream, g) : ok;
}
Result<void> run_by_definition(const Stream& stream, Dtype element, const gemm::Geometry& g) {
  return element == Dtype::bf16  ? run_by_definition<bf16>(stream, g)
         : element == Dtype::f16 ? run_by_definition<f16>(stream, g)
                                 : run_by_definition<float>(stream, g);
}

Result<void> run_mma_sync(const Stream& stream, Dtype element, const gemm::Geometry& g) {
  switch (element) {
    case Dtype::s8:
      return gemm_device::run_mma_tiles<std::int8_t>(stream, g);
    case Dtype::bf16:
      return gemm_device::run_mma_tiles<bf16>(stream, g);
    case Dtype::f16:
      return gemm_device::run_mma_tiles<f16>(stream, g);
    default:
      return gemm_device::run_mma_tiles<float>(stream, g);
  }
}

// Exponents of the rows of A and the columns of B, one warp for each.
__global__ void find_exponents(gemm::Geometry g, int* of_a, int* of_b) {
  const std::int64_t all = g.batches.count * (g.m + g.n);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t at = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; at < all;
       at += std::int64_t{gridDim.x} * blockDim.x / 32) {
    const bool is_a = at < g.batches.count * g.m;
    const std::int64_t line = is_a ? at : at - g.batches.count * g.m, extent = is_a ? g.m : g.n;
    const gemm::Matrix& x = is_a ? g.a : g.b;
    const float* from = static_cast<const float*>(x.data) +
                        g.batches.offset(is_a ? 0 : 1, line / extent) +
                        line % extent * (is_a ? x.row : x.column);
    std::uint32_t most = 0;
    for (std::int64_t k = lane; k < g.k; k += 32)
      most = max(most, math::exact::magnitude_of(from[k * (is_a ? x.column : x.row)]));
    most = __reduce_max_sync(0xffffffffu, most);
    if (lane == 0) (is_a ? of_a : of_b)[line] = math::exact::exponent_of(most);
  }
}

__global__ void exact_by_definition(gemm::Geometry g, const int* of_a, const int* of_b) {
  const std::int64_t count = g.batches.count * g.m * g.n;
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count;
       at += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t j = at % g.n, i = at / g.n % g.m, t = at / g.n / g.m;
    const auto* a = static_cast<const float*>(g.a.data) + g.batches.offset(0, t) + i * g.a.row;
    const auto* b = static_cast<const float*>(g.b.data) + g.batches.offset(1, t) + j * g.b.column;
    static_cast<float*>(g.c.data)[g.batches.offset(2, t) + i * g.c.row + j * g.c.column] =
        math::exact::product(a, g.a.column, of_a[t * g.m + i], b, g.b.row, of_b[t * g.n + j], g.k);
  }
}

}  // namespace

Result<void> matmul_integer_lanes(const Stream& stream, Workspace, const MatmulProblem& p,
                                  const Operands& operands) {
  const gemm::Geometry g = geometry_of(p, operands);
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return run_by_definition(stream, p.element_dtype, g);
}

Result<void> matmul_integers(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                             const Operands& operands) {
  const gemm::Geometry g = geometry_of(p, operands);
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  if (g.batches.count * g.m * g.n == 0) return {};
  int* const of_a = static_cast<int*>(workspace.data);
  int* const of_b = of_a + ceil_div(g.batches.count * g.m, 64) * 64;
  const std::int64_t lines = g.batches.count * (g.m + g.n);
  if (auto ok = launch(stream, "matmul", find_exponents,
                       std::min<std::int64_t>(ceil_div(lines, kThreads / 32), 1 << 20), kThreads, g,
                       of_a, of_b);
      !ok)
    return ok;
  auto ok = launch(stream, "matmul", exact_by_definition, blocks_for(g), kThreads, g, of_a, of_b);
  return ok ? gemm_device::follow_in_place<float>(stream, g) : ok;
}

Result<void> matmul_mma_sync(const Stream& stream, Workspace, const MatmulProblem& p,
                             const Operands& operands) {
  if (p.m == 0 || p.n == 0) return {};
  const gemm::Geometry g = geometry_of(p, operands);
  if (g.batches.count == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return run_mma_sync(stream, p.element_dtype, g);
}

Result<void> matmul_warpgroups(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                               const Operands& operands) {
  if (p.m == 0 || p.n == 0) return {};
  gemm::Geometry g = geometry_of(p, operands);
  if (g.batches.count == 0) return {};
  if (p.k == 0 || std::max({g.m, g.n, g.k, g.batches.count}) > INT32_MAX)
    return p.element_dtype == Dtype::s8 || p.k == 0 ? matmul_cuda(stream, {}, p, operands)
                                                    : matmul_integer_lanes(stream, {}, p, operands);
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  const WarpgroupsLayout layout(p);
  auto* const bytes = static_cast<char*>(workspace.data);
  char* room[2] = {bytes + layout.a, bytes + layout.b};
  // Few rows, many columns: tiles are higher than they are wide where columns are what there is.
  const bool thin = std::min(g.m, g.n) <= 64;
  if (thin ? g.n < g.m : g.c.row == 1 && g.c.column != 1)
    g = g.transposed(), std::swap(room[0], room[1]);
  return gemm_device::each_run(
      g.batches, [&](std::int64_t count, const auto& strides, const auto& offsets) -> Result<void> {
        WarpgroupRun run{g, count, {}, {}, {room[0], room[1]}};
        std::copy_n(strides, gemm::kBatchOperands, run.strides);
        std::copy_n(offsets, gemm::kBatchOperands, run.offsets);
        bool ran = false;
        auto ok =
            p.element_dtype == Dtype::s8
                ? matmul_device::run_bytes(stream, run,
                                           {bytes + layout.sums, layout.bytes - layout.sums}, ran)
            : p.element_dtype == Dtype::bf16 ? gemm_device::run_warpgroups<bf16>(stream, run, ran)
            : p.element_dtype == Dtype::f16  ? gemm_device::run_warpgroups<f16>(stream, run, ran)
                                             : gemm_device::run_warpgroups<float>(stream, run, ran);
        if (!ok || ran) return ok;
        gemm::Geometry rest = g;  // strides that the copy engine does not take
        rest.batches = {};
        rest.batches.rank = 1, rest.batches.count = rest.batches.extent[0] = count;
        for (int o = 0; o < gemm::kBatchOperands; ++o) rest.batches.stride[o][0] = strides[o];
        const auto size = static_cast<std::int64_t>(bytes_for(p.element_dtype, 1));
        const auto moved = [&](gemm::Matrix& x, int o) {
          x.data = static_cast<char*>(x.data) + offsets[o] * size;
        };
        moved(rest.a, 0), moved(rest.b, 1), moved(rest.c, 2);
        if (const void*& residual = rest.epilogue.residual.data; residual != nullptr)
          residual = static_cast<const char*>(residual) + offsets[3] * size;
        const bool follows = gemm_device::unfaithful(stream.device(), p.element_dtype,
                                                     gemm_device::Instruction::mma_sync)
                                 .empty();
        return follows && gemm_device::fits_mma_tiles(count, rest.m, rest.n, rest.k)
                   ? run_mma_sync(stream, p.element_dtype, rest)
                   : run_by_definition(stream, p.element_dtype, rest);
      });
}

}  // namespace planck
