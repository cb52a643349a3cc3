// Embedding on tensors. An index out of range is an error here, unless skipping is asked for: then
// its row reads as zeros. The check waits for the device.
#pragma once

#include "planck/backend/call.h"
#include "planck/ops/embedding/embedding.ops.h"

namespace planck {

enum class BadIndices : std::uint8_t { refuse, skip };

template <class B>
void refuse_bad(std::string_view op, std::string_view what, const Tensor<B, IntKind>& count) {
  if (const auto n = count.template item<std::int64_t>(); n > 0)
    refuse("{}: {} {} out of range", {op, n, what});
}

// out[n, :] = weight[indices[n], :]
template <class B>
Tensor<B> embedding(const Tensor<B>& weight, const Tensor<B, IntKind>& indices,
                    std::int64_t padding_idx = kNoPaddingIndex,
                    BadIndices bad = BadIndices::refuse) {
  auto [out, count] = call(Embedding{padding_idx}, weight, indices);
  if (bad == BadIndices::refuse) refuse_bad("embedding", "indices are", count);
  return out;
}

// Sums, means or maxima of rows: bag b is indices[offsets[b] … offsets[b + 1]).
template <BagMode Mode = BagMode::mean, class B>
Tensor<B> embedding_bag(const Tensor<B>& weight, const Tensor<B, IntKind>& indices,
                        const Tensor<B, IntKind>& offsets,
                        std::int64_t padding_idx = kNoPaddingIndex,
                        bool include_last_offset = false, BadIndices bad = BadIndices::refuse) {
  const auto all =
      call(EmbeddingBag<Mode>{padding_idx, include_last_offset}, weight, indices, offsets);
  constexpr std::size_t kBad = Mode == BagMode::max ? 2 : 1;
  refuse_bad("embedding_bag", "offsets do not ascend or are", std::get<kBad + 1>(all));
  if (bad == BadIndices::refuse) refuse_bad("embedding_bag", "indices are", std::get<kBad>(all));
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
  refuse_bad("embedding_bag", "offsets do not ascend or are", bad_offsets);
  if (bad == BadIndices::refuse) refuse_bad("embedding_bag", "indices are", bad_indices);
  return out;
}

}  // namespace planck
