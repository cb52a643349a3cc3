// How products whose operands are prepared first (tensor_core, exact, integers) are cut. C in
// parts, k in steps; for each step all threads pack their parts of A and B into the workspace, then
// tasks multiply. Sums of a part wait in the workspace between steps. Many small products of a
// batch are tasks themselves.
//
// An Engine packs and multiplies; it keeps its pointers into the workspace. All it is told are
// places: rows i and columns j count from the part's first, k from 0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "planck/core/workspace.h"
#include "planck/loops/gemm/cpu/pack.h"
#include "planck/loops/gemm/geometry.h"
#include "planck/loops/parallel.h"

namespace planck::gemm {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

struct Cut {
  std::int64_t part_rows, part_columns;  // at most; multiples of the tasks'
  std::int64_t step;                     // of k
  std::int64_t task_rows, task_columns;  // multiples of the panels'

  // What a part has at most, in whole tasks: grows with the product.
  std::int64_t rows(std::int64_t m) const { return round_up(std::min(m, part_rows), task_rows); }
  std::int64_t columns(std::int64_t n) const {
    return round_up(std::min(n, part_columns), task_columns);
  }
  std::int64_t depth(std::int64_t k) const { return std::min(k, step); }
};

// Parts of one size, whole tasks, but for the last.
inline std::int64_t even_parts(std::int64_t extent, std::int64_t most, std::int64_t task) {
  return round_up(ceil_div(extent, ceil_div(extent, most)), task);
}

struct Step {
  std::int64_t i0, j0, rows, columns;  // the part of C
  std::int64_t k0, k;
  bool first, last;
};

template <class Engine>
void run_blocked(const Stream& stream, const Cut& cut, std::int64_t m, std::int64_t n,
                 std::int64_t k, const Engine& engine) {
  const std::int64_t part_rows = even_parts(m, cut.part_rows, cut.task_rows);
  const std::int64_t part_columns = even_parts(n, cut.part_columns, cut.task_columns);
  for (std::int64_t i0 = 0; i0 < m; i0 += part_rows)
    for (std::int64_t j0 = 0; j0 < n; j0 += part_columns) {
      Step s{i0,   j0,   std::min(part_rows, m - i0), std::min(part_columns, n - j0), 0, 0,
             true, false};
      const std::int64_t down = ceil_div(s.rows, cut.task_rows);
      const std::int64_t across = ceil_div(s.columns, cut.task_columns);
      const auto rows = [&](std::int64_t i) { return std::min(cut.task_rows, s.rows - i); };
      const auto columns = [&](std::int64_t j) {
        return std::min(cut.task_columns, s.columns - j);
      };
      do {  // once where K is 0: sums of nothing are stored too
        s.k = std::min(cut.step, k - s.k0);
        s.last = s.k0 + s.k == k;
        parallel_for(stream, down + across, [&](std::int64_t t) {
          const std::int64_t i = t * cut.task_rows, j = (t - down) * cut.task_columns;
          t < down ? engine.pack_a(s, i, rows(i)) : engine.pack_b(s, j, columns(j));
        });
        parallel_for(stream, down * across, [&](std::int64_t t) {
          const std::int64_t i = t / across * cut.task_rows, j = t % across * cut.task_columns;
          engine.multiply(s, i, j, rows(i), columns(j));
        });
        s.k0 += s.k;
        s.first = false;
      } while (s.k0 < k);
    }
}

inline constexpr double kWorthThreads = 0x1p17;  // multiply-adds
inline constexpr std::int64_t kMostSlots = 16;   // batches in flight

// Bytes for one product of each batch that is in flight; `each` grows with m.
template <class Bytes>
std::size_t blocked_workspace(const Shape& batch, std::int64_t m, std::int64_t n, std::int64_t k,
                              const Bytes& each) {
  const std::int64_t batches = numel(batch);
  if (batches == 0 || m == 0 || n == 0) return 0;
  // Strides decide at run whether batches are rows of one product, and which axis is in vectors.
  const auto either = [&](std::int64_t rows) {
    return std::max(each(rows, n, k), each(n, rows, k));
  };
  const std::size_t slots = static_cast<std::size_t>(std::min(batches, kMostSlots));
  constexpr std::size_t kMostForSlots = std::size_t{64} << 20;
  return std::max(either(m * batches), std::min(slots * either(m), kMostForSlots));
}

// Calls product(stream, workspace, batch) for all batches, side by side where they are small.
template <class Run>
void for_batches(const Stream& stream, Workspace workspace, std::int64_t m, std::int64_t n,
                 std::int64_t k, std::int64_t batches, std::size_t each, const Run& product) {
  const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k + 16);
  const Stream alone = Stream::cpu(1);
  auto* const bytes = static_cast<std::byte*>(workspace.data);
  const auto fit = static_cast<std::int64_t>(each == 0 ? kMostSlots : workspace.bytes / each);
  const std::int64_t slots = std::min({batches, kMostSlots, fit});
  if (slots <= 1 || work > 0x1p26) {
    for (std::int64_t t = 0; t < batches; ++t)
      product(work < kWorthThreads ? alone : stream, bytes, t);
    return;
  }
  const bool worth = work * static_cast<double>(batches) >= kWorthThreads;
  parallel_for(worth ? stream : alone, slots, [&](std::int64_t slot) {
    for (std::int64_t t = slot; t < batches; t += slots)
      product(alone, bytes + static_cast<std::size_t>(slot) * each, t);
  });
}

// Operands of batch t, seen along the axis that their panels are cut along.
inline Side rows_of_a(const Geometry& g, std::int64_t t) {
  return {g.a.data, g.a.dtype, g.batches.offset(0, t), g.a.row, g.a.column};
}
inline Side columns_of_b(const Geometry& g, std::int64_t t) {
  return {g.b.data, g.b.dtype, g.batches.offset(1, t), g.b.column, g.b.row};
}

// The vectors' axis is the one along which C is dense, or the long one where the other is short.
inline bool transposes(const Geometry& g, std::int64_t panel) {
  const bool columns = g.c.row == 1 && g.c.column != 1;
  return g.n < panel ? g.m > g.n : columns && g.m >= panel;
}
inline Geometry vectors_along_rows(const Geometry& g, std::int64_t panel) {
  return transposes(g, panel) ? g.transposed() : g;
}

}  // namespace planck::gemm
