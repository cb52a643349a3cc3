// The problem that all ops of the index family share: op, dtypes, shapes. index.h says what they
// compute.
#pragma once

#include <array>
#include <optional>

#include "planck/plan/plan.h"

namespace planck {

enum class IndexKind : std::uint8_t {
  gather,
  index_select,
  scatter,
  scatter_add,
  index_add,
  mask_select,
  mask_scatter,
  nonzero,
  one_hot,
};

inline constexpr int kIndexOperands = 5;

struct IndexProblem {
  IndexKind kind = IndexKind::gather;
  Dtype element_dtype = Dtype::f32;
  Dtype index_dtype = Dtype::i64;  // which of i32 and i64 specs() names first; both are accepted
  // What is indexed: read by gather and index_select, written by the scattering ops. Masks have its
  // shape. Nothing for one_hot.
  Shape x = {};
  Shape index = {};
  int axis = 0;
  bool with_x = true;        // scattering ops: false starts from zeros
  std::int64_t classes = 0;  // one_hot

  bool operator==(const IndexProblem&) const = default;

  bool by_axis() const { return kind <= IndexKind::index_add; }
  // One index serves a whole slice of x.
  bool by_slice() const { return kind == IndexKind::index_select || kind == IndexKind::index_add; }
  bool adds() const { return kind == IndexKind::scatter_add || kind == IndexKind::index_add; }
  // The elements that move: the shape of `out` where x is read, of `source` where it is written.
  Shape items() const;
  std::int64_t extent() const { return x[axis]; }  // of the axis indices point into
  std::int64_t inner() const;                      // elements behind one position of the axis

  // What Selection<IndexProblem> needs.
  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, kIndexOperands> specs() const;
  std::span<const Kernel<IndexProblem>> kernels() const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const { return std::nullopt; }
};

// Operand positions, as in the op's table of operands.
namespace index_operand {
struct Read {  // gather, index_select
  enum { x, index, out, bad_indices };
};
struct Write {  // scatter, scatter_add, index_add
  enum { x, index, source, out, bad_indices };
};
struct MaskSelect {
  enum { x, mask, values, count };
};
struct MaskScatter {
  enum { x, mask, values, out };
};
struct Nonzero {
  enum { mask, positions, count };
};
struct OneHot {
  enum { index, out, bad_indices };
};
}  // namespace index_operand

std::vector<OpEntry> index_ops();

}  // namespace planck
