// Who watches the ops of a thread: profile.h and anomaly.h. Every kernel of Cpu and Cuda is run
// through here; where nobody watches, that is one look at a pointer.
#pragma once

#include <span>
#include <string_view>

#include "planck/core/stream.h"
#include "planck/core/view.h"

namespace planck {

// One kernel that is run.
struct RunningOp {
  std::string_view name;
  std::string_view gradient_of;  // the op whose pullback asked for it; "" in a forward pass
  const Stream& stream;
  std::span<const View> inputs, outputs;  // outputs are written by the kernel
};

// Watches this thread's ops from construction to destruction. Scopes nest; all of them watch.
class Observer {
 public:
  // keeps_inputs: one that may refuse what an op gave. No op then writes over an input, so that the
  // input is as it was when end() throws.
  explicit Observer(bool keeps_inputs = false)
      : outer_(innermost_),
        keeps_inputs_(keeps_inputs || (outer_ != nullptr && outer_->keeps_inputs_)) {
    innermost_ = this;
  }
  Observer(const Observer&) = delete;
  virtual ~Observer() { innermost_ = outer_; }

  static bool any() { return innermost_ != nullptr; }
  // Whether one of those that watch keeps inputs.
  static bool inputs_are_kept() { return any() && innermost_->keeps_inputs_; }
  static void begin_all(const RunningOp& op) noexcept;
  static void end_all(const RunningOp& op);

  // The op whose pullback is running on this thread.
  static inline constinit thread_local std::string_view gradient_of = {};

 protected:
  virtual void begin(const RunningOp& op) noexcept = 0;
  virtual void end(const RunningOp& op) = 0;

 private:
  static inline constinit thread_local Observer* innermost_ = nullptr;
  Observer* const outer_;
  const bool keeps_inputs_;  // this one, or one around it
};

namespace backend_detail {

// Runs a kernel, watched.
template <class Run>
void observed(std::string_view name, const Stream& stream, std::span<const View> inputs,
              std::span<const View> outputs, const Run& run) {
  const RunningOp op{name, Observer::gradient_of, stream, inputs, outputs};
  Observer::begin_all(op);
  run();
  Observer::end_all(op);
}

}  // namespace backend_detail

}  // namespace planck
