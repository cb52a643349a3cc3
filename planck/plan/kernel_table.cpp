#include "planck/plan/kernel_table.h"

#include <cmath>

namespace planck {

double pairwise_depth(std::int64_t n) {
  double depth = 0;
  for (; n > 1; n = (n + 1) / 2) ++depth;
  return depth;
}

PrecisionGuarantee after_roundings(Dtype element, double roundings,
                                   Reproducibility reproducibility) {
  const Dtype compute = compute_dtype(element);
  double max_ulp = roundings;
  if (roundings > 0 && compute != element) {  // in hundredths, rounded up
    const double finer = element == Dtype::f16 ? 0x1p-13 : 0x1p-16;
    max_ulp = 0.5 + std::ceil(100 * roundings * finer) / 100;
  }
  return {compute, compute, reproducibility, max_ulp};
}

}  // namespace planck
