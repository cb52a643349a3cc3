// cpu:gather: elements by index, bit for bit; cpu:classes: one_hot.
//
// The nest follows the output's memory. Where an index serves a run of elements (index_select), the
// run is copied; rows of a matrix are left to cpu:rows of loops/table, which prefetches them.
#include <algorithm>
#include <cstring>

#include "planck/loops/parallel.h"
#include "planck/loops/table/kernels.h"
#include "planck/ops/index/cpu/elements.h"
#include "planck/ops/index/cpu/kernels.h"

namespace planck {

namespace index_detail {

namespace {

template <class T>
void copy_run(const T* from, std::int64_t from_step, T* to, std::int64_t to_step, std::int64_t n) {
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
  for (std::int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
}
template <class T>
void zero_run(T* to, std::int64_t to_step, std::int64_t n) {
  if (to_step == 1)
    std::memset(to, 0, static_cast<std::size_t>(n) * sizeof(T));
  else
    for (std::int64_t i = 0; i < n; ++i) to[i * to_step] = 0;
}

}  // namespace

void count_bad(const View& index, std::int64_t extent, const BadIndices& bad) {
  std::int64_t count = 0;
  with_index(index.dtype, [&](auto kind) {
    const auto* at = static_cast<const decltype(kind)*>(index.data);
    for (std::int64_t k = 0; k < index.shape[0]; ++k)
      count += outside(at[k * index.strides[0]], extent);
  });
  bad.add(count);
}

void copy_elements(const Stream& stream, const View& from, const View& to) {
  Nest nest = nest_over(to.shape, {to.strides, from.present ? from.strides : to.strides});
  const std::int64_t total = nest.total();
  if (total == 0) return;
  sort_by(nest, 0);
  collapse(nest);
  const auto last = static_cast<std::size_t>(nest.rank - 1);
  with_bytes(to.dtype, [&](auto word) {
    using T = decltype(word);
    parallel_for(stream, task_count(total), [&](std::int64_t task) {
      const std::int64_t begin = task * kTaskItems;
      nest_runs(nest, begin, std::min(kTaskItems, total - begin), [&](const auto& at, auto n) {
        T* out = static_cast<T*>(to.data) + at[0];
        if (from.present)
          copy_run(static_cast<const T*>(from.data) + at[1], nest.stride[1][last], out,
                   nest.stride[0][last], n);
        else
          zero_run(out, nest.stride[0][last], n);
      });
    });
  });
}

}  // namespace index_detail

using namespace index_detail;

namespace {

using Read = index_operand::Read;

// index_select as an embedding: only its element's size counts there.
TableProblem as_embedding(const IndexProblem& p) {
  TableProblem e;
  e.kind = TableOp::read;
  const std::size_t bytes = storage_bytes(p.element_dtype);
  e.element_dtype = bytes == 8 ? Dtype::f64 : bytes == 4 ? Dtype::f32 : Dtype::f16;
  e.num_embeddings = p.extent();
  e.dim = p.inner();
  e.indices = p.index;
  return e;
}

// Whether x and out are matrices with dense rows of some length, indexed by row.
bool copies_rows(const IndexProblem& p, const Operands& o, Operands& rows) {
  constexpr std::int64_t kLeastBytes = 32;
  if (p.kind != IndexKind::index_select || p.element_dtype == Dtype::boolean) return false;
  if (p.inner() * bits(p.element_dtype) / 8 < kLeastBytes || numel(p.x) == 0) return false;
  for (int d = 0; d < p.axis; ++d)
    if (p.x[d] != 1) return false;
  const auto x = as_rows(o[Read::x], p.axis), out = as_rows(o[Read::out], p.axis);
  if (!x || !out || x->strides[1] != 1 || out->strides[1] != 1) return false;
  rows = {*x, o[Read::index], *out, o[Read::bad_indices]};
  return true;
}

template <class T, class I>
struct GatherRun {
  std::int64_t extent, axis_stride;         // of x
  std::int64_t out_step, index_step, step;  // along the run

