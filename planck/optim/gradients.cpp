#include "planck/optim/gradients.h"

#include <limits>

#include "planck/backend/planned.h"
#include "planck/optim/step/step.h"

namespace planck::optim::detail {

void check_highest(std::string_view what, double highest) {
  if (!(highest > 0)) refuse("{}: the highest norm is {}, it must be positive", {what, highest});
}

StoredView clip_of(std::span<const StoredView> tensors, double highest, double scale) {
  check_highest("clip", highest);
  if (!(scale > 0)) refuse("clip: the loss is scaled by {}, it must be positive", {scale});
  const Stream stream = tensors.empty() ? Cpu::default_device() : tensors[0].stream();
  for (const StoredView& t : tensors) backend_detail::check_place("clip", stream, t.stream());
  return Squares(stream, tensors).norm_and_factor(highest, scale);
}

double norm_of(std::span<const StoredView> tensors) {
  double both[2];
  backend_detail::to_host(clip_of(tensors, std::numeric_limits<double>::infinity(), 1), both);
  return both[0];
}

StoredView element(const StoredView& t, std::int64_t i) {
  StoredView one = t;
  one.view.data = static_cast<double*>(t.view.data) + i;
  one.view.shape = {};
  one.view.strides = row_major(Shape{});
  return one;
}

}  // namespace planck::optim::detail
