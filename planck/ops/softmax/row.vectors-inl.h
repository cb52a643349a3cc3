// The functions of row.math.h over vectors of f32, bit for bit: sums of them along a dense row, and
// rows of them to memory. Include within foreach_target's passes, after planck/loops/steps-inl.h.
#if defined(PLANCK_SOFTMAX_ROW_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SOFTMAX_ROW_VECTORS_INL_H_
#undef PLANCK_SOFTMAX_ROW_VECTORS_INL_H_
#else
#define PLANCK_SOFTMAX_ROW_VECTORS_INL_H_
#endif

#include "planck/ops/reduce/pairs-inl.h"
#include "planck/ops/reduce/range-inl.h"
#include "planck/ops/softmax/row.loops.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::row_vectors {

namespace vm = vector_math;
using vm::V;

struct Shared {
  V a, b, c, d;
};

// Which operands are read (bits 0, 1, 2), and the function. x is any float: exp has no bound from
// above only where a row's largest element was taken away.
#define PLANCK_ROW(Name, reads, ...)                                                         \
  struct Name {                                                                              \
    static constexpr unsigned kReads = reads;                                                \
    static HWY_INLINE V of([[maybe_unused]] V x, [[maybe_unused]] V y, [[maybe_unused]] V z, \
                           [[maybe_unused]] const Shared& s) {                               \
      return __VA_ARGS__;                                                                    \
    }                                                                                        \
  };
PLANCK_ROW(First, 1, x)
PLANCK_ROW(Square, 1, hn::Mul(hn::Sub(x, s.a), hn::Sub(x, s.a)))
PLANCK_ROW(Exponential, 1, vm::exp_below(hn::Sub(x, s.a)))
PLANCK_ROW(ExponentialNear, 1, vm::exp_near(hn::Sub(x, s.a)))
PLANCK_ROW(Scaled, 1, hn::Mul(x, s.a))
PLANCK_ROW(Softmax, 1, hn::Mul(vm::exp_below(hn::Sub(x, s.a)), s.b))
PLANCK_ROW(LogSoftmax, 1, hn::Sub(hn::Sub(x, s.a), s.b))
PLANCK_ROW(Product, 3, hn::Mul(y, x))
PLANCK_ROW(SoftmaxBackward, 3, hn::Mul(hn::Sub(y, s.a), x))
PLANCK_ROW(LogSoftmaxBackward, 3, hn::Sub(y, hn::Mul(vm::exp_any_nan(x), s.a)))
PLANCK_ROW(EntropyBackward, 1, hn::Mul(s.b, vm::exp_any_nan(hn::Sub(x, s.a))))
PLANCK_ROW(Hat, 1, hn::Mul(hn::Sub(x, s.a), s.b))
PLANCK_ROW(Normalized, 7, hn::Add(hn::Mul(Hat::of(x, y, z, s), z), y))
PLANCK_ROW(Weighted, 6, hn::Mul(y, z))
PLANCK_ROW(WeightedHat, 7, hn::Mul(hn::Mul(y, z), Hat::of(x, y, z, s)))
PLANCK_ROW(NormBackward, 7,
           hn::Mul(hn::Sub(hn::Sub(hn::Mul(y, z), s.c), hn::Mul(Hat::of(x, y, z, s), s.d)), s.b))
#undef PLANCK_ROW

// Functions that are summed, and functions that are results.
template <class F>
HWY_INLINE float with_summed(RowMap how, F&& f) {
  switch (how) {
    case RowMap::product:
      return f(Product());
    case RowMap::weighted:
      return f(Weighted());
    case RowMap::weighted_hat:
      return f(WeightedHat());
    case RowMap::square:
      return f(Square());
    default:
      return f(First());
  }
}
template <class F>
HWY_INLINE void with_written(RowMap how, F&& f) {
  switch (how) {
    case RowMap::softmax:
      return f(Softmax());
    case RowMap::log_softmax:
      return f(LogSoftmax());
    case RowMap::softmax_backward:
      return f(SoftmaxBackward());
    case RowMap::log_softmax_backward:
      return f(LogSoftmaxBackward());
    case RowMap::entropy_backward:
      return f(EntropyBackward());
    case RowMap::normalized:
      return f(Normalized());
    case RowMap::norm_backward:
      return f(NormBackward());
    default:
      return f(First());
  }
}

