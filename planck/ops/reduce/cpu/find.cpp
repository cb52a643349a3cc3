// argmax and argmin on the CPU. A better key, or the same with a smaller index, wins: the order in
// which parts are joined does not matter.
#include <algorithm>

#include "planck/loops/parallel.h"
#include "planck/ops/reduce/cpu/input.h"
#include "planck/ops/reduce/cpu/kernels.h"
#include "planck/ops/reduce/cpu/store.h"
#include "planck/ops/reduce/cpu/task.h"
#include "planck/ops/reduce/host/finish.h"
#include "planck/ops/reduce/host/layout.h"

namespace planck {

namespace {

namespace rm = reduce_math;

template <class C>
void find_rows(const Stream& stream, const ReduceLayout& layout, rm::KeyOf<C> flip,
               const ReduceInput<C>& input, typename FindLoops<C>::Found* partials,
               const ResultStore<std::int64_t>& store) {
  using Found = typename FindLoops<C>::Found;
  const auto part = [&](std::int64_t group, std::int64_t begin, std::int64_t n) {
    const std::int64_t at = group * layout.length + begin;
    Found best{0, -1};
    if (const void* here = input.in_place(at, n))
      return find_loops<C>().row(flip, {here, input.x.dtype}, n, begin, best);
    alignas(64) C buffer[kPortion];
    for (std::int64_t i = 0; i < n; i += kPortion) {
      const int m = static_cast<int>(std::min<std::int64_t>(kPortion, n - i));
      best = find_loops<C>().row(flip, input.gathered(at + i, m, buffer), m, begin + i, best);
    }
    return best;
  };
  const std::int64_t chunks = row_chunks(layout.length);
  if (chunks > 1)
    parallel_for(stream, layout.groups * chunks, [&](std::int64_t task) {
      const std::int64_t begin = task % chunks * kReduceTask;
      partials[task] = part(task / chunks, begin, std::min(kReduceTask, layout.length - begin));
    });
  const std::int64_t together =
      std::clamp<std::int64_t>(kReduceTask / (chunks > 1 ? chunks : layout.length), 1, kPortion);
  parallel_for(stream, ceil_div(layout.groups, together), [&](std::int64_t task) {
    std::int64_t indices[kPortion];
    const std::int64_t first = task * together;
    const int count = static_cast<int>(std::min(together, layout.groups - first));
    for (int g = 0; g < count; ++g) {
      const std::int64_t group = first + g;
      Found best = chunks > 1 ? partials[group * chunks] : part(group, 0, layout.length);
      for (std::int64_t c = 1; c < chunks; ++c)
        best = rm::better(best, partials[group * chunks + c]);
      indices[g] = best.index;
    }
    store(first, count, indices);
  });
}

// The best of rows [begin, end) in each of n columns from `base` on.
template <class C>
struct Columns {
  alignas(64) rm::KeyOf<C> keys[kReduceColumns];
  alignas(64) std::int64_t indices[kReduceColumns];

