// Tiles of C in registers. AVX-512: 12 × 2 vectors (24 sums, 2 of B, 1 of A); AVX2: 6 × 2. Targets
// without fused multiply-add go through std::fma, which is slow and right.
// docs/performance.md has figures of whole products.
#include "planck/loops/gemm/cpu/tile.h"

#include <array>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/gemm/cpu/tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using gemm::TileBlock;
using gemm::TileOps;
using gemm::TinyProduct;

#if HWY_TARGET == HWY_AVX3
constexpr int kRows = 12, kVectors = 2, kThinRows = 6, kThinVectors = 4;
#elif HWY_TARGET == HWY_AVX2
constexpr int kRows = 6, kVectors = 2, kThinRows = 3, kThinVectors = 4;
#else
constexpr int kRows = 4, kVectors = 1, kThinRows = 4, kThinVectors = 1;
#endif
static_assert(kRows <= gemm::kMostTileRows);

enum class Form { packed, scattered, rows_apart };  // of B and A

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

template <class C>
using Lanes = hn::ScalableTag<C>;
template <class C>
constexpr int kLanes = static_cast<int>(HWY_MAX_BYTES / sizeof(C));
static_assert(kThinVectors * kLanes<float> <= gemm::kMostTileColumns);

template <class C>
HWY_INLINE hn::Vec<Lanes<C>> step(hn::Vec<Lanes<C>> a, hn::Vec<Lanes<C>> b, hn::Vec<Lanes<C>> sum) {
  if constexpr (std::is_same_v<C, std::int32_t>) {  // two products of 16 bits each
    const hn::RepartitionToNarrow<Lanes<C>> halves;
    hn::Vec<Lanes<C>> unused = sum;
    return hn::ReorderWidenMulAccumulate(Lanes<C>(), hn::BitCast(halves, a), hn::BitCast(halves, b),
                                         sum, unused);
  } else {
    return hn::MulAdd(a, b, sum);
  }
}

template <class C, Form kForm, int kR, int kV>
void tile(const TileBlock<C>& w, const C* HWY_RESTRICT a, const C* row_bias, C* HWY_RESTRICT sums) {
  constexpr bool kScattered = kForm == Form::scattered, kRowsApart = kForm == Form::rows_apart;
  const Lanes<C> d;
  using V = hn::Vec<Lanes<C>>;
  V s[kR][kV];
#pragma GCC unroll 12
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v)
      s[r][v] = w.continues ? hn::LoadU(d, sums + r * w.sums_step + v * kLanes<C>) : hn::Zero(d);
  const C* HWY_RESTRICT b = w.b;
  const std::int64_t b_step = w.b_step;
  const std::int64_t a_step = kRowsApart ? 1 : w.a_step == 0 ? kRows : w.a_step;
  // Every third row has a pointer: what is between takes no register.
  [[maybe_unused]] const std::int64_t a_row = w.a_row;
  [[maybe_unused]] const C* a_of[4] = {a, a + 3 * a_row, a + 6 * a_row, a + 9 * a_row};
  [[maybe_unused]] const std::int64_t* b_at = w.b_at;
  [[maybe_unused]] const C* b_of[kV];
  if constexpr (kScattered)
    for (int v = 0; v < kV; ++v) b_of[v] = b + w.b_vector[v];
  for (std::int64_t k = w.k; k > 0; --k) {
    V bs[kV];
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v)
      bs[v] = hn::LoadU(d, kScattered ? b_of[v] + *b_at : b + v * kLanes<C>);
    // Few rows wait for B: prefetch the columns that follow.
    if constexpr (kR < kRows && !kScattered) {
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) __builtin_prefetch(b + (kV + v) * kLanes<C>);
    }
