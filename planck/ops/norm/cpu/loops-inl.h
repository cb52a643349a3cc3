// layer_norm and rms_norm over vectors of f32, the formulas of planck/loops/rows/functions.h bit
// for bit. Include within foreach_target's passes, after planck/loops/cpu/steps-inl.h.
//
// layer_norm, two threads, ms:                        f32 1,024  8,192   bf16 1,024  8,192
//   each row by itself                                     12.6   14.1         10.8    8.7
//   the end of a row computed under the next one's mean    10.9   13.9          8.2    7.9
//   bf16 parameters of short rows widened once                                  7.7
// Copying takes 12 (f32) and 6 (bf16). No gain: parameters widened once for two long rows; rounding
// by AVX-512's instruction with a test for what it flushes to 0.
#if defined(PLANCK_NORM_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_NORM_VECTORS_INL_H_
#undef PLANCK_NORM_VECTORS_INL_H_
#else
#define PLANCK_NORM_VECTORS_INL_H_
#endif

#include "planck/loops/rows/cpu/pairs-inl.h"
#include "planck/ops/norm/cpu/loops.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::norm_vectors {

namespace vm = vector_math;
using dense::Pairs;
using vm::V;

// A parameter that all rows share; one that is not given is the same number everywhere: one vector
// that is read again and again.
template <class S>
class Parameter {
 public:
  using T = typename S::T;
  struct Row {
    const T* data;
    std::int64_t mask;
    template <class At>
    HWY_INLINE At operator()(At at) const {
      at.i &= mask;
      return at;
    }
  };
  Parameter(const void* given, float otherwise) : given_(static_cast<const T*>(given)) {
    S::store(vm::all(otherwise), same_);
    S::store(vm::all(otherwise), same_ + vm::kLanes);
  }
  HWY_INLINE Row row() const { return given_ != nullptr ? Row{given_, -1} : Row{same_, 0}; }

 private:
  const T* given_;
  alignas(64) T same_[dense::kPairLanes];
};

template <class S>
HWY_INLINE V load(const typename Parameter<S>::Row& row, const auto& at) {
  return row(at).load(S(), row.data);
}
template <class S>
HWY_INLINE Pairs load_pairs(const typename Parameter<S>::Row& row, const auto& at) {
  return row(at).load(row.data);
}

// Prefetches an element. A prefetch that finds no free slot is dropped: what is needed soon is
// prefetched by every loop over a row.
template <class T>
HWY_INLINE void ask(const T* at) {
  __builtin_prefetch(at, 0, 2);
}

// The canonical sum of a function along a row; the row two further on is prefetched.
template <class S, class F>
HWY_INLINE float sum_of(const typename S::T* x, std::int64_t n, const F& f) {
  if constexpr (std::is_same_v<S, dense::AsBf16>)
    if (n % 2 == 0)
      return dense::sum(n / 2, [=](const auto& at) HWY_ATTR {
        const auto there = dense::pairs_at(at);
        const Pairs v = there.load(x);
        ask(x + there.i + 2 * n);
        return hn::Add(f(v.even), f(v.odd));
      });
  return dense::sum(n, [=](const auto& at) HWY_ATTR {
    ask(x + at.i + 2 * n);
    return f(at.load(S(), x));
  });
}
template <class S>
float plain_sum(const typename S::T* x, std::int64_t n) {
  return sum_of<S>(x, n, [](V v) HWY_ATTR { return v; });
}
template <class S>
float square_sum(const typename S::T* x, std::int64_t n, float mean) {
  const V m = vm::all(mean);
  return sum_of<S>(x, n, [=](V v) HWY_ATTR {
    const V d = hn::Sub(v, m);
    return hn::Mul(d, d);
  });
}

struct Statistics {
  V mean, rstd;
  HWY_INLINE V hat(V x) const { return hn::Mul(hn::Sub(x, mean), rstd); }
};

// A parameter of bf16 in short rows, as the two vectors that every row would make of it.
class Widened {
 public:
  static constexpr std::int64_t kLongest = 2048;  // both in the first-level cache

  Widened(const Parameter<dense::AsBf16>& parameter, std::int64_t n) {
    const auto row = parameter.row();
    for (std::int64_t i = 0; i < n; i += dense::kPairLanes) {
      const int m = static_cast<int>(std::min<std::int64_t>(dense::kPairLanes, n - i));
      const Pairs p = load_pairs<dense::AsBf16>(row, dense::SomePairs{i, m});
      hn::Store(p.even, vm::D(), wide_ + i);
      hn::Store(p.odd, vm::D(), wide_ + i + vm::kLanes);
    }
  }
  const float* row() const { return wide_; }

