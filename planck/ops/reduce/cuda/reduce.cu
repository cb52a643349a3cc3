// cuda:tree. A row has a warp or a block, or several blocks; a column has a thread, or several
// slots; var and logsumexp go by chunks of 512 elements, which warps or blocks hold.
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/rows/cuda/axis_map.cuh"
#include "planck/loops/rows/cuda/joins.cuh"
#include "planck/ops/reduce/cuda/cuts.h"
#include "planck/ops/reduce/cuda/kernels.h"
#include "planck/ops/reduce/cuda/reduce_pass.h"
#include "planck/ops/reduce/cuda/visit_number.h"
#include "planck/ops/reduce/host/finish.h"

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
      return prod_pass(stream, pass);
    case ReduceKind::max:
    case ReduceKind::min:
    case ReduceKind::any:
    case ReduceKind::all:
      return extreme_pass(stream, pass);
    case ReduceKind::argmax:
    case ReduceKind::argmin:
      return find_pass(stream, pass);
    case ReduceKind::var:
    case ReduceKind::logsumexp:
      return pass.layout.columns ? stat_columns_pass(stream, pass) : stat_rows_pass(stream, pass);
    default:
      return sum_pass(stream, pass);
  }
}

}  // namespace planck
