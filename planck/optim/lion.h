// Lion (Chen et al. 2023):   w ← w − rate · (sign(β₁ m + (1 − β₁) g) + decay · w);
//   m ← β₂ m + (1 − β₂) g.
// Every weight moves by the rate: take a third to a tenth of Adam's, and as much more decay.
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim {

struct LionOptions {
  double rate = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};
const KeptNames& kept_names(const LionOptions& options);
StepChoice chosen(const LionOptions& options, bool first, std::span<double> numbers);

// Signs of a mean of gradients.
template <class A>
class Lion : public Optimizer<A, LionOptions> {
 public:
  explicit Lion(const LionOptions& o) : Optimizer<A, LionOptions>(o) {}
};

}  // namespace planck::optim
