// A training loop that is written for one worker, on several: gradients are synchronized at the end
// of backward.
//
//   dist::DataParallel<A> parallel(workers);
//   for (…) {
//     dist::Backward<A> pass(parallel, model);                // before the forward pass
//     const auto gradients = pass(loss_of(model, my_part));   // where loss.backward() stood
//     adam.step(model, optim::collect<A>(model, gradients));
//   }
//
// Every worker computes the loss of its own part of the batch, its share of the batch's: the sum
// over its samples divided by the samples of all. The gradients of parameters are the sums over
// workers, the same on each of them; those of tables that are read by rows are dense. Buffers,
// generators and hooks are DataParallel's: a worker is a grain, so that the bits are a function of
// the number of workers. One hash for any number of them needs grains that do not depend on it:
// DataParallel itself.
#pragma once

#include "planck/dist/data_parallel.h"

namespace planck::dist {

template <class A>
class Backward {
 public:
  // All workers make theirs at the same time. For models without layers that are Synchronized.
  template <class Module>
  Backward(DataParallel<A>& parallel, Module& module)
      : parallel_(parallel), parts_(nn::parts_of(module)) {
    parallel_.begin(parts_, parallel_.workers().size());
    parallel_.enter(parallel_.workers().rank());
  }
  Backward(const Backward&) = delete;

  // Once.
  typename A::Gradients operator()(const Tensor<A>& loss) {
    parallel_.add(loss);
    const auto found = parallel_.finish();
    loss_ = found.loss;
    typename A::Gradients gradients;
    parts_.template for_each<nn::Parameter<A>>([&](const std::string& path, nn::Parameter<A>& p) {
      if (const auto g = found.gradients.find(path); g != found.gradients.end())
        A::grad_replace(p->primitive(), gradients, g->second.primitive());
      if (const auto g = found.gradients.rows.find(path); g != found.gradients.rows.end())
        A::grad_replace(p->primitive(), gradients, g->second.dense().primitive());
    });
    return gradients;
  }
  double loss() const { return loss_; }  // of all workers together

 private:
  DataParallel<A>& parallel_;
  nn::PartList parts_;
  double loss_ = 0;
};

}  // namespace planck::dist
