// Element math of reductions: what an element counts as, how two results become one.
//
// The largest and the smallest are found among integer keys in the order of the floats, so that
// neither order nor the sign of zero matters: -NaN and NaN on top, then +Inf ... +0, -0 ... -Inf.
// `flip` is 0, or all ones, which turns the order around and leaves NaN on top.
#pragma once

#include <cstdint>
#include <type_traits>

#include "planck/core/half.h"
#include "planck/core/macros.h"

namespace planck::reduce_math {

PLANCK_HD float canonical(float v) { return v == v ? v : __builtin_nanf(""); }
PLANCK_HD double canonical(double v) { return v == v ? v : __builtin_nan(""); }

template <class C>
using KeyOf = std::conditional_t<sizeof(C) == 8, std::int64_t, std::int32_t>;

template <class K>
inline constexpr K kLeastKey = K(1) << (8 * sizeof(K) - 1);
template <class K>
inline constexpr K kMostKey = static_cast<K>(~kLeastKey<K>);

PLANCK_HD std::int32_t bits_of(float v) {
  return static_cast<std::int32_t>(half_detail::bits_of(v));
}
PLANCK_HD std::int64_t bits_of(double v) {
  return static_cast<std::int64_t>(half_detail::bits_of(v));
}
PLANCK_HD float from_bits(std::int32_t b) {
  return half_detail::f32_from_bits(static_cast<std::uint32_t>(b));
}
PLANCK_HD double from_bits(std::int64_t b) {
#if defined(__CUDA_ARCH__)
  return __longlong_as_double(b);
#else
  return std::bit_cast<double>(b);
#endif
}

template <class C>
PLANCK_HD KeyOf<C> key_of(C x, KeyOf<C> flip) {
  using K = KeyOf<C>;
  if constexpr (std::is_floating_point_v<C>) {
    const K b = bits_of(x);
    const K ordered = b ^ ((b >> (8 * sizeof(K) - 1)) & kMostKey<K>);
    return x == x ? ordered ^ flip : kMostKey<K>;
  } else {
    return static_cast<K>(x) ^ flip;
  }
}
template <class C>
PLANCK_HD C value_of(KeyOf<C> key, KeyOf<C> flip) {
  using K = KeyOf<C>;
  if constexpr (std::is_floating_point_v<C>) {
    const K ordered = key ^ flip;
    const C v =
        from_bits(static_cast<K>(ordered ^ ((ordered >> (8 * sizeof(K) - 1)) & kMostKey<K>)));
    return key == kMostKey<K> ? canonical(C(__builtin_nanf(""))) : v;
  } else {
    return static_cast<C>(key ^ flip);
  }
}
// For indices, zeros of both signs are equal.
template <class C>
PLANCK_HD KeyOf<C> index_key_of(C x, KeyOf<C> flip) {
  if constexpr (std::is_floating_point_v<C>)
    return key_of(x + C(0), flip);
  else
    return key_of(x, flip);
}

// Two results of neighbours. `nothing` changes no result, not even its sign: x + -0 is x.
struct Add {
  template <class A>
  PLANCK_HD static A nothing() {
    if constexpr (std::is_floating_point_v<A>)
      return A(-0.0);
    else
      return 0;
  }
  template <class A>
  PLANCK_HD static A of(A a, A b) {
    if constexpr (std::is_floating_point_v<A>)
      return a + b;
    else
      return static_cast<A>(static_cast<std::make_unsigned_t<A>>(a) +
                            static_cast<std::make_unsigned_t<A>>(b));
  }
};
struct Multiply {
  template <class A>
  PLANCK_HD static A nothing() {
    return A(1);
  }
  template <class A>
  PLANCK_HD static A of(A a, A b) {
    if constexpr (std::is_floating_point_v<A>)
      return a * b;
    else
      return static_cast<A>(static_cast<std::make_unsigned_t<A>>(a) *
                            static_cast<std::make_unsigned_t<A>>(b));
  }
};
struct Largest {
  template <class A>
  PLANCK_HD static A nothing() {
    return kLeastKey<A>;
  }
  template <class A>
  PLANCK_HD static A of(A a, A b) {
    return a > b ? a : b;
  }
};

// A key and where it is.
template <class K>
struct Found {
  K key;
  std::int64_t index;
};
template <class K>
PLANCK_HD Found<K> better(const Found<K>& a, const Found<K>& b) {
  return b.key > a.key || (b.key == a.key && b.index < a.index) ? b : a;
}

// Whether x takes the place of the extreme before it: equals do not, zeros of both signs are equal,
// the first NaN does and stays. What stays after a row of elements is the first that no other
// exceeds, so any cut of the row into parts, joined in order, gives the same element.
template <bool kLargest, class C>
PLANCK_HD bool takes_over(C x, C best) {
  if constexpr (std::is_floating_point_v<C>)
    return best == best && !(kLargest ? x <= best : x >= best);
  else
    return kLargest ? x > best : x < best;
}
// The same for running extremes, where equals do, and a NaN that follows a NaN: what stays is the
// last of those that no other exceeds.
template <bool kLargest, class C>
PLANCK_HD bool runs_on(C x, C best) {
  const bool reaches = kLargest ? x >= best : x <= best;
  if constexpr (std::is_floating_point_v<C>)
    return reaches || x != x;
  else
    return reaches;
}

// Joins results that arrive one after the other in the pairwise order, like the digits of a binary
// counter. Each stands for 2^k elements, if all do but the last.
template <class Join, class A, int kDigits = 48>
class JoinCounter {
 public:
  PLANCK_HD void add(A value) {
    int k = 0;
    for (; (count_ >> k) & 1; ++k) value = Join::template of<A>(digits_[k], value);
    digits_[k] = value;
    ++count_;
  }
  PLANCK_HD A result() const {
    A all = Join::template nothing<A>();
    bool any = false;
    for (int k = 0; k < kDigits && (count_ >> k) != 0; ++k) {
      if (!((count_ >> k) & 1)) continue;
      all = any ? Join::template of<A>(digits_[k], all) : digits_[k];
      any = true;
    }
    return all;
  }

 private:
  std::uint64_t count_ = 0;
  A digits_[kDigits];
};

template <class C>
PLANCK_HD C square(C x, C mean) {
  const C d = x - mean;
  return d * d;
}

}  // namespace planck::reduce_math
