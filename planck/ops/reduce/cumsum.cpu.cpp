// cpu:running. One group after the other, groups side by side on threads. Blocks of 32 start anew,
// so that the processor works on several at once although each is a chain of additions.
#include <algorithm>

#include "planck/loops/parallel.h"
#include "planck/math/running_sum.h"
#include "planck/ops/reduce/input.h"
#include "planck/ops/reduce/kernels.h"
#include "planck/ops/reduce/layout.h"
#include "planck/ops/reduce/store.h"

namespace planck {

namespace {

// Integers wrap.
template <class C>
using Running = std::conditional_t<
    std::is_floating_point_v<C>, C,
    std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<C>, int, C>>>;

template <class C>
void cumsum(const Stream& stream, const ReduceProblem& p, const Operands& operands) {
  const ReduceLayout layout = ReduceLayout::make(p, operands[0], operands[1]);
  if (layout.groups == 0 || layout.length == 0) return;
  int axis = 0;
  while (!p.reduces(axis)) ++axis;
  const std::int64_t n = layout.length;
  const std::int64_t sign = p.reverse ? -1 : 1;
  const std::int64_t in_step = sign * operands[0].strides[axis];
  const std::int64_t out_step = sign * operands[1].strides[axis];
  const Walk in = walk_of(layout.kept, 0), out = walk_of(layout.kept, 1);
  const auto start = [&](const Walk& walk, std::int64_t group, std::int64_t step) {
    std::int64_t at = 0;
    walk.runs(group, 1, [&](std::int64_t offset, std::int64_t, std::int64_t) { at = offset; });
    return p.reverse ? at - (n - 1) * step : at;
  };
  Walk line;
  line.extent[0] = n;
  const std::int64_t together = std::max<std::int64_t>(1, (1 << 15) / n);
  parallel_for(stream, (layout.groups + together - 1) / together, [&](std::int64_t task) {
    const std::int64_t end = std::min(layout.groups, (task + 1) * together);
    for (std::int64_t g = task * together; g < end; ++g) {
      Walk from = line, to = line;
      from.offset = start(in, g, in_step);
      from.stride[0] = in_step;
      to.offset = start(out, g, out_step);
      to.stride[0] = out_step;
      const ReduceInput<C> input(operands[0], from);
      const ResultStore<C> store{operands[1].data, operands[1].dtype, to};
      RunningSum<Running<C>> sum;
      alignas(64) C values[kBlock];
      for (std::int64_t i = 0; i < n; i += kBlock) {
        const int m = static_cast<int>(std::min<std::int64_t>(kBlock, n - i));
        input.gathered(i, m, values);
        for (int k = 0; k < m; ++k) {
          const auto value = static_cast<C>(sum.add(static_cast<Running<C>>(values[k])));
          if constexpr (std::is_floating_point_v<C>)
            values[k] = reduce_math::canonical(value);
          else
            values[k] = value;
        }
        store(i, m, values);
      }
    }
  });
}

}  // namespace

std::size_t cumsum_cpu_workspace(const ReduceProblem&) { return 0; }

Result<void> cumsum_cpu(const Stream& stream, Workspace, const ReduceProblem& p,
                        const Operands& operands) {
  switch (p.element_dtype) {
    case Dtype::f64:
      cumsum<double>(stream, p, operands);
      break;
    case Dtype::i64:
      cumsum<std::int64_t>(stream, p, operands);
      break;
    case Dtype::i32:
      cumsum<std::int32_t>(stream, p, operands);
      break;
    default:
      cumsum<float>(stream, p, operands);
  }
  return {};
}

}  // namespace planck
