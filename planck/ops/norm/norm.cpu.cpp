// cpu:rows, forward. A row is read for its mean, and from the cache for its variance and its
// result. Gradients: backward.cpu.cpp.
#include "planck/ops/norm/backward.cpu.h"
#include "planck/ops/norm/kernels.h"
#include "planck/ops/norm/operands.cpu.h"

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
