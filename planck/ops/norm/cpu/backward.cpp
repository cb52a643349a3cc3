// cpu:rows, backward. dweight and dbias are sums down the rows: eight rows are summed in pairs,
// such sums are joined like the digits of a binary counter, and so are chunks of rows in a last
// pass.
//
// f32 [16384, 4096], two threads, share of the ceiling:                    layer_norm  rms_norm
//   all rows for dweight and dbias, then all rows for dx                         0.46      0.46
//   both row sums in one pass over a row, and the sums down eight rows
//   while the second-level cache has them                                        0.74      0.78
//   x and dy prefetched by every loop, as prefetches may be dropped              0.88      0.91
// All sums of eight rows by strips of columns that the first-level cache should hold are slower by
// a tenth: rows that lie a power of two apart fall into the same cache sets.
#include "planck/ops/norm/cpu/backward.h"

#include "planck/ops/norm/cpu/kernels.h"
#include "planck/ops/norm/cpu/operands.h"

namespace planck {

namespace {

namespace o = norm_operand;

template <class C>
struct BackwardOperands {
  RowOperand<C> x, dy, mean, rstd;
  bool centered;

  BackwardOperands(const NormProblem& p, const Operands& operands)
      : x(operands[o::bx], p.along()),
        dy(operands[o::dy], p.along()),
        mean(operands[p.centered() ? o::bmean : o::brstd], 0u),
        rstd(operands[o::brstd], 0u),
        centered(p.centered()) {}
  row_math::Shared<C> shared(std::int64_t row) const {
    return {centered ? mean.number(row) : C(0), rstd.number(row)};
  }
};

// dx, row by row.
template <class C>
class RowGradient {
 public:
  RowGradient(const NormProblem& p, const Operands& operands, bool bypass)
      : in_(p, operands),
        dx_(operands[o::dx], p.along()),
        weight_(operands[o::bweight], p.weighted, C(1)),
        length_(p.length()),
        centered_(p.centered()),
        bypass_(bypass),
        whole_(dx_.dense() && weight_.has_vectors(length_)) {}

  void operator()(std::int64_t row) const {
    const std::int64_t begin = row * length_;
    const C count = static_cast<C>(length_);
    row_math::Shared<C> s = in_.shared(row);
    const void* x = whole_ ? in_.x.vectors(begin, length_) : nullptr;
    const void* dy = whole_ ? in_.dy.vectors(begin, length_) : nullptr;
    if (x != nullptr && dy != nullptr) {
      return norm_loops<C>().backward(
          {in_.x.dtype(), x, dy, weight_.vectors(length_), nullptr, length_}, centered_, s,
          dx_.sink(begin, bypass_));
    }
    const auto mapped = [&](RowMap how, std::int64_t i, int m, C* out) {
      alignas(64) C raw[3][kPortion];
      const Source from = in_.x.source(begin + i, m, raw[0]);
      const Source given = in_.dy.source(begin + i, m, raw[1]), w = weight_.source(i, m, raw[2]);
      const Source* inputs[3] = {&from, &given, &w};
      row_loops<C>().map(how, inputs, m, s, out);
      return Source{out, dtype_of<C>};
    };
    const auto mean_of = [&](RowMap how) {
      return sum_of_portions<C>(length_, [&](std::int64_t i, int m,
                                             C* buffer) { return mapped(how, i, m, buffer); }) /
             count;
    };
    if (centered_) s.c = mean_of(RowMap::weighted);
    s.d = mean_of(RowMap::weighted_hat);
    for_portions(length_, [&](std::int64_t i, int m) {
      alignas(64) C values[kPortion];
      mapped(RowMap::norm_backward, i, m, values);
      dx_.put(begin + i, m, values, bypass_);
    });
  }

 private:
  BackwardOperands<C> in_;
  RowOperand<C> dx_;
  Parameter<C> weight_;
  std::int64_t length_;
  bool centered_, bypass_, whole_;
};

// Two sums down the columns, either of which may not be wanted: digits of a binary counter of sums
// of eight rows.
template <class C, int kWidth, int kDigits>
class ColumnSums {
 public:
  explicit ColumnSums(const bool (&wanted)[2]) : wanted_(wanted) {}

