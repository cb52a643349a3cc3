// cpu:rows, forward. A row is read for its mean, and from the cache for its variance and its
// result. Gradients: backward.cpp.
#include "planck/ops/norm/cpu/backward.h"
#include "planck/ops/norm/cpu/kernels.h"
#include "planck/ops/norm/cpu/operands.h"

namespace planck {

namespace {

namespace o = norm_operand;

template <class C>
void forward(const Stream& stream, const NormProblem& p, const Operands& operands, bool bypass) {
  const std::int64_t length = p.length();
  const RowOperand<C> x(operands[o::x], p.along()), y(operands[o::y], p.along());
  const RowOperand<C> mean(operands[o::mean], 0u), rstd(operands[o::rstd], 0u);
  const Parameter<C> weight(operands[o::weight], p.weighted, C(1));
  const Parameter<C> bias(operands[o::bias], p.biased, C(-0.0));
  const C count = static_cast<C>(length), eps = static_cast<C>(p.eps);
  const bool whole =
      x.dense() && y.dense() && bias.has_vectors(length) && weight.has_vectors(length);
  const std::int64_t most = whole ? x.batch() : 1;
  for_batches(stream, p.rows(), length, most, [&](std::int64_t row, int count_of_rows) {
    const std::int64_t begin = row * length;
    row_math::Shared<C> shared[kRowBatch];
    const auto put_statistics = [&] {
      for (int k = 0; k < count_of_rows; ++k) {
        if (p.centered()) mean.put_number(row + k, shared[k].a);
        rstd.put_number(row + k, shared[k].b);
      }
    };
    if (whole && length > 0) {
      norm_loops<C>().forward({x.dtype(), x.in_place(begin, length), nullptr,
                               weight.vectors(length), bias.vectors(length), length},
                              count_of_rows, p.centered(), eps, shared, y.sink(begin, bypass));
      return put_statistics();
    }
    row_math::Shared<C>& s = shared[0];
    if (p.centered()) s.a = sum_of_row(x, begin, length, Lift::plain, C(0)) / count;
    const C variance = sum_of_row(x, begin, length, Lift::square, s.a) / count;
    s.b = C(1) / math::sqrt_of(variance + eps);
    put_statistics();
    for_portions(length, [&](std::int64_t i, int m) {
      alignas(64) C raw[3][kPortion], values[kPortion];
      const Source in = x.source(begin + i, m, raw[0]), shift = bias.source(i, m, raw[1]),
                   scale = weight.source(i, m, raw[2]);
      const Source* inputs[3] = {&in, &shift, &scale};
      row_loops<C>().map(RowMap::normalized, inputs, m, s, values);
      y.put(begin + i, m, values, bypass);
    });
  });
}

template <class C>
void run(const Stream& stream, Workspace workspace, const NormProblem& p,
         const Operands& operands) {
  const bool bypass = bytes_for(p.element_dtype, numel(p.shape)) >= kStreamBytes;
  if (!p.backward()) return forward<C>(stream, p, operands, bypass);
  norm_backward_cpu<C>(stream, p, operands, static_cast<C*>(workspace.data), bypass);
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
