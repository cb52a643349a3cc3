// Reductions as values. What each computes is in reduce.h. Reduced axes stay with extent 1; the
// functions on tensors (reduce.functions.h) drop them.
#pragma once

#include "planck/ops/reduce/reduce.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

template <OpName N, ReduceKind Kind>
struct ReduceOp {
  static constexpr std::string_view name = N.view();
  static constexpr ReduceKind kind = Kind;
  unsigned axes = kAllAxes;  // bit d: axis d is reduced

  Result<ReduceProblem> problem(std::span<const InputSpec> in) const {
    const unsigned all = (1u << in[0].shape.rank()) - 1;
    return ReduceProblem{
        .kind = Kind, .element_dtype = in[0].dtype, .shape = in[0].shape, .axes = axes & all};
  }
};
using Sum = ReduceOp<"sum", ReduceKind::sum>;
using Mean = ReduceOp<"mean", ReduceKind::mean>;
using Prod = ReduceOp<"prod", ReduceKind::prod>;
using Max = ReduceOp<"max", ReduceKind::max>;
using Min = ReduceOp<"min", ReduceKind::min>;
using LogSumExp = ReduceOp<"logsumexp", ReduceKind::logsumexp>;
using Any = ReduceOp<"any", ReduceKind::any>;
using All = ReduceOp<"all", ReduceKind::all>;

struct Argmax : ReduceOp<"argmax", ReduceKind::argmax> {
  using Gives = IntKind;
};
struct Argmin : ReduceOp<"argmin", ReduceKind::argmin> {
  using Gives = IntKind;
};
struct Var : ReduceOp<"var", ReduceKind::var> {
  std::int64_t correction = 1;
  Result<ReduceProblem> problem(std::span<const InputSpec> in) const {
    return ReduceOp::problem(in).map([&](ReduceProblem p) {
      p.correction = correction;
      return p;
    });
  }
};
struct Cumsum {
  static constexpr std::string_view name = "cumsum";
  int axis = 0;
  bool reverse = false;
  Result<ReduceProblem> problem(std::span<const InputSpec> in) const {
    return scan_problem(ReduceKind::cumsum, in[0], axis, reverse);
  }
};
// x → values, indices. K: the kind of the elements.
template <OpName N, ReduceKind Kind, class K>
struct RunningExtremeOp {
  static constexpr std::string_view name = N.view();
  static constexpr ReduceKind kind = Kind;
  using Gives = Kinds<K, IntKind>;
  int axis = 0;
  Result<ReduceProblem> problem(std::span<const InputSpec> in) const {
    return scan_problem(Kind, in[0], axis);
  }
};
template <class K = FloatKind>
using Cummax = RunningExtremeOp<"cummax", ReduceKind::cummax, K>;
template <class K = FloatKind>
using Cummin = RunningExtremeOp<"cummin", ReduceKind::cummin, K>;

}  // namespace planck
