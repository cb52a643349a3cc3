#include "planck/backend/observe.h"

namespace planck {

void Observer::begin_all(const RunningOp& op) noexcept {
  for (Observer* o = innermost_; o != nullptr; o = o->outer_) o->begin(op);
}
void Observer::end_all(const RunningOp& op) {
  for (Observer* o = innermost_; o != nullptr; o = o->outer_) o->end(op);
}

}  // namespace planck
