// Loss scaling for f16: gradients of a loss that is multiplied by a large number do not vanish
// where f16 ends, at 6e-8. A step in which one of them overflows is left out and the scale halved;
// after some good ones it is doubled. A function of the gradients alone: the same on every run.
//
//   optim::LossScale scale;
//   auto gradients = optim::collect<A>(model, scale(loss).backward());   // loss: f32
//   scale.step(adam, model, gradients, 1.0);                             // clips to norm 1
//
// A step that is recorded (train::Step) decides on the device whether it counts, and moves the
// scale there; the host follows one step behind. Who asks for the scale, for what was skipped or
// for the optimizer's state waits for the last step.
//
// bf16 has the range of f32 and needs none of this.
#pragma once

#include <limits>
#include <memory>

#include "planck/nn/state_dict.h"
#include "planck/optim/gradients.h"
#include "planck/optim/scale/loss_scale.math.h"
#include "planck/optim/scale/outcome.h"

namespace planck::optim {

class LossScale {
 public:
  explicit LossScale(const LossScaleOptions& options = {});
  // Of the numbers; what lies on a device stays there.
  LossScale(const LossScale& other);
  LossScale& operator=(const LossScale& other);

  double value() const { return settled().scale; }
  std::int64_t skipped() const { return settled().skipped; }  // steps, so far
  template <class A>
  Tensor<A> operator()(const Tensor<A>& loss) const {
    return loss * value();
  }
  // One step, with gradients divided by the scale and clipped to `highest_norm`; none, where they
  // are not all finite. Whether it was done. Waits for the device, for that one number.
  template <class Optimizer, class Module, class B>
  bool step(Optimizer& optimizer, Module& module, const ModelGradients<B>& gradients,
            double highest_norm = std::numeric_limits<double>::infinity()) {
    return step(optimizer, module, gradients, clip(gradients, highest_norm, value()));
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

  // ---- for recorded work, on CUDA (train/step.h) ----

  // Before it is recorded and before each run: the numbers as they are, where the work finds them.
  // Where they lie.
  const void* put_on(const Stream& stream);
  // What is recorded: the loss times the scale; clipping by the norm of gradients over the scale;
  // and the scale moved on by that norm.
  template <class A>
  Tensor<A> scaled_there(const Tensor<A>& loss) const {
    using B = nn::Inner<A>;
    const Tensor<B> scale(detail::primitive_of<B>(scale_there(loss.dtype()), loss.device()));
    return nn::as_dtype(nn::widened(loss) * nn::constant<A>(expand(scale, loss.shape())),
                        loss.dtype());
  }
  template <class B>
  Clip<B> clip_there(const ModelGradients<B>& gradients, double highest_norm) {
    const auto device = gradients.begin()->second.device();
    const auto both = clip_and_adapt(detail::all_of(gradients), highest_norm);
    const auto part = [&](std::int64_t i) {
      return Tensor<B>(detail::primitive_of<B>(detail::element(both, i), device));
    };
    return {part(0), part(1)};
  }
  // Behind a run: the step that it found.
  template <class Optimizer, class Module, class B>
  void step_there(Optimizer& optimizer, Module&& module, const ModelGradients<B>& gradients,
                  const Clip<B>& found) {
    (void)settled();
    const auto outcome = std::make_shared<const Outcome>(detail::stored(*found.norm));
    if constexpr (requires { optimizer.step(module, gradients, found, outcome); })
      optimizer.step(module, gradients, found, outcome);
    else if (outcome->counts())
      optimizer.step(module, gradients, found);
    outcome_ = outcome;
    there_ = true;
  }

 private:
  bool adapt(double norm);
  const LossScaleState& settled() const;
  StoredView scale_there(Dtype loss) const;
  StoredView clip_and_adapt(std::span<const StoredView> gradients, double highest_norm);

  LossScaleOptions options_;
  mutable LossScaleState now_;
  mutable std::shared_ptr<const Outcome> outcome_;  // of the last step, unless it is known
  std::optional<StoredView> memory_;                // LossScaleState on a device
  bool there_ = false;                              // which has the numbers of the last step
};

}  // namespace planck::optim
