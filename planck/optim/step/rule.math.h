// The formulas of optimizers, one element each, on the host and on the device alike.
//
//   sgd      v ← β₁ v + g;  w ← w − rate · v   (nesterov: rate · (g + β₁ v); no momentum: g)
//   adam     m ← β₁ m + (1 − β₁) g;  v ← β₂ v + (1 − β₂) g²;  w ← w − (rate m) / (spread √v + ε)
//   adagrad  s ← s + g²;  w ← w − (rate g) / (√s + ε)
//   rmsprop  v ← β₂ v + (1 − β₂) g²;  d = g / (√v + ε);  w ← w − rate · d;  momentum: u ← β₁ u + d
//            centered: a ← β₂ a + (1 − β₂) g;  √(v − a²)
//   lion     w ← w − rate · sign(β₁ m + (1 − β₁) g);  m ← β₂ m + (1 − β₂) g
//   lamb     m and v as adam;  r = (rate m) / (spread √v + ε) + decay · w, a direction, in slot 2
#pragma once

#include "planck/math/float_bits.h"
#include "planck/optim/step/rule.h"

namespace planck::optim {

// A rule's numbers in the compute type.
template <class C>
struct StepNumbers {
  bool decays, keeps, moves, nesterov, first, centered;
  C rate, decay, keep, beta1, rest1, beta2, rest2, spread, eps;

  explicit StepNumbers(const StepRule& r)
      : decays(r.decays),
        keeps(r.keeps),
        moves(r.moves),
        nesterov(r.nesterov),
        first(r.first),
        centered(r.centered),
        rate(static_cast<C>(r.rate)),
        decay(static_cast<C>(r.decay)),
        keep(static_cast<C>(r.keep)),
        beta1(static_cast<C>(r.beta1)),
        rest1(static_cast<C>(r.rest1)),
        beta2(static_cast<C>(r.beta2)),
        rest2(static_cast<C>(r.rest2)),
        spread(static_cast<C>(r.spread)),
        eps(static_cast<C>(r.eps)) {}
  StepNumbers() = default;
};

// One element: the weight, its gradient, what is kept of it.
template <class C>
struct StepElement {
  C w, g, a, b, c;
};

// What each kind keeps: bit i for slot i.
template <StepKind kKind>
inline constexpr unsigned kSlotsUsed = kKind == StepKind::adam      ? 3u
                                       : kKind == StepKind::lamb    ? 7u
                                       : kKind == StepKind::rmsprop ? 7u
                                                                    : 1u;

template <StepKind kKind, class C>
PLANCK_HD void step_element(const StepNumbers<C>& n, StepElement<C>& e) {
  C g = e.g;
  if (kKind != StepKind::lamb && n.decays) g = g + e.w * n.decay;
  const C w = n.keeps ? e.w * n.keep : e.w;
  if constexpr (kKind == StepKind::sgd) {
    if (!n.moves) {
      e.w = w - g * n.rate;
      return;
    }
    e.a = n.first ? g : e.a * n.beta1 + g;
    e.w = w - (n.nesterov ? g + e.a * n.beta1 : e.a) * n.rate;
  } else if constexpr (kKind == StepKind::adam || kKind == StepKind::lamb) {
    e.a = e.a * n.beta1 + g * n.rest1;
    e.b = e.b * n.beta2 + (g * g) * n.rest2;
    const C off = (e.a * n.rate) / (math::sqrt_of(e.b) * n.spread + n.eps);
    if constexpr (kKind == StepKind::adam)
      e.w = w - off;
    else
      e.c = n.decays ? off + e.w * n.decay : off;
  } else if constexpr (kKind == StepKind::adagrad) {
    e.a = e.a + g * g;
    e.w = w - (g * n.rate) / (math::sqrt_of(e.a) + n.eps);
  } else if constexpr (kKind == StepKind::rmsprop) {  // slots: square, velocity, mean
    e.a = e.a * n.beta2 + (g * g) * n.rest2;
    C spread = e.a;
    if (n.centered) {
      e.c = e.c * n.beta2 + g * n.rest2;
      spread = e.a - e.c * e.c;
    }
    C d = g / (math::sqrt_of(spread) + n.eps);
    if (n.moves) d = e.b = e.b * n.beta1 + d;
    e.w = w - d * n.rate;
  } else {  // lion; the sign of NaN is NaN
    const C x = e.a * n.beta1 + g * n.rest1;
    const C sign = x > C(0) ? C(1) : x < C(0) ? C(-1) : x == C(0) ? C(0) : x;
    e.w = w - sign * n.rate;
    e.a = e.a * n.beta2 + g * n.rest2;
  }
}

}  // namespace planck::optim
