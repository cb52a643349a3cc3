// LAMB (You et al. 2020), for large batches:   m and v as Adam's;
//   r = (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε) + decay · w;   w ← w − rate · ‖w‖ / ‖r‖ · r.
// The norms are of each parameter by itself; where one is 0 their ratio counts as 1.
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim {

struct LambOptions {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 0.01;
};
const KeptNames& kept_names(const LambOptions& options);
StepChoice chosen(const LambOptions& options, bool first, std::span<double> numbers);

// Adam's direction, as long as the weight.
template <class A>
class Lamb : public Optimizer<A, LambOptions> {
 public:
  explicit Lamb(const LambOptions& o) : Optimizer<A, LambOptions>(o) {}
};

}  // namespace planck::optim
