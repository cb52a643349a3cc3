// cpu:sorted_rows: gradients of a table, dense or row-sparse, from entries sorted by row.
//
// Each task takes the rows that begin in its run of sorted entries, sums each in the canonical
// order and, for a dense gradient, writes zeros to the rows in between. Rows with very many entries
// are left to HeavyRows.
//
// Versions, V 1,000,000 D 64 N 2^20 f32:                                 uniform    Zipf    one row
//   one thread, ms; a memcpy of the same bytes at 22 GB/s takes 24
//     a buffer and three calls per row, prefetches dropped by the compiler 196        147     62
//     rows prefetched into the first level                                 115        91      49
//     into the second level                                                100        73      50
//     up to 64 rows summed in registers, straight to memory                63         63      47
//     short rows in one loop (short_rows.cpp); sorting takes 14 ms of it   43         47      41
//   two threads, share of the ceiling, on a machine in use
//     the same                                                             0.52       0.49
//     buckets sorted while they are summed                                 0.51–0.57  0.52–0.56
//     zeros and rows of 64 without calls                                   0.58       0.52
//       on a quiet machine                                                 0.72       0.59
//   one thread again, ms
//     the same                                                             35         30.5
//     every row of a bucket by one loop (bucket_rows.h)                    34         32
//     rows prefetched 128 at a time                                        31         26
//   V 50,257 D 768 N 65,536, one thread, ms (memcpy: 16)
//     the first version                                                    29         28      23
//     short rows in one loop                                               19         23      23
// 256 to 2,048 buckets make no difference. Summing crowded rows in the order of their positions,
// half a row per thread, is no faster than gathering them.
#include <optional>
#include <type_traits>
#include <utility>

#include "planck/loops/cpu/positions.h"
#include "planck/loops/table/cpu/bags.h"
#include "planck/loops/table/cpu/bucket_rows.h"
#include "planck/loops/table/cpu/heavy_rows.h"
#include "planck/loops/table/cpu/row_tasks.h"
#include "planck/loops/table/cpu/short_rows.h"
#include "planck/loops/table/cpu/weights_gradient.h"
#include "planck/loops/table/kernels.h"

namespace planck {

namespace {

using Dense = table_operand::Backward;
using Sparse = table_operand::SparseBackward;
using Bag = table_operand::BagBackward;

constexpr std::int64_t kShortBytes = 4096;

template <class C, class U>
class SortedRows {
 public:
  SortedRows(const TableProblem& p, Parts& parts)
      : p_(p),
        cut_(p.num_embeddings, p.count(), writes_all() ? row_bytes() : 0),
        sorter_(cut_, parts),
        tasks_(cut_, parts),
        heavy_(p.count(), p.dim, parts),
        bags_(p, parts),
        bag_of_(parts.take<std::int64_t>(p.is_bag() ? p.count() : 0)),
        valid_(parts.take<std::int64_t>(p.is_bag() && p.mode == BagMode::mean ? p.bags : 0)) {}

