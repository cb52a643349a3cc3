#include "planck/train/step.h"

#include <fmt/format.h>

#include "planck/backend/faults.h"
#include "planck/backend/planned.h"
#include "planck/optim/step/step.h"

namespace planck::train::detail {

StoredView own_copy(const StoredView& t) { return optim::copied(t); }
void copy_over(const StoredView& from, const StoredView& to) {
  backend_detail::check_place("step", to.stream(), from.stream());
  backend_detail::copy(from.view, to.view, to.stream());
}
void check_loss(const StoredView& loss, std::int64_t step) {
  refuse_not_finite_later(fmt::format("the loss of step {}", step), loss);
}
bool watched() { return Observer::any(); }

}  // namespace planck::train::detail
