// Reductions over any set of axes; running sums and extremes along one.
//
//   sum  prod          over the reduced axes; integers wrap
//   mean               sum / n, one division in the compute type
//   max  min           NaN where there is one; +0 is above -0
//   var                sum of (x - mean)^2, divided by n - correction; NaN where n <= correction
//   logsumexp          max + log(sum of exp(x - max)); max itself where it is infinite.
//                      Both by blocks of 512 elements, which are joined
//   argmax  argmin     the row-major index among the reduced elements, i64; the first of equals, +0
//                      and -0 are equal, the first NaN where there is one. One axis, or all
//   any  all           of bool
//   cumsum             out[i] = x[0] + ... + x[i] along an axis; reverse: x[i] + ... + x[n - 1]
//   cummax  cummin     values[i], the largest of x[0] ... x[i] along an axis, and indices[i], i64,
//                      where it first occurs: values[i] = x[indices[i]]. The first of equals keeps
//                      its index, +0 and -0 are equal, the first NaN wins and stays
//
// Reduced axes stay, with extent 1. Over nothing: sum 0, prod 1, mean and var NaN, logsumexp -Inf,
// any false, all true; max, min, argmax and argmin refuse. Along nothing, cumsum, cummax
// and cummin give nothing.
//
// Sums. The reduced elements in row-major order are added in the canonical pairwise order
// (docs/numerics.md), products likewise; cumsum by blocks of 32 (running_sum.h).
// cummax and cummin compute nothing: whichever way the work is cut, the first element that no other
// exceeds is the same one, and its bits are moved (a NaN becomes the one NaN).
//
// Dtypes. Floats; i32 and i64 for sum, prod, max, min, argmax, argmin, cumsum, cummax and cummin;
// bool for any and all. Arithmetic in f64 for f64, in f32 for narrower floats, rounded once at the
// store. Any strides; no output overlaps its input.
#pragma once

#include <vector>

#include "planck/plan/registry.h"

namespace planck {

enum class ReduceKind : std::uint8_t {
  sum,
  mean,
  prod,
  max,
  min,
  var,
  logsumexp,
  argmax,
  argmin,
  any,
  all,
  cumsum,
  cummax,
  cummin,
};

inline constexpr int kReduceOperands = 3;  // x, out; cummax, cummin: x, values, indices
inline constexpr unsigned kAllAxes = ~0u;

struct ReduceProblem {
  ReduceKind kind = ReduceKind::sum;
  Dtype element_dtype = Dtype::f32;
  Shape shape;
  unsigned axes = kAllAxes;     // bit d: axis d is reduced; scans: the one axis they run along
  std::int64_t correction = 1;  // var
  bool reverse = false;         // cumsum

  bool operator==(const ReduceProblem&) const = default;

  bool reduces(int axis) const { return (axes >> axis) & 1u; }
  bool scans() const { return kind == ReduceKind::cumsum || scans_extremes(); }
  bool scans_extremes() const { return kind == ReduceKind::cummax || kind == ReduceKind::cummin; }
  bool finds() const { return kind == ReduceKind::argmax || kind == ReduceKind::argmin; }
  std::int64_t reduced() const;  // elements that become one
  std::int64_t outputs() const;  // results
  Shape out_shape() const;
  Dtype out_dtype() const { return finds() ? Dtype::i64 : element_dtype; }

  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, kReduceOperands> specs() const;
  std::span<const Kernel<ReduceProblem>> kernels() const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const { return std::nullopt; }
};

std::vector<OpEntry> reduce_ops();

}  // namespace planck