  void run(const Stream& stream, const Operands& o) {
    const IndexReader indices(o[Dense::indices]);
    std::int64_t first = 0, last = p_.count();
    if (p_.is_bag()) {
      const std::int64_t bad = bags_.read(o[Bag::offsets]);
      set_counter(o[Bag::bad_offsets], bad);
      bags_.find_bags(stream, bag_of_);
      if (p_.mode == BagMode::mean) bags_.count_valid(stream, p_, indices, valid_);
      first = bags_.first();
      last = bags_.last();
    }
    const std::int64_t bad = sorter_.scatter(stream, indices, p_.padding_idx, first, last);
    set_counter(o[static_cast<std::size_t>(p_.is_bag()   ? +Bag::bad_indices
                                           : is_sparse() ? +Sparse::bad_indices
                                                         : +Dense::bad_indices)],
                bad);
    tasks_.cut(sorter_, writes_all());
    const SortedEntries<U> sorted = sorter_.sorted();
    sorter_.sort_large(stream);
    if (is_sparse()) sort_small(stream);

    typename RowReader<C>::Changes changes;
    changes.bag_of = bag_of_;
    if (p_.weighted) changes.weights = &o[Bag::weights];
    if (p_.is_bag() && p_.mode == BagMode::mean) changes.divisors = valid_;
    if (p_.is_bag() && p_.mode == BagMode::max) changes.argmax = &o[Bag::argmax];
    const RowReader<C> reader(o[Dense::dout], p_.is_bag() ? RowOf::bag : RowOf::position, changes);

    const View& out = o[static_cast<std::size_t>(p_.is_bag()   ? +Bag::dweight
                                                 : is_sparse() ? +Sparse::values
                                                               : +Dense::dweight)];
    const std::int64_t bytes = numel(out.shape) * bits(out.dtype) / 8;
    const RowWriter<C> writer(out, p_.accumulate,
                              !p_.accumulate && bytes >= static_cast<std::int64_t>(kStreamBytes));
    std::int64_t unique = 0;
    if (is_sparse()) unique = place_rows(stream, sorted);
    const std::optional<ShortRows> short_rows = short_rows_of(reader, writer);
    const bool whole_buckets = short_rows && cut_.row_ends && fits_bucket_rows(*short_rows);
    parallel_for(stream, tasks_.jobs(), [&](std::int64_t j) {
      if (whole_buckets) return run_buckets(tasks_.job(j), *short_rows, writer);
      run_job(tasks_.job(j), [&](RowTask& t, std::int64_t ready) {
        emit_task(t, sorted, ready, reader, writer, short_rows ? &*short_rows : nullptr,
                  o[Sparse::rows]);
      });
    });
    for (const RowTask& t : tasks_.all())
      for (const RowTask::Heavy& h : std::span(t.heavy, static_cast<std::size_t>(t.heavies)))
        heavy_.add(sorted.entries + h.begin, h.end - h.begin, h.row, C(0));
    heavy_.run(stream, reader, writer, whole_buckets ? &*short_rows : nullptr);
    if (is_sparse()) finish_sparse(stream, unique, writer, o);
    if (p_.weights_gradient) weights_gradient_cpu<C>(stream, p_, bags_, bag_of_, o);
  }

 private:
  bool is_sparse() const { return p_.kind == TableOp::add_sparse; }
  bool writes_all() const { return !is_sparse() && !p_.accumulate; }
  std::int64_t row_bytes() const { return p_.dim * bits(p_.element_dtype) / 8; }

  static void set_counter(const View& v, std::int64_t value) {
    if (v.present) *static_cast<std::int64_t*>(v.data) = value;
  }

  // Short rows where they lie evenly; all others are read and written kPortion columns at a time.
  std::optional<ShortRows> short_rows_of(const RowReader<C>& reader,
                                         const RowWriter<C>& writer) const {
    const auto step = reader.even_step();
    if (!step || !writer.dense_rows() || p_.dim == 0 || !reader.few(1, p_.dim)) return std::nullopt;
    if (reader.row_bytes() > kShortBytes || (writes_all() && !writer.dense())) return std::nullopt;
    const Sink first = writer.sink(0);
    return ShortRows{.bag_of = p_.is_bag() ? bag_of_ : nullptr,
                     .rows = reader.data(),
                     .out = static_cast<std::byte*>(first.data),
                     .row_step = *step,
                     .out_step = writer.row_bytes_step(),
                     .dtype = p_.element_dtype,
                     .width = static_cast<int>(p_.dim),
                     .adds = writer.adds(),
                     .streams = first.stream,
                     .fills = writes_all(),
                     .reach = rows_ahead(reader.row_bytes())};
  }

  void sort_small(const Stream& stream) const {
    parallel_for(stream, cut_.buckets, [&](std::int64_t b) {
      if (!sorter_.is_large(b)) sorter_.sort(b);
    });
  }

  // Each bucket is sorted before the one in front of it is summed, so that rows can be prefetched
  // across the border. Calls emit(task, end of what is sorted).
  template <class F>
  void run_job(std::span<RowTask> job, F&& emit) const {
    const SortedEntries<U> sorted = sorter_.sorted();
    if (is_sparse() || sorter_.is_large(job.front().bucket)) {
      for (RowTask& t : job) emit(t, sorted.starts[is_sparse() ? sorted.buckets : t.bucket + 1]);
      return;
    }
    std::size_t ahead = 0;  // the first task whose bucket is not sorted
    const auto sort_next = [&] {
      if (ahead == job.size()) return;
      const std::int64_t b = job[ahead].bucket;
      sorter_.sort(b);
      while (ahead < job.size() && job[ahead].bucket == b) ++ahead;
    };
    sort_next();
    for (std::size_t t = 0; t < job.size(); ++t) {
      if (t == 0 || job[t].bucket != job[t - 1].bucket) sort_next();
      emit(job[t], sorted.starts[job[ahead - 1].bucket + 1]);
    }
  }