template <class Op, class S>
struct Values {
  const RowInput<float> (&in)[3];
  Shared s;

  Values(const RowInput<float> (&inputs)[3], const row_math::Shared<float>& shared)
      : in(inputs), s{vm::all(shared.a), vm::all(shared.b), vm::all(shared.c), vm::all(shared.d)} {}
  template <class At>
  HWY_INLINE V operand(int k, const At& at) const {
    if (((Op::kReads >> k) & 1u) == 0) return vm::all(0.0f);
    if (in[k].data == nullptr) return vm::all(in[k].otherwise);
    return at.load(S(), in[k].data);
  }
  template <class At>
  HWY_INLINE V operator()(const At& at) const {
    return Op::of(operand(0, at), operand(1, at), operand(2, at), s);
  }
  // The same of pairs of bf16, or of f32 that are kept so: a vector of each after the other.
  template <class At>
  HWY_INLINE dense::Pairs pairs_of(int k, const At& at) const {
    if (((Op::kReads >> k) & 1u) == 0 || in[k].data == nullptr) {
      const V same = operand(k, dense::Whole{0});
      return {same, same};
    }
    if constexpr (std::is_same_v<S, dense::AsF32>) {
      const float* kept = static_cast<const float*>(in[k].data) + at.i;
      return {hn::LoadU(vm::D(), kept), hn::LoadU(vm::D(), kept + vm::kLanes)};
    } else {
      return at.load(in[k].data);
    }
  }
  template <class At>
  HWY_INLINE dense::Pairs pairs(const At& at) const {
    const dense::Pairs x = pairs_of(0, at), y = pairs_of(1, at), z = pairs_of(2, at);
    return {Op::of(x.even, y.even, z.even, s), Op::of(x.odd, y.odd, z.odd, s)};
  }
  HWY_INLINE void ask(std::int64_t i) const {
    for (int k = 0; k < 2; ++k)
      if (((Op::kReads >> k) & 1u) && in[k].ahead != 0)
        __builtin_prefetch(
            reinterpret_cast<const char*>(static_cast<const typename S::T*>(in[k].data) + i) +
                in[k].ahead,
            0, 2);
  }
};

template <class Op, class S>
float sum_of(const RowInput<float> (&in)[3], std::int64_t n, const row_math::Shared<float>& shared,
             float* kept) {
  const Values<Op, S> values(in, shared);
  if constexpr (std::is_same_v<S, dense::AsBf16>)
    if (n % 2 == 0)
      return dense::sum(n / 2, [&](const auto& at) HWY_ATTR {
        const auto there = dense::pairs_at(at);
        const dense::Pairs v = values.pairs(there);
        values.ask(there.i);
        if (kept != nullptr) {
          hn::StoreU(v.even, vm::D(), kept + there.i);
          hn::StoreU(v.odd, vm::D(), kept + there.i + vm::kLanes);
        }
        return hn::Add(v.even, v.odd);
      });
  return dense::sum(n, [&](const auto& at) HWY_ATTR {
    const V v = values(at);
    values.ask(at.i);
    if (kept != nullptr) hn::StoreU(v, vm::D(), kept + at.i);
    return v;
  });
}

template <class Op, class In, class Out>
void write_of(const RowInput<float> (&in)[3], std::int64_t n, const row_math::Shared<float>& shared,
              const Sink& to) {
  const Values<Op, In> values(in, shared);
  if constexpr (std::is_same_v<Out, dense::AsBf16>)
    if (n % 2 == 0)
      return dense::store_pairs(to.data, n, to.stream, [&](const auto& at) HWY_ATTR {
        values.ask(at.i);
        return values.pairs(at);
      });
  dense::store(Out(), to.data, n, to.stream, [&](const auto& at) HWY_ATTR {
    values.ask(at.i);
    return values(at);
  });
}

inline float sum(RowMap how, Dtype t, const RowInput<float> (&in)[3], std::int64_t n,
                 const row_math::Shared<float>& shared) {
  return with_summed(how, [&](auto op) {
    return dense::with_storage(t, [&](auto storage) {
      return sum_of<decltype(op), decltype(storage)>(in, n, shared, nullptr);
    });
  });
}

