// cpu:sorted_rows: gradients of a table, dense or row-sparse, from entries sorted by row.
//
// Each task takes the rows that begin in its run of sorted entries, sums each in the canonical
// order and, for a dense gradient, writes zeros to the rows in between. Rows with very many entries
// are left to HeavyRows.
//
// Tried, one thread, ms for V 1,000,000 D 64 N 2^20 f32, uniform / Zipf / one row, beside a memcpy
// of the same bytes at 22 GB/s (24 ms):
//   a buffer and three calls a row, prefetches dropped by the compiler     196 / 147 / 62
//   rows asked for ahead of time, into the first level                     115 / 91 / 49
//   into the second level                                                  100 / 73 / 50
//   up to 64 rows summed in registers, straight to memory                  63 / 63 / 47
//   short rows in one loop (short_rows.cpu.cpp)                            43 / 47 / 41
// Of the last, sorting takes 14 ms; 256 to 2,048 buckets make no difference. V 50,257 D 768
// N 65,536: 29 / 28 / 23 at first, 19 / 23 / 23 now (memcpy: 16). Then, two threads, shares of the
// ceiling on a machine that others use, uniform / Zipf: 0.52 / 0.49 so; buckets sorted while they
// are summed 0.51 to 0.57 / 0.52 to 0.56; zeros and rows of 64 without calls 0.58 / 0.52, and 0.72
// / 0.59 on a quiet one.
#include <optional>
#include <type_traits>

#include "planck/loops/positions.h"
#include "planck/ops/embedding/bags.cpu.h"
#include "planck/ops/embedding/heavy_rows.cpu.h"
#include "planck/ops/embedding/kernels.h"
#include "planck/ops/embedding/short_rows.cpu.h"
#include "planck/ops/embedding/sorted_entries.cpu.h"
#include "planck/ops/embedding/weights_gradient.cpu.h"

namespace planck {

namespace {

using Dense = embedding_operand::Backward;
using Sparse = embedding_operand::SparseBackward;
using Bag = embedding_operand::BagBackward;

constexpr std::int64_t kTaskEntries = 1024;
constexpr std::int64_t kJobBuckets = 4, kJobEntries = 8192;
constexpr std::int64_t kShortBytes = 4096;

// The rows that begin in entries [begin, end) of a bucket.
struct RowTask {
  std::int64_t bucket, begin, end;
  std::int64_t rows;  // sparse: how many begin here, then the place of the first of them
  // At most two rows with more than 512 entries begin among 1,024.
  struct Heavy {
    std::int64_t begin, end, row;
  } heavy[2];
  int heavies;
};

// Tasks [begin, end), one thread's, one after the other.
struct Job {
  std::int64_t begin, end;
};

template <class C, class U>
class SortedRows {
 public:
  SortedRows(const EmbeddingProblem& p, Parts& parts)
      : p_(p),
        cut_(p.num_embeddings, p.count(), writes_all() ? row_bytes() : 0),
        sorter_(cut_, parts),
        tasks_(parts.take<RowTask>(cut_.buckets + p.count() / kTaskEntries)),
        jobs_(parts.take<Job>(cut_.buckets + p.count() / kTaskEntries)),
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
    cut_tasks();
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
    parallel_for(stream, job_count_, [&](std::int64_t j) {
      run_job(jobs_[j], [&](RowTask& t, std::int64_t ready) {
        emit_task(t, sorted, ready, reader, writer, short_rows ? &*short_rows : nullptr,
                  o[Sparse::rows]);
      });
    });
    for (std::int64_t t = 0; t < task_count_; ++t)
      for (int k = 0; k < tasks_[t].heavies; ++k) {
        const RowTask::Heavy& h = tasks_[t].heavy[k];
        heavy_.add(sorted.entries + h.begin, h.end - h.begin, h.row, C(0));
      }
    heavy_.run(stream, reader, writer);
    if (is_sparse()) finish_sparse(stream, unique, writer, o);
    if (p_.weights_gradient) weights_gradient_cpu<C>(stream, p_, bags_, bag_of_, o);
  }

 private:
  bool is_sparse() const { return p_.kind == EmbeddingKind::embedding_sparse_backward; }
  bool writes_all() const { return !is_sparse() && !p_.accumulate; }
  std::int64_t row_bytes() const { return p_.dim * bits(p_.element_dtype) / 8; }

  static void set_counter(const View& v, std::int64_t value) {
    if (v.present) *static_cast<std::int64_t*>(v.data) = value;
  }

  // Short rows where they lie evenly; all others are read and written block by block.
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

