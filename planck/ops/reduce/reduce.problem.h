// Reductions and scans as plain values: which op, which dtype, shapes and attributes. reduce.h says
// what each computes.
#pragma once

#include <vector>

#include "planck/plan/plan.h"

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

// Along one axis, counted from the front; the error names it and the rank.
[[nodiscard]] Result<ReduceProblem> scan_problem(ReduceKind kind, const InputSpec& x, int axis,
                                                 bool reverse = false);

std::vector<OpEntry> reduce_ops();

}  // namespace planck
