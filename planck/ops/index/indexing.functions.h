// x[…] on tensors: reading, and assigning to a part of a variable. indices.h says what an index
// list means. Other tensors that share elements with the variable keep theirs: tensors are values.
#pragma once

#include "planck/ops/elementwise/operators.functions.h"
#include "planck/ops/index/index.functions.h"
#include "planck/ops/shape/shape.functions.h"

namespace planck {

namespace indexing_detail {

template <class B, class K>
Tensor<B, K> seen(const Tensor<B, K>& x, const Subscript& at) {
  const auto part = call(SliceAxes{at.slice}, x);
  return at.shape == at.slice.extent ? part : reshape(part, at.shape);
}
template <class B, class K>
Tensor<B, K> assigned(const Tensor<B, K>& x, const Subscript& at, const Tensor<B, K>& values) {
  const auto wide = values.shape() == at.shape ? values : expand(values, at.shape);
  return call(SliceAxesAssign{at.slice}, x, reshape(wide, at.slice.extent));
}

}  // namespace indexing_detail

// What x[…] of a variable is: those elements as a tensor, and on the left of an assignment the
// place where they lie. Kept under a name of its own it is a tensor like any other.
template <class B, class K>
class TensorPart : public Tensor<B, K> {
 public:
  using Whole = Tensor<B, K>;
  TensorPart(Whole& whole, const Subscript& at)
      : Whole(indexing_detail::seen(whole, at)), whole_(&whole), at_(at) {}
  TensorPart(const TensorPart&) = default;

  // x[…] = values, which broadcast to the part.
  void operator=(const Whole& values) && {
    if (value_or_throw(broadcast_shape("slice_assign", at_.shape, values.shape())) != at_.shape)
      refuse("slice_assign: the part has shape {}, the values {}", {at_.shape, values.shape()});
    *whole_ = indexing_detail::assigned(*whole_, at_, values);
  }
  void operator=(const TensorPart& values) && {
    std::move(*this) = static_cast<const Whole&>(values);
  }
  template <Number S>
  void operator=(S value) && {
    std::move(*this) = full_like(static_cast<const Whole&>(*this), value, Shape{});
  }
  // A variable that holds a part is given another value.
  TensorPart& operator=(const Whole& other) & {
    Whole::operator=(other);
    return *this;
  }
  TensorPart& operator=(const TensorPart& other) & = default;

 private:
  Whole* whole_;
  Subscript at_;
};

#define PLANCK_PART_ASSIGNMENT(sign, assigned)             \
  template <class B, class K, Operand<Tensor<B, K>> Y>     \
  void assigned(TensorPart<B, K>&& part, const Y& y) {     \
    const Tensor<B, K> before = part;                      \
    operator_detail::check_assigned(#assigned, before, y); \
    std::move(part) = before sign y;                       \
  }
PLANCK_PART_ASSIGNMENT(+, operator+=)  // x[…] = x[…] + y, for a tensor or a number y
PLANCK_PART_ASSIGNMENT(-, operator-=)  // x[…] = x[…] - y
PLANCK_PART_ASSIGNMENT(*, operator*=)  // x[…] = x[…] * y
PLANCK_PART_ASSIGNMENT(/, operator/=)  // x[…] = x[…] / y
#undef PLANCK_PART_ASSIGNMENT

template <class B, class K>
Tensor<B, K> Tensor<B, K>::operator[](const Indices& where) const& {
  return indexing_detail::seen(*this, where.of(shape()));
}
template <class B, class K>
TensorPart<B, K> Tensor<B, K>::operator[](const Indices& where) & {
  return TensorPart<B, K>(*this, where.of(shape()));
}
template <class B, class K>
Tensor<B, K> Tensor<B, K>::operator[](const Tensor<B, BoolKind>& mask) const {
  return mask_select(*this, mask);
}
template <class B, class K>
Tensor<B, K> Tensor<B, K>::operator[](const Tensor<B, IntKind>& positions) const {
  if (rank() == 0) refuse("index: positions for a tensor of shape {}", {Shape(shape())});
  const auto flat = reshape(positions, {positions.numel()});
  Shape wide = positions.shape();
  if (wide.rank() + rank() - 1 > kMaxRank)
    refuse("index: positions of shape {} for a tensor of shape {}: more than {} axes",
           {Shape(positions.shape()), Shape(shape()), kMaxRank});
  for (int d = 1; d < rank(); ++d) wide.push_back(shape()[d]);
  return reshape(index_select(*this, 0, flat), wide);
}

}  // namespace planck
