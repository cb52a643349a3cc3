// cpu:rows: out[n] = weight[indices[n]], bit for bit.
//
// The output is written in order, past the caches where it is large; rows of the table are
// prefetched.
#include "planck/loops/cpu/positions.h"
#include "planck/loops/parallel.h"
#include "planck/loops/table/cpu/entries.h"
#include "planck/loops/table/cpu/row_loops.h"
#include "planck/loops/table/kernels.h"
#include "planck/loops/table/table.math.h"

namespace planck {

namespace {

namespace em = table_math;

constexpr std::int64_t kTaskBytes = 1 << 20, kMostTaskRows = 4096;

// Elements of any strides; T has the element's size.
template <class T>
void copy_elements(const void* from, std::int64_t from_step, void* to, std::int64_t to_step,
                   std::int64_t n) {
  const T* in = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  for (std::int64_t i = 0; i < n; ++i) out[i * to_step] = in == nullptr ? T(0) : in[i * from_step];
}

// One row; from: null for zeros.
void copy_row(const ByteOps& ops, const std::byte* from, std::int64_t from_step, std::byte* to,
              std::int64_t to_step, std::int64_t n, std::size_t element, bool stream) {
  const std::size_t bytes = static_cast<std::size_t>(n) * element;
  if (to_step == 1 && from == nullptr) return ops.zero(to, bytes, stream);
  if (to_step == 1 && from_step == 1) return ops.copy(to, from, bytes, stream);
  if (element == 2) return copy_elements<std::uint16_t>(from, from_step, to, to_step, n);
  if (element == 4) return copy_elements<std::uint32_t>(from, from_step, to, to_step, n);
  copy_elements<std::uint64_t>(from, from_step, to, to_step, n);
}

std::int64_t task_rows(const TableProblem& p) {
  const std::int64_t row_bytes = p.dim * bits(p.element_dtype) / 8;
  return std::clamp<std::int64_t>(kTaskBytes / (row_bytes + 1), 1, kMostTaskRows);
}
std::int64_t task_count(const TableProblem& p) {
  return (p.count() + task_rows(p) - 1) / task_rows(p);
}

}  // namespace

std::size_t read_rows_cpu_workspace(const TableProblem& p) {
  Parts parts;
  parts.take<std::int64_t>(task_count(p));
  return parts.bytes();
}

Result<void> read_rows_cpu(const Stream& stream, Workspace workspace, const TableProblem& p,
                           const Operands& operands) {
  using O = table_operand::Embedding;
  const View &weight = operands[O::weight], &out = operands[O::out];
  const IndexReader indices(operands[O::indices]);
  const PositionMap out_rows(out, p.indices.rank());
  const std::size_t element = storage_bytes(p.element_dtype);
  const auto step = static_cast<std::int64_t>(element);
  const int last = p.indices.rank();
  const std::int64_t from_step = p.dim == 1 ? 1 : weight.strides[1];
  const std::int64_t to_step = p.dim == 1 ? 1 : out.strides[last];
  const std::int64_t row_bytes = p.dim * step;
  const bool streams = p.count() * row_bytes >= static_cast<std::int64_t>(kStreamBytes);
  const bool dense = from_step == 1 && is_contiguous(out.shape, out.strides);
  const auto row_at = [&](std::int64_t index) -> const std::byte* {
    if (!em::is_valid(index, p.num_embeddings, p.padding_idx)) return nullptr;
    return static_cast<const std::byte*>(weight.data) + index * weight.strides[0] * step;
  };

  const ByteOps& ops = byte_ops();
  Parts parts(workspace.data);
  auto* bad = parts.take<std::int64_t>(task_count(p));
  parallel_for(stream, task_count(p), [&](std::int64_t task) {
    const std::int64_t begin = task * task_rows(p);
    const std::int64_t end = std::min(p.count(), begin + task_rows(p));
    const std::byte* rows[kMostTaskRows];
    std::int64_t outside = 0;
    indices.each(begin, end, [&](std::int64_t n, std::int64_t index) {
      outside += em::is_bad(index, p.num_embeddings);
      rows[n - begin] = row_at(index);
    });
    bad[task] = outside;
    if (p.dim == 0) return;
    auto* to = static_cast<std::byte*>(out.data);
    if (dense) return ops.copy_rows(to + begin * row_bytes, rows, end - begin, row_bytes, streams);
    for (std::int64_t n = begin; n < end; ++n)
      copy_row(ops, rows[n - begin], from_step, to + out_rows.offset(n) * step, to_step, p.dim,
               element, streams);
  });
  if (operands[O::bad_indices].present) {
    std::int64_t sum = 0;
    for (std::int64_t t = 0; t < task_count(p); ++t) sum += bad[t];
    *static_cast<std::int64_t*>(operands[O::bad_indices].data) = sum;
  }
  return {};
}

}  // namespace planck
