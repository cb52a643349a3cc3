#include "planck/dist/addition.h"

#include "planck/core/exception.h"
#include "planck/ops/elementwise/elementwise.h"

namespace planck::dist {

void add_by_plan(const Stream& stream, Dtype dtype, const void* left, const void* right, void* sum,
                 std::int64_t count) {
  const Shape shape{count};
  const auto plan = value_or_throw(
      ElementwisePlan::select(stream, {.op = ElementwiseOp::add, .dtype = dtype, .shape = shape}));
  const auto view = [&](const void* data) {
    return View{const_cast<void*>(data), dtype, shape, row_major(shape), true};
  };
  value_or_throw(plan.run(stream, {}, elementwise_operands({view(left), view(right), view(sum)})));
}

}  // namespace planck::dist
