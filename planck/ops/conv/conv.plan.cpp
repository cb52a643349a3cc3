// The kernel table of the conv family.
#include <algorithm>

#include "planck/ops/conv/cpu/kernels.h"
#include "planck/ops/conv/cuda/kernels.h"
#include "planck/ops/conv/host/chunks.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

// One rounding of the compute type for each product, for each sum of a chunk after the first, and
// the one at the store.
PrecisionGuarantee guarantee(const ConvProblem& p) {
  if (p.element_dtype == Dtype::s8)
    return {Dtype::i32, Dtype::i32, Reproducibility::cross_device, 0};
  double roundings = static_cast<double>(p.channels() * p.taps());
  if (p.kind == ConvKind::conv2d_input) roundings = static_cast<double>(p.filters() * p.taps());
  if (p.kind == ConvKind::conv2d_weight) {
    const auto chunks = conv_detail::chunks_of(p);
    roundings = static_cast<double>(chunks.length + chunks.count - 1);
  }
  return after_roundings(p.element_dtype, roundings);
}

// Coordinates and taps are 32-bit numbers there.
std::string fits_cuda(const ConvProblem& p) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t along =
        p.x[2 + axis] + 2 * p.options.padding[static_cast<std::size_t>(axis)];
    if (along >= kMost)
      return "an image of " + std::to_string(along) + " pixels with its padding is not below 2^30";
  }
  const std::int64_t summed = std::max(p.channels(), p.filters()) * p.taps();
  if (summed >= kMost) return std::to_string(summed) + " products of a sum are not below 2^30";
  return p.batch() < kMost ? "" : std::to_string(p.batch()) + " images are not below 2^30";
}

constexpr Kernel<ConvProblem> kPlaces[] = {
    {"cuda:places", kCuda, fits_cuda, no_workspace, guarantee, conv_cuda},
    {"cpu:patches", kCpu, accept, conv_cpu_workspace, guarantee, conv_cpu},
};
constexpr Kernel<ConvProblem> kWeights[] = {
    {"cuda:chunks", kCuda, fits_cuda, conv_weight_cuda_workspace, guarantee, conv_weight_cuda},
    {"cpu:patches", kCpu, accept, conv_weight_cpu_workspace, guarantee, conv_weight_cpu},
};

}  // namespace

std::size_t conv_weight_cuda_workspace(const ConvProblem& p) {
  const std::size_t word = p.element_dtype == Dtype::f64 ? 8 : 4;
  return static_cast<std::size_t>(conv_detail::chunks_of(p).count * numel(p.weight)) * word;
}

std::span<const Kernel<ConvProblem>> ConvProblem::kernels() const {
  return kind == ConvKind::conv2d_weight ? std::span<const Kernel<ConvProblem>>(kWeights) : kPlaces;
}

}  // namespace planck
