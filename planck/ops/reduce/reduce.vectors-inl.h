// Sums and extremes of dense f32, f16 and bf16 over vectors, bit for bit those of reduce.loops.cpp:
// along a row, and down eight rows at once. Include within foreach_target's passes, after
// planck/loops/steps-inl.h.
#if defined(PLANCK_REDUCE_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_REDUCE_VECTORS_INL_H_
#undef PLANCK_REDUCE_VECTORS_INL_H_
#else
#define PLANCK_REDUCE_VECTORS_INL_H_
#endif

#include "planck/ops/reduce/dense-inl.h"
#include "planck/ops/reduce/reduce.loops.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::reduce_vectors {

namespace vm = vector_math;
using vm::V;
using K = hn::Vec<hn::RebindToSigned<vm::D>>;

template <class S>
HWY_INLINE void ask(S, const void* row, std::int64_t i, std::int64_t ahead) {
  const auto* at = static_cast<const typename S::T*>(row) + i;
  __builtin_prefetch(reinterpret_cast<const char*>(at) + ahead, 0, 2);
}

// parameter: the mean, or the largest element.
template <Lift kLift>
HWY_INLINE V lifted(V x, V parameter) {
  if constexpr (kLift == Lift::plain) {
    return x;
  } else {
    const V d = hn::Sub(x, parameter);
    if constexpr (kLift == Lift::square) return hn::Mul(d, d);
    return vm::exp_below(d);
  }
}

// Calls f with the lift and the storage as types.
template <class F>
HWY_INLINE auto with_sum(Lift lift, Dtype t, F&& f) {
  return dense::with_storage(t, [&](auto storage) {
    if (lift == Lift::square) return f(storage, std::integral_constant<Lift, Lift::square>());
    if (lift == Lift::exponential)
      return f(storage, std::integral_constant<Lift, Lift::exponential>());
    return f(storage, std::integral_constant<Lift, Lift::plain>());
  });
}

template <Lift kLift, class S>
float row_sum(const Source& from, std::int64_t n, float parameter) {
  const V shared = vm::all(parameter);
  return dense::sum(n, [&](const auto& at) HWY_ATTR {
    ask(S(), from.data, at.i, from.ahead);
    return lifted<kLift>(at.load(S(), from.data), shared);
  });
}

// n > 0
template <class A>
A row(const ReduceStep<float>& step, const Source& from, std::int64_t n, float parameter) {
  if constexpr (std::is_integral_v<A>)
    return dense::with_storage(from.dtype, [&](auto storage) {
      return dense::largest_key(dense::range(storage, from.data, n, from.ahead), step.flip);
    });
  else
    return with_sum(step.lift, from.dtype, [&](auto storage, auto lift) {
      return row_sum<decltype(lift)::value, decltype(storage)>(from, n, parameter);
    });
}

template <class T, class F>
HWY_INLINE T joined(const T (&v)[kReduceRows], const F& join) {
  return join(join(join(v[0], v[1]), join(v[2], v[3])), join(join(v[4], v[5]), join(v[6], v[7])));
}

// Calls f(at, m) for the vectors of n columns.
template <class F>
HWY_INLINE void for_columns(int n, const F& f) {
  int j = 0;
  for (; j + vm::kLanes <= n; j += vm::kLanes) f(dense::Whole{j}, vm::kLanes);
  if (j < n) f(dense::Some{j, n - j}, n - j);
}

template <Lift kLift, class S>
void column_sums(const Source* rows, int n, const float* parameters, float* out) {
  for_columns(n, [&](const auto& at, int m) HWY_ATTR {
    const V shared = kLift == Lift::plain ? vm::all(0.0f) : at.load(dense::AsF32(), parameters);
    V v[kReduceRows];
    for (int r = 0; r < kReduceRows; ++r) {
      ask(S(), rows[r].data, at.i, rows[r].ahead);
      v[r] = lifted<kLift>(at.load(S(), rows[r].data), shared);
    }
    alignas(64) float sums[vm::kLanes];
    hn::Store(joined(v, [](V a, V b) HWY_ATTR { return hn::Add(a, b); }), vm::D(), sums);
    std::memcpy(out + at.i, sums, static_cast<std::size_t>(m) * sizeof(float));
  });
}

template <class S>
void column_keys(const Source* rows, int n, std::int32_t flip, std::int32_t* out) {
  const hn::RebindToSigned<vm::D> d;
  const K flips = hn::Set(d, flip), most = hn::Set(d, INT32_MAX);
  for_columns(n, [&](const auto& at, int m) HWY_ATTR {
    K keys[kReduceRows];
    for (int r = 0; r < kReduceRows; ++r) {
      ask(S(), rows[r].data, at.i, rows[r].ahead);
      const V x = at.load(S(), rows[r].data);
      const K key = hn::Xor(dense::ordered(x), flips);
      keys[r] = hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(x)), most, key);
    }
    alignas(64) std::int32_t largest[vm::kLanes];
    hn::Store(joined(keys, [](K a, K b) HWY_ATTR { return hn::Max(a, b); }), d, largest);
    std::memcpy(out + at.i, largest, static_cast<std::size_t>(m) * sizeof(std::int32_t));
  });
}

// Of kReduceRows rows.
template <class A>
void columns(const ReduceStep<float>& step, const Source* rows, int n, const float* parameters,
             A* out) {
  if constexpr (std::is_integral_v<A>)
    dense::with_storage(rows[0].dtype, [&](auto storage) {
      column_keys<decltype(storage)>(rows, n, step.flip, out);
    });
  else
    with_sum(step.lift, rows[0].dtype, [&](auto storage, auto lift) {
      column_sums<decltype(lift)::value, decltype(storage)>(rows, n, parameters, out);
    });
}

}  // namespace planck::HWY_NAMESPACE::reduce_vectors
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
