// One step of an optimizer, as numbers: which formula, its scalars, and the memory of one tensor.
// rule.math.h has the formulas; step.h runs a list of these in one go.
//
// Every number of a rule is rounded once to the compute type (f64 for f64, else f32) and every
// operation of a formula is rounded in it; what is stored is rounded once to its dtype. So steps of
// f32 or f64 tensors have the bits of the same formula written with tensors.
#pragma once

#include <cstdint>

#include "planck/core/dtype.h"

namespace planck::optim {

enum class StepKind : std::uint8_t { sgd, adam, adagrad, rmsprop, lion, lamb };

struct StepRule {
  StepKind kind = StepKind::sgd;
  bool decays = false;    // g ← g + decay · w
  bool keeps = false;     // w ← keep · w, before the step
  bool moves = false;     // with momentum
  bool nesterov = false;  // of sgd
  bool first = false;     // of sgd: velocity is the gradient
  bool centered = false;  // of rmsprop
  double gradient = 1;    // of g, before everything else
  double rate = 0, decay = 0, keep = 1;
  double beta1 = 0, rest1 = 1, beta2 = 0, rest2 = 1;  // rest: 1 − β
  double spread = 1, eps = 0;
};

inline constexpr int kStepSlots = 3;

// Dense elements of one parameter, changed in place. A slot that the rule does not use is null.
struct StepRow {
  void* w = nullptr;
  const void* g = nullptr;
  void* slot[kStepSlots] = {};
  // The weight in f32 where w is narrower: what is stepped; w is it, rounded. Where w is not, since
  // somebody set it, w counts.
  float* master = nullptr;
  const double* factor = nullptr;  // of g beside rule.gradient, where the tensors are; null: 1
  std::int64_t count = 0;
  Dtype w_dtype = Dtype::f32, g_dtype = Dtype::f32, slot_dtype = Dtype::f32;
  StepRule rule;
};

// Dense elements of one tensor, whose squares are added up.
struct SquareRow {
  const void* data;
  std::int64_t count;
  Dtype dtype;
};

// Dense elements of tensors that are added up: `parts` of them, null where one is missing.
struct SumRow {
  void* out;
  const void* const* parts;
  std::int64_t count;
  Dtype from, to;
  bool wide() const { return from == Dtype::f64 || to == Dtype::f64; }
};
inline constexpr int kMostSummands = 1024;

}  // namespace planck::optim
