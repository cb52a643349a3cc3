// The kernel table of the conv family.
#include <algorithm>

#include "planck/loops/gemm/cuda/follows.h"
#include "planck/ops/conv/cpu/kernels.h"
#include "planck/ops/conv/cuda/kernels.h"
#include "planck/ops/conv/host/chunks.h"
#include "planck/ops/conv/host/windows.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

// An image of y or dx has the bits it would have alone; dweight is a sum over all of them.
PrecisionGuarantee by_image(const ConvProblem& p, PrecisionGuarantee g) {
  g.batch_invariant = p.kind != ConvKind::conv2d_weight;
  return g;
}

// One rounding of the compute type for each product, for each sum of a chunk after the first, and
// the one at the store.
PrecisionGuarantee guarantee(const ConvProblem& p) {
  if (p.element_dtype == Dtype::s8)
    return by_image(p, {Dtype::i32, Dtype::i32, Reproducibility::cross_device, 0});
  double roundings = static_cast<double>(p.channels() * p.taps());
  if (p.kind == ConvKind::conv2d_input) roundings = static_cast<double>(p.filters() * p.taps());
  if (p.kind == ConvKind::conv2d_weight) {
    const auto chunks = conv_detail::chunks_of(p);
    roundings = static_cast<double>(chunks.length + chunks.count - 1);
  }
  return by_image(p, after_roundings(p.element_dtype, roundings));
}

// As matmul's: ten roundings of 2^-24 for each block, TF32's factors, and a rounding for each sum
// of a chunk after the first.
PrecisionGuarantee guarantee_tensor_core(const ConvProblem& p) {
  const bool tf32 = p.element_dtype == Dtype::f32;
  std::int64_t depth = conv_detail::deepest(p), after = 0;
  if (p.kind == ConvKind::conv2d_weight) {
    const auto chunks = conv_detail::chunks_of(p);
    depth = chunks.length, after = chunks.count - 1;
  }
  const std::int64_t block = tf32 ? 8 : 16, blocks = (depth + block - 1) / block;
  return by_image(p, after_roundings(p.element_dtype, static_cast<double>(10 * blocks + after) +
                                                          (tf32 ? 2 * 16384.0 : 0)));
}

// As matmul's, relative to the largest magnitudes of what shares an exponent.
PrecisionGuarantee guarantee_exact(const ConvProblem& p) {
  PrecisionGuarantee g = by_image(p, after_roundings(p.element_dtype, 9));
  g.by_norms = true;
  return g;
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

// Of conv2d and conv2d_input, and of conv2d_weight.
using gemm_device::Instruction;
template <Instruction kBy>
Result<void> run_laid(const Stream& stream, Workspace workspace, const ConvProblem& p,
                      const Operands& operands) {
  return p.kind == ConvKind::conv2d_weight
             ? conv_weight_tensor_cores(stream, workspace, p, operands, kBy)
             : conv_tensor_cores(stream, workspace, p, operands, kBy);
}

Result<void> run_implicit_digits(const Stream& stream, Workspace workspace, const ConvProblem& p,
                                 const Operands& operands) {
  return p.kind == ConvKind::conv2d_weight
             ? conv_weight_implicit_digits(stream, workspace, p, operands)
             : conv_implicit_digits(stream, workspace, p, operands);
}

std::string follows(const ConvProblem& p, Device device) {
  return gemm_device::unfaithful(device, p.element_dtype, Instruction::wgmma);
}
std::string follows_mma_sync(const ConvProblem& p, Device device) {
  const std::string absent = gemm_device::absent(device, Instruction::mma_sync);
  return absent.empty() ? gemm_device::unfaithful(device, p.element_dtype, Instruction::mma_sync)
                        : absent;
}

constexpr Kernel<ConvProblem> kTensorCore[] = {
    {"cuda:implicit", kCuda, conv_implicit_refusal, conv_implicit_workspace, guarantee_tensor_core,
     conv_implicit, 90, follows},
    {"cuda:warpgroups", kCuda, conv_warpgroups_refusal, conv_warpgroups_workspace,
     guarantee_tensor_core, run_laid<Instruction::wgmma>, 90, follows},
    {"cuda:mma_sync", kCuda, conv_warpgroups_refusal, conv_warpgroups_workspace,
     guarantee_tensor_core, run_laid<Instruction::mma_sync>, 0, follows_mma_sync},
    {"cuda:integer_lanes", kCuda, accept, no_workspace, guarantee_tensor_core,
     conv_integer_lanes_cuda},
    {"cpu:integer_lanes", kCpu, accept, conv_integer_lanes_cpu_workspace, guarantee_tensor_core,
     conv_integer_lanes_cpu},
};
constexpr Kernel<ConvProblem> kExact[] = {
    {"cuda:implicit_digits", kCuda, conv_implicit_digits_refusal, conv_implicit_digits_workspace,
     guarantee_exact, run_implicit_digits, 90},
    {"cuda:digits", kCuda, conv_warpgroups_refusal, conv_warpgroups_workspace, guarantee_exact,
     run_laid<Instruction::wgmma>, 90},
    {"cuda:integers", kCuda, accept, conv_integers_cuda_workspace, guarantee_exact,
     conv_integers_cuda},
    {"cpu:exact_amx", kCpu, conv_exact_amx_refusal, conv_exact_amx_workspace, guarantee_exact,
     conv_exact_amx},
    {"cpu:exact_vnni", kCpu, conv_exact_vnni_refusal, conv_exact_vnni_workspace, guarantee_exact,
     conv_exact_vnni},
    {"cpu:exact_f64", kCpu, accept, conv_exact_f64_workspace, guarantee_exact, conv_exact_f64},
};

}  // namespace

std::span<const Kernel<ConvProblem>> ConvProblem::kernels() const {
  if (math == ProductMath::tensor_core) return kTensorCore;
  if (math == ProductMath::exact && element_dtype != Dtype::s8) return kExact;
  return kind == ConvKind::conv2d_weight ? std::span<const Kernel<ConvProblem>>(kWeights) : kPlaces;
}

}  // namespace planck
