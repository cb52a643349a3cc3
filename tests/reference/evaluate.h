// How the Reference backend does each op: plain loops over doubles.
#pragma once

#include <functional>
#include <vector>

#include "planck/ops/elementwise/elementwise.ops.h"
#include "planck/ops/matmul/matmul.ops.h"
#include "planck/ops/reduce/reduce.ops.h"

namespace planck {

struct ReferenceValues {
  Dtype dtype = Dtype::f64;
  Shape shape;
  std::vector<double> at;
};
using ReferenceInputs = std::vector<const ReferenceValues*>;
using ReferenceOutputs = std::vector<ReferenceValues>;

ReferenceValues read_elements(Dtype dtype, const Shape& shape, const void* data);
void write_elements(const ReferenceValues& values, void* data);
std::vector<InputSpec> specs_of(const ReferenceInputs& in);

// A view op: x's elements in the order that the view sees them.
ReferenceValues see(const ReferenceValues& x, const std::function<Result<View>(const View&)>& view);
ReferenceValues put_together(const Assembly& assembly, const ReferenceInputs& in);

// ---- elementwise ----
ReferenceOutputs elementwise(std::string_view op, const ReferenceInputs& in, Dtype dtype, double p,
                             double q = 0);

template <OpName N, ElementwiseOp Op>
ReferenceOutputs evaluate(const Elementwise<N, Op>&, const ReferenceInputs& in) {
  return elementwise(N.view(), in, in[0]->dtype, 0);
}
template <OpName N, ElementwiseOp Op>
ReferenceOutputs evaluate(const CompareOp<N, Op>&, const ReferenceInputs& in) {
  return elementwise(N.view(), in, Dtype::boolean, 0);
}
ReferenceOutputs evaluate(const LeakyRelu& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const Clamp& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const AddScalar& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const MulScalar& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const DivScalar& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const RdivScalar& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const PowScalar& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const MaskFill& op, const ReferenceInputs& in);
template <class K>
ReferenceOutputs evaluate(const Where<K>&, const ReferenceInputs& in) {
  return elementwise("where", in, in[1]->dtype, 0);
}
template <class K>
ReferenceOutputs evaluate(const Cast<K>& op, const ReferenceInputs& in) {
  return elementwise(is_float(op.dtype)           ? "to_float"
                     : op.dtype == Dtype::boolean ? "to_bool"
                                                  : "to_int",
                     in, op.dtype, 0);
}
template <class K>
ReferenceOutputs evaluate(const Full<K>& op, const ReferenceInputs&) {
  return {{op.dtype, op.shape,
           std::vector<double>(static_cast<std::size_t>(numel(op.shape)), op.value.number)}};
}
template <class K>
ReferenceOutputs evaluate(const Arange<K>& op, const ReferenceInputs&) {
  ReferenceValues y{op.dtype, {op.count}, {}};
  for (std::int64_t i = 0; i < op.count; ++i)
    y.at.push_back(op.start.number + op.step.number * static_cast<double>(i));
  return {y};
}
ReferenceOutputs evaluate(const RandomBernoulli& op, const ReferenceInputs&);

// ---- reductions ----

// By kind: the elements of each group, in row-major order, through one function.
ReferenceOutputs reduce(ReduceKind kind, unsigned axes, const ReferenceValues& x,
                        std::int64_t correction = 0);
template <OpName N, ReduceKind Kind>
ReferenceOutputs evaluate(const ReduceOp<N, Kind>& op, const ReferenceInputs& in) {
  return reduce(Kind, op.axes, *in[0]);
}
ReferenceOutputs evaluate(const Var& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const Cumsum& op, const ReferenceInputs& in);
ReferenceOutputs running_extreme(bool largest, int axis, const ReferenceValues& x);
template <OpName N, ReduceKind Kind, class K>
ReferenceOutputs evaluate(const RunningExtremeOp<N, Kind, K>& op, const ReferenceInputs& in) {
  return running_extreme(Kind == ReduceKind::cummax, op.axis, *in[0]);
}

ReferenceOutputs evaluate(const Matmul& op, const ReferenceInputs& in);

}  // namespace planck
