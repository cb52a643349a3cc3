// From what was joined over n elements to the result, host and device.
#pragma once

#include "planck/math/exp_terms.h"
#include "planck/math/log.h"
#include "planck/math/reduction.h"
#include "planck/ops/reduce/reduce.problem.h"

namespace planck::reduce_math {

template <class C>
struct Finish {
  ReduceKind kind;
  std::int64_t n, correction;
  KeyOf<C> flip;

  // Over nothing.
  PLANCK_HD C of_nothing() const {
    if constexpr (std::is_floating_point_v<C>) {
      if (kind == ReduceKind::mean || kind == ReduceKind::var) return C(__builtin_nanf(""));
      if (kind == ReduceKind::logsumexp) return -C(__builtin_inff());
    }
    return kind == ReduceKind::prod || kind == ReduceKind::all ? C(1) : C(0);
  }
  // parameter: the largest, for logsumexp.
  PLANCK_HD C of_sum(C sum, C parameter) const {
    if (n == 0) return of_nothing();
    if constexpr (std::is_floating_point_v<C>) {
      switch (kind) {
        case ReduceKind::mean:
          return canonical(sum / static_cast<C>(n));
        case ReduceKind::var:
          return n > correction ? canonical(sum / static_cast<C>(n - correction))
                                : C(__builtin_nanf(""));
        case ReduceKind::logsumexp: {
          const C largest = parameter;
          if (!(largest - largest == C(0))) return canonical(largest);
          const C top = math::exp_term(largest - math::center_of_terms(largest));
          return canonical(largest + math::log(sum / top));
        }
        default:
          return canonical(sum);
      }
    } else {
      return sum;
    }
  }
  PLANCK_HD C of_key(KeyOf<C> key) const {
    if (n == 0) return of_nothing();
    if constexpr (std::is_same_v<C, std::uint8_t>)  // any byte but 0 is true, and true is 1
      return value_of<C>(key, flip) != 0;
    else
      return value_of<C>(key, flip);
  }
};

template <class C>
Finish<C> make_finish(const ReduceProblem& p) {
  const bool smallest =
      p.kind == ReduceKind::min || p.kind == ReduceKind::argmin || p.kind == ReduceKind::all;
  return {p.kind, p.reduced(), p.correction, smallest ? KeyOf<C>(-1) : KeyOf<C>(0)};
}

}  // namespace planck::reduce_math
