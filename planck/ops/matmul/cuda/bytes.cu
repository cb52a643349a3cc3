// cuda:warpgroups of s8. Sums of integers have no order, so that a long k is cut into parts, each a
// batch of its own, where tiles of C alone would leave multiprocessors idle; their sums are added
// up.
#include "planck/loops/gemm/cuda/warpgroups.h"
#include "planck/loops/gemm/cuda/warpgroups.launch.cuh"
#include "planck/ops/matmul/cuda/bytes.cuh"
#include "planck/ops/matmul/cuda/kernels.h"

namespace planck::matmul_device {

namespace {

constexpr int kThreads = 256;

// sums: [parts][rows][columns]
__global__ void __launch_bounds__(kThreads)
    add_parts(const std::int32_t* sums, std::int64_t parts, std::int64_t rows, std::int64_t columns,
              std::int32_t* c, std::int64_t c_row, std::int64_t c_column) {
  const std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x, all = rows * columns;
  if (at >= all) return;
  std::uint32_t sum = 0;
  for (std::int64_t part = 0; part < parts; ++part)
    sum += static_cast<std::uint32_t>(sums[part * all + at]);
  c[at / columns * c_row + at % columns * c_column] = static_cast<std::int32_t>(sum);
}

}  // namespace

Result<void> run_bytes(const Stream& stream, const gemm_device::WarpgroupRun& run,
                       const Workspace& sums, bool& ran) {
  const gemm::Geometry& g = run.g;
  const std::int64_t parts = run.batches == 1 ? matmul_byte_parts(1, g.m, g.n, g.k) : 1;
  const std::int64_t all = g.m * g.n;
  if (parts == 1 || static_cast<std::size_t>(parts * all * 4) > sums.bytes)
    return gemm_device::run_warpgroups<std::int8_t>(stream, run, ran);
  gemm_device::WarpgroupRun cut = run;
  const std::int64_t length = g.k / parts;
  cut.batches = parts;
  cut.g.k = length;
  cut.strides[0] = length * g.a.column, cut.strides[1] = length * g.b.row, cut.strides[2] = all;
  cut.g.c = {sums.data, Dtype::i32, g.n, 1};
  cut.offsets[2] = 0;
  if (auto ok = gemm_device::run_warpgroups<std::int8_t>(stream, cut, ran); !ok || !ran) return ok;
  return launch(stream, "matmul", add_parts, ceil_div(all, kThreads), kThreads,
                static_cast<const std::int32_t*>(sums.data), parts, g.m, g.n,
                static_cast<std::int32_t*>(g.c.data) + run.offsets[2], g.c.row, g.c.column);
}

}  // namespace planck::matmul_device
