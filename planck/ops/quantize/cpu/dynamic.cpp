// DynamicQuantize on the CPU: ranges of the groups, scales and zero points from them, then the
// elementwise kernel.
//
// Groups that are runs of the tensor (per token, per group, per channel with nothing outside it)
// are finished while they are in the cache: one pass over memory. So are panels of columns, in the
// cache that the cores share. All others take two. A range is a minimum and a maximum, so the way
// the work is cut cannot change it.
//
// Tried, ns per 64 elements, one thread:                           f32     bf16
//   groups of 128: ranges group by group                           44      40
//     ranges of a portion of groups in one call                      28      23
//   channels of a transposed matrix: ranges from transposed tiles  57
//     column by column                                             50
//
// [8192, 8192], two threads, ms:                                   f32     bf16
//   groups of 128: a portion at a time                               13.7    11.8
//     four portions, the next four prefetched meanwhile              10.7     8.4
//   one scale per column: ranges of all, then all elements         19.5    16
//     panels of 8 MiB                                              16.1     8
#include "planck/loops/cpu/map.h"
#include "planck/ops/quantize/cpu/dynamic_ranges.h"
#include "planck/ops/quantize/cpu/groups.h"
#include "planck/ops/quantize/cpu/kernels.h"
#include "planck/ops/quantize/quantize.math.h"

namespace planck {

namespace {

namespace qm = quantize_math;
using Map3 = QuantProblem::Map;

constexpr std::int64_t kEnoughTasks = 64;
constexpr std::int64_t kPanelBytes = std::int64_t{8} << 20;  // of columns done at once
constexpr std::int64_t kBatch = 4 * kPortion;  // elements of short groups done at once

// How many parts a group's members are cut into where the groups are too few for the threads.
std::int64_t splits(const Map3& m) {
  const std::int64_t work = m.outer * m.channels * m.inner;
  if (m.channels >= kEnoughTasks || work < 2 * kTaskElements) return 1;
  const std::int64_t wanted =
      std::min((kEnoughTasks + m.channels - 1) / m.channels, work / kTaskElements);
  return std::max<std::int64_t>(1, std::min(wanted, m.outer == 1 ? m.inner / kPortion : m.outer));
}

template <class C>
using Job = DynamicJob<C>;

// Stores scale and zero point of groups [c0, c0 + n) and returns them as a reader will see them.
template <class C>
void finish(const Job<C>& job, std::int64_t c0, int n, const qm::DataRange<C>* r, C* scale,
            std::int32_t* zero_point) {
  const QuantProblem& p = job.p;
  visit_float(p.element_dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<C, double> == std::is_same_v<T, double>) {
      T stored[kPortion];
      for (int k = 0; k < n; ++k) {
        stored[k] = qm::stored_scale<T>(r[k], p.symmetric, p.lowest(), p.highest());
        scale[k] = static_cast<C>(stored[k]);
        zero_point[k] =
            qm::dynamic_zero_point(r[k], scale[k], p.symmetric, p.lowest(), p.highest());
      }
      int done = 0;
      job.scale.walk.runs(c0, n,
                          [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
                            for (std::int64_t k = 0; k < length; ++k)
                              static_cast<T*>(job.scale.base)[offset + k * stride] = stored[done++];
                          });
    }
  });
  int done = 0;
  job.zero_point.walk.runs(
      c0, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
        for (std::int64_t k = 0; k < length; ++k)
          static_cast<std::int32_t*>(job.zero_point.base)[offset + k * stride] = zero_point[done++];
      });
}

// Quantizes positions [begin, begin + n) of x, job.x but for `ahead`, with the groups of a prepared
// table.
template <class C>
void quantize_positions(const Job<C>& job, const MapOperand& x, std::int64_t begin, int n,
                        const GroupTable<C>& table, bool stream) {
  alignas(64) C buffer[kPortion];
  alignas(64) std::uint8_t bytes[kPortion];
  with_sink(job.q, begin, n, stream, bytes, [&](Sink to) {
    quant_portions<C>().quantize(table.groups, 1, n, source_of(x, begin, n, buffer), to);
  });
}

