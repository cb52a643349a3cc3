// call(op, tensors…): how functions on Tensor<B> reach the backend. It broadcasts the inputs of ops
// that want one shape, and decomposes what the backend does not do itself.
#pragma once

#include <vector>

#include "planck/backend/tensor.h"
#include "planck/core/exception.h"
#include "planck/ops/shape/shape.ops.h"

namespace planck {

namespace call_detail {

template <class B, class P>
auto wrap(P&& primitive) {
  return Tensor<B, typename std::remove_cvref_t<P>::Kind>(std::forward<P>(primitive));
}
template <class B, class... P>
auto wrap(std::tuple<P...>&& primitives) {
  return std::apply([](auto&&... p) { return std::tuple{wrap<B>(std::move(p))...}; },
                    std::move(primitives));
}

template <class B, class T>
decltype(auto) widened(T&& tensor, const Shape& shape) {
  using P = std::remove_cvref_t<decltype(tensor.primitive())>;
  if (tensor.shape() == shape) return P(std::forward<T>(tensor).primitive());
  return P(B::apply(Expand{shape}, tensor.primitive()));
}

}  // namespace call_detail

template <class Op, class First, class... Rest>
auto call(const Op& op, First&& first, Rest&&... rest) {
  using B = typename std::remove_cvref_t<First>::Backend;
  if constexpr (!B::template applies<Op>) {
    static_assert(
        requires { op.decompose(first, rest...); },
        "the backend cannot do this op, and it has no decomposition into simpler ones");
    return op.decompose(first, rest...);
  } else if constexpr (broadcasts<Op>() && sizeof...(Rest) > 0) {
    if (((first.shape() == rest.shape()) && ...))
      return call_detail::wrap<B>(B::apply(op, std::forward<First>(first).primitive(),
                                           std::forward<Rest>(rest).primitive()...));
    Shape shape = first.shape();
    ((shape = value_or_throw(broadcast_shape(Op::name, shape, rest.shape()))), ...);
    return call_detail::wrap<B>(
        B::apply(op, call_detail::widened<B>(std::forward<First>(first), shape),
                 call_detail::widened<B>(std::forward<Rest>(rest), shape)...));
  } else {
    return call_detail::wrap<B>(B::apply(op, std::forward<First>(first).primitive(),
                                         std::forward<Rest>(rest).primitive()...));
  }
}

// An op on any number of tensors of one kind.
template <class Op, class B, class K>
auto call(const Op& op, const std::vector<Tensor<B, K>>& tensors) {
  std::vector<TensorOf<B, K>> primitives;
  primitives.reserve(tensors.size());
  for (const auto& t : tensors) primitives.push_back(t.primitive());
  return call_detail::wrap<B>(B::apply(op, primitives));
}

// An op without inputs.
template <class B, class Op>
auto create(const Op& op, const typename B::Device& device) {
  return call_detail::wrap<B>(B::create(op, device));
}

}  // namespace planck
