// Sorting as values; sort.h says what each op computes. K: the kind of the elements.
#pragma once

#include "planck/ops/sort/sort.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

// x → values, indices
template <class K = FloatKind>
struct Sort {
  static constexpr std::string_view name = "sort";
  using Gives = Kinds<K, IntKind>;
  int axis = 0;
  bool descending = false;
  SortProblem problem(std::span<const InputSpec> in) const {
    return SortProblem{.kind = SortKind::sort,
                       .element_dtype = in[0].dtype,
                       .x = in[0].shape,
                       .axis = axis,
                       .descending = descending};
  }
};
// x → indices
struct Argsort {
  static constexpr std::string_view name = "argsort";
  using Gives = IntKind;
  int axis = 0;
  bool descending = false;
  SortProblem problem(std::span<const InputSpec> in) const {
    return SortProblem{.kind = SortKind::argsort,
                       .element_dtype = in[0].dtype,
                       .x = in[0].shape,
                       .axis = axis,
                       .descending = descending};
  }
};
// x → values, indices
template <class K = FloatKind>
struct Topk {
  static constexpr std::string_view name = "topk";
  using Gives = Kinds<K, IntKind>;
  int axis = 0;
  std::int64_t k = 0;
  bool largest = true;
  SortProblem problem(std::span<const InputSpec> in) const {
    return SortProblem{.kind = SortKind::topk,
                       .element_dtype = in[0].dtype,
                       .x = in[0].shape,
                       .axis = axis,
                       .descending = largest,
                       .k = k};
  }
};

}  // namespace planck
