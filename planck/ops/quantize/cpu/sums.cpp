// Ranges and sums over many elements for the quantize family; sums in the canonical order.
#include <algorithm>

#include "planck/loops/cpu/targets.h"
#include "planck/ops/quantize/cpu/portions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/quantize/cpu/sums.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/ops/quantize/cpu/groups-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

template <class C>
void learn(const PortionGroups<C>& g, int n, Source dy, Source x, Sink dx,
           C* HWY_RESTRICT scale_terms, C* HWY_RESTRICT zero_point_terms) {
  with_constants(g, [&](const auto& groups, auto path, auto layout) {
    for_steps(0, n, [&](int i, int m) {
      alignas(64) C buffer[kStep], buffer2[kStep], out[kStep];
      const C* in = load_step(x, i, m, buffer);
      const C* gradient = load_step(dy, i, m, buffer2);
      alignas(64) C ds[kStep], dz[kStep];
      each<path(), layout()>(
          groups, i, m,
          [&](int c) {
            prefetch_ahead(in + c, x.ahead);
            prefetch_ahead(gradient + c, dy.ahead);
          },
          [&](const auto& at, int k) {
            const bool inside = at.inside(in[k]);
            const C passed = qm::canonical(gradient[k]);
            out[k] = inside ? passed : C(0);
            ds[k] = qm::scale_term(gradient[k], at.position(in[k]), at.steps(in[k]), inside);
            dz[k] = qm::zero_point_term(gradient[k], at.scale, inside);
          });
      std::copy_n(ds, m, scale_terms + i);
      std::copy_n(dz, m, zero_point_terms + i);
      store_step(dx, i, m, out);
    });
  });
}

template <class C>
void include_each(int n, Source x, C* HWY_RESTRICT lo, C* HWY_RESTRICT hi) {
  for_steps(0, n, [&](int i, int m) {
    alignas(64) C buffer[kStep];
    const C* HWY_RESTRICT in = load_step(x, i, m, buffer);
    for (int c = 0; c < m; c += kChunk) {
      prefetch_ahead(in + c, x.ahead);
      const int end = m - c < kChunk ? m : c + kChunk;
#pragma GCC ivdep
      for (int k = c; k < end; ++k) {
        const C v = qm::is_finite(in[k]) ? in[k] : C(0);
        lo[i + k] = v < lo[i + k] ? v : lo[i + k];
        hi[i + k] = v > hi[i + k] ? v : hi[i + k];
      }
    }
  });
}

// Minimum and maximum of finite numbers do not depend on the order: lanes first, then across.
template <class C>
void include_finite(int begin, int end, Source x, C* lo, C* hi) {
  C lows[kChunk], highs[kChunk];
  for (int k = 0; k < kChunk; ++k) lows[k] = highs[k] = C(0);
  for_steps(begin, end, [&](int i, int m) {
    alignas(64) C buffer[kStep];
    const C* HWY_RESTRICT in = load_step(x, i, m, buffer);
    for (int c = 0; c < m; c += kChunk) {  // the rest of kChunk is 0, inside every range
      prefetch_ahead(in + c, x.ahead);
      for (int k = 0; k < kChunk; ++k) {
        const C v = qm::is_finite(in[c + k]) ? in[c + k] : C(0);
        lows[k] = v < lows[k] ? v : lows[k];
        highs[k] = v > highs[k] ? v : highs[k];
      }
    }
  });
  for (int width = kChunk / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) {
      lows[k] = lows[k + width] < lows[k] ? lows[k + width] : lows[k];
      highs[k] = highs[k + width] > highs[k] ? highs[k + width] : highs[k];
    }
  *lo = lows[0] < *lo ? lows[0] : *lo;
  *hi = highs[0] > *hi ? highs[0] : *hi;
}

// Infinities are rare: bounds with them first, and once more without them if there are any.
template <class C>
void include_runs(int count, int run, Source x, C* lo, C* hi) {
  const int whole = run / kChunk * kChunk;
  bool chunks = false;
  if constexpr (std::is_same_v<C, float>) chunks = ordinary_loops() && (count == 1 || whole == run);
  constexpr int kAtOnce = kPortion / kChunk;
  for (int first = 0; first < count; first += kAtOnce) {
    const int n = count - first < kAtOnce ? count - first : kAtOnce;
    C low[kAtOnce], high[kAtOnce];
    std::copy_n(lo + first, n, low);
    std::copy_n(hi + first, n, high);
    if constexpr (std::is_same_v<C, float>)
      if (chunks)
        ordinary_loops()->bounds(n, whole, first == 0 ? x : x.from(first * run), low, high);
    int odd = chunks && whole == run ? 0 : 1;
    for (int k = 0; k < n; ++k) odd |= qm::is_finite(low[k]) & qm::is_finite(high[k]) ? 0 : 1;
    if (odd == 0) {
      std::copy_n(low, n, lo + first);
      std::copy_n(high, n, hi + first);
      continue;
    }
    for (int k = 0; k < n; ++k) {
      const int g = first + k;
      const bool found = chunks && qm::is_finite(low[k]) && qm::is_finite(high[k]);
      if (found) {
        lo[g] = low[k];
        hi[g] = high[k];
      }
      if (!found || whole < run)
        include_finite(g * run + (found ? whole : 0), (g + 1) * run, x, lo + g, hi + g);
    }
  }
}

template <class C>
C tree_sum(C* a, int n) {
  for (; n > 1; n = (n + 1) / 2) {
    const int pairs = n / 2;
#pragma GCC ivdep  // a[i] is written after everything that reads it
    for (int i = 0; i < pairs; ++i) a[i] = a[2 * i] + a[2 * i + 1];
    if (n % 2) a[pairs] = a[n - 1];
  }
  return a[0];
}

template <class C>
void add(int n, const C* a, const C* b, C* sum) {
  for (int i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}

template <class C>
inline constexpr QuantSums<C> kSums = {learn<C>, include_runs<C>, include_each<C>, tree_sum<C>,
                                       add<C>};

}  // namespace

const QuantSums<float>* quant_sums_f32() { return &kSums<float>; }
const QuantSums<double>* quant_sums_f64() { return &kSums<double>; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(quant_sums_f32);
HWY_EXPORT(quant_sums_f64);

template <>
const QuantSums<float>& quant_sums<float>() {
  static const QuantSums<float>& table = *HWY_DYNAMIC_DISPATCH(quant_sums_f32)();
  return table;
}
template <>
const QuantSums<double>& quant_sums<double>() {
  static const QuantSums<double>& table = *HWY_DYNAMIC_DISPATCH(quant_sums_f64)();
  return table;
}

}  // namespace planck
#endif
