// "cuda:sorted_rows": the gradient of a table, dense or row-sparse.
//
// A stable sort of the indices on the bits that they need (sort_pass.cuh) puts the entries of a row
// side by side; a row is then summed in the canonical order (sum_rows.cuh), and rows without
// entries are cleared while the sort runs and afterwards.
#include "planck/ops/embedding/backward.cuh"
#include "planck/ops/embedding/embedding.cuda.h"

namespace planck {

using namespace embedding_device;

namespace {

IndexCall call_of(const EmbeddingProblem& p, Workspace workspace, const View& indices,
                  const View& bad) {
  IndexCall c;
  c.layout = SortedIndexLayout::of_rows(p);
  c.index = sorted_index(c.layout, workspace.data);
  c.keys.indices = Integers::of(indices);
  c.keys.rows = p.num_embeddings;
  c.keys.padding = p.padding_idx;
  c.bad = counter_of(bad);
  return c;
}

}  // namespace

Result<void> embedding_backward_cuda(const Stream& stream, Workspace workspace,
                                     const EmbeddingProblem& p, const Operands& operands) {
  using O = embedding_operand::Backward;
  if (auto ok = check_size(p); !ok) return ok;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const View &dout = operands[O::dout], &dweight = operands[O::dweight];
  IndexCall c = call_of(p, workspace, operands[O::indices], operands[O::bad_indices]);
  if (!p.accumulate) {
    c.clear = ClearRows::of(dweight, storage_bytes(p.element_dtype));
    if (!c.layout.small) c.clear.present = c.index.present = c.layout.flags(workspace.data);
  }
  if (auto ok = build_index(stream, c); !ok) return ok;
  if (p.count() == 0 || p.dim == 0 || p.num_embeddings == 0) return {};
  return with_element(p.element_dtype, [&](auto element) {
    using T = decltype(element);
    SumRows<T> a = sums_into<T>(dweight, c, dout, dout.shape.rank() - 1);
    a.accumulate = p.accumulate;
    return launch_sum<T, SourceKind::plain>(stream, a, p.count());
  });
}

Result<void> embedding_sparse_backward_cuda(const Stream& stream, Workspace workspace,
                                            const EmbeddingProblem& p, const Operands& operands) {
  using O = embedding_operand::SparseBackward;
  if (auto ok = check_size(p); !ok) return ok;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const View &dout = operands[O::dout], &values = operands[O::values];
  IndexCall c = call_of(p, workspace, operands[O::indices], operands[O::bad_indices]);
  c.ordered.rows = static_cast<std::int64_t*>(operands[O::rows].data);
  c.ordered.stride = operands[O::rows].strides[0];
  c.ordered.count = static_cast<std::int64_t*>(operands[O::count].data);
  if (p.count() == 0)
    if (auto ok = cuda_result(cudaMemsetAsync(c.ordered.count, 0, 8, native(stream)),
                              "embedding_sparse_backward");
        !ok)
      return ok;
  if (auto ok = build_index(stream, c); !ok) return ok;
  if (p.count() == 0 || p.dim == 0) return {};
  return with_element(p.element_dtype, [&](auto element) {
    using T = decltype(element);
    SumRows<T> a = sums_into<T>(values, c, dout, dout.shape.rank() - 1);
    a.clear = ClearRows::of(values, sizeof(T));
    a.clear_rest = true;
    return launch_sum<T, SourceKind::plain>(stream, a, p.count());
  });
}

}  // namespace planck
