// Rows of operands of any strides for row-wise CPU kernels: element i of row r is position
// r * length + i.
#pragma once

#include <algorithm>

#include "planck/loops/cpu/positions.h"
#include "planck/loops/parallel.h"
#include "planck/loops/rows/cpu/map.h"
#include "planck/loops/rows/cpu/reduce.h"
#include "planck/plan/op.h"

namespace planck {

inline constexpr std::int64_t kRowTask = 1 << 16;  // elements worth a task

// batch(r, count) for all rows, up to `most` of them at a time; short ones several to a task.
template <class F>
void for_batches(const Stream& stream, std::int64_t rows, std::int64_t length, std::int64_t most,
                 const F& batch) {
  const std::int64_t together =
      std::max<std::int64_t>(1, kRowTask / std::max<std::int64_t>(1, length));
  parallel_for(stream, (rows + together - 1) / together, [&](std::int64_t task) {
    const std::int64_t end = std::min(rows, (task + 1) * together);
    for (std::int64_t r = task * together; r < end; r += most)
      batch(r, static_cast<int>(std::min(most, end - r)));
  });
}
template <class F>
void for_rows(const Stream& stream, std::int64_t rows, std::int64_t length, const F& row) {
  for_batches(stream, rows, length, 1, [&](std::int64_t r, int) { row(r); });
}

// Axes in `along` are the row's elements, in row-major order, the others number the rows, likewise.
inline Walk row_walk(const View& v, unsigned along) {
  NestStrides extent{}, stride{};
  std::size_t rank = 0;
  for (bool elements : {false, true})
    for (int d = 0; d < v.shape.rank(); ++d) {
      if (static_cast<bool>((along >> d) & 1u) != elements) continue;
      extent[rank] = v.shape[d];
      stride[rank++] = v.strides[d];
    }
  return walk_of(make_nest(static_cast<int>(rank), extent, {&stride, 1}), 0);
}

template <class C>
class RowOperand {
 public:
  RowOperand(const View& v, unsigned along)
      : operand_{v.data, v.dtype, row_walk(v, along)}, dense_(operand_.walk.dense()) {}

  // Positions [begin, begin + n), n <= kPortion; gathered into `buffer` where they are not dense.
  Source source(std::int64_t begin, int n, C* buffer) const {
    if (dense_) return {at(begin), operand_.dtype};
    return source_of<C>(operand_, begin, n, buffer);
  }
  // Null where the n positions are not dense.
  const void* in_place(std::int64_t begin, std::int64_t n) const {
    if (dense_) return at(begin);
    return n > INT32_MAX ? nullptr : dense_at(operand_, begin, static_cast<int>(n));
  }
  Dtype dtype() const { return operand_.dtype; }
  // Where a row is dense and its loops work from memory to memory (RowLoops::sum).
  const void* vectors(std::int64_t begin, std::int64_t n) const {
    return row_loops<C>().sum == nullptr || n == 0 ? nullptr : in_place(begin, n);
  }
  Sink sink(std::int64_t begin, bool stream) const { return {at(begin), operand_.dtype, stream}; }
  bool dense() const { return dense_; }
  // How many rows loops take at a time.
  std::int64_t batch() const { return dense_ ? kRowBatch : 1; }
  std::int64_t row_bytes(std::int64_t length) const {
    return length * static_cast<std::int64_t>(storage_bytes(operand_.dtype));
  }
  C number(std::int64_t position) const {
    if (plain()) return *reinterpret_cast<const C*>(at(position));
    C value;
    operand_.walk.runs(position, 1, [&](std::int64_t offset, std::int64_t, std::int64_t) {
      load_portion(portion_ops(), operand_.dtype, operand_.base, offset, 1, 1, &value);
    });
    return value;
  }
  void put_number(std::int64_t position, C value) const {
    const C v = math::canonical(value);
    if (plain()) {
      *reinterpret_cast<C*>(at(position)) = v;
      return;
    }
    operand_.walk.runs(position, 1, [&](std::int64_t offset, std::int64_t, std::int64_t) {
      store_portion(portion_ops(), operand_.dtype, operand_.base, offset, 1, 1, &v);
    });
  }
  void put(std::int64_t begin, int n, const C* values, bool stream) const {
    if (dense_) return row_loops<C>().put(values, n, {at(begin), operand_.dtype, stream});
    alignas(64) C buffer[kPortion];
    with_sink(operand_, begin, n, stream, buffer,
              [&](const Sink& to) { row_loops<C>().put(values, n, to); });
  }

 private:
  std::byte* at(std::int64_t begin) const {
    return static_cast<std::byte*>(operand_.base) +
           (operand_.walk.offset + begin) *
               static_cast<std::int64_t>(storage_bytes(operand_.dtype));
  }
  // Numbers of the compute type, which mean, rstd and lse are.
  bool plain() const { return dense_ && operand_.dtype == dtype_of<C>; }

  MapOperand operand_;
  bool dense_;
};

// Calls f(i, m) for the portions of a row, kPortion elements each but the last.
template <class F>
void for_portions(std::int64_t length, const F& f) {
  for (std::int64_t i = 0; i < length; i += kPortion)
    f(i, static_cast<int>(length - i < kPortion ? length - i : kPortion));
}

// The canonical sum of a row that comes in portions: value(i, m, buffer) gives a dense portion.
template <class C, class F>
C sum_of_portions(std::int64_t length, const F& portion) {
  const ReduceStep<C> add{Join::add, Lift::plain};
  reduce_math::JoinCounter<reduce_math::Add, C> sum;
  for_portions(length, [&](std::int64_t i, int m) {
    alignas(64) C buffer[kPortion];
    sum.add(reduce_sums<C>().row(add, portion(i, m, buffer), m, C(0)));
  });
  return length == 0 ? C(0) : sum.result();
}

// The same of lifted elements of an operand (square: parameter is the mean).
template <class C>
C sum_of_row(const RowOperand<C>& x, std::int64_t begin, std::int64_t length, Lift lift,
             C parameter) {
  const ReduceStep<C> step{Join::add, lift};
  if (length == 0) return C(0);
  if (const void* at = x.in_place(begin, length))
    return reduce_sums<C>().row(step, {at, x.dtype()}, length, parameter);
  reduce_math::JoinCounter<reduce_math::Add, C> sum;
  for_portions(length, [&](std::int64_t i, int m) {
    alignas(64) C buffer[kPortion];
    sum.add(reduce_sums<C>().row(step, x.source(begin + i, m, buffer), m, parameter));
  });
  return sum.result();
}

// The largest of a row, NaN where there is one.
template <class C>
C largest_of_row(const RowOperand<C>& x, std::int64_t begin, std::int64_t length) {
  using K = reduce_math::KeyOf<C>;
  const ReduceStep<C> step{Join::largest, Lift::key};
  K best = reduce_math::kLeastKey<K>;
  if (const void* at = x.in_place(begin, length)) {
    best = reduce_extremes<C>().row(step, {at, x.dtype()}, length, C(0));
  } else {
    for_portions(length, [&](std::int64_t i, int m) {
      alignas(64) C buffer[kPortion];
      const K here = reduce_extremes<C>().row(step, x.source(begin + i, m, buffer), m, C(0));
      best = here > best ? here : best;
    });
  }
  return reduce_math::value_of<C>(best, 0);
}

}  // namespace planck
