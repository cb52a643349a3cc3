// Embedding on tensors. An index out of range is an error here, unless skipping is asked for: then
// its row reads as zeros. The check does not wait for the device.
#pragma once

#include "planck/backend/call.h"
#include "planck/backend/faults.h"
#include "planck/ops/embedding/embedding.ops.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck {

enum class BadIndices : std::uint8_t { refuse, skip };

// Refuses indices of which `bad` were counted as bad, and names the first.
template <class B>
void refuse_bad(const IndexOperand& operand, const Tensor<B, IntKind>& indices, std::int64_t bad) {
  if (bad == 0) return;
  std::vector<std::byte> elements(bytes_for(indices.dtype(), indices.numel()));
  B::to_host(indices.primitive(), elements.data());
  refuse_bad_index(operand, bad, indices.dtype(), indices.shape(), elements.data());
}
// The same of a number on the device: on CUDA when the host waits the next time (backend/faults.h).
template <class B>
void refuse_bad(const IndexOperand& operand, const Tensor<B, IntKind>& indices,
                const Tensor<B, IntKind>& count) {
  if constexpr (std::derived_from<TensorOf<B, IntKind>, StoredView>) {
    refuse_bad_later(operand, indices.primitive(), count.primitive());
  } else {
    refuse_bad(operand, indices, count.template item<std::int64_t>());
  }
}

// out[n, :] = weight[indices[n], :]
template <class B>
Tensor<B> embedding(const Tensor<B>& weight, const Tensor<B, IntKind>& indices,
                    std::int64_t padding_idx = kNoPaddingIndex,
                    BadIndices bad = BadIndices::refuse) {
  auto [out, count] = call(Embedding{padding_idx}, weight, indices);
  if (bad == BadIndices::refuse)
    refuse_bad({"embedding", "indices", weight.extent(0)}, indices, count);
  return out;
}

// The gradient of a table, row by row: values[k] is that of row rows[k], and all other rows have
// none.
template <class B>
struct RowGradient {
  Tensor<B, IntKind> rows;  // [K] i64, ascending and distinct
  Tensor<B> values;         // [K, D]
  std::int64_t table;       // rows of the table

  // The same as a tensor of the table's size.
  Tensor<B> dense() const { return call(EmbeddingBackward{table}, values, rows); }
};
// The gradient of a table of so many rows whose rows at `indices` had the gradients dout: those of
// equal rows are added up, as embedding's gradient adds them. Waits for the device.
template <class B>
RowGradient<B> row_gradient_of(const Tensor<B>& dout, const Tensor<B, IntKind>& indices,
                               std::int64_t table, std::int64_t padding_idx = kNoPaddingIndex) {
  const auto [rows, values, count] =
      call(EmbeddingSparseBackward{table, padding_idx}, dout, indices);
  const auto used = count.template item<std::int64_t>();
  return {slice(rows, 0, 0, used), slice(values, 0, 0, used), table};
}
// The sum of several: the rows of all of them.
template <class B>
RowGradient<B> add_row_gradients(const std::vector<RowGradient<B>>& all) {
  std::vector<Tensor<B, IntKind>> rows;
  std::vector<Tensor<B>> values;
  for (const auto& g : all) {
    rows.push_back(g.rows);
    values.push_back(g.values);
  }
  return row_gradient_of(cat(values, 0), cat(rows, 0), all.at(0).table);
}

namespace embedding_detail {

template <class B>
void refuse_bad_bags(const Tensor<B>& weight, const Tensor<B, IntKind>& indices,
                     const Tensor<B, IntKind>& offsets, const Tensor<B, IntKind>& bad_indices,
                     const Tensor<B, IntKind>& bad_offsets, BadIndices bad) {
  refuse_bad({.op = "embedding_bag", .name = "offsets", .extent = indices.numel(), .ends = true},
             offsets, bad_offsets);
  if (bad == BadIndices::refuse)
    refuse_bad({"embedding_bag", "indices", weight.extent(0)}, indices, bad_indices);
}

}  // namespace embedding_detail

// Sums, means or maxima of rows: bag b is indices[offsets[b] … offsets[b + 1]).
template <BagMode Mode = BagMode::mean, class B>
Tensor<B> embedding_bag(const Tensor<B>& weight, const Tensor<B, IntKind>& indices,
                        const Tensor<B, IntKind>& offsets,
                        std::int64_t padding_idx = kNoPaddingIndex,
                        bool include_last_offset = false, BadIndices bad = BadIndices::refuse) {
  const auto all =
      call(EmbeddingBag<Mode>{padding_idx, include_last_offset}, weight, indices, offsets);
  constexpr std::size_t kBad = Mode == BagMode::max ? 2 : 1;
  embedding_detail::refuse_bad_bags(weight, indices, offsets, std::get<kBad>(all),
                                    std::get<kBad + 1>(all), bad);
  return std::get<0>(all);
}
// Weighted sums: each row times its weight.
template <class B>
Tensor<B> embedding_bag_weighted(const Tensor<B>& weight, const Tensor<B, IntKind>& indices,
                                 const Tensor<B, IntKind>& offsets, const Tensor<B>& weights,
                                 std::int64_t padding_idx = kNoPaddingIndex,
                                 bool include_last_offset = false,
                                 BadIndices bad = BadIndices::refuse) {
  const auto [out, bad_indices, bad_offsets] =
      call(EmbeddingBag<BagMode::sum, true>{padding_idx, include_last_offset}, weight, indices,
           offsets, weights);
  embedding_detail::refuse_bad_bags(weight, indices, offsets, bad_indices, bad_offsets, bad);
  return out;
}

}  // namespace planck
