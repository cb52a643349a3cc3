#include "planck/ops/index/host/sums.h"

#include "planck/loops/table/kernels.h"
#include "planck/ops/index/cpu/kernels.h"
#include "planck/ops/index/cuda/kernels.h"

namespace planck {

namespace index_detail {

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

View dense(void* data, Dtype dtype, const Shape& shape) {
  return {data, dtype, shape, row_major(shape), true};
}

// The source as the gradient of rows: its leading axes as they are, its columns as one.
std::optional<View> source_rows(const View& source, int split) {
  const auto columns = merged_axes(source, split, source.shape.rank());
  if (!columns) return std::nullopt;
  View v{source.data, source.dtype, {}, {}, true};
  for (int d = 0; d < split; ++d) {
    if (source.shape[d] == 1) continue;
    const int last = v.shape.rank() - 1;
    if (last >= 0 && v.strides[last] == source.strides[d] * source.shape[d]) {
      v.shape[last] *= source.shape[d];
      v.strides[last] = source.strides[d];
      continue;
    }
    if (v.shape.rank() == kMaxRank - 1) return std::nullopt;
    v.shape.push_back(source.shape[d]);
    v.strides.push_back(source.strides[d]);
  }
  if (v.shape.rank() == 0) {
    v.shape.push_back(1);
    v.strides.push_back(1);
  }
  v.shape.push_back(columns->extent);
  v.strides.push_back(columns->stride);
  return v;
}

}  // namespace

SumPlan::SumPlan(const IndexProblem& p, std::size_t (*embedding_workspace)(const TableProblem&)) {
  split = p.by_slice() ? p.axis + 1 : p.x.rank();
  const Shape items = p.items();
  std::int64_t rows = 1, entries = 1, columns = 1, before = 1;
  for (int d = 0; d < split; ++d) {
    rows *= p.x[d];
    entries *= items[d];
    if (d < p.axis) before *= p.x[d];
  }
  for (int d = split; d < p.x.rank(); ++d) columns *= p.x[d];
  makes_keys = p.by_slice() ? before != 1 : p.x.rank() > 1;
  key_dtype = rows > INT32_MAX ? Dtype::i64 : Dtype::i32;

  embedding.kind = TableOp::add;
  embedding.element_dtype = p.element_dtype;
  embedding.num_embeddings = rows;
  embedding.dim = columns;
  embedding.indices = {entries};
  embedding.accumulate = p.with_x;

  bytes = aligned(embedding_workspace(embedding));
  const auto take = [&](bool wanted, Dtype t, std::int64_t n) {
    const std::size_t begin = bytes;
    if (wanted) bytes += aligned(bytes_for(t, n));
    return begin;
  };
  keys = take(makes_keys, key_dtype, entries);
  const bool one_column_axis = p.x.rank() - split <= 1;
  out = take(split > 1 || !one_column_axis, p.element_dtype, numel(p.x));
  source = take(!one_column_axis || split == kMaxRank, p.element_dtype, numel(items));
}

SumPlan::Keys SumPlan::key_nest(const IndexProblem& p, const View& index) const {
  Keys k;
  const Strides all = index_strides(p, index);
  const Shape items = p.items();
  Shape rows;
  for (int d = 0; d < split; ++d) {
    rows.push_back(p.x[d]);
    k.shape.push_back(items[d]);
    k.index.push_back(all[d]);
  }
  k.base = row_major(rows);
  k.axis_stride = k.base[p.axis];
  k.base[p.axis] = 0;
  return k;
}

Operands SumPlan::operands(const IndexProblem& p, const Operands& o, Workspace workspace,
                           Copies& copied) const {
  using W = index_operand::Write;
  auto* base = static_cast<std::byte*>(workspace.data);
  const Shape matrix = {embedding.num_embeddings, embedding.dim};
  auto rows = as_rows(o[W::out], split - 1);
  if (rows && rows->shape != matrix) rows.reset();  // an empty axis on either side
  copied.out = !rows && numel(p.x) > 0;
  if (!rows) rows = dense(copied.out ? base + out : o[W::out].data, p.element_dtype, matrix);
  auto from = source_rows(o[W::source], split);
  const Shape items = {embedding.count(), embedding.dim};
  if (from && numel(items) == 0) from = dense(o[W::source].data, p.element_dtype, items);
  copied.source = !from && numel(items) > 0;
  if (!from) from = dense(copied.source ? base + source : nullptr, p.element_dtype, items);
  View key_view = o[W::index];
  if (makes_keys) key_view = dense(base + keys, key_dtype, {embedding.count()});
  Operands e;
  e[table_operand::Backward::dout] = *from;
  e[table_operand::Backward::indices] = key_view;
  e[table_operand::Backward::dweight] = *rows;
  if (!p.by_slice() || !makes_keys) e[table_operand::Backward::bad_indices] = o[W::bad_indices];
  return e;
}

}  // namespace index_detail

using index_detail::SumPlan;

std::size_t index_sums_cpu_workspace(const IndexProblem& p) {
  return SumPlan(p, add_rows_cpu_workspace).bytes;
}
std::size_t index_sums_cuda_workspace(const IndexProblem& p) {
  return SumPlan(p, add_rows_cuda_workspace).bytes;
}
std::string index_sums_cuda_refusal(const IndexProblem& p) {
  if (!is_float(p.element_dtype)) return "integers are added by cuda:integer_atomics";
  return table_cuda_refusal(
      SumPlan(p, [](const TableProblem&) { return std::size_t{0}; }).embedding);
}

}  // namespace planck
