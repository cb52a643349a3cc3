// Index ops as values; index.h says what each computes. Counters of indices out of range are the
// last outputs. K: the kind of the elements that move.
//
// Ops that scatter come twice: onto x, and as …Into onto zeros of a given shape.
#pragma once

#include "planck/ops/index/index.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

namespace index_detail {

// What is indexed, the index, and whose dtype the elements have.
inline IndexProblem along(IndexKind kind, int axis, const Shape& x, bool with_x,
                          const InputSpec& index, Dtype element) {
  return IndexProblem{.kind = kind,
                      .element_dtype = element,
                      .index_dtype = index.dtype,
                      .x = x,
                      .index = index.shape,
                      .axis = axis,
                      .with_x = with_x};
}

}  // namespace index_detail

// x, index → out, bad_indices; those that write: x, index, source → out, bad_indices
template <IndexKind Kind, OpName N, class K>
struct ByIndex {
  static constexpr std::string_view name = N.view();
  using Gives = Kinds<K, IntKind>;
  int axis = 0;
  IndexProblem problem(std::span<const InputSpec> in) const {
    return index_detail::along(Kind, axis, in[0].shape, true, in[1], in[0].dtype);
  }
};
template <class K = FloatKind>
struct Gather : ByIndex<IndexKind::gather, "gather", K> {};
template <class K = FloatKind>
struct IndexSelect : ByIndex<IndexKind::index_select, "index_select", K> {};

template <class K = FloatKind>
struct Scatter : ByIndex<IndexKind::scatter, "scatter", K> {};
template <class K = FloatKind>
struct ScatterAdd : ByIndex<IndexKind::scatter_add, "scatter_add", K> {};
template <class K = FloatKind>
struct IndexAdd : ByIndex<IndexKind::index_add, "index_add", K> {};

// index, source → out
template <IndexKind Kind, OpName N>
struct WriteIntoZeros {
  static constexpr std::string_view name = N.view();
  using Gives = FloatKind;
  int axis = 0;
  Shape shape = {};  // of out
  IndexProblem problem(std::span<const InputSpec> in) const {
    return index_detail::along(Kind, axis, shape, false, in[0], in[1].dtype);
  }
};
struct ScatterAddInto : WriteIntoZeros<IndexKind::scatter_add, "scatter_add"> {};
struct IndexAddInto : WriteIntoZeros<IndexKind::index_add, "index_add"> {};

// x, mask → values [numel(x)], count
template <class K = FloatKind>
struct MaskSelect {
  static constexpr std::string_view name = "mask_select";
  using Gives = Kinds<K, IntKind>;
  IndexProblem problem(std::span<const InputSpec> in) const {
    return IndexProblem{
        .kind = IndexKind::mask_select, .element_dtype = in[0].dtype, .x = in[0].shape};
  }
};
// x, mask, values [numel(x)] → out
template <class K = FloatKind>
struct MaskScatter {
  static constexpr std::string_view name = "mask_scatter";
  using Gives = K;
  IndexProblem problem(std::span<const InputSpec> in) const {
    return IndexProblem{
        .kind = IndexKind::mask_scatter, .element_dtype = in[0].dtype, .x = in[0].shape};
  }
};
// mask, values → out
struct MaskScatterInto {
  static constexpr std::string_view name = "mask_scatter";
  using Gives = FloatKind;
  IndexProblem problem(std::span<const InputSpec> in) const {
    return IndexProblem{.kind = IndexKind::mask_scatter,
                        .element_dtype = in[1].dtype,
                        .x = in[0].shape,
                        .with_x = false};
  }
};
// mask → positions [numel(mask)], count
struct Nonzero {
  static constexpr std::string_view name = "nonzero";
  using Gives = Kinds<IntKind, IntKind>;
  IndexProblem problem(std::span<const InputSpec> in) const {
    return IndexProblem{
        .kind = IndexKind::nonzero, .element_dtype = Dtype::boolean, .x = in[0].shape};
  }
};
// index → out [..., classes], bad_indices
template <class K = IntKind>
struct OneHot {
  static constexpr std::string_view name = "one_hot";
  using Gives = Kinds<K, IntKind>;
  std::int64_t classes = 0;
  Dtype dtype = Dtype::i64;
  IndexProblem problem(std::span<const InputSpec> in) const {
    return IndexProblem{.kind = IndexKind::one_hot,
                        .element_dtype = dtype,
                        .index_dtype = in[0].dtype,
                        .index = in[0].shape,
                        .classes = classes};
  }
};

}  // namespace planck
