// The ranges of groups on the CPU, from which DynamicQuantize makes scales and zero points.
#pragma once

#include "planck/loops/cpu/map.h"
#include "planck/ops/quantize/cpu/groups.h"
#include "planck/ops/quantize/quantize.math.h"

namespace planck {

template <class C>
struct DynamicJob {
  const QuantProblem& p;
  MapOperand x, q;                      // in logical order
  MapOperand scale, zero_point;         // in the order of groups
  quantize_math::DataRange<C>* ranges;  // [splits, channels], in the workspace
  QuantProblem::Map m;

  // Positions done at once: dense ones are not gathered into a buffer, so they may be many.
  std::int64_t line() const { return x.walk.dense() && q.walk.dense() ? kTaskElements : kPortion; }
};

// Ranges of channels [c0, c1), over one part of their members. Few inner elements: all those of the
// channels at once.
template <class C>
void find_ranges(const DynamicJob<C>& job, const MapOperand& x, std::int64_t c0, std::int64_t c1,
                 std::int64_t part, std::int64_t parts, quantize_math::DataRange<C>* out) {
  const QuantProblem::Map& m = job.m;
  const QuantSums<C>& sums = quant_sums<C>();
  alignas(64) C buffer[kPortion], lo[kPortion], hi[kPortion];
  if (m.outer > 1 && m.inner * (c1 - c0) <= kPortion) {
    const int n = static_cast<int>(m.inner * (c1 - c0));
    std::fill_n(lo, n, C(0));
    std::fill_n(hi, n, C(0));
    for (std::int64_t o = m.outer * part / parts; o < m.outer * (part + 1) / parts; ++o)
      sums.include_each(n, source_of(x, (o * m.channels + c0) * m.inner, n, buffer), lo, hi);
    for (std::int64_t c = c0; c < c1; ++c) {
      quantize_math::DataRange<C> r{0, 0};
      for (std::int64_t i = (c - c0) * m.inner; i < (c - c0 + 1) * m.inner; ++i) {
        quantize_math::include(r, lo[i]);
        quantize_math::include(r, hi[i]);
      }
      out[c - c0] = r;
    }
    return;
  }
  const bool cut_inner = m.outer == 1;
  const std::int64_t o0 = cut_inner ? 0 : m.outer * part / parts,
                     o1 = cut_inner ? 1 : m.outer * (part + 1) / parts;
  const std::int64_t i0 = cut_inner ? m.inner * part / parts : 0;
  const std::int64_t i1 = cut_inner ? m.inner * (part + 1) / parts : m.inner;
  for (std::int64_t c = c0; c < c1; ++c) {
    quantize_math::DataRange<C> r{0, 0};
    for (std::int64_t o = o0; o < o1; ++o)
      for (std::int64_t i = i0; i < i1; i += job.line()) {
        const int n = static_cast<int>(std::min(job.line(), i1 - i));
        sums.include_runs(1, n, source_of(x, (o * m.channels + c) * m.inner + i, n, buffer), &r.lo,
                          &r.hi);
      }
    out[c - c0] = r;
  }
}

// Whether groups are rows of a matrix that is contiguous down its columns.
template <class C>
bool rows_jump(const DynamicJob<C>& job) {
  const Walk& w = job.x.walk;
  return job.m.outer == 1 && w.rank == 2 && w.stride[0] == 1 && w.stride[1] > 1 &&
         w.extent[1] == job.m.inner;
}

// Ranges of n columns of `rows` rows, by vectors: whether all of them are finite, and so right.
inline bool column_ranges(std::int64_t rows, int n, const Source& x,
                          quantize_math::DataRange<float>* out) {
  if (ordinary_loops() == nullptr || n % kChunk != 0 || rows > INT32_MAX) return false;
  alignas(64) float lo[kPortion] = {}, hi[kPortion] = {};
  ordinary_loops()->bounds_each(static_cast<int>(rows), n, x, lo, hi);
  bool finite = true;
  for (int k = 0; k < n; ++k) {
    out[k] = {lo[k], hi[k]};
    finite = finite && quantize_math::is_finite(lo[k]) && quantize_math::is_finite(hi[k]);
  }
  return finite;
}
inline bool column_ranges(std::int64_t, int, const Source&, quantize_math::DataRange<double>*) {
  return false;
}

// Ranges of such rows [c0, c1), column by column.
template <class C>
void find_row_ranges(const DynamicJob<C>& job, std::int64_t c0, std::int64_t c1,
                     quantize_math::DataRange<C>* out) {
  const Walk& w = job.x.walk;
  const auto size = static_cast<std::int64_t>(storage_bytes(job.x.dtype));
  const std::int64_t step = w.stride[1] * size;
  const int rows = static_cast<int>(c1 - c0);
  const auto* x = static_cast<const std::byte*>(job.x.base) + (w.offset + c0) * size;
  if (column_ranges(job.m.inner, rows, Source{x, job.x.dtype, 8 * step, step}, out)) return;
  alignas(64) C lo[kPortion] = {}, hi[kPortion] = {};
  for (std::int64_t i = 0; i < job.m.inner; ++i)
    quant_sums<C>().include_each(rows, Source{x + i * step, job.x.dtype, step}, lo, hi);
  for (int r = 0; r < rows; ++r) out[r] = {lo[r], hi[r]};
}

}  // namespace planck
