// Sums and extremes of dense f32, f16 and bf16 over vectors, bit for bit those of reduce.cpp: along
// a row, and down eight rows at once. Include within foreach_target's passes, after
// planck/loops/cpu/steps-inl.h.
#if defined(PLANCK_REDUCE_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_REDUCE_VECTORS_INL_H_
#undef PLANCK_REDUCE_VECTORS_INL_H_
#else
#define PLANCK_REDUCE_VECTORS_INL_H_
#endif

#include "planck/loops/rows/cpu/range-inl.h"
#include "planck/loops/rows/cpu/reduce.h"

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

template <class S>
float row_sum(const ReduceStep<float>& step, const Source& from, std::int64_t n, float mean) {
  const V shared = vm::all(mean);
  const auto value = [&](const auto& at) HWY_ATTR {
    ask(S(), from.data, at.i, from.ahead);
    return at.load(S(), from.data);
  };
  if (step.lift == Lift::plain) return dense::sum(n, value);
  return dense::sum(n, [&](const auto& at) HWY_ATTR {
    const V d = hn::Sub(value(at), shared);
    return hn::Mul(d, d);
  });
}

// n > 0
template <class A>
A row(const ReduceStep<float>& step, const Source& from, std::int64_t n, float mean) {
  if constexpr (std::is_integral_v<A>)
    return dense::with_storage(from.dtype, [&](auto storage) {
      return dense::largest_key(dense::range(storage, from.data, n, from.ahead), step.flip);
    });
  else
    return dense::with_storage(
        from.dtype, [&](auto storage) { return row_sum<decltype(storage)>(step, from, n, mean); });
}

template <class S>
void column_sums(const Source* rows, int n, float* out) {
  dense::for_columns(n, [&](const auto& at) HWY_ATTR {
    constexpr int kWide = std::remove_cvref_t<decltype(at)>::kCount;
    const auto sums = dense::sum_of_rows<kReduceRows>([&](int r) HWY_ATTR {
      dense::Vectors<kWide> x;
      for (int k = 0; k < kWide; ++k) {
        ask(S(), rows[r].data, at[k].i, rows[r].ahead);
        x.v[k] = at[k].load(S(), rows[r].data);
      }
      return x;
    });
    for (int k = 0; k < kWide; ++k) at[k].put(sums.v[k], out);
  });
}

// Keys of elements; NaN has the largest.
HWY_INLINE K keys_of(V x, K flip) {
  const hn::RebindToSigned<vm::D> d;
  return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(x)), hn::Set(d, INT32_MAX),
                        hn::Xor(dense::ordered(x), flip));
}

template <class S>
void column_keys(const Source* rows, int n, std::int32_t flip, std::int32_t* out) {
  const K flips = hn::Set(hn::RebindToSigned<vm::D>(), flip);
  dense::for_columns(n, [&](const auto& at) HWY_ATTR {
    constexpr int kWide = std::remove_cvref_t<decltype(at)>::kCount;
    const auto row = [&](int r) HWY_ATTR {
      dense::Vectors<kWide, K> keys;
      for (int k = 0; k < kWide; ++k) {
        ask(S(), rows[r].data, at[k].i, rows[r].ahead);
        keys.v[k] = keys_of(at[k].load(S(), rows[r].data), flips);
      }
      return keys;
    };
    const auto most =
        dense::joined<kReduceRows>(0, row, [](K a, K b) HWY_ATTR { return hn::Max(a, b); });
    for (int k = 0; k < kWide; ++k) at[k].put(most.v[k], out);
  });
}

// Of kReduceRows rows.
template <class A>
void columns(const ReduceStep<float>& step, const Source* rows, int n, A* out) {
  dense::with_storage(rows[0].dtype, [&](auto storage) {
    if constexpr (std::is_integral_v<A>)
      column_keys<decltype(storage)>(rows, n, step.flip, out);
    else
      column_sums<decltype(storage)>(rows, n, out);
  });
}

// The first of the largest keys of kReduceRows rows from index `first` on; an earlier one stays
// unless it is exceeded. No element has the least key.
inline void find_columns(std::int32_t flip, const Source* rows, int n, std::int64_t first,
                         std::int32_t* keys, std::int64_t* indices) {
  const hn::RebindToSigned<vm::D> d;
  const K flips = hn::Set(d, flip);
  dense::with_storage(rows[0].dtype, [&](auto storage) HWY_ATTR {
    dense::for_columns<1>(n, [&](const auto& places) HWY_ATTR {
      const auto at = places[0];
      K best = hn::Set(d, INT32_MIN), row = hn::Zero(d);
      for (int r = 0; r < kReduceRows; ++r) {
        ask(storage, rows[r].data, at.i, rows[r].ahead);
        const V x = hn::Add(at.load(storage, rows[r].data), vm::all(0.0f));  // zeros are equal
        const K key = keys_of(x, flips);
        const auto better = hn::Gt(key, best);
        best = hn::Max(key, best);
        row = hn::IfThenElse(better, hn::Set(d, r), row);
      }
      if (hn::AllFalse(d, hn::Gt(best, hn::LoadU(d, keys + at.i)))) return;
      alignas(64) std::int32_t here[vm::kLanes], at_row[vm::kLanes];
      hn::Store(best, d, here);
      hn::Store(row, d, at_row);
      for (std::int64_t k = 0; k < vm::kLanes && at.i + k < n; ++k) {
        if (here[k] <= keys[at.i + k]) continue;
        keys[at.i + k] = here[k];
        indices[at.i + k] = first + at_row[k];
      }
    });
  });
}

}  // namespace planck::HWY_NAMESPACE::reduce_vectors
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