  // Columns [column, column + n) of the next eight rows, n <= kReduceColumns: compute(out) puts
  // their sums to out[0] and out[1].
  template <class F>
  void add(std::int64_t column, int n, const F& compute) {
    alignas(64) C sum[2][kReduceColumns];
    const auto to = [&](int which, int k) -> C* {
      if (!wanted_[which]) return nullptr;
      return (turns_ >> k) & 1u ? sum[which] : digits_[which][k] + column;
    };
    C* const first[2] = {to(0, 0), to(1, 0)};
    compute(first);
    for (int which = 0; which < 2; ++which)
      for (int k = 0; wanted_[which] && (turns_ >> k) & 1u; ++k)
        reduce_sums<C>().join(Join::add, n, digits_[which][k] + column, sum[which],
                              to(which, k + 1));
  }
  void next() { ++turns_; }  // all columns have been added
  void result(int which, std::int64_t column, int n, C* out) const {
    bool any = false;
    for (int k = 0; (turns_ >> k) != 0; ++k) {
      if (!((turns_ >> k) & 1u)) continue;
      const C* digit = digits_[which][k] + column;
      if (any)
        reduce_sums<C>().join(Join::add, n, digit, out, out);
      else
        std::copy_n(digit, n, out);
      any = true;
    }
    if (!any) std::fill_n(out, n, C(0));
  }

 private:
  const bool (&wanted_)[2];
  unsigned turns_ = 0;
  alignas(64) C digits_[2][kDigits][kWidth];
};

template <class C>
class ParameterGradients {
 public:
  ParameterGradients(const NormProblem& p, const Operands& operands, C* partials,
                     std::int64_t chunk_rows)
      : in_(p, operands),
        operands_(operands),
        wanted_{p.weighted, p.biased},
        length_(p.length()),
        rows_(p.rows()),
        chunk_rows_(chunk_rows),
        chunks_((rows_ + chunk_rows - 1) / chunk_rows),
        partials_(partials) {}
  std::int64_t chunks() const { return std::max<std::int64_t>(1, chunks_); }
  std::int64_t tiles() const { return (length_ + kReduceColumns - 1) / kReduceColumns; }

  // Rows of a chunk, eight at a time: before(row, count) comes first. Columns of tiles [first,
  // last).
  template <int kWidth, class F>
  void chunk(std::int64_t chunk, std::int64_t first, std::int64_t last, const F& before) const {
    const std::int64_t base = first * kReduceColumns;
    ColumnSums<C, kWidth, kWidth == kReduceColumns ? 8 : 4> sums(wanted_);
    const std::int64_t end = std::min(rows_, (chunk + 1) * chunk_rows_);
    for (std::int64_t r = chunk * chunk_rows_; r < end; r += kReduceRows, sums.next()) {
      const int count = static_cast<int>(std::min<std::int64_t>(kReduceRows, end - r));
      before(r, count);
      row_math::Shared<C> each[kReduceRows];
      for (int k = 0; k < count; ++k) each[k] = in_.shared(r + k);
      for_tiles(first, last, [&](std::int64_t column, int n) {
        sums.add(column - base, n,
                 [&](C* const(&out)[2]) { rows_of(r, count, each, column, n, out); });
      });
    }
    for_tiles(first, last, [&](std::int64_t column, int n) {
      for (int k = 0; k < 2; ++k) {
        if (!wanted_[k]) continue;
        alignas(64) C out[kReduceColumns];
        sums.result(k, column - base, n, out);
        if (chunks_ > 1)
          std::copy_n(out, n, partial(k, chunk) + column);
        else
          emit(k, column, n, out);
      }
    });
  }
  // What the chunks gave, joined, in a tile.
  void join(std::int64_t tile) const {
    for_tiles(tile, tile + 1, [&](std::int64_t column, int n) {
      ColumnSums<C, kReduceColumns, 24> sums(wanted_);
      for (std::int64_t c = 0; c < chunks_; c += kReduceRows, sums.next())
        sums.add(0, n, [&](C* const(&out)[2]) {
          const int count = static_cast<int>(std::min<std::int64_t>(kReduceRows, chunks_ - c));
          Source rows[kReduceRows];
          for (int k = 0; k < 2; ++k) {
            if (!wanted_[k]) continue;
            for (int i = 0; i < count; ++i) rows[i] = {partial(k, c + i) + column, dtype_of<C>, 0};
            reduce_sums<C>().columns({Join::add, Lift::plain}, rows, count, n, out[k]);
          }
        });
      for (int k = 0; k < 2; ++k) {
        if (!wanted_[k]) continue;
        alignas(64) C out[kReduceColumns];
        sums.result(k, 0, n, out);
        emit(k, column, n, out);
      }
    });
  }
  bool joins() const { return chunks_ > 1; }

