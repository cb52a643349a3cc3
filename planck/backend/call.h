// call(op, tensors…): how functions on Tensor<B> reach the backend. It broadcasts the inputs of ops
// that want one shape, and decomposes what the backend does not do itself.
#pragma once

#include <vector>

#include "planck/backend/tensor.h"
#include "planck/core/exception.h"
#include "planck/ops/shape/shape.ops.h"

namespace planck {

namespace call_detail {

template <class B, class K>
struct Wrapped {
  using type = Tensor<B, K>;
};
template <class B, class... K>
struct Wrapped<B, Kinds<K...>> {
  using type = std::tuple<Tensor<B, K>...>;
};

template <class B, class K>
Tensor<B, K> wrap(TensorOf<B, K>&& primitive, std::type_identity<Tensor<B, K>>) {
  return Tensor<B, K>(std::move(primitive));
}
template <class B, class... K>
std::tuple<Tensor<B, K>...> wrap(std::tuple<TensorOf<B, K>...>&& primitives,
                                 std::type_identity<std::tuple<Tensor<B, K>...>>) {
  return std::apply(
      [](auto&&... p) { return std::tuple<Tensor<B, K>...>(Tensor<B, K>(std::move(p))...); },
      std::move(primitives));
}

template <class B, class K>
TensorOf<B, K> widened(const Tensor<B, K>& tensor, const Shape& shape) {
  if (tensor.shape() == shape) return tensor.primitive();
  return B::apply(Expand{shape}, tensor.primitive());
}

}  // namespace call_detail

// The tensors that Op gives on B where its first input is of kind First: one, or a tuple.
template <class B, class Op, class First>
using Called = typename call_detail::Wrapped<B, ResultKind<Op, First>>::type;

template <class T>
concept AnyTensor = requires {
  typename std::remove_cvref_t<T>::Backend;
  typename std::remove_cvref_t<T>::Kind;
  typename std::remove_cvref_t<T>::Primitive;
};
// Tensors of one backend and kind.
template <class A, class B>
concept SameTensors =
    AnyTensor<A> && AnyTensor<B> && std::same_as < typename std::remove_cvref_t<A>::Primitive,
typename std::remove_cvref_t<B>::Primitive >
    &&std::same_as<typename std::remove_cvref_t<A>::Backend,
                   typename std::remove_cvref_t<B>::Backend>;
// What Op gives where its first input is a T.
template <class Op, class T>
using CalledOn =
    Called<typename std::remove_cvref_t<T>::Backend, Op, typename std::remove_cvref_t<T>::Kind>;

// Tensors are taken as they come: the buffer of a temporary may become the result's.
template <class Op, AnyTensor First, AnyTensor... Rest>
CalledOn<Op, First> call(const Op& op, First&& first, Rest&&... rest) {
  using B = typename std::remove_cvref_t<First>::Backend;
  constexpr std::type_identity<CalledOn<Op, First>> kGives;
  if constexpr (!B::template applies<Op>) {
    static_assert(
        requires { op.decompose(first, rest...); },
        "the backend cannot do this op, and it has no decomposition into simpler ones");
    return op.decompose(first, rest...);
  } else {
    if constexpr (broadcasts<Op>() && sizeof...(Rest) > 0)
      if (!((first.shape() == rest.shape()) && ...)) {
        const Shape shape = [&](const auto&... s) { return broadcast_shapes(Op::name, {&s...}); }(
                                first.shape(), rest.shape()...);
        return call_detail::wrap(
            B::apply(op, call_detail::widened(first, shape), call_detail::widened(rest, shape)...),
            kGives);
      }
    return call_detail::wrap(B::apply(op, std::forward<First>(first).primitive(),
                                      std::forward<Rest>(rest).primitive()...),
                             kGives);
  }
}

// An op on any number of tensors of one kind.
template <class Op, class B, class K>
Called<B, Op, K> call(const Op& op, const std::vector<Tensor<B, K>>& tensors) {
  std::vector<TensorOf<B, K>> primitives;
  primitives.reserve(tensors.size());
  for (const auto& t : tensors) primitives.push_back(t.primitive());
  return call_detail::wrap(B::apply(op, std::move(primitives)),
                           std::type_identity<Called<B, Op, K>>{});
}

// An op without inputs.
template <class B, class Op>
Called<B, Op, FloatKind> create(const Op& op, const typename B::Device& device) {
  return call_detail::wrap(B::create(op, device), std::type_identity<Called<B, Op, FloatKind>>{});
}

}  // namespace planck
