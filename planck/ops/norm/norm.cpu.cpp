// cpu:rows. A row is read for its mean, and from the cache for its variance and its result. dweight
// and dbias go down the rows in tiles of 512 columns, eight rows at a time, in chunks of 512 rows.
#include <algorithm>

#include "planck/loops/parallel.h"
#include "planck/ops/norm/kernels.h"
#include "planck/ops/softmax/rows.cpu.h"

namespace planck {

namespace {

namespace o = norm_operand;

// What is not given: a weight of 1, a bias of -0, which changes nothing when added.
template <class C>
class Parameter {
 public:
  Parameter(const View& v, bool given, C otherwise) : operand_(v, ~0u), given_(given) {
    std::fill_n(constant_, kBlock, otherwise);
  }
  // Dense, or not given: what row_loops take. Else null and given.
  RowInput<C> vectors(std::int64_t length) const {
    return {given_ ? operand_.vectors(0, length) : nullptr, constant_[0]};
  }
  bool has_vectors(std::int64_t length) const {
    return !given_ || operand_.vectors(0, length) != nullptr;
  }
  Source source(std::int64_t i, int m, C* buffer) const {
    return given_ ? operand_.source(i, m, buffer) : Source{constant_, dtype_of<C>, 0};
  }

 private:
  RowOperand<C> operand_;
  bool given_;
  alignas(64) C constant_[kBlock];
};

template <class F>
void for_rows(const Stream& stream, std::int64_t rows, std::int64_t length, const F& row) {
  const std::int64_t together =
      std::max<std::int64_t>(1, kRowTask / std::max<std::int64_t>(1, length));
  parallel_for(stream, (rows + together - 1) / together, [&](std::int64_t task) {
    const std::int64_t end = std::min(rows, (task + 1) * together);
    for (std::int64_t r = task * together; r < end; ++r) row(r);
  });
}

template <class C>
void forward(const Stream& stream, const NormProblem& p, const Operands& operands, bool bypass) {
  const std::int64_t length = p.length();
  const RowOperand<C> x(operands[o::x], p.along()), y(operands[o::y], p.along());
  const RowOperand<C> mean(operands[o::mean], 0u), rstd(operands[o::rstd], 0u);
  const Parameter<C> weight(operands[o::weight], p.weighted, C(1));
  const Parameter<C> bias(operands[o::bias], p.biased, C(-0.0));
  const C count = static_cast<C>(length), eps = static_cast<C>(p.eps);
  const RowInput<C> b = bias.vectors(length), w = weight.vectors(length);
  const bool whole = y.dense() && bias.has_vectors(length) && weight.has_vectors(length);
  for_rows(stream, p.rows(), length, [&](std::int64_t row) {
    const std::int64_t begin = row * length;
    row_math::Shared<C> s;
    if (p.centered()) s.a = sum_of_row(x, begin, length, Lift::plain, C(0)) / count;
    const C variance = sum_of_row(x, begin, length, Lift::square, s.a) / count;
    s.b = C(1) / math::sqrt_of(variance + eps);
    if (p.centered()) mean.put_number(row, s.a);
    rstd.put_number(row, s.b);
    const void* at = whole ? x.vectors(begin, length) : nullptr;
    if (at != nullptr)
      return row_loops<C>().write(RowMap::normalized, x.dtype(), {{at}, b, w}, length, s,
                                  y.sink(begin, bypass));
    for_blocks(length, [&](std::int64_t i, int m) {
      alignas(64) C raw[3][kBlock], values[kBlock];
      const Source in = x.source(begin + i, m, raw[0]), shift = bias.source(i, m, raw[1]),
                   scale = weight.source(i, m, raw[2]);
      const Source* inputs[3] = {&in, &shift, &scale};
      row_loops<C>().map(RowMap::normalized, inputs, m, s, values);
      y.put(begin + i, m, values, bypass);
    });
  });
}

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
  bool vectors() const { return row_loops<C>().norm_columns != nullptr && x.dense() && dy.dense(); }
  // The sums of dy * xhat and of dy over rows [row, row + 8), columns [column, column + n).
  void eight_rows(std::int64_t row, std::int64_t length, std::int64_t column, int n, C* hats,
                  C* plain) const {
    const void *from[kReduceRows], *given[kReduceRows];
    row_math::Shared<C> each[kReduceRows];
    for (int k = 0; k < kReduceRows; ++k) {
      const std::int64_t at = (row + k) * length + column;
      from[k] = x.in_place(at, n);
      given[k] = dy.in_place(at, n);
      each[k] = shared(row + k);
    }
    row_loops<C>().norm_columns(x.dtype(), from, given, each, n, hats, plain,
                                kReduceRows * x.row_bytes(length));
  }
};

template <class C>
void backward(const Stream& stream, const NormProblem& p, const Operands& operands, bool bypass) {
  const std::int64_t length = p.length();
  const BackwardOperands<C> in(p, operands);
  const RowOperand<C> dx(operands[o::dx], p.along());
  const Parameter<C> weight(operands[o::bweight], p.weighted, C(1));
  const C count = static_cast<C>(length);
  const bool whole = dx.dense() && weight.has_vectors(length);
  for_rows(stream, p.rows(), length, [&](std::int64_t row) {
    const std::int64_t begin = row * length;
    row_math::Shared<C> s = in.shared(row);
    const void* here = whole ? in.x.vectors(begin, length) : nullptr;
    const void* dy_here = whole ? in.dy.vectors(begin, length) : nullptr;
    if (here != nullptr && dy_here != nullptr) {
      const RowInput<C> inputs[3] = {{here}, {dy_here}, weight.vectors(length)};
      const auto mean_of = [&](RowMap how) {
        return row_loops<C>().sum(how, in.x.dtype(), inputs, length, s, nullptr,
                                  in.x.row_bytes(length)) /
               count;
      };
      if (p.centered()) s.c = mean_of(RowMap::weighted);
      s.d = mean_of(RowMap::weighted_hat);
      return row_loops<C>().write(RowMap::norm_backward, in.x.dtype(), inputs, length, s,
                                  dx.sink(begin, bypass));
    }
    const auto mapped = [&](RowMap how, std::int64_t i, int m, C* out) {
      alignas(64) C raw[3][kBlock];
      const Source x = in.x.source(begin + i, m, raw[0]), dy = in.dy.source(begin + i, m, raw[1]),
                   w = weight.source(i, m, raw[2]);
      const Source* inputs[3] = {&x, &dy, &w};
      row_loops<C>().map(how, inputs, m, s, out);
      return Source{out, dtype_of<C>};
    };
    const auto mean_of = [&](RowMap how) {
      return sum_of_blocks<C>(length, [&](std::int64_t i, int m,
                                          C* buffer) { return mapped(how, i, m, buffer); }) /
             count;
    };
    if (p.centered()) s.c = mean_of(RowMap::weighted);
    s.d = mean_of(RowMap::weighted_hat);
    for_blocks(length, [&](std::int64_t i, int m) {
      alignas(64) C values[kBlock];
      mapped(RowMap::norm_backward, i, m, values);
      dx.put(begin + i, m, values, bypass);
    });
  });
}

// Sums of n columns of up to kNormChunkRows rows: digits of a binary counter of sums of eight rows.
template <class C>
class ColumnSums {
 public:
  explicit ColumnSums(int n) : n_(n) {}
  C* next() { return rows_[held_]; }  // to be filled, then pushed
  void push() {
    if (++held_ == kReduceRows) flush();
  }
  // Eight rows at once, joined already: `eight` is overwritten. Only where none is held.
  void push_eight(C* eight) {
    int k = 0;
    for (; (blocks_ >> k) & 1u; ++k) reduce_sums<C>().join(Join::add, n_, digits_[k], eight, eight);
    std::copy_n(eight, n_, digits_[k]);
    ++blocks_;
  }
  void result(C* out) {
    if (held_ > 0) flush();
    bool any = false;
    for (int k = 0; (blocks_ >> k) != 0; ++k) {
      if (!((blocks_ >> k) & 1u)) continue;
      if (any)
        reduce_sums<C>().join(Join::add, n_, digits_[k], out, out);
      else
        std::copy_n(digits_[k], n_, out);
      any = true;
    }
    if (!any) std::fill_n(out, n_, C(0));
  }

