#include "planck/loops/table/cpu/row_loops.h"

#include <algorithm>
#include <cstring>

#include "planck/loops/cpu/targets.h"
#include "planck/loops/table/table.math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/table/cpu/row_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"
#include "planck/loops/table/cpu/columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace em = table_math;

HWY_INLINE float value_of(float v) { return v; }
HWY_INLINE double value_of(double v) { return v; }
HWY_INLINE float value_of(std::uint16_t bf16_bits) { return widened(bf16_bits); }

// Several rows per pass: the sum is read and written once for all of them.
template <class S, class C>
void add_dense(const S* const* rows, int count, int n, bool first, C* HWY_RESTRICT sum) {
  const S* HWY_RESTRICT a = rows[0];
  const S* HWY_RESTRICT b = rows[count > 1 ? 1 : 0];
  const S* HWY_RESTRICT c = rows[count > 2 ? 2 : 0];
  const S* HWY_RESTRICT d = rows[count > 3 ? 3 : 0];
  switch (count + (first ? 4 : 0)) {
    case 1:
      for (int i = 0; i < n; ++i) sum[i] = sum[i] + value_of(a[i]);
      return;
    case 2:
      for (int i = 0; i < n; ++i) sum[i] = (sum[i] + value_of(a[i])) + value_of(b[i]);
      return;
    case 3:
      for (int i = 0; i < n; ++i)
        sum[i] = ((sum[i] + value_of(a[i])) + value_of(b[i])) + value_of(c[i]);
      return;
    case 4:
      for (int i = 0; i < n; ++i)
        sum[i] = (((sum[i] + value_of(a[i])) + value_of(b[i])) + value_of(c[i])) + value_of(d[i]);
      return;
    case 5:
      for (int i = 0; i < n; ++i) sum[i] = value_of(a[i]);
      return;
    case 6:
      for (int i = 0; i < n; ++i) sum[i] = value_of(a[i]) + value_of(b[i]);
      return;
    case 7:
      for (int i = 0; i < n; ++i) sum[i] = (value_of(a[i]) + value_of(b[i])) + value_of(c[i]);
      return;
    default:
      for (int i = 0; i < n; ++i)
        sum[i] = ((value_of(a[i]) + value_of(b[i])) + value_of(c[i])) + value_of(d[i]);
  }
}

template <class C>
void add_rows(Dtype dtype, const void* const* rows, int count, int n, bool first, C* sum) {
  if (dtype == dtype_of<C>) {
    const C* dense[kRowsAtOnce] = {};
    for (int k = 0; k < count; ++k) dense[k] = static_cast<const C*>(rows[k]);
    return add_dense(dense, count, n, first, sum);
  }
  if constexpr (std::is_same_v<C, float>) {
    const std::uint16_t* halves[kRowsAtOnce] = {};
    for (int k = 0; k < count; ++k) halves[k] = static_cast<const std::uint16_t*>(rows[k]);
    if (dtype == Dtype::bf16) return add_dense(halves, count, n, first, sum);
    alignas(64) float wide[kRowsAtOnce][kStep];
    const float* steps[kRowsAtOnce] = {wide[0], wide[1], wide[2], wide[3]};
    for (int i = 0; i < n; i += kStep) {
      const int m = n - i < kStep ? n - i : kStep;
      for (int k = 0; k < count; ++k) widen_f16(halves[k] + i, m, wide[k], 0);
      add_dense(steps, count, m, first, sum + i);
    }
  }
}

template <class C, class T>
void sum_typed(const void* const* rows, int count, int n, const Sink& to) {
  const auto* typed = reinterpret_cast<const T* const*>(rows);
  const bool aligned = reinterpret_cast<std::uintptr_t>(to.data) % 64 == 0;
  if (to.dtype == dtype_of<C>)
    return to.stream && aligned ? sum_columns<C, true>(typed, count, n, static_cast<C*>(to.data))
                                : sum_columns<C, false>(typed, count, n, static_cast<C*>(to.data));
  if (to.stream && aligned)
    sum_columns<C, true>(typed, count, n, static_cast<T*>(to.data));
  else
    sum_columns<C, false>(typed, count, n, static_cast<T*>(to.data));
}

