#include "planck/optim/step/step.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "planck/backend/faults.h"
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

std::int64_t tasks_of(std::int64_t count) { return (count + kTask - 1) / kTask; }

// The first task of each tensor, and the number of all tasks.
template <class Count>
std::vector<std::int64_t> first_tasks(std::size_t tensors, const Count& count) {
  std::vector<std::int64_t> first(tensors + 1);
  for (std::size_t i = 0; i < tensors; ++i) first[i + 1] = first[i] + tasks_of(count(i));
  return first;
}
// Calls f(tensor, begin, n, task) for ranges of at most kTask elements of every tensor.
template <class Count, class F>
void for_ranges(const Stream& stream, std::span<const std::int64_t> first, const Count& count,
                const F& f) {
  parallel_for(stream, first.back(), [&](std::int64_t task) {
    const auto after = std::upper_bound(first.begin(), first.end(), task);
    const auto i = static_cast<std::size_t>(after - first.begin() - 1);
    const std::int64_t begin = (task - first[i]) * kTask;
    f(i, begin, std::min(kTask, count(i) - begin), static_cast<std::size_t>(task));
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

// Σ x² of one tensor from its partial sums, in their canonical order; they are overwritten.
template <class C>
double joined(std::span<C> partials) {
  if (partials.empty()) return 0;
  return static_cast<double>(
      reduce_sums<C>().tree(Join::add, partials.data(), static_cast<int>(partials.size())));
}

std::span<double> numbers(const StoredView& t) {
  return {static_cast<double*>(t.view.data), static_cast<std::size_t>(numel(t.shape()))};
}

}  // namespace

Steps::Steps(const Stream& stream, std::vector<StepRow> rows, const double* norm)
    : stream_(stream), rows_(std::move(rows)), norm_(norm) {
  if (on_cpu(stream_))
    first_ = first_tasks(rows_.size(), [&](std::size_t i) { return rows_[i].count; });
}
void Steps::run() const {
  if (!on_cpu(stream_))
    return value_or_throw(step_cuda(stream_, rows_, backend_detail::veto(stream_), norm_));
  if (norm_ != nullptr && !std::isfinite(*norm_)) return;
  for_ranges(
      stream_, first_, [&](std::size_t i) { return rows_[i].count; },
      [&](std::size_t i, std::int64_t begin, std::int64_t n, std::size_t) {
        step_range(rows_[i], begin, n);
      });
}
void run_steps(const Stream& stream, std::vector<StepRow> rows) {
  Steps(stream, std::move(rows)).run();
}

Squares::Squares(const Stream& stream, std::span<const StoredView> tensors) : stream_(stream) {
  for (const StoredView& t : tensors) dense_.push_back(backend_detail::contiguous(t));
  out_ = StoredView::empty(stream, Dtype::f64, {static_cast<std::int64_t>(tensors.size())});
  if (on_cpu(stream)) {
    first_ = first_tasks(dense_.size(), [&](std::size_t i) { return numel(dense_[i].shape()); });
    wide_.resize(static_cast<std::size_t>(first_.back()));
    narrow_.resize(wide_.size());
    return;
  }
  for (const StoredView& t : dense_) rows_.push_back({t.view.data, numel(t.shape()), t.dtype()});
  workspace_ = Storage::allocate(stream, squares_workspace(rows_));
}

void Squares::run_on_cpu() {
  const auto count = [&](std::size_t i) { return numel(dense_[i].shape()); };
  for_ranges(stream_, first_, count,
             [&](std::size_t i, std::int64_t begin, std::int64_t n, std::size_t task) {
               if (dense_[i].dtype() == Dtype::f64)
                 wide_[task] = partial<double>(dense_[i].view, begin, n);
               else
                 narrow_[task] = partial<float>(dense_[i].view, begin, n);
             });
  for (std::size_t i = 0; i < dense_.size(); ++i) {
    const auto begin = static_cast<std::size_t>(first_[i]),
               parts = static_cast<std::size_t>(first_[i + 1]) - begin;
    const std::span wide = std::span(wide_).subspan(begin, parts);
    const bool f64 = dense_[i].dtype() == Dtype::f64;
    double& squares = numbers(out_)[i];
    squares = f64 ? joined(wide) : joined(std::span(narrow_).subspan(begin, parts));
    if (f64 || usual_squares(squares) || parts == 0) continue;
    parallel_for(stream_, static_cast<std::int64_t>(parts), [&](std::int64_t part) {
      const std::int64_t at = part * kTask;
      wide[static_cast<std::size_t>(part)] =
          wide_partial(dense_[i].view, at, std::min(kTask, count(i) - at));
    });
    squares = joined(wide);
  }
}

const StoredView& Squares::run() {
  if (on_cpu(stream_))
    run_on_cpu();
  else
    value_or_throw(
        squares_cuda(stream_, rows_, workspace_->data(), static_cast<double*>(out_.view.data)));
  return out_;
}
StoredView squares_of(const Stream& stream, std::span<const StoredView> tensors) {
  return Squares(stream, tensors).run();
}

StoredView Squares::norm_and_factor(double highest, double scale, const double* scale_there) {
  auto out = StoredView::empty(stream_, Dtype::f64, {2});
  auto *to = static_cast<double*>(out.view.data), *squares = static_cast<double*>(out_.view.data);
  if (!on_cpu(stream_)) {
    value_or_throw(
        clip_cuda(stream_, rows_, workspace_->data(), squares, {highest, scale, scale_there}, to));
    return out;
  }
  run_on_cpu();
  norm_and_factor_math(squares, numel(out_.shape()), highest, scale, to);
  return out;
}

void adapt_there(const Stream& stream, const LossScaleOptions& options, const double* norm,
                 LossScaleState* state) {
  value_or_throw(adapt_cuda(stream, options, norm, state));
}

void ratios_of(const StoredView& a, const StoredView& b, const StoredView& out) {
  const Stream& stream = out.stream();
  auto* to = static_cast<double*>(out.view.data);
  const auto *x = static_cast<const double*>(a.view.data),
             *y = static_cast<const double*>(b.view.data);
  if (!on_cpu(stream)) return value_or_throw(ratios_cuda(stream, x, y, numel(a.shape()), to));
  for (std::int64_t i = 0; i < numel(a.shape()); ++i) to[i] = norm_ratio(x[i], y[i]);
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

StoredView copied(const StoredView& t) {
  auto own = StoredView::empty(t.stream(), t.dtype(), t.shape());
  backend_detail::copy(t.view, own.view, t.stream());
  return own;
}
void make_own(StoredView& t) {
  if (!t.storage->writable() || !is_contiguous(t.shape(), t.view.strides)) t = copied(t);
}

}  // namespace planck::optim
