// What options come to, as numbers: compiled here, without contraction, so that programs with other
// flags train to the same bits.
#include <cmath>

#include "planck/core/refuse.h"
#include "planck/optim/adagrad.h"
#include "planck/optim/adam.h"
#include "planck/optim/lamb.h"
#include "planck/optim/lion.h"
#include "planck/optim/muon.h"
#include "planck/optim/rmsprop.h"
#include "planck/optim/sgd.h"

namespace planck::optim {

namespace {

void decay_weights(StepRule& rule, double rate, double decay) {
  rule.keeps = decay != 0;
  rule.keep = 1 - rate * decay;
}
// β₁ᵗ and β₂ᵗ of the step.
void correct_bias(StepRule& rule, double rate, double beta1, double beta2,
                  std::span<double> powers) {
  powers[0] *= beta1;
  powers[1] *= beta2;
  rule.rate = rate / (1 - powers[0]);
  rule.spread = 1 / std::sqrt(1 - powers[1]);
  rule.beta1 = beta1;
  rule.rest1 = 1 - beta1;
  rule.beta2 = beta2;
  rule.rest2 = 1 - beta2;
}

}  // namespace

const KeptNames& kept_names(const SgdOptions&) {
  static const KeptNames names{"sgd", {"velocity"}, "", 0, 0, true};
  return names;
}
StepChoice chosen(const SgdOptions& o, bool first, std::span<double>) {
  StepChoice c;
  c.keeps = c.rule.moves = o.momentum != 0;
  c.slots = c.keeps ? 1 : 0;
  c.rows = o.momentum == 0 && o.weight_decay == 0;
  c.rule.first = first;
  c.rule.nesterov = o.nesterov;
  c.rule.decays = o.weight_decay != 0;
  c.rule.decay = o.weight_decay;
  c.rule.rate = o.rate;
  c.rule.beta1 = o.momentum;
  return c;
}

const KeptNames& kept_names(const AdamOptions&) {
  static const KeptNames names{"adam", {"mean", "square"}, "powers", 2, 1};
  return names;
}
StepChoice chosen(const AdamOptions& o, bool, std::span<double> powers) {
  StepChoice c;
  c.rule.kind = StepKind::adam;
  c.rows = o.lazy;
  correct_bias(c.rule, o.rate, o.beta1, o.beta2, powers);
  c.rule.eps = o.eps;
  c.rule.decays = o.weight_decay != 0 && !o.decoupled;
  c.rule.decay = o.weight_decay;
  if (o.decoupled) decay_weights(c.rule, o.rate, o.weight_decay);
  return c;
}

const KeptNames& kept_names(const AdagradOptions&) {
  static const KeptNames names{"adagrad", {"sum"}, "steps", 1};
  return names;
}
StepChoice chosen(const AdagradOptions& o, bool, std::span<double> steps) {
  steps[0] += 1;
  StepChoice c;
  c.rule.kind = StepKind::adagrad;
  c.start = o.first;
  c.rows = o.weight_decay == 0;
  c.rule.decays = o.weight_decay != 0;
  c.rule.decay = o.weight_decay;
  c.rule.rate = o.rate / (1 + (steps[0] - 1) * o.rate_decay);
  c.rule.eps = o.eps;
  return c;
}

const KeptNames& kept_names(const RmsPropOptions&) {
  static const KeptNames names{"rmsprop", {"square", "velocity", "mean"}};  // zeros where not used
  return names;
}
StepChoice chosen(const RmsPropOptions& o, bool, std::span<double>) {
  StepChoice c;
  c.rule.kind = StepKind::rmsprop;
  c.slots = 1u | (o.momentum != 0 ? 2u : 0u) | (o.centered ? 4u : 0u);
  c.rule.decays = o.weight_decay != 0;
  c.rule.decay = o.weight_decay;
  c.rule.moves = o.momentum != 0;
  c.rule.centered = o.centered;
  c.rule.beta1 = o.momentum;
  c.rule.beta2 = o.alpha;
  c.rule.rest2 = 1 - o.alpha;
  c.rule.rate = o.rate;
  c.rule.eps = o.eps;
  return c;
}

const KeptNames& kept_names(const LionOptions&) {
  static const KeptNames names{"lion", {"mean"}};
  return names;
}
StepChoice chosen(const LionOptions& o, bool, std::span<double>) {
  StepChoice c;
  c.rule.kind = StepKind::lion;
  c.rule.beta1 = o.beta1;
  c.rule.rest1 = 1 - o.beta1;
  c.rule.beta2 = o.beta2;
  c.rule.rest2 = 1 - o.beta2;
  c.rule.rate = o.rate;
  decay_weights(c.rule, o.rate, o.weight_decay);
  return c;
}

const KeptNames& kept_names(const LambOptions&) {
  static const KeptNames names{"lamb", {"mean", "square"}, "powers", 2, 1};
  return names;
}
StepChoice chosen(const LambOptions& o, bool, std::span<double> powers) {
  StepChoice c;
  c.rule.kind = StepKind::lamb;
  correct_bias(c.rule, 1, o.beta1, o.beta2, powers);
  c.rule.eps = o.eps;
  c.rule.decays = o.weight_decay != 0;
  c.rule.decay = o.weight_decay;
  c.last_rate = o.rate;
  return c;
}

const KeptNames& kept_names(const MuonOptions&) {
  static const KeptNames names{"muon", {"mean"}};
  return names;
}
StepChoice chosen(const MuonOptions& o, bool, std::span<double>) {
  if (o.iterations < 1) refuse("muon: {} iterations, there must be one or more", {o.iterations});
  StepChoice c;
  c.rule.nesterov = o.nesterov;
  decay_weights(c.rule, o.rate, o.weight_decay);
  c.iterations = o.iterations;
  c.momentum = o.momentum;
  c.smallest_norm = o.eps;
  c.by_width = o.rate_of_adam;
  c.last_rate = o.rate;
  return c;
}

}  // namespace planck::optim