#pragma GCC unroll 12
    for (int r = 0; r < kR; ++r) {
      const V as = hn::Set(d, kRowsApart ? a_of[r / 3][r % 3 * a_row] : a[r]);
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) s[r][v] = step<C>(as, bs[v], s[r][v]);
    }
    if constexpr (kRowsApart) {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) ++a_of[i];
    } else {
      a += a_step;
    }
    if constexpr (kScattered)
      ++b_at;
    else
      b += b_step;
  }
  if constexpr (!std::is_same_v<C, std::int32_t>) {
    if (w.last) {
      if (w.column_bias != nullptr) {
#pragma GCC unroll 4
        for (int v = 0; v < kV; ++v) {
          const V bias = hn::LoadU(d, w.column_bias + v * kLanes<C>);
#pragma GCC unroll 12
          for (int r = 0; r < kR; ++r) s[r][v] = hn::Add(s[r][v], bias);
        }
      }
      if (row_bias != nullptr) {
#pragma GCC unroll 12
        for (int r = 0; r < kR; ++r) {
          const V bias = hn::Set(d, row_bias[r]);
#pragma GCC unroll 4
          for (int v = 0; v < kV; ++v) s[r][v] = hn::Add(s[r][v], bias);
        }
      }
      const V nan = hn::Set(d, std::numeric_limits<C>::quiet_NaN());
#pragma GCC unroll 12
      for (int r = 0; r < kR; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < kV; ++v) s[r][v] = hn::IfThenElse(hn::IsNaN(s[r][v]), nan, s[r][v]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kR; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) hn::StoreU(s[r][v], d, sums + r * w.sums_step + v * kLanes<C>);
}

#else

template <class C>
constexpr int kLanes = 8;

inline float step(float a, float b, float sum) { return std::fma(a, b, sum); }
inline double step(double a, double b, double sum) { return std::fma(a, b, sum); }
inline std::int32_t step(std::int32_t a, std::int32_t b, std::int32_t sum) {
  const auto low = [](std::int32_t pair) { return std::int32_t{static_cast<std::int16_t>(pair)}; };
  return sum + low(a) * low(b) + (a >> 16) * (b >> 16);
}

template <class C, Form kForm, int kR, int kV>
void tile(const TileBlock<C>& w, const C* HWY_RESTRICT a, const C* row_bias, C* HWY_RESTRICT sums) {
  constexpr int kN = kV * kLanes<C>;
  constexpr bool kRowsApart = kForm == Form::rows_apart;
  const std::int64_t a_step = kRowsApart ? 1 : w.a_step == 0 ? kRows : w.a_step;
  const std::int64_t a_row = kRowsApart ? w.a_row : 1;
  const auto b = [&](std::int64_t k, int j) {
    if constexpr (kForm == Form::scattered)
      return w.b[w.b_at[k] + w.b_vector[j / kLanes<C>] + j % kLanes<C>];
    else
      return w.b[k * w.b_step + j];
  };
  for (int r = 0; r < kR; ++r) {
    C s[kN];
    for (int j = 0; j < kN; ++j) s[j] = w.continues ? sums[r * w.sums_step + j] : C{0};
    for (std::int64_t k = 0; k < w.k; ++k)
      for (int j = 0; j < kN; ++j) s[j] = step(a[k * a_step + r * a_row], b(k, j), s[j]);
    for (int j = 0; j < kN; ++j) {
      if constexpr (!std::is_same_v<C, std::int32_t>) {
        if (w.last && w.column_bias != nullptr) s[j] += w.column_bias[j];
        if (w.last && row_bias != nullptr) s[j] += row_bias[r];
        if (w.last && s[j] != s[j]) s[j] = std::numeric_limits<C>::quiet_NaN();
      }
      sums[r * w.sums_step + j] = s[j];
    }
  }
}

#endif

// Tiles of 1 to kMost rows.
template <class C, Form kForm, int kV, int kMost>
HWY_INLINE void tile_of(int rows, const TileBlock<C>& w, const C* a, const C* row_bias, C* sums) {
  using Tile = void (*)(const TileBlock<C>&, const C*, const C*, C*);
  static constexpr auto kTiles = []<int... kBelow>(std::integer_sequence<int, kBelow...>) {
    return std::array<Tile, kMost>{tile<C, kForm, kBelow + 1, kV>...};
  }
  (std::make_integer_sequence<int, kMost>());
  kTiles[static_cast<std::size_t>(rows - 1)](w, a, row_bias, sums);
}

template <class C, Form kForm>
void multiply_as(const TileBlock<C>& w) {
  const int vectors = (w.columns + kLanes<C> - 1) / kLanes<C>;
  const std::int64_t a_row = kForm == Form::rows_apart ? w.a_row
                             : w.a_step != 0           ? 1
                             : w.a_depth != 0          ? w.a_depth
                                                       : w.k;
  for (std::int64_t r = 0; r < w.rows; r += kRows) {
    const int rows = static_cast<int>(w.rows - r < kRows ? w.rows - r : kRows);
    const C* a = w.a + r * a_row;
    const C* bias = w.row_bias == nullptr ? nullptr : w.row_bias + r;
    C* sums = w.sums + r * w.sums_step;
    // Prefetches the sums of the next tile.
    if (w.continues)
      for (int next = kRows; next < kRows + (w.rows - r - kRows < kRows ? 0 : kRows); ++next)
        for (int v = 0; v < vectors; ++v)
          __builtin_prefetch(sums + next * w.sums_step + v * kLanes<C>, 1);
    if (vectors == 1) {
      tile_of<C, kForm, 1, kRows>(rows, w, a, bias, sums);
    } else if (kVectors > 1 && vectors == 2) {
      tile_of<C, kForm, kVectors, kRows>(rows, w, a, bias, sums);
    } else if (kThinVectors > 1) {
      vectors == 3 ? tile_of<C, kForm, kThinVectors == 1 ? 1 : 3, kThinRows>(rows, w, a, bias, sums)
                   : tile_of<C, kForm, kThinVectors, kThinRows>(rows, w, a, bias, sums);
    }
  }
}

template <class C>
void multiply(const TileBlock<C>& w) {
  if constexpr (!std::is_same_v<C, std::int32_t>) {
    if (w.b_at != nullptr) return multiply_as<C, Form::scattered>(w);
    if (w.a_row != 0) return multiply_as<C, Form::rows_apart>(w);
  }
  multiply_as<C, Form::packed>(w);
}

template <class C>
void multiply_tiny(const TinyProduct<C>& p) {
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      const C *a = p.a + i * p.a_row, *b = p.b + j * p.b_column;
      C sum = 0;
      for (std::int64_t k = 0; k < p.k; ++k, a += p.a_column, b += p.b_row)
        sum = std::fma(*a, *b, sum);
      if (p.bias != nullptr) sum += p.bias[i * p.bias_row + j * p.bias_column];
      p.c[i * p.c_row + j * p.c_column] = sum == sum ? sum : std::numeric_limits<C>::quiet_NaN();
    }
}

