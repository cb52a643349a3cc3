#include "planck/optim/scale/loss_scale.h"

#include "planck/backend/planned.h"
#include "planck/backend/staging.h"
#include "planck/nn/state.h"
#include "planck/optim/step/step.h"
#include "planck/planck.h"

namespace planck::optim {

LossScale::LossScale(const LossScaleOptions& o) : options_(o), now_{.scale = o.first} {
  if (!(o.first >= o.lowest && o.first <= o.highest && o.lowest > 0))
    refuse("loss_scale: it starts at {}, it must lie in [{}, {}] and be positive",
           {o.first, o.lowest, o.highest});
  if (!(o.growth >= 1 && o.backoff > 0 && o.backoff <= 1 && o.interval > 0))
    refuse("loss_scale: it grows by {} every {} steps and falls by {}",
           {o.growth, o.interval, o.backoff});
}
LossScale::LossScale(const LossScale& other) : options_(other.options_), now_(other.settled()) {}
LossScale& LossScale::operator=(const LossScale& other) {
  if (this == &other) return *this;
  now_ = other.settled();
  options_ = other.options_;
  outcome_.reset();
  there_ = false;
  return *this;
}

bool LossScale::adapt(double norm) {
  (void)settled();
  there_ = false;
  return adapt_loss_scale(options_, norm, now_);
}
const LossScaleState& LossScale::settled() const {
  if (outcome_) {
    const double norm = outcome_->norm();
    outcome_.reset();
    (void)adapt_loss_scale(options_, norm, now_);
  }
  return now_;
}

nn::StateDict LossScale::state() const {
  const double scale[] = {settled().scale};
  const std::int64_t counts[] = {now_.good, now_.skipped};
  return {{"scale", nn::entry_of(scale)}, {"counts", nn::entry_of(counts)}};
}
void LossScale::load_state(const nn::StateDict& state) {
  const auto scale = nn::find_numbers(state, "scale", 1);
  const auto counts = nn::find_integers(state, "counts", 2);
  outcome_.reset();
  there_ = false;
  now_ = {scale[0], counts[0], counts[1]};
}

const void* LossScale::put_on(const Stream& stream) {
  if (!memory_ || memory_->stream().device() != stream.device() ||
      memory_->stream().native() != stream.native()) {
    memory_ =
        StoredView::empty(stream, Dtype::i64, {sizeof(LossScaleState) / sizeof(std::int64_t)});
    there_ = false;
  }
  if (!there_) {
    const LossScaleState now = settled();
    backend_detail::copy_from_host(stream, memory_->view.data, &now, sizeof now);
  }
  there_ = false;  // until step_there: a run moves it on, and what fails behind it is no step
  return memory_->view.data;
}
// As mul_scalar rounds a number: to what the loss is computed in.
StoredView LossScale::scale_there(Dtype loss) const {
  StoredView scale = *memory_;
  scale.view.dtype = Dtype::f64;
  scale.view.shape = {};
  scale.view.strides = row_major(Shape{});
  if (loss == Dtype::f64) return copied(scale);  // it moves on before gradients are pulled
  return to_float(Tensor<Cpu>(Primitive<FloatKind>{scale}), Dtype::f32).primitive();
}
StoredView LossScale::clip_and_adapt(std::span<const StoredView> gradients, double highest_norm) {
  detail::check_highest("clip", highest_norm);
  const Stream& stream = memory_->stream();
  auto* state = static_cast<LossScaleState*>(memory_->view.data);
  auto both = Squares(stream, gradients).norm_and_factor(highest_norm, 1, &state->scale);
  adapt_there(stream, options_, static_cast<const double*>(both.view.data), state);
  return both;
}

}  // namespace planck::optim
