// Sums of rows: one output row is the canonical sum (planck/math/chunked_sum.h) of the rows that a
// run of entries points at.
//
// A row with up to 4,096 entries needs two levels of sums and stays with one thread. A longer one
// is heavy: whole units of it, which are subtrees of the canonical sum, are summed side by side
// into the workspace and then added up by the same rule.
#pragma once

#include <optional>

#include "planck/loops/cpu/portions.h"
#include "planck/loops/table/cpu/entries.h"
#include "planck/loops/table/cpu/row_loops.h"
#include "planck/math/chunked_sum.h"

namespace planck {

// Where the row of an entry comes from, and what is done to it on the way.
enum class RowOf : std::uint8_t { position, row, bag };

template <class C>
class RowReader {
 public:
  struct Changes {
    const std::int64_t* bag_of = nullptr;    // by position; RowOf::bag
    const View* weights = nullptr;           // by position: multiplies
    const std::int64_t* divisors = nullptr;  // by bag: divides
    const View* argmax = nullptr;            // by bag: +0 where it is not the position
  };

  // The last axis of `rows` are the columns, the others give the row.
  RowReader(const View& rows, RowOf from, const Changes& changes = {})
      : changes_(changes),
        changed_(changes.weights != nullptr || changes.divisors != nullptr ||
                 changes.argmax != nullptr),
        base_(rows.data),
        dtype_(rows.dtype),
        from_(from),
        rows_(rows, rows.shape.rank() - 1),
        element_(static_cast<std::int64_t>(storage_bytes(rows.dtype))),
        width_(rows.shape[rows.shape.rank() - 1]),
        step_(width_ == 1 ? 1 : rows.strides[rows.shape.rank() - 1]) {}

  const RowOps<C>& ops() const { return ops_; }
  std::int64_t width() const { return width_; }
  bool in_place() const { return step_ == 1 && !changed_; }
  Dtype row_dtype() const { return in_place() ? dtype_ : dtype_of<C>; }
  std::int64_t row_bytes() const { return width_ * element_; }
  // Whether rows may be summed in registers: in place, of a dtype that the CPU converts, and so
  // short that m of them stay in the first-level cache while the loop goes through the columns.
  bool few(std::int64_t m, std::int64_t n) const {
    constexpr std::int64_t kCached = 8192;
    return m * n <= kCached && in_place() && (dtype_ != Dtype::f16 || ops_.sums_f16);
  }

  // Bytes from one row to the next, where they lie evenly.
  std::optional<std::int64_t> even_step() const {
    if (rows_.walk().rank > 1) return std::nullopt;
    return rows_.walk().stride[0] * element_;
  }
  const std::byte* data() const { return static_cast<const std::byte*>(base_); }

  // n columns of an entry's row, dense and of row_dtype(); in `buffer` where they do not lie so.
  template <class U>
  const void* read(const Entry<U>& e, std::int64_t column, int n, C* buffer) const {
    const std::int64_t offset = row_offset(e) + column * step_;
    if (in_place()) return at(offset);
    load_portion(portion_ops(), dtype_, base_, offset, step_, n, buffer);
    if (changed_) change(static_cast<std::int64_t>(e.position), column, n, buffer);
    return buffer;
  }
  // Inlined by force: the compiler takes a function that only prefetches for one without effect
  // and drops its calls.
  template <class U>
  [[gnu::always_inline]] void prefetch(const Entry<U>& e, std::int64_t column, int n) const {
    if (step_ != 1) return;
    const std::byte* p = at(row_offset(e) + column);
    const std::byte* end = p + n * element_;
    for (; p < end; p += 64) __builtin_prefetch(p, 0, kToSecondLevel);
  }

