#include "planck/ops/conv/cpu/runs.h"

#include <cstring>

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/conv/cpu/runs.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using conv_detail::Run;

// Vectors of a panel, each from one run.
struct Pieces {
  int count = 0;
  std::int64_t from[conv_detail::kMostRuns];
  int lane[conv_detail::kMostRuns];
};

// Runs cut into vectors of `lanes`; false where one would reach beyond the panel.
inline bool cut(const Run* runs, int count, int width, int lanes, Pieces& pieces) {
  pieces.count = 0;
  for (int r = 0; r < count; ++r)
    for (int n = 0; n < runs[r].length; n += lanes) {
      if (runs[r].lane + n + lanes > width) return false;
      pieces.from[pieces.count] = runs[r].from + n;
      pieces.lane[pieces.count++] = runs[r].lane + n;
    }
  return true;
}

// A few pieces for all k: addresses stay in registers. What a piece writes beyond its end lies in
// lanes of those that follow.
template <class D, int kPieces, class T = hn::TFromD<D>>
HWY_INLINE void copy_pieces(const T* HWY_RESTRICT image, const std::int64_t* at, std::int64_t k,
                            const std::int64_t* from, const int* lane, int width,
                            T* HWY_RESTRICT out) {
  const D d;
  const T* source[kPieces];
  T* to[kPieces];
  for (int p = 0; p < kPieces; ++p) {
    source[p] = image + from[p];
    to[p] = out + lane[p];
  }
  for (std::int64_t i = 0; i < k; ++i)
#pragma GCC unroll 4
    for (int p = 0; p < kPieces; ++p)
      hn::StoreU(hn::LoadU(d, source[p] + at[i]), d, to[p] + i * width);
}
template <class D, class T = hn::TFromD<D>>
void copy_all(const T* image, const std::int64_t* at, std::int64_t k, const Pieces& pieces,
              int width, T* out) {
  for (int p = 0; p < pieces.count; p += 4) {
    const std::int64_t* from = pieces.from + p;
    const int *lane = pieces.lane + p, rest = pieces.count - p;
    if (rest >= 4)
      copy_pieces<D, 4>(image, at, k, from, lane, width, out);
    else if (rest == 3)
      copy_pieces<D, 3>(image, at, k, from, lane, width, out);
    else if (rest == 2)
      copy_pieces<D, 2>(image, at, k, from, lane, width, out);
    else
      copy_pieces<D, 1>(image, at, k, from, lane, width, out);
  }
}

// Any runs: k by k, so that what a run writes beyond its end is overwritten by the next one, or by
// the first of the next k.
template <class T>
void copy_runs(const T* HWY_RESTRICT image, const std::int64_t* at, std::int64_t k, const Run* runs,
               int count, int width, T* HWY_RESTRICT out) {
  const hn::CappedTag<T, 8> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (std::int64_t i = 0; i < k; ++i, out += width) {
    const T* base = image + at[i];
    for (int r = 0; r < count; ++r) {
      const T* from = base + runs[r].from;
      T* to = out + runs[r].lane;
      for (int n = 0; n < runs[r].length; n += lanes) hn::StoreU(hn::LoadU(d, from + n), d, to + n);
    }
  }
}

// The widest vectors that fit; half ones where that is all a run fills.
template <class T>
HWY_INLINE void pack_floats(const T* image, const std::int64_t* at, std::int64_t k, const Run* runs,
                            int count, int width, T* out) {
  using Whole = hn::ScalableTag<T>;
  using Half = hn::Half<Whole>;
  using Quarter = hn::Half<Half>;
  constexpr int kHalf = static_cast<int>(hn::MaxLanes(Half()));
  constexpr int kQuarter = static_cast<int>(hn::MaxLanes(Quarter()));
  int longest = 0;
  for (int r = 0; r < count; ++r) longest = runs[r].length > longest ? runs[r].length : longest;
  Pieces pieces;
  if (longest > kHalf && cut(runs, count, width, static_cast<int>(hn::MaxLanes(Whole())), pieces))
    copy_all<Whole>(image, at, k, pieces, width, out);
  else if (longest > kQuarter && cut(runs, count, width, kHalf, pieces))
    copy_all<Half>(image, at, k, pieces, width, out);
  else if (cut(runs, count, width, kQuarter, pieces))
    copy_all<Quarter>(image, at, k, pieces, width, out);
  else
    copy_runs(image, at, k, runs, count, width, out);
}

}  // namespace

void pack_f32(const float* image, const std::int64_t* at, std::int64_t k, const Run* runs,
              int count, int width, float* out) {
  pack_floats(image, at, k, runs, count, width, out);
}
void pack_f64(const double* image, const std::int64_t* at, std::int64_t k, const Run* runs,
              int count, int width, double* out) {
  pack_floats(image, at, k, runs, count, width, out);
}

void pack_s8(const std::int8_t* image, const std::int64_t* at, std::int64_t k, const Run* runs,
             int count, int width, std::int32_t* out) {
  for (std::int64_t i = 0; i < k; i += 2, out += width)
    for (int r = 0; r < count; ++r) {
      const std::int8_t* low = image + at[i] + runs[r].from;
      const std::int8_t* high = i + 1 < k ? image + at[i + 1] + runs[r].from : nullptr;
      std::int32_t* to = out + runs[r].lane;
      for (int n = 0; n < runs[r].length; ++n)
        to[n] = static_cast<std::int32_t>(
            (high == nullptr ? 0u : static_cast<std::uint32_t>(high[n]) << 16) |
            (static_cast<std::uint32_t>(low[n]) & 0xffffu));
    }
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(pack_f32);
HWY_EXPORT(pack_f64);
HWY_EXPORT(pack_s8);

namespace conv_detail {

void pack_runs(const float* image, const std::int64_t* at, std::int64_t k, const Run* runs,
               int count, int width, float* out) {
  HWY_DYNAMIC_DISPATCH(pack_f32)(image, at, k, runs, count, width, out);
}
void pack_runs(const double* image, const std::int64_t* at, std::int64_t k, const Run* runs,
               int count, int width, double* out) {
  HWY_DYNAMIC_DISPATCH(pack_f64)(image, at, k, runs, count, width, out);
}
void pack_runs(const std::int8_t* image, const std::int64_t* at, std::int64_t k, const Run* runs,
               int count, int width, std::int32_t* out) {
  HWY_DYNAMIC_DISPATCH(pack_s8)(image, at, k, runs, count, width, out);
}

}  // namespace conv_detail
}  // namespace planck
#endif
