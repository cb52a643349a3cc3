// The kernel table of the conv family.
#include <cmath>

#include "planck/ops/conv/chunks.h"
#include "planck/ops/conv/conv.cuda.h"
#include "planck/ops/conv/kernels.h"

namespace planck {

namespace {

std::string accept(const ConvProblem&) { return ""; }
std::size_t no_workspace(const ConvProblem&) { return 0; }

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
  const Dtype compute = compute_dtype(p.element_dtype);
  double max_ulp = roundings;
  if (compute != p.element_dtype) {  // in hundredths, rounded up
    const double finer = p.element_dtype == Dtype::f16 ? 0x1p-13 : 0x1p-16;
    max_ulp = 0.5 + std::ceil(100 * roundings * finer) / 100;
  }
  return {compute, compute, Reproducibility::cross_device, max_ulp};
}

// A build without CUDA keeps the rows and launches none of them.
#if defined(PLANCK_WITH_CUDA)
#define PLANCK_CUDA_LAUNCH(function) function
#else
#define PLANCK_CUDA_LAUNCH(function) nullptr
#endif

constexpr DeviceKind kCpu = DeviceKind::cpu, kCuda = DeviceKind::cuda;

constexpr Kernel<ConvProblem> kPlaces[] = {
    {"cuda:places", kCuda, accept, no_workspace, guarantee, PLANCK_CUDA_LAUNCH(conv_cuda)},
    {"cpu:patches", kCpu, accept, conv_cpu_workspace, guarantee, conv_cpu},
};
constexpr Kernel<ConvProblem> kWeights[] = {
    {"cuda:chunks", kCuda, accept, conv_weight_cuda_workspace, guarantee,
     PLANCK_CUDA_LAUNCH(conv_weight_cuda)},
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