 private:
  alignas(64) float wide_[kLongest];
};
template <class S>
HWY_INLINE Pairs load_pairs(const float* row, const auto& at) {
  return {hn::LoadU(vm::D(), row + at.i), hn::LoadU(vm::D(), row + at.i + vm::kLanes)};
}

template <class S, class P>
void normalized(const typename S::T* x, std::int64_t n, const P& weight, const P& bias,
                const row_math::Shared<float>& shared, typename S::T* to, bool stream) {
  const auto w = weight.row(), b = bias.row();
  const Statistics s{vm::all(shared.a), vm::all(shared.b)};
  const auto of = [=](V v, V by, V plus) HWY_ATTR { return hn::Add(hn::Mul(s.hat(v), by), plus); };
  if constexpr (std::is_same_v<S, dense::AsBf16>)
    if (n % 2 == 0)
      return dense::store_pairs<dense::Known::nothing>(to, n, stream, [=](const auto& at) HWY_ATTR {
        ask(x + at.i + 2 * n);
        const Pairs v = at.load(x), by = load_pairs<S>(w, at), plus = load_pairs<S>(b, at);
        return Pairs{of(v.even, by.even, plus.even), of(v.odd, by.odd, plus.odd)};
      });
  if constexpr (!std::is_same_v<P, Widened>)
    dense::store<dense::Known::nothing>(S(), to, n, stream, [=](const auto& at) HWY_ATTR {
      ask(x + at.i + 2 * n);
      return of(at.load(S(), x), load<S>(w, at), load<S>(b, at));
    });
}

template <class S, class P>
HWY_INLINE void forward(const NormRows& in, int rows, bool centered, float eps, const P& weight,
                        const P& bias, row_math::Shared<float>* shared, const Sink& to) {
  using T = typename S::T;
  const T* x = static_cast<const T*>(in.x);
  const std::int64_t n = in.n;
  const float count = static_cast<float>(n);
  const auto mean_of = [&](int r) { return centered ? plain_sum<S>(x + r * n, n) / count : 0.0f; };
  // The next row's mean is computed in between: nothing waits for the end of a sum or for a root.
  shared[0].a = mean_of(0);
  for (int r = 0; r < rows; ++r) {
    const float sum = square_sum<S>(x + r * n, n, shared[r].a);
    if (r + 1 < rows) shared[r + 1].a = mean_of(r + 1);
    shared[r].b = 1.0f / math::sqrt_of(sum / count + eps);
    normalized<S>(x + r * n, n, weight, bias, shared[r], static_cast<T*>(to.data) + r * n,
                  to.stream);
  }
}

inline void forward(const NormRows& in, int rows, bool centered, float eps,
                    row_math::Shared<float>* shared, const Sink& to) {
  dense::with_storage(in.dtype, [&](auto storage) {
    using S = decltype(storage);
    const Parameter<S> weight(in.weight, 1.0f), bias(in.bias, -0.0f);
    if constexpr (std::is_same_v<S, dense::AsBf16>)
      if (in.n % 2 == 0 && in.n <= Widened::kLongest && rows > 2)
        return forward<S>(in, rows, centered, eps, Widened(weight, in.n), Widened(bias, in.n),
                          shared, to);
    forward<S>(in, rows, centered, eps, weight, bias, shared, to);
  });
}

// ---- gradients: x and dy are prefetched four rows ahead

// The sums of g = dy * weight and of g * xhat along a row.
template <class S>
HWY_INLINE void gradient_sums(const typename S::T* x, const typename S::T* dy, std::int64_t n,
                              const Parameter<S>& weight, const Statistics s, float (&sums)[2]) {
  const auto w = weight.row();
  if constexpr (std::is_same_v<S, dense::AsBf16>)
    if (n % 2 == 0)
      return dense::sums_of<2>(
          n / 2,
          [=](const auto& at) HWY_ATTR {
            const auto there = dense::pairs_at(at);
            const Pairs v = there.load(x), given = there.load(dy), by = load_pairs<S>(w, there);
            ask(x + there.i + 4 * n), ask(dy + there.i + 4 * n);
            const V even = hn::Mul(given.even, by.even), odd = hn::Mul(given.odd, by.odd);
            return dense::Vectors<2>{{hn::Add(even, odd), hn::Add(hn::Mul(even, s.hat(v.even)),
                                                                  hn::Mul(odd, s.hat(v.odd)))}};
          },
          sums);
  dense::sums_of<2>(
      n,
      [=](const auto& at) HWY_ATTR {
        const V g = hn::Mul(at.load(S(), dy), load<S>(w, at));
        ask(x + at.i + 4 * n), ask(dy + at.i + 4 * n);
        return dense::Vectors<2>{{g, hn::Mul(g, s.hat(at.load(S(), x)))}};
      },
      sums);
}

