// Sums of a few rows in registers, straight to memory; copies and zeros past the caches. For use
// inside a per-target namespace, like planck/loops/cpu/steps-inl.h and after it.
#if defined(PLANCK_OPS_EMBEDDING_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_OPS_EMBEDDING_COLUMNS_INL_H_
#undef PLANCK_OPS_EMBEDDING_COLUMNS_INL_H_
#else
#define PLANCK_OPS_EMBEDDING_COLUMNS_INL_H_
#endif

#include <cstring>

#include "planck/core/half.h"
#include "planck/loops/table/table.math.h"
#include "planck/math/bf16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace em = table_math;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
constexpr bool kWidensHalves = true;
#else
constexpr bool kWidensHalves = false;
#endif

template <class C>
using Lanes = hn::ScalableTag<C>;

template <class C>
HWY_INLINE hn::Vec<Lanes<C>> load_lanes(const C* from) {
  return hn::LoadU(Lanes<C>(), from);
}
HWY_INLINE hn::Vec<Lanes<float>> load_lanes(const bf16* from) {
  const hn::Rebind<std::uint16_t, Lanes<float>> narrow;
  return bf16_vectors::widened(hn::LoadU(narrow, reinterpret_cast<const std::uint16_t*>(from)));
}

template <bool kStream, class C>
HWY_INLINE void store_lanes(hn::Vec<Lanes<C>> v, C* to) {
  if constexpr (kStream)
    hn::Stream(v, Lanes<C>(), to);
  else
    hn::StoreU(v, Lanes<C>(), to);
}
template <bool kStream>
HWY_INLINE void store_lanes(hn::Vec<Lanes<float>> v, bf16* to) {
  const hn::Rebind<std::uint16_t, Lanes<float>> narrow;
  const auto halves = bf16_vectors::narrowed(v);
  auto* out = reinterpret_cast<std::uint16_t*>(to);
  if constexpr (kStream)
    hn::Stream(halves, narrow, out);
  else
    hn::StoreU(halves, narrow, out);
}
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
HWY_INLINE hn::Vec<Lanes<float>> load_lanes(const f16* from) {
  const hn::Rebind<hwy::float16_t, Lanes<float>> narrow;
  return hn::PromoteTo(Lanes<float>(),
                       hn::LoadU(narrow, reinterpret_cast<const hwy::float16_t*>(from)));
}
template <bool kStream>
HWY_INLINE void store_lanes(hn::Vec<Lanes<float>> v, f16* to) {
  const hn::Rebind<hwy::float16_t, Lanes<float>> narrow;
  hn::StoreU(hn::DemoteTo(narrow, v), narrow, reinterpret_cast<hwy::float16_t*>(to));
}
#endif

template <class C, class T>
HWY_INLINE C element_of(const T& v) {
  if constexpr (std::is_same_v<C, T>)
    return v;
  else
    return static_cast<C>(v);
}

// kAdd: adds to what is there.
template <class C, bool kStream, bool kAdd = false, class T, class Out>
HWY_INLINE void sum_columns(const T* const* rows, int count, int n, Out* to) {
  const Lanes<C> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto canonical = [&](hn::Vec<Lanes<C>> v) HWY_ATTR {
    return hn::IfThenElse(v == v, v, hn::Set(d, em::canonical(C(__builtin_nanf("")))));
  };
  const auto put = [&](hn::Vec<Lanes<C>> sum, int at) HWY_ATTR {
    if constexpr (kAdd) sum = load_lanes(to + at) + sum;
    store_lanes<kStream>(canonical(sum), to + at);
  };
  int i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    auto a = load_lanes(rows[0] + i), b = load_lanes(rows[0] + i + lanes);
    auto c = load_lanes(rows[0] + i + 2 * lanes), e = load_lanes(rows[0] + i + 3 * lanes);
    for (int k = 1; k < count; ++k) {
      const T* row = rows[k] + i;
      a = a + load_lanes(row);
      b = b + load_lanes(row + lanes);
      c = c + load_lanes(row + 2 * lanes);
      e = e + load_lanes(row + 3 * lanes);
    }
    put(a, i);
    put(b, i + lanes);
    put(c, i + 2 * lanes);
    put(e, i + 3 * lanes);
  }
  const auto one = [&](int at) HWY_ATTR {
    auto sum = load_lanes(rows[0] + at);
    for (int k = 1; k < count; ++k) sum = sum + load_lanes(rows[k] + at);
    return sum;
  };
  for (; i + lanes <= n; i += lanes) put(one(i), i);
  if (i == n) return;
  if (!kAdd && n >= lanes)  // the last vector repeats some columns
    return store_lanes<false>(canonical(one(n - lanes)), to + n - lanes);
  for (; i < n; ++i) {
    C sum = element_of<C>(rows[0][i]);
    for (int k = 1; k < count; ++k) sum += element_of<C>(rows[k][i]);
    if constexpr (kAdd) sum = element_of<C>(to[i]) + sum;
    to[i] = Out(em::canonical(sum));
  }
}

// Plain stores up to the next cache line, then whole lines past the caches.
[[maybe_unused]] void copy_bytes(void* to, const void* from, std::size_t bytes, bool stream) {
  auto* out = static_cast<std::uint8_t*>(to);
  const auto* in = static_cast<const std::uint8_t*>(from);
  const std::size_t lead = (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64;
  if (!stream || bytes < lead + 64) return void(std::memcpy(out, in, bytes));
  if (lead > 0) std::memcpy(out, in, lead);
  const hn::ScalableTag<std::uint8_t> d;
  std::size_t b = lead;
  for (; b + hn::Lanes(d) <= bytes; b += hn::Lanes(d)) hn::Stream(hn::LoadU(d, in + b), d, out + b);
  if (b < bytes) std::memcpy(out + b, in + b, bytes - b);
}

[[maybe_unused]] void zero_bytes(void* to, std::size_t bytes, bool stream) {
  auto* out = static_cast<std::uint8_t*>(to);
  const std::size_t lead = (64 - reinterpret_cast<std::uintptr_t>(to) % 64) % 64;
  if (!stream || bytes < lead + 64) return void(std::memset(out, 0, bytes));
  if (lead > 0) std::memset(out, 0, lead);
  const hn::ScalableTag<std::uint8_t> d;
  std::size_t b = lead;
  for (; b + hn::Lanes(d) <= bytes; b += hn::Lanes(d)) hn::Stream(hn::Zero(d), d, out + b);
  if (b < bytes) std::memset(out + b, 0, bytes - b);
}

// Rows that do not begin on cache lines but follow one another: they are written past the caches
// through a buffer.
class Stage {
 public:
  // Where to put the next bytes, which belong at `at`.
  HWY_INLINE std::byte* next(std::byte* at, std::size_t count) {
    if (to_ + used_ != at || used_ + count > kBytes) {
      flush();
      to_ = at;
    }
    std::byte* place = bytes_ + used_;
    used_ += count;
    return place;
  }
  void flush() {
    if (used_ > 0) copy_bytes(to_, bytes_, used_, true);
    used_ = 0;
    to_ = nullptr;
  }
  static constexpr std::size_t kBytes = 16384;

 private:
  std::byte* to_ = nullptr;
  std::size_t used_ = 0;
  alignas(64) std::byte bytes_[kBytes];
};

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
