// cpu:running. Chunks of 32 start anew, so that the processor works on all chunks of a buffer at
// once although each is a chain of additions; their totals are a running sum of their own. Where a
// kept axis is the dense one, 1,024 groups go down the rows together.
//
// f32 [8192, 8192], two threads, share of the ceiling:              axis 1  axis 0
//   a chunk or a row at a time                                        0.35    0.23
//   dense f32 in vectors and past the caches (running_loops.cpp)      0.9     1.0
#include <algorithm>
#include <array>

#include "planck/loops/parallel.h"
#include "planck/ops/reduce/cpu/input.h"
#include "planck/ops/reduce/cpu/kernels.h"
#include "planck/ops/reduce/cpu/running_loops.h"
#include "planck/ops/reduce/cpu/store.h"
#include "planck/ops/reduce/host/layout.h"

namespace planck {

namespace {

template <class C>
C plus(C a, C b) {
  return static_cast<C>(static_cast<Running<C>>(a) + static_cast<Running<C>>(b));
}
template <class C>
C result_of(C value) {
  if constexpr (std::is_floating_point_v<C>)
    return reduce_math::canonical(value);
  else
    return value;
}

// One group: buffers of whole chunks, but for the last.
template <class C>
class RunningRow {
 public:
  void add(const C* in, std::int64_t n, C* out, bool stream = false) {
    std::int64_t done = 0;
    if constexpr (std::is_same_v<C, float>)
      if (running_loops() != nullptr) done = running_loops()->sum_row(in, n, totals_, out, stream);
    for (; done < n; done += kPortion) {
      const int m = static_cast<int>(std::min<std::int64_t>(kPortion, n - done));
      if (in != out) std::copy_n(in + done, m, out + done);
      replace(out + done, m);
    }
  }

 private:
  void replace(C* values, int n) {
    const int whole = n / kRunningChunk, rest = whole * kRunningChunk;
    for (int k = 1; k < kRunningChunk; ++k)
      for (int b = 0; b < whole; ++b) {
        C* here = values + b * kRunningChunk + k;
        *here = plus(here[-1], *here);
      }
    for (int i = rest + 1; i < n; ++i) values[i] = plus(values[i - 1], values[i]);
    for (int i = 0; i < n; i += kRunningChunk) {
      const int m = std::min(kRunningChunk, n - i);
      const C total = values[i + m - 1];
      for (int k = i; k < i + m; ++k) values[k] = result_of(plus(totals_.before, values[k]));
      totals_.add(total);
    }
  }
  RunningTotals<C> totals_;
};

// Several groups side by side: RunningSum with arrays for numbers.
template <class C>
class RunningColumns {
 public:
  static constexpr int kWidth = 1024;
  explicit RunningColumns(int n) : n_(n) {
    clear(local_[0]);
    clear(before_[0]);
  }

  // The sums up to and with this row.
  void add(const C* row, C* out) {
    add_to(0, row, out);
    count_rows(0, 1);
  }
  // Of rows that do not go beyond a chunk, in vectors.
  void add_rows(DenseRows<const C> in, int count, DenseRows<C> out, bool stream) {
    if constexpr (std::is_same_v<C, float>)
      running_loops()->sum_down(in, count, n_, local_[0], before_[0], out, stream);
    count_rows(0, count);
  }

 private:
  static constexpr int kLevels = 9;
  void clear(C* values) { std::fill_n(values, n_, reduce_math::Add::nothing<C>()); }

  void add_to(std::size_t level, const C* values, C* out) {
    C *local = local_[level], *before = before_[level];
    for (int j = 0; j < n_; ++j) local[j] = plus(local[j], values[j]);
    for (int j = 0; j < n_; ++j) out[j] = plus(before[j], local[j]);
  }
  void count_rows(std::size_t level, int rows) {
    count_[level] += rows;
    if (count_[level] < kRunningChunk || level + 1 == kLevels) return;
    const std::size_t next = level + 1;
    if (next == levels_) {
      clear(local_[next]);
      clear(before_[next]);
      ++levels_;
    }
    add_to(next, local_[level], before_[level]);
    clear(local_[level]);
    count_[level] = 0;
    count_rows(next, 1);
  }
  int n_;
  std::size_t levels_ = 1;  // that are set
  std::array<int, kLevels> count_{};
  alignas(64) C local_[kLevels][kWidth], before_[kLevels][kWidth];
};

template <class C>
struct Lines {
  const ReduceProblem& p;
  const Operands& operands;
  ReduceLayout layout;
  std::int64_t in_step, out_step;  // from one element of a group to the next in the order of sums

