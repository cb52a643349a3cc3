// Stochastic gradient descent:   g ← g + decay · w;   v ← momentum · v + g   (v = g at first);
// w ← w − rate · v,   or with Nesterov   w ← w − rate · (g + momentum · v).
//
// Gradients that are rows of a table step those rows alone, with the bits of the whole step; with
// momentum or decay every row moves, and they are taken as a whole.
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim {

struct SgdOptions {
  double rate = 0.1, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
const KeptNames& kept_names(const SgdOptions& options);
StepChoice chosen(const SgdOptions& options, bool first, std::span<double> numbers);

// Stochastic gradient descent, with momentum and Nesterov.
template <class A>
class Sgd : public Optimizer<A, SgdOptions> {
 public:
  explicit Sgd(const SgdOptions& o) : Optimizer<A, SgdOptions>(o) {}
};

}  // namespace planck::optim
