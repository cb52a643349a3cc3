// The kernel tables of the grid_sample family, best first.
#include "planck/math/chunked_sum.h"
#include "planck/ops/grid_sample/cpu/kernels.h"
#include "planck/ops/grid_sample/cuda/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

std::string accept_atomic(const GridSampleProblem& p) {
  if (p.dtype == Dtype::f32 || p.dtype == Dtype::f64) return "";
  return "adds f32 and f64 alone, dout is " + std::string(name(p.dtype));
}

// Given the rounded position t; the distance is relative to the sum of the magnitudes of the terms.
// A weight takes up to dims roundings (bicubic: six per axis), its product with a value one, and a
// sum over taps one less than there are.
double roundings(const GridSampleProblem& p, double depth_of_dinput) {
  const SampleGeometry g = p.geometry();
  if (p.mode == SampleMode::nearest) return p.backward ? depth_of_dinput + 1 : 0;
  const double weight = p.mode == SampleMode::bicubic ? 13 : 2 * g.dims - 1;
  if (!p.backward) return weight + p.taps();
  const double dinput = weight + 1 + depth_of_dinput + 1;
  const double dgrid = weight + p.taps() + 2 + pairwise_depth(g.channels);
  return dinput > dgrid ? dinput : dgrid;
}

PrecisionGuarantee guarantee(const GridSampleProblem& p) {
  const std::int64_t contributions = p.geometry().points() * p.taps();
  return after_roundings(p.dtype, roundings(p, chunked_depth(contributions)),
                         Reproducibility::cross_device);
}

// Any order of additions: as many roundings as there may be contributions.
PrecisionGuarantee guarantee_atomic(const GridSampleProblem& p) {
  const std::int64_t contributions = p.geometry().points() * p.taps();
  return after_roundings(p.dtype, roundings(p, static_cast<double>(contributions)),
                         Reproducibility::none);
}

PrecisionGuarantee guarantee_affine(const AffineGridProblem& p) {
  const double products = 2 * p.dims() + 1;
  std::int64_t positions = 1;
  for (int d = 2; d < p.size.rank(); ++d) positions *= p.size[d];
  return after_roundings(p.dtype, p.backward ? 2 + pairwise_depth(positions) : products,
                         Reproducibility::cross_device);
}

constexpr Kernel<GridSampleProblem> kForward[] = {
    {"cuda:direct", kCuda, accept, grid_sample_cuda_workspace, guarantee, grid_sample_cuda},
    {"cuda:direct:no_copy", kCuda, accept, grid_sample_no_copy_cuda_workspace, guarantee,
     grid_sample_no_copy_cuda},
    {"cpu:channels_last", kCpu, accept, grid_sample_channels_last_cpu_workspace, guarantee,
     grid_sample_channels_last_cpu},
    {"cpu:direct", kCpu, accept, grid_sample_direct_cpu_workspace, guarantee,
     grid_sample_direct_cpu},
};
constexpr Kernel<GridSampleProblem> kBackward[] = {
    {"cuda:sorted_cells", kCuda, grid_sample_backward_cuda_refusal,
     grid_sample_backward_cuda_workspace, guarantee, grid_sample_backward_cuda},
    {"cuda:atomic", kCuda, accept_atomic, grid_sample_backward_atomic_cuda_workspace,
     guarantee_atomic, grid_sample_backward_atomic_cuda},
    {"cpu:sorted_cells", kCpu, accept, grid_sample_backward_cpu_workspace, guarantee,
     grid_sample_backward_cpu},
};
constexpr Kernel<AffineGridProblem> kAffine[] = {
    {"cuda:direct", kCuda, accept, affine_grid_cuda_workspace, guarantee_affine, affine_grid_cuda},
    {"cpu:direct", kCpu, accept, affine_grid_cpu_workspace, guarantee_affine, affine_grid_cpu},
};

}  // namespace

std::span<const Kernel<GridSampleProblem>> GridSampleProblem::kernels() const {
  if (backward) return kBackward;
  return kForward;
}

std::span<const Kernel<AffineGridProblem>> AffineGridProblem::kernels() const { return kAffine; }

}  // namespace planck
