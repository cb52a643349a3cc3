// How the summing of sorted entries is cut: into tasks, runs of entries of one bucket, and jobs,
// runs of tasks that one thread does one after the other.
#pragma once

#include <span>

#include "planck/loops/table/cpu/sorted_entries.h"

namespace planck {

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

inline constexpr std::int64_t kTaskEntries = 1024;

template <class U>
class RowTasks {
 public:
  RowTasks(const SortCut& cut, Parts& parts)
      : tasks_(parts.take<RowTask>(most(cut))), jobs_(parts.take<Job>(most(cut))) {}

  // every_bucket: also those without entries.
  void cut(const EntrySorter<U>& sorter, bool every_bucket) {
    const SortedEntries<U> sorted = sorter.sorted();
    task_count_ = 0;
    for (std::int64_t b = 0; b < sorted.buckets; ++b) {
      std::int64_t begin = sorted.starts[b];
      const std::int64_t end = sorted.starts[b + 1];
      if (begin == end && !every_bucket) continue;
      do {
        RowTask& t = tasks_[task_count_++];
        t.bucket = b;
        t.begin = begin;
        t.end = begin = std::min(end, begin + kTaskEntries);
        t.heavies = 0;
      } while (begin < end);
    }
    cut_jobs(sorter);
  }
  std::span<RowTask> all() const { return {tasks_, static_cast<std::size_t>(task_count_)}; }
  std::int64_t jobs() const { return job_count_; }
  std::span<RowTask> job(std::int64_t j) const {
    return {tasks_ + jobs_[j].begin, tasks_ + jobs_[j].end};
  }

 private:
  static constexpr std::int64_t kJobBuckets = 4, kJobEntries = 8192;
  struct Job {
    std::int64_t begin, end;
  };
  static std::int64_t most(const SortCut& cut) { return cut.buckets + cut.count / kTaskEntries; }

  // A few buckets, or one task of a large bucket.
  void cut_jobs(const EntrySorter<U>& sorter) {
    const std::int64_t* starts = sorter.sorted().starts;
    job_count_ = 0;
    for (std::int64_t t = 0; t < task_count_;) {
      const std::int64_t begin = t, first = tasks_[t].bucket;
      bool ends = sorter.is_large(first);
      for (++t; t < task_count_ && !ends; ++t) {
        const std::int64_t b = tasks_[t].bucket;
        if (b == tasks_[t - 1].bucket) continue;
        ends = sorter.is_large(b) || b - first >= kJobBuckets ||
               starts[b + 1] - starts[first] > kJobEntries;
        if (ends) break;
      }
      jobs_[job_count_++] = {begin, t};
    }
  }

  RowTask* tasks_;
  Job* jobs_;
  std::int64_t task_count_ = 0, job_count_ = 0;
};

}  // namespace planck