template <class C>
void sum_rows(Dtype dtype, const void* const* rows, int count, int n, const Sink& to) {
  if constexpr (std::is_same_v<C, float> && kWidensHalves)
    if (dtype == Dtype::f16) return sum_typed<C, f16>(rows, count, n, to);
  if constexpr (std::is_same_v<C, float>)
    if (dtype == Dtype::bf16) return sum_typed<C, bf16>(rows, count, n, to);
  sum_typed<C, C>(rows, count, n, to);
}

template <class C>
void multiply(C factor, int n, C* values) {
  for (int i = 0; i < n; ++i) values[i] *= factor;
}
template <class C>
void divide(C divisor, int n, C* values) {
  for (int i = 0; i < n; ++i) values[i] /= divisor;
}

template <class C>
void take_largest(const C* HWY_RESTRICT row, std::int64_t position, int n, C* HWY_RESTRICT largest,
                  std::int64_t* HWY_RESTRICT positions) {
  for (int i = 0; i < n; ++i) {
    const bool taken = em::exceeds(row[i], largest[i]);
    largest[i] = taken ? row[i] : largest[i];
    positions[i] = taken ? position : positions[i];
  }
}

template <class C>
void store(int n, C* values, const Sink& to) {
  for (int i = 0; i < n; ++i) values[i] = em::canonical(values[i]);
  const int lead = std::min(n, lead_of(to));
  if (lead > 0) store_step(to, 0, lead, values);
  for_steps(lead, n, [&](int i, int m) { store_step(to, i, m, values + i); });
}

template <class C>
C dot(int n, C* HWY_RESTRICT a, const C* HWY_RESTRICT b) {
  for (int i = 0; i < n; ++i) a[i] *= b[i];
  for (; n > 1; n = (n + 1) / 2) {
    for (int i = 0; i < n / 2; ++i) a[i] = a[2 * i] + a[2 * i + 1];
    if (n % 2 != 0) a[n / 2] = a[n - 1];
  }
  return a[0];
}

// Inlined by force: the compiler takes a function that only prefetches for one without effect and
// drops its calls.
HWY_INLINE void prefetch_row(const std::byte* row, std::int64_t bytes) {
  if (row == nullptr) return;
  for (std::int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(row + b, 0, kToSecondLevel);
}

void copy_rows(void* to, const std::byte* const* rows, std::int64_t count, std::int64_t bytes,
               bool stream) {
  const std::int64_t reach = rows_ahead(bytes);
  const auto size = static_cast<std::size_t>(bytes);
  auto* out = static_cast<std::byte*>(to);
  constexpr std::int64_t kStagedBytes = 1024;  // longer rows share few lines with neighbours
  const bool staged =
      stream && bytes <= kStagedBytes && (reinterpret_cast<std::uintptr_t>(to) | size) % 64 != 0;
  Stage stage;
  for (std::int64_t n = 0; n < std::min(reach, count); ++n) prefetch_row(rows[n], bytes);
  for (std::int64_t n = 0; n < count; ++n, out += bytes) {
    if (n + reach < count) prefetch_row(rows[n + reach], bytes);
    if (staged)
      rows[n] == nullptr ? std::memset(stage.next(out, size), 0, size)
                         : std::memcpy(stage.next(out, size), rows[n], size);
    else
      rows[n] == nullptr ? zero_bytes(out, size, stream) : copy_bytes(out, rows[n], size, stream);
  }
  if (staged) stage.flush();
}

template <class C>
constexpr RowOps<C> kRowOps = {add_rows<C>,   sum_rows<C>,     multiply<C>, divide<C>,
                               kWidensHalves, take_largest<C>, store<C>,    dot<C>};
constexpr ByteOps kByteOps = {copy_rows, copy_bytes, zero_bytes};

const RowOps<float>* row_ops_f32() { return &kRowOps<float>; }
const RowOps<double>* row_ops_f64() { return &kRowOps<double>; }
const ByteOps* byte_table() { return &kByteOps; }

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(row_ops_f32);
HWY_EXPORT(row_ops_f64);
HWY_EXPORT(byte_table);

template <>
const RowOps<float>& row_ops<float>() {
  static const RowOps<float>& best = *HWY_DYNAMIC_DISPATCH(row_ops_f32)();
  return best;
}
template <>
const RowOps<double>& row_ops<double>() {
  static const RowOps<double>& best = *HWY_DYNAMIC_DISPATCH(row_ops_f64)();
  return best;
}
const ByteOps& byte_ops() {
  static const ByteOps& best = *HWY_DYNAMIC_DISPATCH(byte_table)();
  return best;
}

}  // namespace planck
#endif
