// Adam and AdamW:   m ← β₁ m + (1 − β₁) g;   v ← β₂ v + (1 − β₂) g²;
//   w ← w − rate · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε).
// Weight decay is added to the gradient (Adam), or taken off the weight, w ← w − rate · decay · w,
// where it is decoupled (AdamW). t counts the steps of each parameter, so that one that is thawed
// late starts as all others did. β₁ᵗ and β₂ᵗ are products, not powers: the same bits everywhere.
//
// Gradients that are rows of a table are taken as a whole: m and v of other rows fade, and these
// rows move. A lazy optimizer touches the rows alone, weight decay too, with t of the table.
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim {

struct AdamOptions {
  double rate = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = true;  // AdamW
  bool lazy = false;      // rows without a gradient stay as they are
};
const KeptNames& kept_names(const AdamOptions& options);
StepChoice chosen(const AdamOptions& options, bool first, std::span<double> numbers);

// Adam and AdamW.
template <class A>
class Adam : public Optimizer<A, AdamOptions> {
 public:
  explicit Adam(const AdamOptions& o) : Optimizer<A, AdamOptions>(o) {}
};

}  // namespace planck::optim
