#include "planck/loops/table/cpu/bucket_rows.h"

#include "planck/loops/cpu/targets.h"
#include "planck/math/chunked_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/table/cpu/bucket_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"
#include "planck/loops/table/cpu/columns-inl.h"
#include "planck/loops/table/cpu/row_loops.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

// A row in registers.
template <class C>
struct Columns {
  static constexpr int kLanes = static_cast<int>(HWY_LANES(C));
  static constexpr int kVectors = kBucketWidth / kLanes;
  hn::Vec<Lanes<C>> v[kVectors];

  template <class T>
  HWY_INLINE void load(const T* row) {
    for (int k = 0; k < kVectors; ++k) v[k] = load_lanes(row + k * kLanes);
  }
  template <class T>
  HWY_INLINE void add(const T* row) {
    for (int k = 0; k < kVectors; ++k) v[k] = v[k] + load_lanes(row + k * kLanes);
  }
  HWY_INLINE void add(const Columns& other) {
    for (int k = 0; k < kVectors; ++k) v[k] = v[k] + other.v[k];
  }
  template <bool kStream, class T>
  HWY_INLINE void store(T* to) const {
    const Lanes<C> d;
    const auto nan = hn::Set(d, em::canonical(C(__builtin_nanf(""))));
    for (int k = 0; k < kVectors; ++k)
      store_lanes<kStream>(hn::IfThenElse(v[k] == v[k], v[k], nan), to + k * kLanes);
  }
};

// Finds the rows of entries, and prefetches them.
template <class T, class U>
struct Source {
  // Many at once: prefetches that alternate with sums of rows go out at half the rate. Not so for
  // rows that nearly follow one another, which the hardware prefetches as well.
  static constexpr std::int64_t kAhead = kBucketAheadBytes / (kBucketWidth * sizeof(T));

  const std::int64_t* bag_of;
  const std::byte* rows;
  std::int64_t step;
  const Entry<U>* entries;
  std::int64_t last;

  const std::byte* at(std::int64_t i) const {
    const auto position = static_cast<std::int64_t>(entries[i].position);
    return rows + (bag_of != nullptr ? bag_of[position] : position) * step;
  }
  const T* row(std::int64_t i) const { return reinterpret_cast<const T*>(at(i)); }
  // Prefetches what is due before entries up to `before` are summed; `asked` moves along.
  HWY_INLINE void ask(std::int64_t& asked, std::int64_t before) const {
    if (asked >= before + kAhead) return;
    const bool in_order =
        asked + kAhead <= last &&
        static_cast<U>(entries[asked + kAhead - 1].position - entries[asked].position) < 2 * kAhead;
    const std::int64_t count = in_order ? 1 : kAhead, end = std::min(asked + count, last);
    for (std::int64_t i = asked; i < end; ++i) {
      const std::byte* p = at(i);
      for (std::size_t b = 0; b < kBucketWidth * sizeof(T); b += 64)
        __builtin_prefetch(p + b, 0, kToSecondLevel);
    }
    asked += count;
  }
};

// Entries [i, end), at most 64 of them.
template <class C, class T, class U>
HWY_INLINE void sum_chunk(const Source<T, U>& source, std::int64_t i, std::int64_t end,
                          std::int64_t& asked, Columns<C>& sum) {
  source.ask(asked, i + 1);
  sum.load(source.row(i));
  while (++i < end) {
    source.ask(asked, i + 1);
    sum.add(source.row(i));
  }
}

// Entries [i, end), at most 64².
template <class C, class T, class U>
HWY_INLINE void sum_row(const Source<T, U>& source, std::int64_t i, std::int64_t end,
                        std::int64_t& asked, Columns<C>& sum) {
  sum_chunk(source, i, std::min<std::int64_t>(i + kSumChunk, end), asked, sum);
  for (i += kSumChunk; i < end; i += kSumChunk) {
    Columns<C> chunk;
    sum_chunk(source, i, std::min<std::int64_t>(i + kSumChunk, end), asked, chunk);
    sum.add(chunk);
  }
}

