// cuda:tree. Rows a warp or a block each, or several blocks; columns a thread each, or several
// slots; var and logsumexp in two passes, or one where a block or a cluster holds what it reads.
#include "planck/loops/launch.cuh"
#include "planck/ops/reduce/axis_map.cuh"
#include "planck/ops/reduce/cuts.h"
#include "planck/ops/reduce/finish.h"
#include "planck/ops/reduce/joins.cuh"
#include "planck/ops/reduce/reduce.cuda.h"
#include "planck/ops/reduce/reduce_pass.h"
#include "planck/ops/reduce/visit_number.h"

namespace planck {

namespace reduce_device {
namespace {

template <class T>
__global__ void fill_nothing(T* out, const AxisMap map, std::int64_t groups,
                             const rm::Finish<Value<T>> finish) {
  const std::int64_t g = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (g < groups) out[map.offset(g)] = stored<T>(finish.of_nothing());
}

template <class T>
Result<void> launch_nothing_of(const Stream& stream, const ReducePass& pass) {
  return launch(stream, "reduce nothing", fill_nothing<T>, ceil_div(pass.layout.groups, 256), 256,
                static_cast<T*>(pass.out), AxisMap::of(walk_of(pass.layout.kept, 1)),
                pass.layout.groups, rm::make_finish<Value<T>>(pass.problem));
}

Result<void> put_nothing(const Stream& stream, const ReducePass& pass) {
  if (pass.problem.element_dtype == Dtype::boolean)
    return launch_nothing_of<std::uint8_t>(stream, pass);
  return visit_number(pass.problem.element_dtype, [&](auto type) {
    return launch_nothing_of<typename decltype(type)::type>(stream, pass);
  });
}

}  // namespace
}  // namespace reduce_device

Result<void> reduce_cuda(const Stream& stream, Workspace workspace, const ReduceProblem& p,
                         const Operands& operands) {
  using namespace reduce_device;
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  ReducePass pass{p, ReduceLayout::make(p, operands[0], operands[1])};
  pass.x = operands[0].data;
  pass.out = operands[1].data;
  pass.partials = workspace.data;
  if (pass.layout.groups == 0) return {};
  if (pass.layout.length == 0) return put_nothing(stream, pass);
  switch (p.kind) {
    case ReduceKind::prod:
      return prod_pass(stream, pass, true);
    case ReduceKind::max:
    case ReduceKind::min:
    case ReduceKind::any:
    case ReduceKind::all:
      return extreme_pass(stream, pass, true);
    case ReduceKind::argmax:
    case ReduceKind::argmin:
      return find_pass(stream, pass, true);
    case ReduceKind::var:
    case ReduceKind::logsumexp: {
      if (holds(pass)) return held_pass(stream, pass);
      if (holds_columns(stream, pass)) return held_columns_pass(stream, pass);
      const std::size_t value = p.element_dtype == Dtype::f64 ? 8 : 4;
      const auto partials =
          static_cast<std::size_t>(reduce_cuts::partials(pass.layout.groups, pass.layout.length)) *
          value;
      void* parameters = static_cast<std::byte*>(workspace.data) + (partials + 255) / 256 * 256;
      pass.parameters_out = parameters;
      const bool var = p.kind == ReduceKind::var;
      if (auto ok = var ? sum_pass(stream, pass, true) : extreme_pass(stream, pass, true); !ok)
        return ok;
      pass.parameters_out = nullptr;
      pass.parameters = parameters;
      return var ? square_pass(stream, pass, false) : exponential_pass(stream, pass, false);
    }
    default:
      return sum_pass(stream, pass, true);
  }
}

}  // namespace planck