 private:
  const std::byte* at(std::int64_t offset) const {
    return static_cast<const std::byte*>(base_) + offset * element_;
  }
  template <class U>
  std::int64_t row_offset(const Entry<U>& e) const {
    switch (from_) {
      case RowOf::position:
        return rows_.offset(static_cast<std::int64_t>(e.position));
      case RowOf::row:
        return rows_.offset(static_cast<std::int64_t>(e.row));
      case RowOf::bag:
        break;
    }
    return rows_.offset(changes_.bag_of[e.position]);
  }
  void change(std::int64_t position, std::int64_t column, int n, C* values) const {
    if (const View* weights = changes_.weights) {
      C factor;
      load_portion(portion_ops(), weights->dtype, weights->data, position * weights->strides[0], 0,
                   1, &factor);
      ops_.multiply(factor, n, values);
    }
    if (changes_.divisors != nullptr)
      ops_.divide(static_cast<C>(changes_.divisors[changes_.bag_of[position]]), n, values);
    if (const View* argmax = changes_.argmax) {
      const auto* winners = static_cast<const std::int64_t*>(argmax->data) +
                            changes_.bag_of[position] * argmax->strides[0] +
                            column * argmax->strides[1];
      for (int i = 0; i < n; ++i)
        values[i] = winners[i * argmax->strides[1]] == position ? values[i] : C(0);
    }
  }

  const RowOps<C>& ops_ = row_ops<C>();
  Changes changes_;
  bool changed_;
  const void* base_;
  Dtype dtype_;
  RowOf from_;
  PositionMap rows_;
  std::int64_t element_, width_, step_;
};

// What summing up to kPortion columns needs, on the stack.
template <class C>
struct SumBuffers {
  alignas(64) C sum[kPortion];
  alignas(64) C chunk[kPortion];
  alignas(64) C rows[kRowsAtOnce][kPortion];
};

// A matrix that results are written to.
template <class C>
class RowWriter {
 public:
  // add: add to what is there. streams: write past the caches.
  RowWriter(const View& v, bool add, bool streams)
      : base_(static_cast<std::byte*>(v.data)),
        dtype_(v.dtype),
        width_(v.shape[1]),
        row_step_(v.strides[0]),
        step_(width_ == 1 ? 1 : v.strides[1]),
        add_(add),
        streams_(streams) {}

  // Overwrites b.sum.
  void write(std::int64_t row, std::int64_t column, int n, SumBuffers<C>& b) const {
    const std::int64_t offset = row * row_step_ + column * step_;
    if (add_) {
      load_portion(portion_ops(), dtype_, base_, offset, step_, n, b.chunk);
      const void* sum = b.sum;
      row_ops<C>().add_rows(dtype_of<C>, &sum, 1, n, false, b.chunk);
    }
    C* values = add_ ? b.chunk : b.sum;
    if (step_ == 1) return row_ops<C>().store(n, values, Sink{at(offset), dtype_, streams_});
    row_ops<C>().store(n, values, Sink{b.rows[0], dtype_of<C>, false});
    store_portion(portion_ops(), dtype_, base_, offset, step_, n, b.rows[0]);
  }
  // Whether sums may go straight to memory, and where.
  bool direct() const { return step_ == 1 && !add_; }
  Sink sink(std::int64_t row) const { return {at(row * row_step_), dtype_, streams_}; }
  bool adds() const { return add_; }
  bool dense_rows() const { return step_ == 1; }
  bool dense() const { return step_ == 1 && row_step_ == width_; }
  std::int64_t row_bytes_step() const {
    return row_step_ * static_cast<std::int64_t>(storage_bytes(dtype_));
  }
  void zero(std::int64_t begin, std::int64_t end) const {
    if (begin >= end || width_ == 0) return;
    const std::size_t bytes = static_cast<std::size_t>(width_) * storage_bytes(dtype_);
    if (dense())
      return byte_ops().zero(at(begin * row_step_), static_cast<std::size_t>(end - begin) * bytes,
                             streams_);
    constexpr C kZeros[kPortion] = {};
    for (std::int64_t r = begin; r < end; ++r)
      if (step_ == 1)
        byte_ops().zero(at(r * row_step_), bytes, streams_);
      else
        for (std::int64_t c = 0; c < width_; c += kPortion)
          store_portion(portion_ops(), dtype_, base_, r * row_step_ + c * step_, step_,
                        static_cast<int>(std::min<std::int64_t>(kPortion, width_ - c)), kZeros);
  }