template <class C, class T, class U>
bool sum_typed(const ShortRows& job, BucketRun<U>& progress) {
  constexpr std::int64_t kGroup = 16;  // rows
  alignas(64) static constexpr std::byte kZeros[kBucketWidth * sizeof(T)] = {};
  const BucketRun<U> run = progress;
  const Source<T, U> source{job.bag_of, job.rows, job.row_step, run.entries, run.last};
  const bool to_end = run.end == run.end_of(run.end_row - 1);
  std::int64_t row = run.next, begin = run.begin_of(row), asked = run.asked;
  bool large = false;
  std::byte* out = job.out + row * job.out_step;
  const std::int64_t out_step = job.out_step;
  while (row < run.end_row && (to_end || begin < run.end)) {
    const std::int64_t stop = std::min(row + kGroup, run.end_row);
    const std::int64_t last_of_group = run.end_of(stop - 1);
    // Few entries: all their rows are prefetched at once.
    if (last_of_group - begin <= kGroup) source.ask(asked, last_of_group);
    for (; row < stop; ++row, out += out_step) {
      const std::int64_t end = run.end_of(row);
      Columns<C> sum;
      if (end - begin <= 1) {
        if (!to_end && begin >= run.end) break;
        const auto some = static_cast<std::uintptr_t>(begin - end);  // all bits, or none
        const auto zeros = reinterpret_cast<std::uintptr_t>(+kZeros);
        const auto hit = reinterpret_cast<std::uintptr_t>(source.at(std::min(begin, run.last - 1)));
        sum.load(reinterpret_cast<const T*>(zeros + ((hit - zeros) & some)));
      } else {
        if (!to_end && begin >= run.end) break;
        large = end - begin > run.most;
        if (large) break;
        sum_row(source, begin, end, asked, sum);
      }
      sum.template store<true>(reinterpret_cast<T*>(out));
      begin = end;
    }
    if (large) break;
  }
  progress.next = row;
  progress.asked = asked;
  return large;
}

template <class U>
bool sum_rows_of(const ShortRows& job, BucketRun<U>& run) {
  if (job.dtype == Dtype::f64) return sum_typed<double, double>(job, run);
  if (job.dtype == Dtype::bf16) return sum_typed<float, bf16>(job, run);
  if constexpr (kWidensHalves)
    if (job.dtype == Dtype::f16) return sum_typed<float, f16>(job, run);
  return sum_typed<float, float>(job, run);
}

bool sum_narrow(const ShortRows& job, BucketRun<std::uint32_t>& run) {
  return sum_rows_of(job, run);
}
bool sum_wide(const ShortRows& job, BucketRun<std::uint64_t>& run) { return sum_rows_of(job, run); }

template <class C, class T, class U>
void sum_one(const ShortRows& job, const Entry<U>* entries, std::int64_t m, const Entry<U>* end,
             void* to) {
  const Source<T, U> source{job.bag_of, job.rows, job.row_step, entries, end - entries};
  std::int64_t asked = Source<T, U>::kAhead;  // prefetched by whoever summed what lies before
  Columns<C> sum;
  sum_row(source, 0, m, asked, sum);
  sum.template store<false>(static_cast<C*>(to));
}
template <class U>
void sum_one_of(const ShortRows& job, const Entry<U>* entries, std::int64_t m, const Entry<U>* end,
                void* to) {
  if (job.dtype == Dtype::f64) return sum_one<double, double>(job, entries, m, end, to);
  if (job.dtype == Dtype::bf16) return sum_one<float, bf16>(job, entries, m, end, to);
  if constexpr (kWidensHalves)
    if (job.dtype == Dtype::f16) return sum_one<float, f16>(job, entries, m, end, to);
  sum_one<float, float>(job, entries, m, end, to);
}
void sum_one_narrow(const ShortRows& job, const Entry<std::uint32_t>* entries, std::int64_t m,
                    const Entry<std::uint32_t>* end, void* to) {
  sum_one_of(job, entries, m, end, to);
}
void sum_one_wide(const ShortRows& job, const Entry<std::uint64_t>* entries, std::int64_t m,
                  const Entry<std::uint64_t>* end, void* to) {
  sum_one_of(job, entries, m, end, to);
}

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(sum_narrow);
HWY_EXPORT(sum_wide);
HWY_EXPORT(sum_one_narrow);
HWY_EXPORT(sum_one_wide);

bool fits_bucket_rows(const ShortRows& job) {
  const auto ends =
      reinterpret_cast<std::uintptr_t>(job.out) | static_cast<std::uintptr_t>(job.out_step);
  return job.width == kBucketWidth && job.fills && job.streams && !job.adds && ends % 64 == 0;
}

bool sum_bucket_rows(const ShortRows& job, BucketRun<std::uint32_t>& run) {
  return HWY_DYNAMIC_DISPATCH(sum_narrow)(job, run);
}
bool sum_bucket_rows(const ShortRows& job, BucketRun<std::uint64_t>& run) {
  return HWY_DYNAMIC_DISPATCH(sum_wide)(job, run);
}

void sum_bucket_row(const ShortRows& job, const Entry<std::uint32_t>* entries, std::int64_t m,
                    const Entry<std::uint32_t>* end, void* sum) {
  HWY_DYNAMIC_DISPATCH(sum_one_narrow)(job, entries, m, end, sum);
}
void sum_bucket_row(const ShortRows& job, const Entry<std::uint64_t>* entries, std::int64_t m,
                    const Entry<std::uint64_t>* end, void* sum) {
  HWY_DYNAMIC_DISPATCH(sum_one_wide)(job, entries, m, end, sum);
}

}  // namespace planck
#endif
