// cpu:rows. A row is read for its largest element, from the cache for its exponentials, which are
// kept where they fit, and once more for the result.
#include <algorithm>
#include <atomic>

#include "planck/loops/parallel.h"
#include "planck/loops/rows/cpu/operands.h"
#include "planck/ops/softmax/cpu/kernels.h"

namespace planck {

namespace {

// The canonical sum of a function of a row's elements, portion by portion; the function's values go
// to `values` unless it is null.
template <class C>
C sum_of_map(RowMap how, const RowOperand<C>& x, std::int64_t begin, std::int64_t length,
             const row_math::Shared<C>& shared, C* values) {
  return sum_of_portions<C>(length, [&](std::int64_t i, int m, C* buffer) {
    alignas(64) C raw[kPortion];
    const Source from = x.source(begin + i, m, raw);
    const Source* operands[3] = {&from, nullptr, nullptr};
    C* to = values != nullptr ? values + i : buffer;
    row_loops<C>().map(how, operands, m, shared, to);
    return Source{to, dtype_of<C>};
  });
}
template <class C>
Exponentials<C> exponentials(const RowOperand<C>& x, std::int64_t begin, std::int64_t length,
                             C* values) {
  const C largest = largest_of_row(x, begin, length);
  return {largest, sum_of_map<C>(RowMap::exponential, x, begin, length, {largest}, values)};
}

// The same of `count` rows from position `begin` on.
template <class C>
void exponentials(const RowOperand<C>& x, std::int64_t begin, int count, std::int64_t length,
                  Exponentials<C>* each) {
  if (const void* at = x.vectors(begin, count * length))
    return row_loops<C>().exponentials(x.dtype(), at, count, length, each);
  for (int k = 0; k < count; ++k) each[k] = exponentials<C>(x, begin + k * length, length, nullptr);
}

// out = map of the operands, portion by portion.
template <class C>
void map_row(RowMap how, const RowOperand<C>& x, const RowOperand<C>* y, const RowOperand<C>& out,
             std::int64_t begin, std::int64_t length, const row_math::Shared<C>& shared,
             bool stream) {
  const void* first = out.dense() ? x.vectors(begin, length) : nullptr;
  const void* second = y != nullptr ? y->vectors(begin, length) : first;
  if (first != nullptr && second != nullptr)
    return row_loops<C>().write(how, {first, second}, length, shared, out.sink(begin, stream));
  for_portions(length, [&](std::int64_t i, int m) {
    alignas(64) C raw[2][kPortion], values[kPortion];
    const Source a = x.source(begin + i, m, raw[0]);
    const Source b = y != nullptr ? y->source(begin + i, m, raw[1]) : a;
    const Source* operands[3] = {&a, &b, nullptr};
    row_loops<C>().map(how, operands, m, shared, values);
    out.put(begin + i, m, values, stream);
  });
}

// A row whose exponentials are kept, in portions.
template <class C>
void softmax_row(const RowOperand<C>& x, const RowOperand<C>& y, std::int64_t begin,
                 std::int64_t length, bool bypass) {
  alignas(64) C kept[kKeptRow];
  const Exponentials<C> e = exponentials<C>(x, begin, length, kept);
  for_portions(length, [&](std::int64_t i, int m) {
    alignas(64) C out[kPortion];
    const Source from{kept + i, dtype_of<C>};
    const Source* inputs[3] = {&from, nullptr, nullptr};
    row_loops<C>().map(RowMap::scaled, inputs, m, {C(1) / e.sum}, out);
    y.put(begin + i, m, out, bypass);
  });
}

template <class C>
void forward(const Stream& stream, const SoftmaxProblem& p, const Operands& operands, bool bypass) {
  const std::int64_t length = p.length();
  const unsigned along = 1u << p.axis;
  const RowOperand<C> x(operands[0], along), y(operands[1], along);
  const bool log = p.kind == SoftmaxKind::log_softmax, keeps = !log && length <= kKeptRow;
  const std::int64_t most = keeps ? x.batch() : 1;
  for_batches(stream, p.rows(), length, most, [&](std::int64_t row, int count) {
    const std::int64_t begin = row * length;
    if (keeps) {
      if (const void* at = y.dense() ? x.vectors(begin, count * length) : nullptr)
        return row_loops<C>().softmax(at, count, length, y.sink(begin, bypass));
      for (int k = 0; k < count; ++k) softmax_row(x, y, begin + k * length, length, bypass);
      return;
    }
    Exponentials<C> e;
    exponentials(x, begin, 1, length, &e);
    map_row<C>(log ? RowMap::log_softmax : RowMap::softmax, x, nullptr, y, begin, length,
               {e.largest, log ? math::log(e.sum) : C(1) / e.sum}, bypass);
  });
}

template <class C>
void backward(const Stream& stream, const SoftmaxProblem& p, const Operands& operands,
              bool bypass) {
  const std::int64_t length = p.length();
  const unsigned along = 1u << p.axis;
  const RowOperand<C> y(operands[0], along), dy(operands[1], along), dx(operands[2], along);
  const bool log = p.kind == SoftmaxKind::log_softmax_backward;
  const std::int64_t ahead = y.row_bytes(length);
  for_rows(stream, p.rows(), length, [&](std::int64_t row) {
    const std::int64_t begin = row * length;
    const void *left = y.vectors(begin, length), *right = dy.vectors(begin, length);
    C sum;
    if (log && right != nullptr) {
      sum = row_loops<C>().sum(RowMap::first, dy.dtype(), {right, nullptr}, length, ahead);
    } else if (log) {
      sum = sum_of_row(dy, begin, length, Lift::plain, C(0));
    } else if (left != nullptr && right != nullptr) {
      sum = row_loops<C>().sum(RowMap::product, y.dtype(), {left, right}, length, ahead);
    } else {
      sum = sum_of_portions<C>(length, [&](std::int64_t i, int m, C* buffer) {
        alignas(64) C raw[2][kPortion];
        const Source a = y.source(begin + i, m, raw[0]), b = dy.source(begin + i, m, raw[1]);
        const Source* inputs[3] = {&a, &b, nullptr};
        row_loops<C>().map(RowMap::product, inputs, m, {}, buffer);
        return Source{buffer, dtype_of<C>};
      });
    }
    map_row<C>(log ? RowMap::log_softmax_backward : RowMap::softmax_backward, y, &dy, dx, begin,
               length, {sum}, bypass);
  });
}

std::int64_t target_of(const View& targets, std::int64_t row) {
  const std::int64_t at = row * targets.strides[0];
  return targets.dtype == Dtype::i32 ? static_cast<const std::int32_t*>(targets.data)[at]
                                     : static_cast<const std::int64_t*>(targets.data)[at];
}

// cross_entropy's sums, of `count` rows from position `begin` on.
template <class C>
void sums_of_terms(const RowOperand<C>& x, std::int64_t begin, int count, std::int64_t length,
                   Exponentials<C>* each) {
  if (const void* at = x.vectors(begin, count * length))
    return row_loops<C>().terms(x.dtype(), at, count, length, each);
  for (int k = 0; k < count; ++k) {
    const std::int64_t row = begin + k * length;
    const C largest = largest_of_row(x, row, length);
    each[k] = {largest, sum_of_map<C>(RowMap::term, x, row, length,
                                      {math::center_of_terms(largest)}, nullptr)};
  }
}

template <class C>
void entropy(const Stream& stream, const SoftmaxProblem& p, const Operands& operands) {
  const std::int64_t length = p.length();
  const RowOperand<C> x(operands[0], 2u), loss(operands[2], 0u), lse(operands[3], 0u);
  std::atomic<std::int64_t> bad = 0;
  for_batches(stream, p.rows(), length, x.batch(), [&](std::int64_t first, int count) {
    Exponentials<C> each[kRowBatch];
    if (length > 0) sums_of_terms(x, first * length, count, length, each);
    for (int k = 0; k < count; ++k) {
      const std::int64_t row = first + k, target = target_of(operands[1], row);
      const bool ignored = target == p.ignore_index, inside = target >= 0 && target < length;
      if (!ignored && !inside) bad.fetch_add(1, std::memory_order_relaxed);
      C value = 0, together = -math::infinity_of(C(0));
      if (length > 0) {
        const C largest = each[k].largest, center = math::center_of_terms(largest);
        const C log_sum = math::log(each[k].sum / math::exp_term(largest - center));
        together = largest - largest == C(0) ? largest + log_sum : largest;
        if (!ignored && inside) value = (largest - x.number(row * length + target)) + log_sum;
      }
      lse.put_number(row, together);
      loss.put_number(row, value);
    }
  });
  if (operands[4].present) *static_cast<std::int64_t*>(operands[4].data) = bad.load();
}

template <class C>
void entropy_backward(const Stream& stream, const SoftmaxProblem& p, const Operands& operands,
                      bool bypass) {
  const std::int64_t length = p.length();
  const RowOperand<C> x(operands[0], 2u), lse(operands[2], 0u), dloss(operands[3], 0u),
      dx(operands[4], 2u);
  for_rows(stream, p.rows(), length, [&](std::int64_t row) {
    const std::int64_t target = target_of(operands[1], row), begin = row * length;
    const bool counts = target != p.ignore_index && target >= 0 && target < length;
    const row_math::Shared<C> shared{lse.number(row), dloss.number(row)};
    if (const void* at = counts && dx.dense() ? x.vectors(begin, length) : nullptr) {
      // dx may take x's place: the target's element is read first.
      const C hit = row_math::EntropyBackward::at_target(x.number(begin + target), shared);
      row_loops<C>().write(RowMap::entropy_backward, {at, nullptr}, length, shared,
                           dx.sink(begin, bypass));
      return dx.put_number(begin + target, hit);
    }
    for_portions(length, [&](std::int64_t i, int m) {
      alignas(64) C raw[kPortion], values[kPortion];
      if (counts) {
        const Source from = x.source(begin + i, m, raw);
        const Source* inputs[3] = {&from, nullptr, nullptr};
        row_loops<C>().map(RowMap::entropy_backward, inputs, m, shared, values);
        if (target >= i && target < i + m)
          values[target - i] =
              row_math::EntropyBackward::at_target(x.number(begin + target), shared);
      } else {
        std::fill_n(values, m, C(0));
      }
      dx.put(begin + i, m, values, bypass);
    });
  });
}

template <class C>
void run(const Stream& stream, const SoftmaxProblem& p, const Operands& operands) {
  const bool bypass = bytes_for(p.element_dtype, numel(p.shape)) >= kStreamBytes;
  if (numel(p.shape) == 0 && p.kind != SoftmaxKind::cross_entropy) return;
  switch (p.kind) {
    case SoftmaxKind::softmax:
    case SoftmaxKind::log_softmax:
      return forward<C>(stream, p, operands, bypass);
    case SoftmaxKind::softmax_backward:
    case SoftmaxKind::log_softmax_backward:
      return backward<C>(stream, p, operands, bypass);
    case SoftmaxKind::cross_entropy:
      return entropy<C>(stream, p, operands);
    case SoftmaxKind::cross_entropy_backward:
      return entropy_backward<C>(stream, p, operands, bypass);
  }
}

}  // namespace

Result<void> softmax_cpu(const Stream& stream, Workspace, const SoftmaxProblem& p,
                         const Operands& operands) {
  if (p.element_dtype == Dtype::f64)
    run<double>(stream, p, operands);
  else
    run<float>(stream, p, operands);
  return {};
}

}  // namespace planck