  // The same for rows that fit sum_bucket_rows: one loop writes every row of a bucket.
  void run_buckets(std::span<RowTask> job, const ShortRows& short_rows,
                   const RowWriter<C>& writer) const {
    const SortedEntries<U> sorted = sorter_.sorted();
    const std::int64_t first = job.front().bucket, last = job.back().bucket;
    const bool large = sorter_.is_large(first);
    U ends[2][std::size_t{1} << EntrySorter<U>::kDigitBits];  // of even and of odd buckets
    const auto sort = [&](std::int64_t b) {
      if (b <= last && !large) sorter_.sort(b, ends[b % 2]);
    };
    sort(first);
    std::int64_t asked = sorted.starts[first];
    if (large) asked = job.front().begin + kBucketAheadBytes / row_bytes();  // by the task before
    for (std::int64_t before = -1; RowTask & t : job) {
      if (t.bucket != std::exchange(before, t.bucket)) sort(t.bucket + 1);
      const std::int64_t ready = sorted.starts[std::min(t.bucket + 1, last) + 1];
      emit_rows(t, sorted, ready, large ? sorter_.ends_of_large(t.bucket) : ends[t.bucket % 2],
                short_rows, writer, asked);
    }
  }
  void emit_rows(RowTask& t, const SortedEntries<U>& sorted, std::int64_t ready, const U* ends,
                 const ShortRows& short_rows, const RowWriter<C>& writer,
                 std::int64_t& asked) const {
    const std::int64_t begin = sorted.starts[t.bucket];
    const std::int64_t end_row = std::min(p_.num_embeddings, sorted.first_row(t.bucket + 1));
    if (begin == sorted.starts[t.bucket + 1])
      return writer.zero(sorted.first_row(t.bucket), end_row);
    BucketRun<U> run{.entries = sorted.entries,
                     .begin = begin,
                     .ends = ends,
                     .first_row = sorted.first_row(t.bucket),
                     .end_row = end_row,
                     .end = t.end,
                     .last = ready,
                     .most = heavy_.threshold(),
                     .next = sorted.first_row(t.bucket),
                     .asked = asked};
    if (t.begin > begin) run.next = static_cast<std::int64_t>(sorted.entries[t.begin - 1].row) + 1;
    while (sum_bucket_rows(short_rows, run)) {
      t.heavy[t.heavies++] = {run.begin_of(run.next), run.end_of(run.next), run.next};
      ++run.next;
    }
    asked = run.asked;
  }

  // The first entry of the task whose row does not begin before it.
  std::int64_t first_entry(const RowTask& t, const SortedEntries<U>& sorted) const {
    const Entry<U>* e = sorted.entries;
    std::int64_t i = t.begin;
    if (i > sorted.starts[t.bucket])
      while (i < t.end && e[i].row == e[t.begin - 1].row) ++i;
    return i;
  }
  // Where the entries of the row at i end.
  std::int64_t row_end(const RowTask& t, const SortedEntries<U>& sorted, std::int64_t i) const {
    const Entry<U>* e = sorted.entries;
    const std::int64_t stop = sorted.starts[t.bucket + 1];
    const U row = e[i].row;
    if (i + heavy_.threshold() < stop && e[i + heavy_.threshold()].row == row)
      return std::partition_point(e + i, e + stop,
                                  [&](const Entry<U>& x) { return x.row == row; }) -
             e;
    while (i < stop && e[i].row == row) ++i;
    return i;
  }

  // Sparse: the place of each task's first row; returns the number of rows.
  std::int64_t place_rows(const Stream& stream, const SortedEntries<U>& sorted) {
    const std::span<RowTask> tasks = tasks_.all();
    parallel_for(stream, std::ssize(tasks), [&](std::int64_t k) {
      RowTask& t = tasks[static_cast<std::size_t>(k)];
      t.rows = 0;
      for (std::int64_t i = first_entry(t, sorted); i < t.end; i = row_end(t, sorted, i)) ++t.rows;
    });
    std::int64_t place = 0;
    for (RowTask& t : tasks) place += std::exchange(t.rows, place);
    return place;
  }

