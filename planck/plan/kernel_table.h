// What the families' tables of kernels have in common.
#pragma once

#include "planck/plan/plan.h"

namespace planck {

inline constexpr DeviceKind kCpu = DeviceKind::cpu, kCuda = DeviceKind::cuda;

// A row that serves every problem, and one that needs no workspace.
template <class Problem>
std::string accept(const Problem&) {
  return "";
}
template <class Problem>
std::size_t no_workspace(const Problem&) {
  return 0;
}

// Additions between one of n values and their sum in the pairwise order.
double pairwise_depth(std::int64_t n);

// A result that takes so many roundings in the compute dtype, and one more to the element's where
// that is narrower; relative to the sum of the magnitudes of the terms.
PrecisionGuarantee after_roundings(Dtype element, double roundings,
                                   Reproducibility reproducibility = Reproducibility::cross_device);

}  // namespace planck
