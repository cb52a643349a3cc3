// "cuda:sorted_rows": the gradient of a table, dense or row-sparse.
//
// A stable sort of the indices on the bits that they need (sort_pass.cuh) puts the entries of a row
// side by side; make_items.cuh cuts them into work, and sum_rows.cuh adds them up in the canonical
// order and clears the rows that have none.
//
// Versions, backward, ms on one H200:
//   a: V    50,257  D   768  N    65,536  f32
//   b: V   128,256  D 4,096  N    16,384  bf16
//   c: V 1,000,000  D    64  N      2^20  f32
//
//   a                        b      c
//   uniform  Zipf   one row  Zipf   Zipf   one row
//   0.226    0.228  0.164    0.383  0.460  0.249    rows in registers, one counter for all work
//   0.150    0.176  0.136    0.345  0.331  0.234    a counter for each of 32 groups of blocks
//   0.142    0.174  0.130    0.341  0.358  0.220    rows through shared memory; ballots, not
//                                                   match_any
//   0.132    0.166  0.142    0.338  0.256  0.216    sorted tiles written in runs; flags from the
//                                                   sorted list
//   0.138    0.141  0.134    0.328  0.247  0.217    rows of more than 16 entries one by one
// Clearing rows while the sort runs cost as much as it saved: the sort waits for memory.
#include "planck/loops/table/cuda/add_rows.cuh"
#include "planck/loops/table/kernels.h"

namespace planck {

using namespace table_device;

namespace {

IndexCall call_of(const TableProblem& p, Workspace workspace, const View& indices,
                  const View& bad) {
  IndexCall c;
  c.layout = SortedIndexLayout::of_rows(p);
  c.index = sorted_index(c.layout, workspace.data);
  c.keys.indices = Integers::of(indices);
  c.keys.rows = p.num_embeddings;
  c.keys.padding = p.padding_idx;
  c.keys.wide = c.layout.wide;
  c.index.indices = c.keys.indices;
  c.bad = counter_of(bad);
  return c;
}

}  // namespace

Result<void> add_rows_cuda(const Stream& stream, Workspace workspace, const TableProblem& p,
                           const Operands& operands) {
  using O = table_operand::Backward;
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

Result<void> add_sparse_rows_cuda(const Stream& stream, Workspace workspace, const TableProblem& p,
                                  const Operands& operands) {
  using O = table_operand::SparseBackward;
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