  void emit_task(RowTask& t, const SortedEntries<U>& sorted, std::int64_t last,
                 const RowReader<C>& reader, const RowWriter<C>& writer,
                 const ShortRows* short_rows, const View& rows) const {
    SumBuffers<C> b;
    const Entry<U>* e = sorted.entries;
    std::int64_t place = t.rows;
    RowRun<U> run{e,    first_entry(t, sorted),    t.end, sorted.starts[t.bucket + 1],
                  last, sorted.first_row(t.bucket)};
    if (t.begin > sorted.starts[t.bucket])
      run.next = static_cast<std::int64_t>(e[t.begin - 1].row) + 1;
    if (is_sparse()) {
      run.place = &place;
      run.rows = static_cast<std::int64_t*>(rows.data);
      run.rows_step = rows.strides[0];
    }
    while (true) {
      if (short_rows != nullptr) sum_short_rows(*short_rows, run);
      if (run.at >= run.end) break;
      const auto row = static_cast<std::int64_t>(e[run.at].row);
      if (writes_all()) writer.zero(run.next, row);
      run.next = row + 1;
      const std::int64_t to = is_sparse() ? place++ : row;
      if (is_sparse()) run.rows[to * run.rows_step] = row;
      const std::int64_t begin = run.at;
      run.at = row_end(t, sorted, begin);
      if (run.at - begin > heavy_.threshold())
        t.heavy[t.heavies++] = {begin, run.at, to};
      else
        emit_row(reader, writer, e + begin, run.at - begin, e + run.last, to, C(0), b);
    }
    if (writes_all() && t.end == run.stop)
      writer.zero(run.next, std::min(p_.num_embeddings, sorted.first_row(t.bucket + 1)));
  }

  void finish_sparse(const Stream& stream, std::int64_t unique, const RowWriter<C>& writer,
                     const Operands& o) const {
    const View& rows = o[Sparse::rows];
    parallel_for(stream, (p_.count() - unique + kTaskEntries - 1) / kTaskEntries,
                 [&](std::int64_t task) {
                   const std::int64_t begin = unique + task * kTaskEntries;
                   const std::int64_t end = std::min(p_.count(), begin + kTaskEntries);
                   for (std::int64_t k = begin; k < end; ++k)
                     static_cast<std::int64_t*>(rows.data)[k * rows.strides[0]] = -1;
                   writer.zero(begin, end);
                 });
    set_counter(o[Sparse::count], unique);
  }

  const TableProblem& p_;
  SortCut cut_;
  EntrySorter<U> sorter_;
  RowTasks<U> tasks_;
  HeavyRows<C, U> heavy_;
  Bags bags_;
  std::int64_t* bag_of_;
  std::int64_t* valid_;
};

// Calls f(compute type, entry type).
template <class F>
auto with_types(const TableProblem& p, F&& f) {
  const bool narrow = p.count() <= UINT32_MAX && p.num_embeddings <= UINT32_MAX;
  const auto with_entry = [&](auto compute) {
    return narrow ? f(compute, std::type_identity<std::uint32_t>{})
                  : f(compute, std::type_identity<std::uint64_t>{});
  };
  return p.element_dtype == Dtype::f64 ? with_entry(std::type_identity<double>{})
                                       : with_entry(std::type_identity<float>{});
}

}  // namespace

std::size_t add_rows_cpu_workspace(const TableProblem& p) {
  return with_types(p, [&](auto compute, auto entry) {
    Parts parts;
    SortedRows<typename decltype(compute)::type, typename decltype(entry)::type> size(p, parts);
    return parts.bytes();
  });
}

Result<void> add_rows_cpu(const Stream& stream, Workspace workspace, const TableProblem& p,
                          const Operands& operands) {
  with_types(p, [&](auto compute, auto entry) {
    Parts parts(workspace.data);
    SortedRows<typename decltype(compute)::type, typename decltype(entry)::type>(p, parts).run(
        stream, operands);
  });
  return {};
}

}  // namespace planck
