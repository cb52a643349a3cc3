// Loss scaling for f16: gradients of a loss that is multiplied by a large number do not vanish
// where f16 ends, at 6e-8. A step in which one of them overflows is left out and the scale halved;
// after some good ones it is doubled. A function of the gradients alone: the same on every run.
//
//   optim::LossScale scale;
//   auto gradients = optim::collect<A>(model, scale(loss).backward());   // loss: f32
//   scale.step(adam, model, gradients, 1.0);                             // clips to norm 1
//
// bf16 has the range of f32 and needs none of this.
#pragma once

#include <limits>

#include "planck/optim/gradients.h"

namespace planck::optim {

struct LossScaleOptions {
  double first = 65536, growth = 2, backoff = 0.5;
  std::int64_t interval = 2000;  // good steps before the scale grows
  double lowest = 1, highest = 0x1p24;
};

class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options = {});

  double value() const { return scale_; }
  std::int64_t skipped() const { return skipped_; }  // steps, so far
  template <class A>
  Tensor<A> operator()(const Tensor<A>& loss) const {
    return loss * scale_;
  }
  // One step, with gradients divided by the scale and clipped to `highest_norm`; none, where they
  // are not all finite. Whether it was done. Waits for the device, for that one number.
  template <class Optimizer, class Module, class B>
  bool step(Optimizer& optimizer, Module& module, const ModelGradients<B>& gradients,
            double highest_norm = std::numeric_limits<double>::infinity()) {
    return step(optimizer, module, gradients, clip(gradients, highest_norm, scale_));
  }
  // The same with what clip(gradients, highest_norm, value()) found.
  template <class Optimizer, class Module, class B>
  bool step(Optimizer& optimizer, Module&& module, const ModelGradients<B>& gradients,
            const Clip<B>& found) {
    const double norm = found.norm->template item<double>();
    if (norm <= std::numeric_limits<double>::max())  // finite: a norm is no less than 0
      optimizer.step(module, gradients, found);
    return adapt(norm);  // last: a step that is refused counts for nothing
  }

  nn::StateDict state() const;
  void load_state(const nn::StateDict& state);

 private:
  // After a step with gradients of this norm: whether it counts.
  bool adapt(double norm);

  LossScaleOptions options_;
  double scale_;
  std::int64_t good_ = 0, skipped_ = 0;
};

}  // namespace planck::optim