 private:
  C* partial(int which, std::int64_t chunk) const {
    return partials_ + (which * chunks_ + chunk) * length_;
  }
  void emit(int which, std::int64_t column, int n, const C* sums) const {
    const RowOperand<C> out(operands_[which == 0 ? o::dweight : o::dbias], ~0u);
    out.put(column, n, sums, false);
  }
  template <class F>
  void for_tiles(std::int64_t first, std::int64_t last, const F& f) const {
    for (std::int64_t t = first; t < last; ++t) {
      const std::int64_t column = t * kReduceColumns;
      f(column, static_cast<int>(std::min<std::int64_t>(kReduceColumns, length_ - column)));
    }
  }
  // The sums of dy * xhat and of dy over rows [row, row + count), columns [column, column + n).
  void rows_of(std::int64_t row, int count, const row_math::Shared<C> (&each)[kReduceRows],
               std::int64_t column, int n, C* const (&out)[2]) const {
    if (norm_loops<C>().columns != nullptr && in_.x.dense() && in_.dy.dense() &&
        count == kReduceRows) {
      const std::int64_t begin = row * length_;
      return norm_loops<C>().columns({in_.x.dtype(), in_.x.in_place(begin, length_),
                                      in_.dy.in_place(begin, length_), nullptr, nullptr, length_},
                                     each, column, n, out[0], out[1]);
    }
    for (int which = 0; which < 2; ++which) {
      if (!wanted_[which]) continue;
      alignas(64) C terms[kReduceRows][kReduceColumns], raw[2][kPortion];
      Source rows[kReduceRows];
      for (int k = 0; k < count; ++k) {
        const std::int64_t at = (row + k) * length_ + column;
        const Source x = in_.x.source(at, n, raw[0]), dy = in_.dy.source(at, n, raw[1]);
        const Source* inputs[3] = {&x, &dy, nullptr};
        row_loops<C>().map(which == 0 ? RowMap::hat_term : RowMap::second, inputs, n, each[k],
                           terms[k]);
        rows[k] = {terms[k], dtype_of<C>, 0};
      }
      reduce_sums<C>().columns({Join::add, Lift::plain}, rows, count, n, out[which]);
    }
  }

  BackwardOperands<C> in_;
  const Operands& operands_;
  bool wanted_[2];
  std::int64_t length_, rows_, chunk_rows_, chunks_;
  C* partials_;
};

}  // namespace

template <class C>
void norm_backward_cpu(const Stream& stream, const NormProblem& p, const Operands& operands,
                       C* partials, bool bypass) {
  // Eight rows of x and dy, and digits, in the second-level cache.
  constexpr int kLongest = (1 << 15) / sizeof(C);
  const RowGradient<C> dx(p, operands, bypass);
  const auto rows_of_dx = [&] { for_rows(stream, p.rows(), p.length(), dx); };
  if (!p.weighted && !p.biased) return rows_of_dx();
  const bool fused = p.length() <= kLongest;
  const ParameterGradients<C> sums(p, operands, partials, fused ? kCpuFusedRows : kNormChunkRows);
  const std::int64_t tiles = sums.tiles();
  if (fused) {
    parallel_for(stream, sums.chunks(), [&](std::int64_t chunk) {
      sums.template chunk<kLongest>(chunk, 0, tiles, [&](std::int64_t row, int count) {
        for (int k = 0; k < count; ++k) dx(row + k);
      });
    });
  } else {
    parallel_for(stream, sums.chunks() * tiles, [&](std::int64_t task) {
      const std::int64_t tile = task % tiles;
      sums.template chunk<kReduceColumns>(task / tiles, tile, tile + 1, [](std::int64_t, int) {});
    });
    rows_of_dx();
  }
  if (sums.joins()) parallel_for(stream, tiles, [&](std::int64_t tile) { sums.join(tile); });
}

template void norm_backward_cpu<float>(const Stream&, const NormProblem&, const Operands&, float*,
                                       bool);
template void norm_backward_cpu<double>(const Stream&, const NormProblem&, const Operands&, double*,
                                        bool);

}  // namespace planck
