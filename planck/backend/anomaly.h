// Which op made the first NaN.
//
//   Anomaly watch;                    // this thread, until the end of the scope
//   auto grads = loss(model(x)).backward();
//
// Each op's result is looked at when it is there, and the first with a NaN is thrown as
// ErrorCode::not_a_number: which op, in a forward pass or in the gradient of which op, where in the
// result, and whether its inputs had a NaN already, which then came from outside the scope. Looking
// costs a pass over memory, and on CUDA a copy to the host: a mode to search in, not to train in.
// What the op was given is as it was: no op writes over its inputs while they are watched so.
// For ops of Cpu and Cuda.
#pragma once

#include "planck/backend/observe.h"

namespace planck {

class Anomaly final : public Observer {
 public:
  Anomaly() : Observer(true) {}

 protected:
  void begin(const RunningOp&) noexcept override;
  void end(const RunningOp& op) override;

 private:
  std::ptrdiff_t inputs_with_nan_ = -1;  // the first of them
};

}  // namespace planck