 private:
  void flush() {
    Source sources[kReduceRows];
    for (int i = 0; i < held_; ++i) sources[i] = {rows_[i], dtype_of<C>, 0};
    alignas(64) C sum[kReduceColumns];
    reduce_sums<C>().columns({Join::add, Lift::plain}, sources, held_, n_, nullptr, sum);
    push_eight(sum);
    held_ = 0;
  }
  int n_, held_ = 0;
  unsigned blocks_ = 0;
  alignas(64) C rows_[kReduceRows][kReduceColumns];
  alignas(64) C digits_[24][kReduceColumns];
};

template <class C>
void parameter_gradients(const Stream& stream, const NormProblem& p, const Operands& operands,
                         C* partials) {
  const std::int64_t length = p.length(), rows = p.rows(), chunks = norm_chunks(p);
  const std::int64_t tiles = (length + kReduceColumns - 1) / kReduceColumns;
  const BackwardOperands<C> in(p, operands);
  const auto emit = [&](int which, std::int64_t column, int n, const C* sums) {
    const RowOperand<C> out(operands[which == 0 ? o::dweight : o::dbias], ~0u);
    out.put(column, n, sums, false);
  };
  const bool wanted[2] = {p.weighted, p.biased};
  parallel_for(stream, std::max<std::int64_t>(1, chunks) * tiles, [&](std::int64_t task) {
    const std::int64_t column = task % tiles * kReduceColumns, chunk = task / tiles;
    const int n = static_cast<int>(std::min<std::int64_t>(kReduceColumns, length - column));
    ColumnSums<C> sums[2] = {ColumnSums<C>(n), ColumnSums<C>(n)};
    const std::int64_t end = std::min(rows, (chunk + 1) * kNormChunkRows);
    std::int64_t r = chunk * kNormChunkRows;
    if (in.vectors())
      for (; r + kReduceRows <= end; r += kReduceRows) {
        alignas(64) C eight[2][kReduceColumns];
        in.eight_rows(r, length, column, n, wanted[0] ? eight[0] : nullptr,
                      wanted[1] ? eight[1] : nullptr);
        for (int which = 0; which < 2; ++which)
          if (wanted[which]) sums[which].push_eight(eight[which]);
      }
    for (; r < end; ++r) {
      alignas(64) C raw[2][kBlock];
      const std::int64_t at = r * length + column;
      const Source x = in.x.source(at, n, raw[0]), dy = in.dy.source(at, n, raw[1]);
      const Source* inputs[3] = {&x, &dy, nullptr};
      for (int which = 0; which < 2; ++which) {
        if (!wanted[which]) continue;
        row_loops<C>().map(which == 0 ? RowMap::hat_term : RowMap::second, inputs, n,
                           which == 0 ? in.shared(r) : row_math::Shared<C>{}, sums[which].next());
        sums[which].push();
      }
    }
    for (int which = 0; which < 2; ++which) {
      if (!wanted[which]) continue;
      alignas(64) C out[kReduceColumns];
      sums[which].result(out);
      if (chunks > 1)
        std::copy_n(out, n, partials + (which * chunks + chunk) * length + column);
      else
        emit(which, column, n, out);
    }
  });
  if (chunks <= 1) return;
  parallel_for(stream, tiles, [&](std::int64_t task) {
    const std::int64_t column = task * kReduceColumns;
    const int n = static_cast<int>(std::min<std::int64_t>(kReduceColumns, length - column));
    for (int which = 0; which < 2; ++which) {
      if (!wanted[which]) continue;
      ColumnSums<C> sums(n);
      for (std::int64_t c = 0; c < chunks; ++c) {
        std::copy_n(partials + (which * chunks + c) * length + column, n, sums.next());
        sums.push();
      }
      alignas(64) C out[kReduceColumns];
      sums.result(out);
      emit(which, column, n, out);
    }
  });
}

template <class C>
void run(const Stream& stream, Workspace workspace, const NormProblem& p,
         const Operands& operands) {
  const bool bypass = bytes_for(p.element_dtype, numel(p.shape)) >= kStreamBytes;
  if (!p.backward()) return forward<C>(stream, p, operands, bypass);
  if (p.weighted || p.biased)
    parameter_gradients<C>(stream, p, operands, static_cast<C*>(workspace.data));
  backward<C>(stream, p, operands, bypass);
}

}  // namespace

Result<void> norm_cpu(const Stream& stream, Workspace workspace, const NormProblem& p,
                      const Operands& operands) {
  if (p.element_dtype == Dtype::f64)
    run<double>(stream, workspace, p, operands);
  else
    run<float>(stream, workspace, p, operands);
  return {};
}

}  // namespace planck
