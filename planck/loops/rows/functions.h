// Element math of softmax, cross_entropy and the norms: scalar, host and device. C is the compute
// type.
#pragma once

#include "planck/math/exp_terms.h"
#include "planck/math/log.h"

namespace planck::row_math {

// What a row's elements share.
template <class C>
struct Shared {
  C a = 0, b = 0, c = 0, d = 0;
};

// Each takes the elements of up to three operands and what the row shares; the comment beside it
// names both.
struct Exponential {  // x; a: the largest
  template <class C>
  PLANCK_HD static C of(C x, C, C, const Shared<C>& s) {
    return math::exp(x - s.a);
  }
};
struct Term {  // x; a: the center
  template <class C>
  PLANCK_HD static C of(C x, C, C, const Shared<C>& s) {
    return math::exp_term(x - s.a);
  }
};
struct Scaled {  // e; a: 1 / sum
  template <class C>
  PLANCK_HD static C of(C e, C, C, const Shared<C>& s) {
    return e * s.a;
  }
};
struct Softmax {  // x; a: the largest, b: 1 / sum
  template <class C>
  PLANCK_HD static C of(C x, C, C, const Shared<C>& s) {
    return math::exp(x - s.a) * s.b;
  }
};
struct LogSoftmax {  // x; a: the largest, b: log(sum)
  template <class C>
  PLANCK_HD static C of(C x, C, C, const Shared<C>& s) {
    return (x - s.a) - s.b;
  }
};
struct Product {  // y, dy
  template <class C>
  PLANCK_HD static C of(C y, C dy, C, const Shared<C>&) {
    return dy * y;
  }
};
struct SoftmaxBackward {  // y, dy; a: sum of products
  template <class C>
  PLANCK_HD static C of(C y, C dy, C, const Shared<C>& s) {
    return (dy - s.a) * y;
  }
};
struct LogSoftmaxBackward {  // y, dy; a: sum of dy
  template <class C>
  PLANCK_HD static C of(C y, C dy, C, const Shared<C>& s) {
    return dy - math::exp(y) * s.a;
  }
};
struct EntropyBackward {  // x; a: lse, b: dloss
  template <class C>
  PLANCK_HD static C of(C x, C, C, const Shared<C>& s) {
    return s.b * math::exp(x - s.a);
  }
  template <class C>
  PLANCK_HD static C at_target(C x, const Shared<C>& s) {
    return s.b * (math::exp(x - s.a) - C(1));
  }
};
// ---- norms: x, and weight in the last place, 1 where there is none; a: mean, b: rstd
struct Normalized {  // x, bias, weight
  template <class C>
  PLANCK_HD static C of(C x, C bias, C weight, const Shared<C>& s) {
    return ((x - s.a) * s.b) * weight + bias;
  }
};
struct Weighted {  // dy: g = dy * weight
  template <class C>
  PLANCK_HD static C of(C, C dy, C weight, const Shared<C>&) {
    return dy * weight;
  }
};
struct WeightedHat {  // g * xhat
  template <class C>
  PLANCK_HD static C of(C x, C dy, C weight, const Shared<C>& s) {
    return (dy * weight) * ((x - s.a) * s.b);
  }
};
struct HatTerm {  // dy * xhat: dweight's
  template <class C>
  PLANCK_HD static C of(C x, C dy, C, const Shared<C>& s) {
    return dy * ((x - s.a) * s.b);
  }
};

struct Second {  // the second operand itself
  template <class C>
  PLANCK_HD static C of(C, C dy, C, const Shared<C>&) {
    return dy;
  }
};
struct First {  // the first operand itself
  template <class C>
  PLANCK_HD static C of(C x, C, C, const Shared<C>&) {
    return x;
  }
};
struct Square {  // x
  template <class C>
  PLANCK_HD static C of(C x, C, C, const Shared<C>& s) {
    return (x - s.a) * (x - s.a);
  }
};
struct NormBackward {  // c: mean of g, d: mean of g * xhat
  template <class C>
  PLANCK_HD static C of(C x, C dy, C weight, const Shared<C>& s) {
    return ((dy * weight - s.c) - ((x - s.a) * s.b) * s.d) * s.b;
  }
};

}  // namespace planck::row_math
