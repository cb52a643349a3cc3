// The concepts: what a Backend is, and what makes one differentiable.
//
// A backend has four kinds of tensors (quantized.h has the fourth) and one verb,
// apply(op, inputs…). Backends differ in how they do an op, never in what it means: the ops are
// values (plan/value_op.h) that all of them share, and an op that a backend has no way to do is
// decomposed into simpler ones by call() (tensor.h).
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "planck/core/rng.h"
#include "planck/plan/value_op.h"

namespace planck {

namespace backend_detail {
template <class B, class K>
struct TensorOf;
template <class B>
struct TensorOf<B, FloatKind> {
  using type = typename B::FloatTensor;
};
template <class B>
struct TensorOf<B, IntKind> {
  using type = typename B::IntTensor;
};
template <class B>
struct TensorOf<B, BoolKind> {
  using type = typename B::BoolTensor;
};
template <class B>
struct TensorOf<B, CodeKind> {
  using type = typename B::IntTensor;
};
template <class B>
requires requires { typename B::CodeTensor; }
struct TensorOf<B, CodeKind> {
  using type = typename B::CodeTensor;
};
template <class B>
struct TensorOf<B, QuantizedKind> {
  using type = typename B::QuantizedTensor;
};
template <class B, class K>
struct TensorOf<B, std::vector<K>> {
  using type = std::vector<typename TensorOf<B, K>::type>;
};
template <class B, class... K>
struct TensorOf<B, Kinds<K...>> {
  using type = std::tuple<typename TensorOf<B, K>::type...>;
};

template <class T>
struct KindOf {
  using type = typename T::Kind;
};
template <class T>
struct KindOf<std::vector<T>> {
  using type = std::vector<typename T::Kind>;
};
}  // namespace backend_detail

// B's tensors of one kind; for a vector of a kind a vector of them, for several kinds a tuple.
template <class B, class K>
using TensorOf = typename backend_detail::TensorOf<B, K>::type;
// The other way round.
template <class T>
using KindOf = typename backend_detail::KindOf<std::remove_cvref_t<T>>::type;
// What Op gives on B where its first input is of kind First.
template <class B, class Op, class First>
using Given = TensorOf<B, ResultKind<Op, First>>;

// Creation, metadata and read-back, for one kind of tensor.
template <class B, class K>
concept HoldsTensors = requires(const TensorOf<B, K>& t, const typename B::Device& device,
                                Dtype dtype, const Shape& shape, const void* from, void* to) {
  {TensorOf<B, K>::Kind::name};
  { B::template from_host<K>(device, dtype, shape, from) } -> std::same_as<TensorOf<B, K>>;
  {B::to_host(t, to)};  // row-major; complete when it returns
  { B::shape(t) } -> std::convertible_to<Shape>;
  { B::dtype(t) } -> std::convertible_to<Dtype>;
  { B::device(t) } -> std::convertible_to<typename B::Device>;
};

// What a backend says of itself and of its devices.
template <class B>
concept KnowsItsDevices = requires(const typename B::Device& device, std::uint64_t seed) {
  { B::default_device() } -> std::same_as<typename B::Device>;
  { B::device_count() } -> std::same_as<std::size_t>;  // those of this machine; 0 where none is
  { B::name(device) } -> std::same_as<std::string>;    // "cpu", "cuda:0"
  // What elements of tensors may be.
  { B::dtypes(device) } -> std::convertible_to<std::span<const Dtype>>;
  // The generator of this thread for work on the device, and where it starts. Runs that must not
  // depend on what else the thread draws have an Rng of their own.
  { B::generator(device) } -> std::same_as<Rng&>;
  {B::seed(device, seed)};
  {B::synchronize(device)};  // returns when all work is done; throws what went wrong in it
};

template <class B>
concept Backend = requires {
  typename B::Device;
  typename B::FloatElem;
  typename B::IntElem;
  typename B::FloatTensor;
  typename B::IntTensor;
  typename B::BoolTensor;
  typename B::QuantizedTensor;
}
&&KnowsItsDevices<B>&& HoldsTensors<B, FloatKind>&& HoldsTensors<B, IntKind>&&
    HoldsTensors<B, BoolKind>;

// B does this op on tensors of these kinds, by itself.
template <class B, class Op, class... K>
concept Applies = B::template applies<Op>&& requires(const Op& op, const TensorOf<B, K>&... in) {
  B::apply(op, in...);
};

// Which inputs are handed over, as rvalues: the buffer of one that nobody else holds may become the
// result's. Bit i stands for input i.
template <class... In>
constexpr unsigned handed_over() {
  unsigned mask = 0, bit = 1;
  ((mask |=
    std::is_lvalue_reference_v<In> || std::is_const_v<std::remove_reference_t<In>> ? 0 : bit,
    bit <<= 1),
   ...);
  return mask;
}
// B::apply where that is known at run time only: one function for all of them. A backend without
// apply_handed is given nothing.
template <class B, class Op, class... In>
decltype(auto) apply_handed(const Op& op, unsigned handed, const In&... in) {
  if constexpr (requires { B::apply_handed(op, handed, in...); })
    return B::apply_handed(op, handed, in...);
  else
    return B::apply(op, in...);
}

// One to one with what makes a backend differentiable: the gradients of a backward pass are a value
// of their own, keyed by the tracked tensors.
template <class A>
concept AutodiffBackend = Backend<A> && Backend<typename A::InnerBackend> &&
    std::same_as<typename A::Device, typename A::InnerBackend::Device> &&
    std::same_as<typename A::FloatElem, typename A::InnerBackend::FloatElem> &&
    std::same_as<typename A::IntElem, typename A::InnerBackend::IntElem> &&
    std::movable<typename A::Gradients> &&
    requires(typename A::FloatTensor t, const typename A::FloatTensor& ct, typename A::IntTensor i,
             typename A::BoolTensor b, typename A::QuantizedTensor q, typename A::Gradients& g,
             const typename A::Gradients& cg, typename A::InnerBackend::FloatTensor it,
             typename A::InnerBackend::IntTensor ii, typename A::InnerBackend::BoolTensor ib,
             typename A::InnerBackend::QuantizedTensor iq) {
  { A::backward(t) } -> std::same_as<typename A::Gradients>;
  { A::grad(ct, cg) } -> std::same_as<std::optional<typename A::InnerBackend::FloatTensor>>;
  { A::grad_remove(ct, g) } -> std::same_as<std::optional<typename A::InnerBackend::FloatTensor>>;
  {A::grad_replace(ct, g, it)};  // registers where none existed
  { A::inner(t) } -> std::same_as<typename A::InnerBackend::FloatTensor>;
  { A::int_inner(i) } -> std::same_as<typename A::InnerBackend::IntTensor>;
  { A::bool_inner(b) } -> std::same_as<typename A::InnerBackend::BoolTensor>;
  { A::q_inner(q) } -> std::same_as<typename A::InnerBackend::QuantizedTensor>;
  { A::from_inner(it) } -> std::same_as<typename A::FloatTensor>;
  { A::int_from_inner(ii) } -> std::same_as<typename A::IntTensor>;
  { A::bool_from_inner(ib) } -> std::same_as<typename A::BoolTensor>;
  { A::q_from_inner(iq) } -> std::same_as<typename A::QuantizedTensor>;
};

}  // namespace planck