template <class C>
constexpr TileOps<C> kOps = {kRows,        kLanes<C>,   kVectors,        kThinRows,
                             kThinVectors, multiply<C>, multiply_tiny<C>};
template <>
constexpr TileOps<std::int32_t> kOps<std::int32_t> = {
    kRows,        kLanes<std::int32_t>,   kVectors, kThinRows,
    kThinVectors, multiply<std::int32_t>, nullptr};

}  // namespace

const TileOps<float>* tile_ops_f32() { return &kOps<float>; }
const TileOps<double>* tile_ops_f64() { return &kOps<double>; }
const TileOps<std::int32_t>* tile_ops_i32() { return &kOps<std::int32_t>; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(tile_ops_f32);
HWY_EXPORT(tile_ops_f64);
HWY_EXPORT(tile_ops_i32);

namespace gemm {

template <>
const TileOps<float>& tile_ops<float>() {
  static const TileOps<float>& ops = *HWY_DYNAMIC_DISPATCH(tile_ops_f32)();
  return ops;
}
template <>
const TileOps<double>& tile_ops<double>() {
  static const TileOps<double>& ops = *HWY_DYNAMIC_DISPATCH(tile_ops_f64)();
  return ops;
}
template <>
const TileOps<std::int32_t>& tile_ops<std::int32_t>() {
  static const TileOps<std::int32_t>& ops = *HWY_DYNAMIC_DISPATCH(tile_ops_i32)();
  return ops;
}

}  // namespace gemm
}  // namespace planck
#endif
