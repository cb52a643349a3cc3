// Rows of a table as leaves: gradients of a table that are as large as what was read of it.
//
//   auto y = read_rows(table, indices);               // as embedding(table, indices)
//   auto g = row_gradient(table, loss.backward());    // rows and their gradients, or none
//
// Each reading is a leaf of its own, which remembers the table and the indices; the gradient that a
// backward pass finds for it is that of the rows read. row_gradient adds up the readings of a
// table. No tensor of the table's size is made, and table.grad() knows of other uses alone.
//
// Same bits as embedding's gradient, up to two readings in one pass; of more the order of the sum
// may be another. Where the inner backend is differentiable itself, read_rows is embedding.
#pragma once

#include "planck/autodiff/autodiff.h"
#include "planck/ops/embedding/embedding.grad.h"

namespace planck {

template <class B>
class RowLeaf final : public Leaf<B> {
 public:
  // What was read: its dtype and shape are those of the gradient.
  RowLeaf(const Tensor<B>& read, Shared<Node<B>> table, std::int64_t rows,
          Tensor<B, IntKind> indices, std::int64_t padding_idx)
      : Leaf<B>(read.dtype(), read.shape()),
        table_(std::move(table)),
        rows_(rows),
        indices_(std::move(indices)),
        padding_(padding_idx) {}

  bool is_of(const Node<B>* table) const { return table_.get() == table; }
  RowGradient<B> gradient(const Tensor<B>& dout) const {
    return row_gradient_of(dout, indices_, rows_, padding_);
  }

 private:
  Shared<Node<B>> table_;
  std::int64_t rows_;
  Tensor<B, IntKind> indices_;
  std::int64_t padding_;
};

// out[n, :] = table[indices[n], :], with a gradient of rows. The table is a leaf, or not tracked.
template <class A>
requires AutodiffBackend<A> Tensor<A> read_rows(const Tensor<A>& table,
                                                const Tensor<A, IntKind>& indices,
                                                std::int64_t padding_idx = kNoPaddingIndex) {
  using B = typename A::InnerBackend;
  if constexpr (AutodiffBackend<B>) {
    return embedding(table, indices, padding_idx);
  } else {
    if (!table.is_tracked() || !grad_enabled()) return embedding(table, indices, padding_idx);
    const auto& leaf = table.primitive().from.node;
    if (!leaf->is_leaf())
      refuse(ErrorCode::untracked, "read_rows: the table is what {} gave, it must be a leaf",
             {leaf->op()});
    const Tensor<B, IntKind> at(indices.primitive());
    auto rows = embedding(table.inner(), at, padding_idx);
    auto node =
        Shared<Node<B>>::adopt(new RowLeaf<B>(rows, leaf, table.extent(0), at, padding_idx));
    return Tensor<A>(Tracked<B>{std::move(rows).primitive(), {std::move(node), 0}, nullptr});
  }
}

// The gradient of what read_rows read of a table, or none.
template <class A>
requires AutodiffBackend<A> std::optional<RowGradient<typename A::InnerBackend>> row_gradient(
    const Tensor<A>& table, const typename A::Gradients& gradients) {
  using B = typename A::InnerBackend;
  std::vector<RowGradient<B>> found;
  if constexpr (!AutodiffBackend<B>)
    gradients.for_each([&](const Node<B>& leaf, const typename B::FloatTensor& gradient) {
      if (const auto* rows = dynamic_cast<const RowLeaf<B>*>(&leaf))
        if (rows->is_of(table.primitive().from.node.get()))
          found.push_back(rows->gradient(Tensor<B>(gradient)));
    });
  if (found.empty()) return std::nullopt;
  return found.size() == 1 ? found[0] : add_row_gradients(found);
}

}  // namespace planck