template <class S>
void gradient_of(const typename S::T* x, const typename S::T* dy, std::int64_t n,
                 const Parameter<S>& weight, bool centered, row_math::Shared<float>& shared,
                 typename S::T* to, bool stream) {
  const auto w = weight.row();
  const Statistics s{vm::all(shared.a), vm::all(shared.b)};
  float sums[2];
  gradient_sums<S>(x, dy, n, weight, s, sums);
  const float count = static_cast<float>(n);
  shared.c = centered ? sums[0] / count : 0.0f;
  shared.d = sums[1] / count;
  const V c = vm::all(shared.c), d = vm::all(shared.d);
  const auto of = [=](V v, V given, V by) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::Sub(hn::Mul(given, by), c), hn::Mul(s.hat(v), d)), s.rstd);
  };
  if constexpr (std::is_same_v<S, dense::AsBf16>)
    if (n % 2 == 0)
      return dense::store_pairs<dense::Known::nothing>(to, n, stream, [=](const auto& at) HWY_ATTR {
        const Pairs v = at.load(x), given = at.load(dy), by = load_pairs<S>(w, at);
        ask(x + at.i + 4 * n), ask(dy + at.i + 4 * n);
        return Pairs{of(v.even, given.even, by.even), of(v.odd, given.odd, by.odd)};
      });
  dense::store<dense::Known::nothing>(S(), to, n, stream, [=](const auto& at) HWY_ATTR {
    ask(x + at.i + 4 * n), ask(dy + at.i + 4 * n);
    return of(at.load(S(), x), at.load(S(), dy), load<S>(w, at));
  });
}

inline void backward(const NormRows& in, bool centered, row_math::Shared<float>& shared,
                     const Sink& to) {
  dense::with_storage(in.dtype, [&](auto storage) {
    using S = decltype(storage);
    using T = typename S::T;
    const Parameter<S> weight(in.weight, 1.0f);
    gradient_of<S>(static_cast<const T*>(in.x), static_cast<const T*>(in.dy), in.n, weight,
                   centered, shared, static_cast<T*>(to.data), to.stream);
  });
}

inline void columns(const NormRows& in, const row_math::Shared<float> (&shared)[8],
                    std::int64_t column, int n, float* hats, float* plain) {
  dense::with_storage(in.dtype, [&](auto storage) HWY_ATTR {
    using S = decltype(storage);
    using T = typename S::T;
    const T *x = static_cast<const T*>(in.x) + column, *dy = static_cast<const T*>(in.dy) + column;
    const std::int64_t length = in.n;
    dense::for_columns<2>(n, [&](const auto& at) HWY_ATTR {
      constexpr int kWide = std::remove_cvref_t<decltype(at)>::kCount;
      const auto row = [&](int r) HWY_ATTR {
        dense::Vectors<2 * kWide> terms;
        const Statistics s{vm::all(shared[r].a), vm::all(shared[r].b)};
        const T *from = x + r * length, *given_row = dy + r * length;
        for (int k = 0; k < kWide; ++k) {
          ask(from + at[k].i + 8 * length), ask(given_row + at[k].i + 8 * length);
          const V given = at[k].load(storage, given_row);
          terms.v[2 * k] = hn::Mul(given, s.hat(at[k].load(storage, from)));
          terms.v[2 * k + 1] = given;
        }
        return terms;
      };
      const auto sums = dense::sum_of_rows<8>(row);
      for (int k = 0; k < kWide; ++k) {
        if (hats != nullptr) at[k].put(sums.v[2 * k], hats);
        if (plain != nullptr) at[k].put(sums.v[2 * k + 1], plain);
      }
    });
  });
}

}  // namespace planck::HWY_NAMESPACE::norm_vectors
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
