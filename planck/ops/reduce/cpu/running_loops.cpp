// Along a row, a vector holds one place of several chunks of 32: tiles of the row are transposed on
// the way in and out, four shuffles per vector each. Down the rows, eight at a time: the running
// value stays in registers. Results that are larger than the caches are written past them.
#include "planck/ops/reduce/cpu/running_loops.h"

#include <algorithm>

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/reduce/cpu/running_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"
#include "planck/loops/rows/cpu/dense-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
#if PLANCK_VECTOR_MATH
namespace {

namespace rm = reduce_math;
namespace vm = vector_math;
using vm::D;
using vm::kLanes;
using vm::V;

constexpr std::int64_t kAhead = 4096;

HWY_INLINE void ask(const float* p, std::int64_t ahead) {
  __builtin_prefetch(reinterpret_cast<const char*>(p) + ahead, 0, 2);
}

// Whether rows of `out` can be written past the caches, vector by vector.
template <class T>
HWY_INLINE bool whole_lines(const T* out, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(out) % 64 == 0 &&
         static_cast<std::size_t>(stride) * sizeof(T) % 64 == 0;
}
template <class T>
HWY_INLINE void write(hn::Vec<hn::ScalableTag<T>> v, T* to, bool stream) {
  const hn::ScalableTag<T> d;
  if (stream)
    hn::Stream(v, d, to);
  else
    hn::StoreU(v, d, to);
}

// v[i][j] becomes v[j][i]: fours within parts of 128 bits, then the parts.
HWY_INLINE void transpose(V (&v)[kLanes]) {
  const hn::RepartitionToWide<D> w;
  const auto wide = [&](V x) HWY_ATTR { return hn::BitCast(w, x); };
  const auto lower = [&](V a, V b) HWY_ATTR {
    return hn::BitCast(D(), hn::InterleaveLower(w, wide(a), wide(b)));
  };
  const auto upper = [&](V a, V b) HWY_ATTR {
    return hn::BitCast(D(), hn::InterleaveUpper(w, wide(a), wide(b)));
  };
  for (int g = 0; g < kLanes; g += 4) {
    const V a = hn::InterleaveLower(D(), v[g], v[g + 1]);
    const V b = hn::InterleaveUpper(D(), v[g], v[g + 1]);
    const V c = hn::InterleaveLower(D(), v[g + 2], v[g + 3]);
    const V d = hn::InterleaveUpper(D(), v[g + 2], v[g + 3]);
    v[g] = lower(a, c), v[g + 1] = upper(a, c), v[g + 2] = lower(b, d), v[g + 3] = upper(b, d);
  }
  for (int c = 0; c < 4; ++c) {
#if HWY_TARGET == HWY_AVX3
    const auto even = [](V a, V b) HWY_ATTR { return V{_mm512_shuffle_f32x4(a.raw, b.raw, 0x88)}; };
    const auto odd = [](V a, V b) HWY_ATTR { return V{_mm512_shuffle_f32x4(a.raw, b.raw, 0xdd)}; };
    const V e0 = even(v[c], v[4 + c]), o0 = odd(v[c], v[4 + c]);
    const V e1 = even(v[8 + c], v[12 + c]), o1 = odd(v[8 + c], v[12 + c]);
    v[c] = even(e0, e1), v[8 + c] = odd(e0, e1), v[4 + c] = even(o0, o1), v[12 + c] = odd(o0, o1);
#else
    const V a = v[c], b = v[4 + c];
    v[c] = V{_mm256_permute2f128_ps(a.raw, b.raw, 0x20)};
    v[4 + c] = V{_mm256_permute2f128_ps(a.raw, b.raw, 0x31)};
#endif
  }
}

std::int64_t sum_row(const float* in, std::int64_t n, RunningTotals<float>& totals, float* out,
                     bool stream) {
  constexpr int kTiles = kRunningChunk / kLanes, kGroup = kLanes * kRunningChunk;
  const bool past = stream && whole_lines(out, kGroup);
  std::int64_t i = 0;
  for (; i + kGroup <= n; i += kGroup) {
    alignas(64) float local[kTiles][kLanes][kLanes], total[kLanes], before[kLanes];
    V running = vm::all(-0.0f);
    for (int t = 0; t < kTiles; ++t) {
      V tile[kLanes];
      for (int b = 0; b < kLanes; ++b) {
        const float* at = in + i + b * kRunningChunk + t * kLanes;
        ask(at, kAhead);
        tile[b] = hn::LoadU(D(), at);
      }
      transpose(tile);
      for (int c = 0; c < kLanes; ++c) {
        running = hn::Add(running, tile[c]);
        hn::Store(running, D(), local[t][c]);
      }
    }
    hn::Store(running, D(), total);
    for (int b = 0; b < kLanes; ++b) {
      before[b] = totals.before;
      totals.add(total[b]);
    }
    const V first = hn::Load(D(), before);
    alignas(64) float turned[kTiles - 1][kLanes][kLanes];  // lines are written in their order
    for (int t = 0; t < kTiles; ++t) {
      V tile[kLanes];
      for (int c = 0; c < kLanes; ++c)
        tile[c] = vm::canonical(hn::Add(first, hn::Load(D(), local[t][c])));
      transpose(tile);
      for (int b = 0; b < kLanes; ++b) {
        if (t + 1 < kTiles) {
          hn::Store(tile[b], D(), turned[t][b]);
          continue;
        }
        float* to = out + i + b * kRunningChunk;
        for (int k = 0; k < t; ++k)
          write<float>(hn::Load(D(), turned[k][b]), to + k * kLanes, past);
        write<float>(tile[b], to + t * kLanes, past);
      }
    }
  }
  return i;
}

void sum_down(DenseRows<const float> in, int count, int n, float* local, const float* before,
              DenseRows<float> out, bool stream) {
  const bool past = stream && n % kLanes == 0 && whole_lines(out.data, out.stride);
  const std::int64_t ahead = count * in.stride * static_cast<std::int64_t>(sizeof(float));
  dense::for_columns(n, [&](const auto& at) HWY_ATTR {
    constexpr int kWide = std::remove_cvref_t<decltype(at)>::kCount;
    V running[kWide], first[kWide];
    for (int k = 0; k < kWide; ++k) {
      running[k] = at[k].load(dense::AsF32(), local);
      first[k] = at[k].load(dense::AsF32(), before);
    }
    for (int r = 0; r < count; ++r)
      for (int k = 0; k < kWide; ++k) {
        ask(in.row(r) + at[k].i, ahead);
        running[k] = hn::Add(running[k], at[k].load(dense::AsF32(), in.row(r)));
        const V sum = vm::canonical(hn::Add(first[k], running[k]));
        if (past)
          hn::Stream(sum, D(), out.row(r) + at[k].i);
        else
          at[k].put(sum, out.row(r));
      }
    for (int k = 0; k < kWide; ++k) at[k].put(running[k], local);
  });
}

// Where x takes over from `best` (planck/math/reduction.h).
template <bool kLargest>
HWY_INLINE vm::M runs_on(V x, V best) {
  const auto reaches = kLargest ? hn::Ge(x, best) : hn::Le(x, best);
  return hn::Or(reaches, hn::IsNaN(x));
}

template <bool kLargest>
void extreme_row_of(const float* in, std::int64_t n, std::int64_t first, RunningBest<float>& best,
                    float* values, std::int64_t* indices, bool stream) {
  const hn::ScalableTag<std::int64_t> w;
  constexpr int kWide = kLanes / 2;
  const bool past = stream && whole_lines(values, kLanes) && whole_lines(indices, kLanes);
  const auto one = [&](std::int64_t i, float x) HWY_ATTR {
    if (rm::runs_on<kLargest>(x, best.value)) best = {x, first + i};
    values[i] = rm::canonical(best.value);
    indices[i] = best.index;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    ask(in + i, kAhead);
    const V x = hn::LoadU(D(), in + i);
    if (HWY_UNLIKELY(!hn::AllFalse(D(), runs_on<kLargest>(x, vm::all(best.value))))) {
      alignas(64) float here[kLanes];
      hn::Store(x, D(), here);
      for (int k = 0; k < kLanes; ++k) one(i + k, here[k]);
      continue;
    }
    write<float>(vm::canonical(vm::all(best.value)), values + i, past);
    for (int k = 0; k < kLanes; k += kWide)
      write<std::int64_t>(hn::Set(w, best.index), indices + i + k, past);
  }
  for (; i < n; ++i) one(i, in[i]);
}

template <bool kLargest>
void extreme_down_of(DenseRows<const float> in, int count, int n, std::int32_t first, float* best,
                     std::int32_t* rows, DenseRows<float> values, DenseRows<std::int64_t> indices,
                     bool stream) {
  const hn::RebindToSigned<D> d;
  const hn::ScalableTag<std::int64_t> w;
  const hn::Half<decltype(d)> h;
  const bool past = stream && n % kLanes == 0 && whole_lines(values.data, values.stride) &&
                    whole_lines(indices.data, indices.stride);
  const std::int64_t ahead = count * in.stride * static_cast<std::int64_t>(sizeof(float));
  dense::for_columns(n, [&](const auto& at) HWY_ATTR {
    constexpr int kWide = std::remove_cvref_t<decltype(at)>::kCount;
    V held[kWide];
    hn::Vec<decltype(d)> row[kWide];
    for (int k = 0; k < kWide; ++k) {
      held[k] = at[k].load(dense::AsF32(), best);
      row[k] = hn::LoadU(d, rows + at[k].i);
    }
    const auto one = [&](int r, int k) HWY_ATTR {
      ask(in.row(r) + at[k].i, ahead);
      const V x = at[k].load(dense::AsF32(), in.row(r));
      const auto takes = runs_on<kLargest>(x, held[k]);
      held[k] = hn::IfThenElse(takes, x, held[k]);
      row[k] = hn::IfThenElse(hn::RebindMask(d, takes), hn::Set(d, first + r), row[k]);
      const V value = vm::canonical(held[k]);
      const auto low = hn::PromoteTo(w, hn::LowerHalf(h, row[k]));
      const auto high = hn::PromoteTo(w, hn::UpperHalf(h, row[k]));
      std::int64_t* to = indices.row(r) + at[k].i;
      if (past) {
        hn::Stream(value, D(), values.row(r) + at[k].i);
        hn::Stream(low, w, to);
        hn::Stream(high, w, to + kLanes / 2);
      } else {
        at[k].put(value, values.row(r));
        alignas(64) std::int64_t wide[kLanes];
        hn::Store(low, w, wide);
        hn::Store(high, w, wide + kLanes / 2);
        std::copy_n(wide, std::min<std::int64_t>(kLanes, n - at[k].i), to);
      }
    };
    for (int r = 0; r < count; ++r)
      for (int k = 0; k < kWide; ++k) one(r, k);
    for (int k = 0; k < kWide; ++k) {
      at[k].put(held[k], best);
      at[k].put(row[k], rows);
    }
  });
}

void extreme_row(bool largest, const float* in, std::int64_t n, std::int64_t first,
                 RunningBest<float>& best, float* values, std::int64_t* indices, bool stream) {
  largest ? extreme_row_of<true>(in, n, first, best, values, indices, stream)
          : extreme_row_of<false>(in, n, first, best, values, indices, stream);
}
void extreme_down(bool largest, DenseRows<const float> in, int count, int n, std::int32_t first,
                  float* best, std::int32_t* rows, DenseRows<float> values,
                  DenseRows<std::int64_t> indices, bool stream) {
  largest ? extreme_down_of<true>(in, count, n, first, best, rows, values, indices, stream)
          : extreme_down_of<false>(in, count, n, first, best, rows, values, indices, stream);
}

inline constexpr RunningLoops kRunningLoops = {sum_row, sum_down, extreme_row, extreme_down};

}  // namespace

const RunningLoops* running_table() { return &kRunningLoops; }
#else
const RunningLoops* running_table() { return nullptr; }
#endif

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(running_table);

const RunningLoops* running_loops() {
  static const RunningLoops* table = HWY_DYNAMIC_DISPATCH(running_table)();
  return table;
}

}  // namespace planck
#endif
