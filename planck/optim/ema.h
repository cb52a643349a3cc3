// The exponential moving average of a model's weights:   a ← decay · a + (1 − decay) · w, a = w at
// the first update; in f32 where weights are narrower. All parameters in one pass over memory.
//
//   optim::Ema<A> average(0.999);
//   average.update(model);                                          // after every step
//   nn::load_state(evaluated, average.state(), {.partial = true, .cast = true});
#pragma once

#include "planck/nn/state.h"
#include "planck/optim/kept.h"
#include "planck/optim/stored.h"

namespace planck::optim {

namespace detail {
// Averages by path.
class Averages {
 public:
  explicit Averages(double decay);
  void update(std::span<const std::pair<std::string, StoredView>> weights);
  nn::StateDict state() const;
  void load(const nn::StateDict& state, const Stream& stream);

 private:
  double decay_;
  KeptMap of_;  // one slot each
};
}  // namespace detail

// An average of weights, by the names of the parameters.
template <class A>
class Ema {
 public:
  using B = nn::Inner<A>;
  explicit Ema(double decay) : averages_(decay) {}

  template <class Module>
  void update(Module& module) {
    std::vector<std::pair<std::string, StoredView>> weights;
    nn::parts_of(module).template for_each<nn::Parameter<A>>(
        [&](const std::string& path, nn::Parameter<A>& p) {
          weights.emplace_back(path, detail::stored(p.value()));
        });
    averages_.update(weights);
  }
  nn::StateDict state() const { return averages_.state(); }
  void load_state(const nn::StateDict& s, const typename B::Device& device = B::default_device()) {
    averages_.load(s, detail::stream_of<B>(device));
  }

 private:
  detail::Averages averages_;
};

}  // namespace planck::optim
