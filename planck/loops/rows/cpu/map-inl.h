// The functions of functions.h over vectors of f32, bit for bit: sums of them along a dense row,
// and rows of them to memory. Include within foreach_target's passes, after
// planck/loops/cpu/steps-inl.h.
#if defined(PLANCK_SOFTMAX_ROW_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SOFTMAX_ROW_VECTORS_INL_H_
#undef PLANCK_SOFTMAX_ROW_VECTORS_INL_H_
#else
#define PLANCK_SOFTMAX_ROW_VECTORS_INL_H_
#endif

#include "planck/loops/rows/cpu/map.h"
#include "planck/loops/rows/cpu/pairs-inl.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::row_vectors {

namespace vm = vector_math;
using vm::V;

struct Shared {
  V a, b;
};

// Which operands are read (bits 0, 1), and the function. x is any float: exp has no bound from
// above only where a row's largest element was taken away.
#define PLANCK_ROW(Name, reads, ...)                                                      \
  struct Name {                                                                           \
    static constexpr unsigned kReads = reads;                                             \
    static HWY_INLINE V of(V x, [[maybe_unused]] V y, [[maybe_unused]] const Shared& s) { \
      return __VA_ARGS__;                                                                 \
    }                                                                                     \
  };
PLANCK_ROW(First, 1, x)
PLANCK_ROW(Exponential, 1, vm::exp_below(hn::Sub(x, s.a)))
PLANCK_ROW(ExponentialNear, 1, vm::exp_near(hn::Sub(x, s.a)))
PLANCK_ROW(Term, 1, vm::exp_term(hn::Sub(x, s.a)))
PLANCK_ROW(TermNear, 1, vm::exp_term_near(hn::Sub(x, s.a)))
PLANCK_ROW(Softmax, 1, hn::Mul(vm::exp_below(hn::Sub(x, s.a)), s.b))
PLANCK_ROW(LogSoftmax, 1, hn::Sub(hn::Sub(x, s.a), s.b))
PLANCK_ROW(Product, 3, hn::Mul(y, x))
PLANCK_ROW(SoftmaxBackward, 3, hn::Mul(hn::Sub(y, s.a), x))
PLANCK_ROW(LogSoftmaxBackward, 3, hn::Sub(y, hn::Mul(vm::exp(x), s.a)))
PLANCK_ROW(EntropyBackward, 1, hn::Mul(s.b, vm::exp(hn::Sub(x, s.a))))
#undef PLANCK_ROW

// Functions that are results.
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
    default:
      return f(EntropyBackward());
  }
}

// Copied into loops, so that nothing has to be read again after a store.
template <class Op, class S>
struct Values {
  const typename S::T *x, *y;
  std::int64_t ahead;  // bytes
  Shared s;

  Values(const void* const (&in)[2], std::int64_t asked, const row_math::Shared<float>& shared)
      : x(static_cast<const typename S::T*>(in[0])),
        y(static_cast<const typename S::T*>(Op::kReads == 3 ? in[1] : in[0])),
        ahead(asked),
        s{vm::all(shared.a), vm::all(shared.b)} {}
  template <class At>
  HWY_INLINE V operator()(const At& at) const {
    return Op::of(at.load(S(), x), Op::kReads == 3 ? at.load(S(), y) : V(), s);
  }
  template <class At>
  HWY_INLINE dense::Pairs pairs(const At& at) const {
    const dense::Pairs a = at.load(x), b = Op::kReads == 3 ? at.load(y) : a;
    return {Op::of(a.even, b.even, s), Op::of(a.odd, b.odd, s)};
  }
  HWY_INLINE void ask(std::int64_t i) const {
    __builtin_prefetch(reinterpret_cast<const char*>(x + i) + ahead, 0, 2);
    if constexpr (Op::kReads == 3)
      __builtin_prefetch(reinterpret_cast<const char*>(y + i) + ahead, 0, 2);
  }
};

template <class Op, class S>
float sum_of(const Values<Op, S> values, std::int64_t n) {
  if constexpr (std::is_same_v<S, dense::AsBf16>)
    if (n % 2 == 0)
      return dense::sum(n / 2, [=](const auto& at) HWY_ATTR {
        const auto there = dense::pairs_at(at);
        const dense::Pairs v = values.pairs(there);
        values.ask(there.i);
        return hn::Add(v.even, v.odd);
      });
  return dense::sum(n, [=](const auto& at) HWY_ATTR {
    values.ask(at.i);
    return values(at);
  });
}

template <class Op, class S>
void write_of(const Values<Op, S> values, std::int64_t n, const Sink& to) {
  if constexpr (std::is_same_v<S, dense::AsBf16>)
    if (n % 2 == 0)
      return dense::store_pairs<dense::Known::nothing>(
          to.data, n, to.stream, [=](const auto& at) HWY_ATTR { return values.pairs(at); });
  dense::store<dense::Known::nothing>(S(), to.data, n, to.stream,
                                      [=](const auto& at) HWY_ATTR { return values(at); });
}

inline float sum(RowMap how, Dtype t, const void* const (&in)[2], std::int64_t n,
                 std::int64_t ahead) {
  return dense::with_storage(t, [&](auto storage) {
    using S = decltype(storage);
    return how == RowMap::product ? sum_of(Values<Product, S>(in, ahead, {}), n)
                                  : sum_of(Values<First, S>(in, ahead, {}), n);
  });
}

inline void write(RowMap how, const void* const (&in)[2], std::int64_t n,
                  const row_math::Shared<float>& shared, const Sink& to) {
  with_written(how, [&](auto op) {
    dense::with_storage(to.dtype, [&](auto storage) {
      write_of(Values<decltype(op), decltype(storage)>(in, 0, shared), n, to);
    });
  });
}

}  // namespace planck::HWY_NAMESPACE::row_vectors
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