  void cut_tasks() {
    const SortedEntries<U> sorted = sorter_.sorted();
    task_count_ = 0;
    for (std::int64_t b = 0; b < sorted.buckets; ++b) {
      std::int64_t begin = sorted.starts[b];
      const std::int64_t end = sorted.starts[b + 1];
      if (begin == end && !writes_all()) continue;
      do {
        RowTask& t = tasks_[task_count_++];
        t.bucket = b;
        t.begin = begin;
        t.end = begin = std::min(end, begin + kTaskEntries);
        t.heavies = 0;
      } while (begin < end);
    }
    cut_jobs();
  }

  // A few buckets, or one task of a large bucket.
  void cut_jobs() {
    const std::int64_t* starts = sorter_.sorted().starts;
    job_count_ = 0;
    for (std::int64_t t = 0; t < task_count_;) {
      const std::int64_t begin = t, first = tasks_[t].bucket;
      bool ends = sorter_.is_large(first);
      for (++t; t < task_count_ && !ends; ++t) {
        const std::int64_t b = tasks_[t].bucket;
        if (b == tasks_[t - 1].bucket) continue;
        ends = sorter_.is_large(b) || b - first >= kJobBuckets ||
               starts[b + 1] - starts[first] > kJobEntries;
        if (ends) break;
      }
      jobs_[job_count_++] = {begin, t};
    }
  }

  void sort_small(const Stream& stream) const {
    parallel_for(stream, cut_.buckets, [&](std::int64_t b) {
      if (!sorter_.is_large(b)) sorter_.sort(b);
    });
  }

  // Each bucket is sorted before the one in front of it is summed, so that rows can be asked for
  // across their border. emit(task, end of what is sorted)
  template <class F>
  void run_job(const Job& job, F&& emit) const {
    const SortedEntries<U> sorted = sorter_.sorted();
    if (is_sparse() || sorter_.is_large(tasks_[job.begin].bucket)) {
      for (std::int64_t t = job.begin; t < job.end; ++t)
        emit(tasks_[t], sorted.starts[is_sparse() ? sorted.buckets : tasks_[t].bucket + 1]);
      return;
    }
    std::int64_t ahead = job.begin;  // the first task whose bucket is not sorted
    const auto sort_next = [&] {
      if (ahead == job.end) return;
      const std::int64_t b = tasks_[ahead].bucket;
      sorter_.sort(b);
      while (ahead < job.end && tasks_[ahead].bucket == b) ++ahead;
    };
    sort_next();
    for (std::int64_t t = job.begin; t < job.end; ++t) {
      if (t == job.begin || tasks_[t].bucket != tasks_[t - 1].bucket) sort_next();
      emit(tasks_[t], sorted.starts[tasks_[ahead - 1].bucket + 1]);
    }
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
    parallel_for(stream, task_count_, [&](std::int64_t t) {
      tasks_[t].rows = 0;
      for (std::int64_t i = first_entry(tasks_[t], sorted); i < tasks_[t].end;
           i = row_end(tasks_[t], sorted, i))
        ++tasks_[t].rows;
    });
    std::int64_t place = 0;
    for (std::int64_t t = 0; t < task_count_; ++t) {
      const std::int64_t rows = tasks_[t].rows;
      tasks_[t].rows = place;
      place += rows;
    }
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

  const EmbeddingProblem& p_;
  SortCut cut_;
  EntrySorter<U> sorter_;
  RowTask* tasks_;
  Job* jobs_;
  std::int64_t task_count_ = 0, job_count_ = 0;
  HeavyRows<C, U> heavy_;
  Bags bags_;
  std::int64_t* bag_of_;
  std::int64_t* valid_;
};

// Calls f(compute type, entry type).
template <class F>
auto with_types(const EmbeddingProblem& p, F&& f) {
  const bool narrow = p.count() <= UINT32_MAX && p.num_embeddings <= UINT32_MAX;
  const auto with_entry = [&](auto compute) {
    return narrow ? f(compute, std::type_identity<std::uint32_t>{})
                  : f(compute, std::type_identity<std::uint64_t>{});
  };
  return p.element_dtype == Dtype::f64 ? with_entry(std::type_identity<double>{})
                                       : with_entry(std::type_identity<float>{});
}

}  // namespace

std::size_t embedding_sorted_rows_cpu_workspace(const EmbeddingProblem& p) {
  return with_types(p, [&](auto compute, auto entry) {
    Parts parts;
    SortedRows<typename decltype(compute)::type, typename decltype(entry)::type> size(p, parts);
    return parts.bytes();
  });
}

Result<void> embedding_sorted_rows_cpu(const Stream& stream, Workspace workspace,
                                       const EmbeddingProblem& p, const Operands& operands) {
  with_types(p, [&](auto compute, auto entry) {
    Parts parts(workspace.data);
    SortedRows<typename decltype(compute)::type, typename decltype(entry)::type>(p, parts).run(
        stream, operands);
  });
  return {};
}

}  // namespace planck