 private:
  std::byte* at(std::int64_t offset) const {
    return base_ + offset * static_cast<std::int64_t>(storage_bytes(dtype_));
  }
  std::byte* base_;
  Dtype dtype_;
  std::int64_t width_, row_step_, step_;
  bool add_, streams_;
};

// The sum of n columns of 1 to 64 rows of which RowReader::few is true, straight to memory.
template <class C, class U>
void sum_few(const RowReader<C>& reader, const Entry<U>* entries, int m, const Entry<U>* end,
             std::int64_t column, int n, const Sink& to) {
  const std::int64_t reach = rows_ahead(reader.row_bytes());
  const void* rows[kSumChunk];
  for (int k = 0; k < m; ++k) {
    if (entries + k + reach < end) reader.prefetch(entries[k + reach], column, n);
    rows[k] = reader.read(entries[k], column, n, nullptr);
  }
  reader.ops().sum_rows(reader.row_dtype(), rows, m, n, to);
}

// b.sum = the sum of n columns of m rows, 1 <= m <= 64². Entries up to `end` may be read, to
// prefetch their rows.
template <class C, class U>
void sum_entries(const RowReader<C>& reader, const Entry<U>* entries, std::int64_t m,
                 const Entry<U>* end, std::int64_t column, int n, SumBuffers<C>& b) {
  const RowOps<C>& ops = reader.ops();
  const Dtype dtype = reader.row_dtype();
  const std::int64_t reach = rows_ahead(reader.row_bytes());
  for (std::int64_t c = 0; c < m; c += kSumChunk) {
    C* sum = c == 0 ? b.sum : b.chunk;
    const std::int64_t stop = std::min<std::int64_t>(m, c + kSumChunk);
    const bool few = reader.few(stop - c, n);
    if (few)
      sum_few(reader, entries + c, static_cast<int>(stop - c), end, column, n,
              Sink{sum, dtype_of<C>, false});
    for (std::int64_t i = few ? stop : c; i < stop; i += kRowsAtOnce) {
      const int count = static_cast<int>(std::min<std::int64_t>(kRowsAtOnce, stop - i));
      const void* rows[kRowsAtOnce];
      for (int k = 0; k < count; ++k) {
        if (entries + i + k + reach < end) reader.prefetch(entries[i + k + reach], column, n);
        rows[k] = reader.read(entries[i + k], column, n, b.rows[k]);
      }
      ops.add_rows(dtype, rows, count, n, i == c, sum);
    }
    if (c > 0) {
      const void* chunk = b.chunk;
      ops.add_rows(dtype_of<C>, &chunk, 1, n, false, b.sum);
    }
  }
}

// Sums the row of `entries` and writes it; divisor: 0 for none.
template <class C, class U>
void emit_row(const RowReader<C>& reader, const RowWriter<C>& writer, const Entry<U>* entries,
              std::int64_t m, const Entry<U>* end, std::int64_t row, C divisor, SumBuffers<C>& b) {
  if (m <= kSumChunk && divisor == 0 && writer.direct() && reader.few(m, reader.width()))
    return sum_few(reader, entries, static_cast<int>(m), end, 0, static_cast<int>(reader.width()),
                   writer.sink(row));
  for (std::int64_t column = 0; column < reader.width(); column += kPortion) {
    const int n = static_cast<int>(std::min<std::int64_t>(kPortion, reader.width() - column));
    sum_entries(reader, entries, m, end, column, n, b);
    if (divisor != 0) reader.ops().divide(divisor, n, b.sum);
    writer.write(row, column, n, b);
  }
}

}  // namespace planck