  Columns(rm::KeyOf<C> flip, const Walk& down, const std::byte* base, Dtype dtype,
          std::int64_t begin, std::int64_t end, int n) {
    std::fill_n(keys, n, rm::kLeastKey<rm::KeyOf<C>>);
    std::fill_n(indices, n, -1);
    const auto size = static_cast<std::int64_t>(storage_bytes(dtype));
    const std::int64_t ahead =
        kReduceRows * size * down.stride[static_cast<std::size_t>(down.rank - 1)];
    Source rows[kReduceRows];
    int held = 0;
    const auto flush = [&] {
      find_loops<C>().columns(flip, rows, held, n, begin, keys, indices);
      begin += held;
      held = 0;
    };
    down.runs(begin, end - begin, [&](std::int64_t offset, std::int64_t stride, std::int64_t m) {
      for (std::int64_t i = 0; i < m; ++i) {
        rows[held++] = {base + (offset + i * stride) * size, dtype, ahead};
        if (held == kReduceRows) flush();
      }
    });
    if (held > 0) flush();
  }
};

template <class C>
void find_columns(const Stream& stream, const ReduceLayout& layout, rm::KeyOf<C> flip,
                  const ReduceInput<C>& input, typename FindLoops<C>::Found* partials,
                  const ResultStore<std::int64_t>& store) {
  const std::int64_t inner = layout.inner(), tiles = ceil_div(inner, kReduceColumns);
  const std::int64_t rows = column_rows(layout.groups, layout.length);
  const std::int64_t chunks = ceil_div(layout.length, rows);
  const Walk kept = walk_of(layout.kept, 0);
  const auto size = static_cast<std::int64_t>(storage_bytes(input.x.dtype));
  parallel_for(stream, layout.groups / inner * chunks * tiles, [&](std::int64_t task) {
    const std::int64_t column = task % tiles * kReduceColumns, chunk = task / tiles % chunks;
    const std::int64_t group = task / tiles / chunks * inner + column;
    const int n = static_cast<int>(std::min<std::int64_t>(kReduceColumns, inner - column));
    std::int64_t start = 0;
    kept.runs(group, 1, [&](std::int64_t offset, std::int64_t, std::int64_t) { start = offset; });
    const Columns<C> best(flip, layout.reduced,
                          static_cast<const std::byte*>(input.x.base) + start * size, input.x.dtype,
                          chunk * rows, std::min(layout.length, (chunk + 1) * rows), n);
    if (chunks == 1) return store(group, n, best.indices);
    for (int j = 0; j < n; ++j)
      partials[chunk * layout.groups + group + j] = {best.keys[j], best.indices[j]};
  });
  if (chunks == 1) return;
  parallel_for(stream, ceil_div(layout.groups, kPortion), [&](std::int64_t task) {
    const std::int64_t first = task * kPortion;
    const int n = static_cast<int>(std::min<std::int64_t>(kPortion, layout.groups - first));
    std::int64_t indices[kPortion];
    for (int j = 0; j < n; ++j) {
      auto best = partials[first + j];
      for (std::int64_t c = 1; c < chunks; ++c)
        best = rm::better(best, partials[c * layout.groups + first + j]);
      indices[j] = best.index;
    }
    store(first, n, indices);
  });
}

template <class C>
void find(const Stream& stream, const ReduceProblem& p, const Operands& operands, void* workspace) {
  const ReduceLayout layout = ReduceLayout::make(p, operands[0], operands[1]);
  if (layout.groups == 0) return;
  const ReduceInput<C> input(operands[0], layout.positions());
  const ResultStore<std::int64_t> store{operands[1].data, Dtype::i64, walk_of(layout.kept, 1)};
  const auto flip = rm::make_finish<C>(p).flip;
  auto* partials = static_cast<typename FindLoops<C>::Found*>(workspace);
  if (layout.columns)
    find_columns<C>(stream, layout, flip, input, partials, store);
  else
    find_rows<C>(stream, layout, flip, input, partials, store);
}

}  // namespace

std::size_t find_cpu_workspace(const ReduceProblem& p) {
  if (p.outputs() == 0 || p.reduced() == 0) return 0;
  const std::int64_t chunks = std::max(
      row_chunks(p.reduced()), ceil_div(p.reduced(), column_rows(p.outputs(), p.reduced())));
  return chunks > 1 ? static_cast<std::size_t>(p.outputs() * chunks) * 16 : 0;
}

Result<void> find_cpu(const Stream& stream, Workspace workspace, const ReduceProblem& p,
                      const Operands& operands) {
  switch (p.element_dtype) {
    case Dtype::f64:
      find<double>(stream, p, operands, workspace.data);
      break;
    case Dtype::i64:
      find<std::int64_t>(stream, p, operands, workspace.data);
      break;
    case Dtype::i32:
      find<std::int32_t>(stream, p, operands, workspace.data);
      break;
    default:
      find<float>(stream, p, operands, workspace.data);
  }
  return {};
}

}  // namespace planck
