#include "planck/optim/step/step.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "planck/backend/planned.h"
#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"
#include "planck/loops/parallel.h"
#include "planck/loops/rows/cpu/reduce.h"
#include "planck/optim/step/cpu/kernels.h"
#include "planck/optim/step/cuda/kernels.h"

namespace planck::optim {

namespace {

constexpr std::int64_t kTask = 1 << 16;  // elements of a task, and of a partial sum

bool on_cpu(const Stream& stream) { return stream.device().kind == DeviceKind::cpu; }

// Calls f(tensor, begin, n, task) for ranges of at most kTask elements of every tensor.
template <class Count, class F>
void for_ranges(const Stream& stream, std::size_t tensors, const Count& count, const F& f) {
  std::vector<std::int64_t> first(tensors + 1);  // task of each tensor
  for (std::size_t i = 0; i < tensors; ++i)
    first[i + 1] = first[i] + (count(i) + kTask - 1) / kTask;
  parallel_for(stream, first[tensors], [&](std::int64_t task) {
    const auto after = std::upper_bound(first.begin(), first.end(), task);
    const auto i = static_cast<std::size_t>(after - first.begin() - 1);
    const std::int64_t begin = (task - first[i]) * kTask;
    f(i, begin, std::min(kTask, count(i) - begin), task);
  });
}

template <class C>
C partial(const View& t, std::int64_t begin, std::int64_t n) {
  const auto* at = static_cast<const std::byte*>(t.data) +
                   begin * static_cast<std::int64_t>(storage_bytes(t.dtype));
  return reduce_sums<C>().row({Join::add, Lift::square}, Source{at, t.dtype}, n, C(0));
}

// In f64, of narrower floats.
double wide_partial(const View& t, std::int64_t begin, std::int64_t n) {
  reduce_math::JoinCounter<reduce_math::Add, double> sum;
  float narrow[kPortion];
  double squares[kPortion];
  for (std::int64_t i = 0; i < n; i += kPortion) {
    const int m = static_cast<int>(std::min<std::int64_t>(kPortion, n - i));
    portion_ops().load_f32(t.dtype, t.data, begin + i, 1, m, narrow);
    for (int k = 0; k < m; ++k) squares[k] = static_cast<double>(narrow[k]) * narrow[k];
    sum.add(reduce_sums<double>().tree(Join::add, squares, m));
  }
  return sum.result();
}

// Σ x² of one tensor from its partial sums, in their canonical order.
template <class C>
double joined(std::vector<C> partials) {
  if (partials.empty()) return 0;
  return static_cast<double>(
      reduce_sums<C>().tree(Join::add, partials.data(), static_cast<int>(partials.size())));
}

std::vector<double> cpu_squares(const Stream& stream, std::span<const StoredView> tensors) {
  const auto count = [&](std::size_t i) { return numel(tensors[i].shape()); };
  std::vector<std::vector<double>> wide(tensors.size());
  std::vector<std::vector<float>> narrow(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto parts = static_cast<std::size_t>((count(i) + kTask - 1) / kTask);
    tensors[i].dtype() == Dtype::f64 ? wide[i].resize(parts) : narrow[i].resize(parts);
  }
  for_ranges(stream, tensors.size(), count,
             [&](std::size_t i, std::int64_t begin, std::int64_t n, std::int64_t) {
               const auto part = static_cast<std::size_t>(begin / kTask);
               if (tensors[i].dtype() == Dtype::f64)
                 wide[i][part] = partial<double>(tensors[i].view, begin, n);
               else
                 narrow[i][part] = partial<float>(tensors[i].view, begin, n);
             });
  std::vector<double> squares(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool f64 = tensors[i].dtype() == Dtype::f64;
    squares[i] = f64 ? joined(std::move(wide[i])) : joined(std::move(narrow[i]));
    if (f64 || usual_squares(squares[i]) || count(i) == 0) continue;
    wide[i].resize(static_cast<std::size_t>((count(i) + kTask - 1) / kTask));
    for_ranges(
        stream, 1, [&](std::size_t) { return count(i); },
        [&](std::size_t, std::int64_t begin, std::int64_t n, std::int64_t) {
          wide[i][static_cast<std::size_t>(begin / kTask)] =
              wide_partial(tensors[i].view, begin, n);
        });
    squares[i] = joined(std::move(wide[i]));
  }
  return squares;
}

std::span<double> numbers(const StoredView& t) {
  return {static_cast<double*>(t.view.data), static_cast<std::size_t>(numel(t.shape()))};
}

}  // namespace

void run_steps(const Stream& stream, std::span<const StepRow> rows) {
  if (!on_cpu(stream)) return value_or_throw(step_cuda(stream, rows));
  for_ranges(
      stream, rows.size(), [&](std::size_t i) { return rows[i].count; },
      [&](std::size_t i, std::int64_t begin, std::int64_t n, std::int64_t) {
        step_range(rows[i], begin, n);
      });
}

StoredView squares_of(const Stream& stream, std::span<const StoredView> tensors) {
  std::vector<StoredView> dense;
  for (const StoredView& t : tensors) dense.push_back(backend_detail::contiguous(t));
  auto out = StoredView::empty(stream, Dtype::f64, {static_cast<std::int64_t>(tensors.size())});
  if (on_cpu(stream)) {
    std::ranges::copy(cpu_squares(stream, dense), numbers(out).begin());
    return out;
  }
  std::vector<SquareRow> rows;
  for (const StoredView& t : dense) rows.push_back({t.view.data, numel(t.shape()), t.dtype()});
  const auto workspace = Storage::allocate(stream, squares_workspace(rows));
  value_or_throw(
      squares_cuda(stream, rows, workspace->data(), static_cast<double*>(out.view.data)));
  return out;
}

StoredView norm_and_factor(const StoredView& squares, double highest, double scale) {
  const Stream stream = squares.stream();
  auto out = StoredView::empty(stream, Dtype::f64, {2});
  auto* to = static_cast<double*>(out.view.data);
  const auto* from = static_cast<const double*>(squares.view.data);
  if (on_cpu(stream))
    norm_and_factor_math(from, numel(squares.shape()), highest, scale, to);
  else
    value_or_throw(norm_and_factor_cuda(stream, from, numel(squares.shape()), highest, scale, to));
  return out;
}

StoredView ratios_of(const StoredView& a, const StoredView& b) {
  const Stream stream = a.stream();
  auto out = StoredView::empty(stream, Dtype::f64, a.shape());
  auto* to = static_cast<double*>(out.view.data);
  const auto *x = static_cast<const double*>(a.view.data),
             *y = static_cast<const double*>(b.view.data);
  if (!on_cpu(stream)) {
    value_or_throw(ratios_cuda(stream, x, y, numel(a.shape()), to));
    return out;
  }
  for (std::int64_t i = 0; i < numel(a.shape()); ++i) to[i] = norm_ratio(x[i], y[i]);
  return out;
}

void put_rows(const StoredView& table, const StoredView& at, const StoredView& values) {
  const StoredView rows = backend_detail::contiguous(at);
  const std::int64_t count = numel(rows.shape()), all = table.shape()[0];
  if (count == 0) return;
  const auto bytes = bytes_for(table.dtype(), numel(values.shape()) / count);
  const auto* index = static_cast<const std::int64_t*>(rows.view.data);
  if (!on_cpu(table.stream()))
    return value_or_throw(put_rows_cuda(table.stream(), table.view.data, index, values.view.data,
                                        count, all, static_cast<std::int64_t>(bytes)));
  auto* to = static_cast<std::byte*>(table.view.data);
  const auto* from = static_cast<const std::byte*>(values.view.data);
  for (std::int64_t k = 0; k < count; ++k)
    if (index[k] >= 0 && index[k] < all)
      std::memcpy(to + static_cast<std::size_t>(index[k]) * bytes,
                  from + static_cast<std::size_t>(k) * bytes, bytes);
}

void make_own(StoredView& t) {
  if (t.storage->writable() && is_contiguous(t.shape(), t.view.strides)) return;
  auto own = StoredView::empty(t.stream(), t.dtype(), t.shape());
  backend_detail::copy(t.view, own.view, t.stream());
  t = std::move(own);
}

}  // namespace planck::optim