  Lines(const ReduceProblem& problem, const Operands& views)
      : p(problem), operands(views), layout(ReduceLayout::make(p, views[0], views[1])) {
    int axis = 0;
    while (!p.reduces(axis)) ++axis;
    const std::int64_t sign = p.reverse ? -1 : 1;
    in_step = sign * operands[0].strides[axis];
    out_step = sign * operands[1].strides[axis];
  }
  std::int64_t start(int operand, std::int64_t group) const {
    std::int64_t at = 0;
    walk_of(layout.kept, operand)
        .runs(group, 1, [&](std::int64_t offset, std::int64_t, std::int64_t) { at = offset; });
    return p.reverse ? at - (layout.length - 1) * (operand == 0 ? in_step : out_step) : at;
  }
  ReduceInput<C> input(std::int64_t offset, std::int64_t n, std::int64_t stride) const {
    return {operands[0], line(offset, n, stride)};
  }
  ResultStore<C> store(std::int64_t offset, std::int64_t n, std::int64_t stride) const {
    return {operands[1].data, operands[1].dtype, line(offset, n, stride)};
  }
  bool stream() const { return bytes_for(operands[1].dtype, numel(p.shape)) >= kStreamBytes; }
  // Null where vectors have no loops for C, or memory holds another type.
  const RunningLoops* vectors() const {
    const bool same = operands[0].dtype == Dtype::f32 && operands[1].dtype == Dtype::f32;
    return std::is_same_v<C, float> && same ? running_loops() : nullptr;
  }
  DenseRows<const C> in(std::int64_t offset) const {
    return {static_cast<const C*>(operands[0].data) + offset, in_step};
  }
  DenseRows<C> out(std::int64_t offset) const {
    return {static_cast<C*>(operands[1].data) + offset, out_step};
  }
  bool columns() const {
    const auto last = static_cast<std::size_t>(layout.kept.rank - 1);
    return layout.columns && layout.kept.stride[1][last] == 1;
  }

 private:
  static Walk line(std::int64_t offset, std::int64_t n, std::int64_t stride) {
    Walk walk;
    walk.offset = offset;
    walk.extent[0] = n;
    walk.stride[0] = stride;
    return walk;
  }
};

template <class C>
void sum_rows(const Stream& stream, const Lines<C>& lines) {
  const std::int64_t n = lines.layout.length, groups = lines.layout.groups;
  const std::int64_t together = std::max<std::int64_t>(1, (1 << 15) / n);
  const bool whole = lines.vectors() != nullptr && lines.in_step == 1 && lines.out_step == 1;
  parallel_for(stream, (groups + together - 1) / together, [&](std::int64_t task) {
    const std::int64_t end = std::min(groups, (task + 1) * together);
    for (std::int64_t g = task * together; g < end; ++g) {
      const auto input = lines.input(lines.start(0, g), n, lines.in_step);
      const auto store = lines.store(lines.start(1, g), n, lines.out_step);
      RunningRow<C> row;
      if (whole) {
        row.add(lines.in(lines.start(0, g)).data, n, lines.out(lines.start(1, g)).data,
                lines.stream());
        continue;
      }
      alignas(64) C values[kPortion];
      for (std::int64_t i = 0; i < n; i += kPortion) {
        const int m = static_cast<int>(std::min<std::int64_t>(kPortion, n - i));
        input.gathered(i, m, values);
        row.add(values, m, values);
        store(i, m, values);
      }
    }
  });
}

template <class C>
void sum_columns(const Stream& stream, const Lines<C>& lines) {
  constexpr int kWidth = RunningColumns<C>::kWidth;
  const std::int64_t inner = lines.layout.inner(), tiles = (inner + kWidth - 1) / kWidth;
  parallel_for(stream, lines.layout.groups / inner * tiles, [&](std::int64_t task) {
    const std::int64_t column = task % tiles * kWidth, group = task / tiles * inner + column;
    const int n = static_cast<int>(std::min<std::int64_t>(kWidth, inner - column));
    const std::int64_t in = lines.start(0, group), out = lines.start(1, group);
    RunningColumns<C> sums(n);
    if (lines.vectors() != nullptr) {
      constexpr int kRows = 8;
      for (std::int64_t i = 0; i < lines.layout.length; i += kRows)
        sums.add_rows(lines.in(in + i * lines.in_step),
                      static_cast<int>(std::min<std::int64_t>(kRows, lines.layout.length - i)),
                      lines.out(out + i * lines.out_step), lines.stream());
      return;
    }
    alignas(64) C values[kPortion];
    for (std::int64_t i = 0; i < lines.layout.length; ++i) {
      lines.input(in + i * lines.in_step, n, 1).gathered(0, n, values);
      sums.add(values, values);
      for (int j = 0; j < n; ++j) values[j] = result_of(values[j]);
      lines.store(out + i * lines.out_step, n, 1)(0, n, values);
    }
  });
}

template <class C>
void cumsum(const Stream& stream, const ReduceProblem& p, const Operands& operands) {
  const Lines<C> lines(p, operands);
  if (lines.layout.groups == 0 || lines.layout.length == 0) return;
  if (lines.columns())
    sum_columns(stream, lines);
  else
    sum_rows(stream, lines);
}

}  // namespace

std::size_t cumsum_cpu_workspace(const ReduceProblem&) { return 0; }

Result<void> cumsum_cpu(const Stream& stream, Workspace, const ReduceProblem& p,
                        const Operands& operands) {
  switch (p.element_dtype) {
    case Dtype::f64:
      cumsum<double>(stream, p, operands);
      break;
    case Dtype::i64:
      cumsum<std::int64_t>(stream, p, operands);
      break;
    case Dtype::i32:
      cumsum<std::int32_t>(stream, p, operands);
      break;
    default:
      cumsum<float>(stream, p, operands);
  }
  return {};
}

}  // namespace planck
