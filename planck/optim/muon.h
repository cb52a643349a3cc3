// Muon (Jordan et al. 2024), for matrices:   m ← μ m + (1 − μ) g;   x = (1 − μ) g + μ m with
// Nesterov, else m;   w ← (1 − rate · decay) w − rate · s · orthogonal(x).
//
// orthogonal(x): x / ‖x‖, wide side last, then five times X ← 3.4445 X + (−4.775 G + 2.0315 G²) X
// with G = X Xᵀ, in f32 (f64 for f64): singular values become about 1. s: √max(1, rows / columns),
// or 0.2 √max(rows, columns), with which a rate for Adam will do. More axes than two: the first are
// the rows, all others the columns.
//
// Vectors, embeddings and the output layer want another optimizer: optim::take parts gradients.
#pragma once

#include "planck/optim/optimizer.h"

namespace planck::optim {

struct MuonOptions {
  double rate = 1e-3, momentum = 0.95, weight_decay = 0.1, eps = 1e-7;
  bool nesterov = true;
  bool rate_of_adam = false;  // s = 0.2 √max(rows, columns)
  int iterations = 5;
};
const KeptNames& kept_names(const MuonOptions& options);
StepChoice chosen(const MuonOptions& options, bool first, std::span<double> numbers);

// Orthogonal directions of matrices.
template <class A>
class Muon : public Optimizer<A, MuonOptions> {
 public:
  explicit Muon(const MuonOptions& o) : Optimizer<A, MuonOptions>(o) {}
};

}  // namespace planck::optim
