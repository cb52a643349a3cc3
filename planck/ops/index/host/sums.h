// scatter_add and index_add of floats as gradients of a table (loops/table): the rows of out are
// the table, the items its entries.
//
//   scatter_add   rows of one element; an item's row is its target's row-major position in out
//   index_add     rows of the elements behind the axis; row = (position before the axis, index)
//
// What loops/table cannot read in place is copied: the keys where they are not the index itself, an
// output that is no matrix of even strides, a source whose rows are not evenly strided. Strides are
// known only at run, so the workspace has room for every copy that the shapes do not rule out.
#pragma once

#include "planck/loops/table/table.h"
#include "planck/ops/index/host/items.h"

namespace planck::index_detail {

struct SumPlan {
  TableProblem embedding;
  int split = 0;  // axes of x from here on are the columns of a row
  bool makes_keys = true;
  Dtype key_dtype = Dtype::i32;
  // Byte offsets behind the table's workspace, and the end of all.
  std::size_t keys = 0, out = 0, source = 0, bytes = 0;

  SumPlan(const IndexProblem& p, std::size_t (*embedding_workspace)(const TableProblem&));

  // Operand strides over the keys, in the order of the source: the index's, and what a key is made
  // of: base + index * axis_stride.
  struct Keys {
    Shape shape;
    Strides index, base;
    std::int64_t axis_stride;
  };
  Keys key_nest(const IndexProblem& p, const View& index) const;

  // The table's operands; `copied` says which of both must be a copy in the workspace.
  struct Copies {
    bool out = false, source = false;
  };
  Operands operands(const IndexProblem& p, const Operands& o, Workspace workspace,
                    Copies& copied) const;
};

}  // namespace planck::index_detail
