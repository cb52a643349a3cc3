// What an optimizer's options come to for one step of one parameter. Every optimizer has overloads
//
//   const KeptNames& kept_names(const AdamOptions&);
//   StepChoice chosen(const AdamOptions&, bool first, std::span<double> numbers);
//
// where `first` says that the parameter has no slots yet, and `numbers` are moved on by the step.
#pragma once

#include <span>

#include "planck/optim/kept.h"
#include "planck/optim/step/rule.h"

namespace planck::optim {

struct StepChoice {
  StepRule rule;
  bool keeps = true;   // slots
  unsigned slots = 7;  // of them, those that the step uses: bit i for slot i
  double start = 0;    // of fresh slots
  bool rows = false;   // gradients that are rows of a table step those rows alone
  // The gradient's mean is made orthogonal first: Newton-Schulz iterations, 0 for none.
  int iterations = 0;
  double momentum = 0, smallest_norm = 0;
  double last_rate = 0;  // of lamb and of orthogonal directions: w ← keep · w − last_rate · …
  bool by_width = false;  // of the rate: 0.2 √ of the longer side, not √ of rows over columns
};

}  // namespace planck::optim
