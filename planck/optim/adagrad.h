// Adagrad:   g ← g + decay · w;   s ← s + g²
//            w ← w − rate / (1 + (t − 1) · rate_decay) · g / (√s + ε)
//
// Gradients that are rows of a table step those rows alone, with the bits of the whole step; with
// weight decay every row moves, and they are taken as a whole.
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim {

struct AdagradOptions {
  double rate = 1e-2, rate_decay = 0, weight_decay = 0, eps = 1e-10;
  double first = 0;  // s before the first step
};
const KeptNames& kept_names(const AdagradOptions& options);
StepChoice chosen(const AdagradOptions& options, bool first, std::span<double> numbers);

// Rates that fall with all squares so far.
template <class A>
class Adagrad : public Optimizer<A, AdagradOptions> {
 public:
  explicit Adagrad(const AdagradOptions& o) : Optimizer<A, AdagradOptions>(o) {}
};

}  // namespace planck::optim
