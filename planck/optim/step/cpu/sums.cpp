// Canonical sums of several tensors, some hundred elements at a time: the tree is walked from the
// left, an array for each level.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "planck/loops/cpu/portions.h"
#include "planck/optim/step/cpu/kernels.h"

namespace planck::optim {

namespace {

constexpr int kAtOnce = 256, kLevels = 11;
static_assert(kMostSummands <= 1 << (kLevels - 1));

template <class C>
using Level = C[kAtOnce];

template <class C>
void load(const SumRow& row, const void* part, std::int64_t i, int m, C* out) {
  if constexpr (std::is_same_v<C, double>)
    if (row.from != Dtype::f64) {
      float narrow[kAtOnce];
      portion_ops().load_f32(row.from, part, i, 1, m, narrow);
      std::copy(narrow, narrow + m, out);
      return;
    }
  load_portion(portion_ops(), row.from, part, i, 1, m, out);
}
template <class C>
void store(const SumRow& row, std::int64_t i, int m, const C* sums) {
  if constexpr (std::is_same_v<C, double>)
    if (row.to != Dtype::f64) {
      float narrow[kAtOnce];
      std::transform(sums, sums + m, narrow, [](double v) { return static_cast<float>(v); });
      return portion_ops().store_f32(row.to, row.out, i, 1, m, narrow);
    }
  store_portion(portion_ops(), row.to, row.out, i, 1, m, sums);
}

// levels[0] = Σ parts[first … first + n) of elements [i, i + m); the levels behind it are room.
template <class C>
void add_up(const SumRow& row, int first, int n, std::int64_t i, int m, Level<C>* levels) {
  C* const out = levels[0];
  if (n == 1) {
    if (row.parts[first] == nullptr)
      std::fill(out, out + m, C(0));
    else
      load(row, row.parts[first], i, m, out);
    return;
  }
  const int left = static_cast<int>(std::bit_floor(static_cast<unsigned>(n - 1)));
  add_up(row, first, left, i, m, levels);
  add_up(row, first + left, n - left, i, m, levels + 1);
  const C* const right = levels[1];
  for (int k = 0; k < m; ++k) out[k] += right[k];
}

template <class C>
void sum_as(const SumRow& row, int parts, std::int64_t begin, std::int64_t n) {
  alignas(64) Level<C> levels[kLevels + 1];
  for (std::int64_t i = begin; i < begin + n; i += kAtOnce) {
    const int m = static_cast<int>(std::min<std::int64_t>(kAtOnce, begin + n - i));
    add_up(row, 0, parts, i, m, levels);
    C* const out = levels[0];
    for (int k = 0; k < m; ++k)
      out[k] = out[k] == out[k] ? out[k] : std::numeric_limits<C>::quiet_NaN();
    store(row, i, m, out);
  }
}

}  // namespace

void sum_range(const SumRow& row, int parts, std::int64_t begin, std::int64_t n) {
  row.wide() ? sum_as<double>(row, parts, begin, n) : sum_as<float>(row, parts, begin, n);
}

}  // namespace planck::optim
