// The norm of a step's gradients on its way to the host: whether the step counts. Who asks waits
// for what came before the norm, and not for what was queued behind it.
#pragma once

#include <optional>

#include "planck/backend/primitive.h"

namespace planck::optim {

class Outcome {
 public:
  explicit Outcome(const StoredView& norm);  // one f64
  Outcome(const Outcome&) = delete;
  ~Outcome();

  double norm() const;
  // A step whose gradients are not all finite is left out.
  bool counts() const;

 private:
  mutable std::optional<double> norm_;  // once it is here
  Stream stream_;
  void *word_ = nullptr, *event_ = nullptr;  // pinned, and the mark behind the copy
};

}  // namespace planck::optim