inline float exponentials(Dtype t, const RowInput<float>& x, std::int64_t n, float* kept,
                          float& largest) {
  return dense::with_storage(t, [&](auto storage) {
    using S = decltype(storage);
    const dense::Range range = dense::range(storage, x.data, n, 4096);
    const float least = reduce_math::value_of<float>(range.least, 0);
    largest = reduce_math::value_of<float>(dense::largest_key(range, 0), 0);
    const RowInput<float> inputs[3] = {x, {nullptr}, {nullptr}};
    return largest - least <= vm::kExpNear ? sum_of<ExponentialNear, S>(inputs, n, {largest}, kept)
                                           : sum_of<Exponential, S>(inputs, n, {largest}, kept);
  });
}

// The input has the output's dtype or is f32.
inline void write(RowMap how, Dtype t, const RowInput<float> (&in)[3], std::int64_t n,
                  const row_math::Shared<float>& shared, const Sink& to) {
  if (how == RowMap::scaled)
    return dense::with_storage(to.dtype, [&](auto out) {
      write_of<Scaled, dense::AsF32, decltype(out)>(in, n, shared, to);
    });
  with_written(how, [&](auto op) {
    dense::with_storage(t, [&](auto storage) {
      write_of<decltype(op), decltype(storage), decltype(storage)>(in, n, shared, to);
    });
  });
}

inline void norm_sums(Dtype t, const RowInput<float> (&in)[3], std::int64_t n,
                      const row_math::Shared<float>& shared, float (&sums)[2]) {
  dense::with_storage(t, [&](auto storage) HWY_ATTR {
    const Values<WeightedHat, decltype(storage)> values(in, shared);
    if constexpr (std::is_same_v<decltype(storage), dense::AsBf16>)
      if (n % 2 == 0)
        return dense::sums_of<2>(
            n / 2,
            [&](const auto& at) HWY_ATTR {
              const auto there = dense::pairs_at(at);
              const dense::Pairs x = values.pairs_of(0, there), dy = values.pairs_of(1, there),
                                 w = values.pairs_of(2, there);
              const V even = hn::Mul(dy.even, w.even), odd = hn::Mul(dy.odd, w.odd);
              values.ask(there.i);
              return dense::Vectors<2>{
                  {hn::Add(even, odd), hn::Add(hn::Mul(even, Hat::of(x.even, V(), V(), values.s)),
                                               hn::Mul(odd, Hat::of(x.odd, V(), V(), values.s)))}};
            },
            sums);
    dense::sums_of<2>(
        n,
        [&](const auto& at) HWY_ATTR {
          const V hat = Hat::of(values.operand(0, at), V(), V(), values.s);
          const V g = hn::Mul(values.operand(1, at), values.operand(2, at));
          values.ask(at.i);
          return dense::Vectors<2>{{g, hn::Mul(g, hat)}};
        },
        sums);
  });
}

inline void norm_columns(Dtype t, const void* const (&x)[8], const void* const (&dy)[8],
                         const row_math::Shared<float> (&shared)[8], int n, float* hats,
                         float* plain, std::int64_t ahead) {
  dense::with_storage(t, [&](auto storage) HWY_ATTR {
    using S = decltype(storage);
    const auto ask = [&](const void* row, int j) HWY_ATTR {
      __builtin_prefetch(
          reinterpret_cast<const char*>(static_cast<const typename S::T*>(row) + j) + ahead, 0, 2);
    };
    dense::for_columns<2>(n, [&](const auto& at) HWY_ATTR {
      constexpr int kWide = std::remove_cvref_t<decltype(at)>::kCount;
      const auto row = [&](int r) HWY_ATTR {
        dense::Vectors<2 * kWide> terms;
        const V mean = vm::all(shared[r].a), rstd = vm::all(shared[r].b);
        for (int k = 0; k < kWide; ++k) {
          const int j = static_cast<int>(at[k].i);
          if (r == 2 || r == 3) ask(x[r], j), ask(dy[r], j);  // the others are asked for by rows
          const V given = at[k].load(storage, dy[r]);
          const V hat = hn::Mul(hn::Sub(at[k].load(storage, x[r]), mean), rstd);
          terms.v[2 * k] = hn::Mul(given, hat);
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

}  // namespace planck::HWY_NAMESPACE::row_vectors
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
