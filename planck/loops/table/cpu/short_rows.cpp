#include "planck/loops/table/cpu/short_rows.h"

#include "planck/loops/cpu/targets.h"
#include "planck/math/chunked_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/table/cpu/short_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"
#include "planck/loops/table/cpu/columns-inl.h"
#include "planck/loops/table/cpu/row_loops.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

enum class Way : std::uint8_t { plain, add, stream, staged };

// kWidth: the width where it is a constant; 0 for any.
template <class C, class T, Way kWay, int kWidth, class U>
void sum_all(const ShortRows& rows_and_sums, RowRun<U>& progress) {
  const ShortRows job = rows_and_sums;  // copies: stores cannot change what only this loop knows
  RowRun<U> run = progress;
  const Entry<U>* e = run.entries;
  const int width = kWidth > 0 ? kWidth : job.width;
  const std::int64_t bytes = width * static_cast<std::int64_t>(sizeof(T));
  const T* rows[kSumChunk];
  [[maybe_unused]] std::conditional_t<kWay == Way::staged, Stage, char> stage;
  const auto zero = [&](std::byte* at, std::size_t count) HWY_ATTR {
    if constexpr (kWay == Way::staged) {
      if (count <= Stage::kBytes / 4) return void(std::memset(stage.next(at, count), 0, count));
      stage.flush();
    }
    if constexpr (kWay == Way::stream) {  // whole lines
      const hn::ScalableTag<std::uint8_t> d;
      auto* out = reinterpret_cast<std::uint8_t*>(at);
      for (std::size_t b = 0; b < count; b += hn::Lanes(d)) hn::Stream(hn::Zero(d), d, out + b);
    } else {
      zero_bytes(at, count, job.streams);
    }
  };
  const auto source = [&](const Entry<U>& entry) {
    const auto position = static_cast<std::int64_t>(entry.position);
    return job.rows + (job.bag_of != nullptr ? job.bag_of[position] : position) * job.row_step;
  };
  while (run.at < run.end) {
    const U row = e[run.at].row;
    const auto index = static_cast<std::int64_t>(row);
    int m = 0;
    for (; m < kSumChunk && run.at + m < run.stop && e[run.at + m].row == row; ++m) {
      const std::int64_t ahead = run.at + m + job.reach;
      if (ahead < run.last) {
        const std::byte* p = source(e[ahead]);
        for (std::int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(p + b, 0, kToSecondLevel);
        if constexpr (kWay == Way::add) {
          const std::byte* o = job.out + static_cast<std::int64_t>(e[ahead].row) * job.out_step;
          for (std::int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(o + b, 1, kToSecondLevel);
        }
      }
      rows[m] = reinterpret_cast<const T*>(source(e[run.at + m]));
    }
    if (m == kSumChunk && run.at + m < run.stop && e[run.at + m].row == row) break;
    if (job.fills && run.next < index)
      zero(job.out + run.next * job.out_step,
           static_cast<std::size_t>((index - run.next) * job.out_step));
    run.next = index + 1;
    run.at += m;
    std::int64_t to = index;
    if (run.place != nullptr) {
      to = (*run.place)++;
      run.rows[to * run.rows_step] = index;
    }
    std::byte* out = job.out + to * job.out_step;
    if constexpr (kWay == Way::staged) out = stage.next(out, static_cast<std::size_t>(bytes));
    sum_columns<C, kWay == Way::stream, kWay == Way::add>(rows, m, width,
                                                          reinterpret_cast<T*>(out));
  }
  if constexpr (kWay == Way::staged) stage.flush();
  progress = run;
}

template <class C, class T, class U>
void sum_typed(const ShortRows& job, RowRun<U>& run) {
  if (job.adds) return sum_all<C, T, Way::add, 0>(job, run);
  if (!job.streams) return sum_all<C, T, Way::plain, 0>(job, run);
  const auto ends =
      reinterpret_cast<std::uintptr_t>(job.out) | static_cast<std::uintptr_t>(job.out_step);
  if (ends % 64 != 0) return sum_all<C, T, Way::staged, 0>(job, run);
  job.width == 64 ? sum_all<C, T, Way::stream, 64>(job, run)
                  : sum_all<C, T, Way::stream, 0>(job, run);
}

template <class U>
void sum_rows_of(const ShortRows& job, RowRun<U>& run) {
  if (job.dtype == Dtype::f64) return sum_typed<double, double>(job, run);
  if (job.dtype == Dtype::bf16) return sum_typed<float, bf16>(job, run);
  if constexpr (kWidensHalves)
    if (job.dtype == Dtype::f16) return sum_typed<float, f16>(job, run);
  sum_typed<float, float>(job, run);
}

void sum_narrow(const ShortRows& job, RowRun<std::uint32_t>& run) { sum_rows_of(job, run); }
void sum_wide(const ShortRows& job, RowRun<std::uint64_t>& run) { sum_rows_of(job, run); }

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(sum_narrow);
HWY_EXPORT(sum_wide);

void sum_short_rows(const ShortRows& job, RowRun<std::uint32_t>& run) {
  HWY_DYNAMIC_DISPATCH(sum_narrow)(job, run);
}
void sum_short_rows(const ShortRows& job, RowRun<std::uint64_t>& run) {
  HWY_DYNAMIC_DISPATCH(sum_wide)(job, run);
}

}  // namespace planck
#endif