// One pass: groups [c0, c1), each a run of `inner` positions.
template <class C>
void one_pass(const Job<C>& job, std::int64_t c0, std::int64_t c1, bool stream) {
  const std::int64_t inner = job.m.inner;
  const GroupNeeds needs = group_needs(job.p);
  GroupTable<C> table;
  qm::DataRange<C> ranges[kPortion];
  if (inner > kPortion / 2) {
    for (std::int64_t c = c0; c < c1; ++c) {
      // Quantizing a group prefetches the next one; only a task's first has to be fetched here.
      MapOperand x = job.x;
      x.ahead = c == c0 ? Source{}.ahead : 0;
      find_ranges(job, x, c, c + 1, 0, 1, ranges);
      finish(job, c, 1, ranges, table.scale, table.zero_point);
      table.prepare(1, GroupLayout::one, 0, needs);
      for (std::int64_t i = 0; i < inner; i += job.line())
        quantize_positions(job, job.x, c * inner + i,
                           static_cast<int>(std::min(job.line(), inner - i)), table, stream);
    }
    return;
  }
  const bool runs = inner >= kChunk / 2 && std::has_single_bit(static_cast<std::uint64_t>(inner));
  // Short groups: as many as fill a portion, or several portions where nothing has to be gathered.
  const std::int64_t batch = std::min<std::int64_t>(runs ? job.line() : kPortion, kBatch) / inner;
  const int shift = runs ? std::countr_zero(static_cast<std::uint64_t>(inner)) : 0;
  alignas(64) C buffer[kPortion];
  C scale[kPortion], lo[kPortion], hi[kPortion];
  std::int32_t zero_point[kPortion];
  for (std::int64_t c = c0; c < c1; c += batch) {
    const int groups = static_cast<int>(std::min(batch, c1 - c));
    const int n = groups * static_cast<int>(inner);
    std::fill_n(lo, groups, C(0));
    std::fill_n(hi, groups, C(0));
    // As above: quantizing a batch prefetches the next one.
    MapOperand here = job.x, next = job.x;
    here.ahead = c == c0 ? Source{}.ahead : 0;
    next.ahead = batch * inner * bits(job.x.dtype) / 8;
    quant_sums<C>().include_runs(groups, static_cast<int>(inner),
                                 source_of(here, c * inner, n, buffer), lo, hi);
    for (int k = 0; k < groups; ++k) ranges[k] = {lo[k], hi[k]};
    if (runs) {
      finish(job, c, groups, ranges, table.scale, table.zero_point);
      table.prepare(groups, GroupLayout::runs, shift, needs);
    } else {
      finish(job, c, groups, ranges, scale, zero_point);
      for (int k = 0; k < groups; ++k) {
        std::fill_n(table.scale + k * inner, inner, scale[k]);
        std::fill_n(table.zero_point + k * inner, inner, zero_point[k]);
      }
      table.prepare(n, GroupLayout::each, 0, needs);
    }
    quantize_positions(job, next, c * inner, n, table, stream);
  }
}

// How many columns are done at once so that they are still in the cache when their ranges are
// known. 0: too few to be worth it, or not a matrix with one group per column.
template <class C>
std::int64_t panel_width(const Job<C>& job, std::int64_t parts) {
  const Map3& m = job.m;
  if (std::is_same_v<C, double> || ordinary_loops() == nullptr) return 0;
  if (m.inner != 1 || m.outer <= kPortion / 16 || parts > 1 || m.outer > INT32_MAX) return 0;
  if (!job.x.walk.dense() || !job.q.walk.dense() || m.channels % kChunk != 0) return 0;
  const std::int64_t bytes = bits(job.x.dtype) / 8;
  const std::int64_t fit = kPanelBytes / (m.outer * bytes) / kChunk * kChunk;
  return fit * bytes < 512 ? 0 : std::min<std::int64_t>(fit, kPortion);
}

// Columns [c0, c0 + n) of a dense matrix: one pass over memory.
template <class C>
void panel([[maybe_unused]] const Job<C>& job, [[maybe_unused]] std::int64_t c0,
           [[maybe_unused]] int n, [[maybe_unused]] bool stream) {
  if constexpr (std::is_same_v<C, float>) {
    const Map3& m = job.m;
    const int rows = static_cast<int>(m.outer);
    const std::int64_t row = m.channels * bits(job.x.dtype) / 8;
    const Source x{dense_at(job.x, c0, n), job.x.dtype, 8 * row, row};
    qm::DataRange<C> ranges[kPortion];
    if (!column_ranges(rows, n, x, ranges)) find_ranges(job, job.x, c0, c0 + n, 0, 1, ranges);
    GroupTable<C> table;
    finish(job, c0, n, ranges, table.scale, table.zero_point);
    table.prepare(n, GroupLayout::each, 0, group_needs(job.p));
    const int out_bits = bits(job.q.dtype);
    quant_portions<C>().quantize(
        table.groups, rows, n, x,
        Sink{dense_at(job.q, c0, n), job.q.dtype, stream, m.channels * out_bits / 8});
  }
}