  // How many of the run's indices are bad.
  std::int64_t operator()(const T* x, const I* index, T* out, std::int64_t n) const {
    if (index_step == 0) {
      if (outside(*index, extent)) return zero_run(out, out_step, n), n;
      return copy_run(x + *index * axis_stride, step, out, out_step, n), 0;
    }
    std::int64_t bad = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t k = index[i * index_step];
      const bool wrong = outside(k, extent);
      bad += wrong;
      out[i * out_step] = wrong ? T(0) : x[i * step + k * axis_stride];
    }
    return bad;
  }
};

}  // namespace

std::size_t index_read_cpu_workspace(const IndexProblem& p) {
  return p.kind == IndexKind::index_select ? read_rows_cpu_workspace(as_embedding(p)) : 0;
}

Result<void> index_read_cpu(const Stream& stream, Workspace workspace, const IndexProblem& p,
                            const Operands& o) {
  Operands rows;
  if (copies_rows(p, o, rows)) return read_rows_cpu(stream, workspace, as_embedding(p), rows);
  const View &x = o[Read::x], &index = o[Read::index], &out = o[Read::out];
  const BadIndices bad(o[Read::bad_indices]);
  const bool slices = p.by_slice();
  if (slices && o[Read::bad_indices].present) count_bad(index, p.extent(), bad);
  Nest nest =
      nest_over(out.shape, {out.strides, index_strides(p, index), without_axis(x.strides, p.axis)});
  const std::int64_t total = nest.total();
  if (total == 0) return {};
  sort_by(nest, 0);
  collapse(nest);
  const auto last = static_cast<std::size_t>(nest.rank - 1);
  with_bytes(p.element_dtype, [&](auto word) {
    with_index(index.dtype, [&](auto kind) {
      using T = decltype(word);
      using I = decltype(kind);
      const GatherRun<T, I> run = {p.extent(), x.strides[p.axis], nest.stride[0][last],
                                   nest.stride[1][last], nest.stride[2][last]};
      parallel_for(stream, task_count(total), [&](std::int64_t task) {
        const std::int64_t begin = task * kTaskItems;
        std::int64_t wrong = 0;
        nest_runs(nest, begin, std::min(kTaskItems, total - begin), [&](const auto& at, auto n) {
          wrong +=
              run(static_cast<const T*>(x.data) + at[2], static_cast<const I*>(index.data) + at[1],
                  static_cast<T*>(out.data) + at[0], n);
        });
        if (!slices) bad.add(wrong);
      });
    });
  });
  return {};
}

namespace {

// The bits of 1.
std::uint64_t one_of(Dtype t) {
  switch (t) {
    case Dtype::f64:
      return std::bit_cast<std::uint64_t>(1.0);
    case Dtype::f32:
      return std::bit_cast<std::uint32_t>(1.0f);
    case Dtype::f16:
      return f16(1.0f).bits;
    case Dtype::bf16:
      return bf16(1.0f).bits;
    default:
      return 1;
  }
}

}  // namespace

Result<void> index_one_hot_cpu(const Stream& stream, Workspace, const IndexProblem& p,
                               const Operands& o) {
  using O = index_operand::OneHot;
  const View &index = o[O::index], &out = o[O::out];
  const BadIndices bad(o[O::bad_indices]);
  copy_elements(stream, View{}, out);
  Strides heads;
  for (int d = 0; d < p.index.rank(); ++d) heads.push_back(out.strides[d]);
  Nest nest = nest_over(p.index, {heads, index.strides});
  const std::int64_t total = nest.total();
  if (total == 0) return {};
  collapse(nest);
  const auto last = static_cast<std::size_t>(nest.rank - 1);
  const std::int64_t class_stride = out.strides[p.index.rank()];
  with_bytes(p.element_dtype, [&](auto word) {
    with_index(index.dtype, [&](auto kind) {
      using T = decltype(word);
      using I = decltype(kind);
      const auto one = static_cast<T>(one_of(p.element_dtype));
      parallel_for(stream, task_count(total), [&](std::int64_t task) {
        const std::int64_t begin = task * kTaskItems;
        std::int64_t wrong = 0;
        nest_runs(nest, begin, std::min(kTaskItems, total - begin), [&](const auto& at, auto n) {
          for (std::int64_t i = 0; i < n; ++i) {
            const std::int64_t c =
                static_cast<const I*>(index.data)[at[1] + i * nest.stride[1][last]];
            wrong += outside(c, p.classes);
            if (!outside(c, p.classes))
              static_cast<T*>(out.data)[at[0] + i * nest.stride[0][last] + c * class_stride] = one;
          }
        });
        bad.add(wrong);
      });
    });
  });
  return {};
}

}  // namespace planck
