// RMSProp:   g ← g + decay · w;   v ← α v + (1 − α) g²;   d = √v + ε;
//   w ← w − rate · g / d,   or with momentum   u ← momentum · u + g / d;   w ← w − rate · u.
// Centered: a ← α a + (1 − α) g;   d = √(v − a²) + ε.
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim {

struct RmsPropOptions {
  double rate = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;
};
const KeptNames& kept_names(const RmsPropOptions& options);
StepChoice chosen(const RmsPropOptions& options, bool first, std::span<double> numbers);

// Rates that fall with the mean of recent squares.
template <class A>
class RmsProp : public Optimizer<A, RmsPropOptions> {
 public:
  explicit RmsProp(const RmsPropOptions& o) : Optimizer<A, RmsPropOptions>(o) {}
};

}  // namespace planck::optim