template <class C>
Result<void> dynamic(const Stream& stream, Workspace workspace, const QuantProblem& p,
                     const Operands& operands) {
  using Operand = quant_operand::DynamicQuantize;
  const View &x = operands[Operand::x], &q = operands[Operand::q];
  const View &scale = operands[Operand::scale], &zero_point = operands[Operand::zero_point];
  const QuantNest logical = quant_nest(p, {&x, &q}, {});
  const Map3 m = p.map();
  // Quantizing a group prefetches the next one; columns go down the rows.
  const std::int64_t next = m.outer > 1 ? m.channels * m.inner : m.inner;
  const std::int64_t ahead =
      next >= kPortion && next <= kTaskElements / 2 ? next * bits(x.dtype) / 8 : Source{}.ahead;
  const Job<C> job{p,
                   {x.data, x.dtype, walk_of(logical.nest, 0), ahead},
                   {q.data, q.dtype, walk_of(logical.nest, 1)},
                   {scale.data, scale.dtype, group_walk(p, scale)},
                   {zero_point.data, zero_point.dtype, group_walk(p, zero_point)},
                   static_cast<qm::DataRange<C>*>(workspace.data),
                   m};
  const std::int64_t parts = splits(m);
  const bool stream_out = bytes_for(q.dtype, m.channels * m.members()) >= kStreamBytes;
  const Walk& to = job.q.walk;
  const bool pairs_stay =
      !is_packed(q.dtype) ||
      (to.stride[static_cast<std::size_t>(to.rank - 1)] == 1 && m.inner % 2 == 0);
  const bool jumps = rows_jump(job);
  if (m.outer == 1 && m.inner > 0 && parts == 1 && pairs_stay && !jumps) {
    const std::int64_t batch = std::max<std::int64_t>(1, kTaskElements / m.inner);
    parallel_for(stream, (m.channels + batch - 1) / batch, [&](std::int64_t t) {
      one_pass(job, t * batch, std::min(m.channels, (t + 1) * batch), stream_out);
    });
    return {};
  }
  if (const std::int64_t width = panel_width(job, parts); width > 0) {
    parallel_for(stream, (m.channels + width - 1) / width, [&](std::int64_t t) {
      panel(job, t * width, static_cast<int>(std::min(width, m.channels - t * width)), stream_out);
    });
    return {};
  }
  // Ranges of every part, then of the groups; then scales; then all elements.
  const std::int64_t fit = m.inner > 0 ? std::max<std::int64_t>(1, kPortion / m.inner) : kPortion;
  const std::int64_t width = parts > 1 ? 1 : std::min(m.channels, fit);
  const std::int64_t tiles = width > 0 ? (m.channels + width - 1) / width : 0;
  constexpr std::int64_t kRows = kPortion / 2;
  if (jumps && parts == 1) {
    parallel_for(stream, (m.channels + kRows - 1) / kRows, [&](std::int64_t t) {
      const std::int64_t c0 = t * kRows;
      find_row_ranges(job, c0, std::min(m.channels, c0 + kRows), job.ranges + c0);
    });
  } else {
    parallel_for(stream, tiles * parts, [&](std::int64_t t) {
      const std::int64_t c0 = t % tiles * width, part = t / tiles;
      find_ranges(job, job.x, c0, std::min(m.channels, c0 + width), part, parts,
                  job.ranges + part * m.channels + c0);
    });
  }
  parallel_for(stream, (m.channels + kPortion - 1) / kPortion, [&](std::int64_t t) {
    const std::int64_t c0 = t * kPortion;
    const int n = static_cast<int>(std::min<std::int64_t>(kPortion, m.channels - c0));
    C scales[kPortion];
    std::int32_t zero_points[kPortion];
    for (int k = 0; k < n; ++k)
      for (std::int64_t part = 1; part < parts; ++part) {
        qm::include(job.ranges[c0 + k], job.ranges[part * m.channels + c0 + k].lo);
        qm::include(job.ranges[c0 + k], job.ranges[part * m.channels + c0 + k].hi);
      }
    finish(job, c0, n, job.ranges + c0, scales, zero_points);
  });
  return quantize_simd_cpu(stream, {}, p, operands);
}

}  // namespace

Result<void> quantize_dynamic_cpu(const Stream& stream, Workspace workspace, const QuantProblem& p,
                                  const Operands& operands) {
  return p.element_dtype == Dtype::f64 ? dynamic<double>(stream, workspace, p, operands)
                                       : dynamic<float>(stream, workspace, p, operands);
}

std::size_t quantize_dynamic_cpu_workspace(const QuantProblem& p) {
  const std::size_t range = 2 * storage_bytes(compute_dtype(p.element_dtype));
  return static_cast<std::size_t>(splits(p.map()) * p.map().channels) * range;
}

}  // namespace planck
