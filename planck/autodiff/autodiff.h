// Autodiff<B, C>: any backend made differentiable. It restates no op.
//
// apply(op, inputs…) lets B do the op on the values. Where an input is tracked and the op gives
// floats, the result gets a node with pullback(op, record), found beside the op (ops/*/*.grad.h);
// an op without one does not compile. Integer and boolean tensors are B's own and pass untouched,
// but for the integers of quantized tensors, whose gradients are floats (flow.h); work on untracked
// tensors makes no node. Pullbacks are written in ops on B, so Autodiff<Autodiff<B>> gives second
// derivatives.
//
// No lock and no state but a thread's scopes (grad_mode.h): tensors own the graph (node.h).
// Gradients of one graph are found by one thread at a time; graphs that share nothing but leaves
// may be differentiated by several. C says what is kept for the backward pass (strategy.h); it
// never changes a bit.
#pragma once

#include "planck/autodiff/tape.h"
#include "planck/autodiff/tracking.h"
#include "planck/backend/call.h"
#include "planck/backend/quantized.h"

namespace planck {

template <class B, CheckpointStrategy C = NoCheckpointing>
class Autodiff {
 public:
  using InnerBackend = B;
  using Strategy = C;
  using Device = typename B::Device;
  using FloatElem = typename B::FloatElem;
  using IntElem = typename B::IntElem;
  using FloatTensor = Tracked<B>;
  using IntTensor = typename B::IntTensor;
  using BoolTensor = typename B::BoolTensor;
  using CodeTensor = TrackedCodes<B>;
  using QuantizedTensor = Quantized<Autodiff>;
  using Gradients = planck::Gradients<B>;
  using InnerFloat = typename B::FloatTensor;

  template <class Op>
  static constexpr bool applies = B::template applies<Op>;

  static Device default_device() { return B::default_device(); }
  static std::size_t device_count() { return B::device_count(); }
  static std::string name(const Device& device) { return "autodiff(" + B::name(device) + ")"; }
  static decltype(auto) dtypes(const Device& device) { return B::dtypes(device); }
  static void seed(const Device& device, std::uint64_t seed) { B::seed(device, seed); }
  static Rng& generator(const Device& device) { return B::generator(device); }
  static void synchronize(const Device& device) { B::synchronize(device); }
  static decltype(auto) shape(const auto& t) { return B::shape(T::value(t)); }
  static decltype(auto) dtype(const auto& t) { return B::dtype(T::value(t)); }
  static decltype(auto) device(const auto& t) { return B::device(T::value(t)); }
  template <class K>
  static auto from_host(const Device& device, Dtype dtype, const Shape& shape, const void* data) {
    return T::lift(B::template from_host<K>(device, dtype, shape, data));
  }
  static void to_host(const auto& t, void* data) { B::to_host(T::value(t), data); }

  template <class Op>
  static auto create(const Op& op, const Device& device) {
    return T::lift(B::create(op, device));
  }

  template <class Op, class... In>
  static auto apply(const Op& op, In&&... in) {
    return apply_handed(op, handed_over<In...>(), in...);
  }
  template <class Op, class First, class... Rest>
  static Given<Autodiff, Op, KindOf<First>> apply_handed(const Op& op, unsigned handed,
                                                         const First& first, const Rest&... rest) {
    constexpr autodiff_detail::Recomputes kRecomputes =
        std::same_as<C, NoCheckpointing> ? nullptr : &C::recomputes;
    return Tracking<B, Op, KindOf<First>, KindOf<Rest>...>::apply(op, kRecomputes, handed, first,
                                                                  rest...);
  }

  // ---- gradients ----
  static FloatTensor require_grad(const FloatTensor& t) { return require_grad(FloatTensor(t)); }
  // A leaf with this value; a leaf already is one.
  static FloatTensor require_grad(FloatTensor&& t) { return Tape<B>::leaf(std::move(t)); }
  static bool is_tracked(const FloatTensor& t) { return t.is_tracked(); }
  // What fn returns replaces the gradient of a leaf, before backward() hands it out. It is called
  // once in a backward pass, as soon as the leaf's gradient is complete, while those of others are
  // still to be found. Register hooks before threads share the leaf.
  static void add_hook(const FloatTensor& leaf, typename Leaf<B>::Hook fn) {
    Tape<B>::add_hook(leaf, std::move(fn));
  }

  static Gradients backward(FloatTensor root) { return Tape<B>::backward(root, {}); }
  static Gradients backward(const FloatTensor& root, const BackwardOptions& options) {
    return Tape<B>::backward(root, options);
  }
  static Gradients backward(const FloatTensor& root, InnerFloat cotangent,
                            const BackwardOptions& options = {}) {
    return Tape<B>::backward(root, std::move(cotangent), options);
  }
  static Gradients backward(std::vector<std::pair<FloatTensor, InnerFloat>> roots,
                            const BackwardOptions& options = {}) {
    return Tape<B>::backward(std::move(roots), options);
  }

  static std::optional<InnerFloat> grad(const FloatTensor& t, const Gradients& gradients) {
    return gradients.get(t.from.node);
  }
  static std::optional<InnerFloat> grad_remove(const FloatTensor& t, Gradients& gradients) {
    return gradients.remove(t.from.node);
  }
  static void grad_replace(const FloatTensor& t, Gradients& gradients, InnerFloat gradient) {
    Tape<B>::replace(t, gradients, std::move(gradient));
  }

  // ---- between the two backends ----
  static InnerFloat inner(FloatTensor t) { return std::move(t.value); }
  static IntTensor int_inner(IntTensor t) { return t; }
  static BoolTensor bool_inner(BoolTensor t) { return t; }
  static typename B::QuantizedTensor q_inner(QuantizedTensor t) {
    return {std::move(t.values.value), std::move(t.scale.value), std::move(t.zero_point), t.scheme};
  }
  static FloatTensor from_inner(InnerFloat t) { return {std::move(t), {}, nullptr}; }
  static IntTensor int_from_inner(IntTensor t) { return t; }
  static BoolTensor bool_from_inner(BoolTensor t) { return t; }
  static QuantizedTensor q_from_inner(typename B::QuantizedTensor t) {
    return {{std::move(t.values), {}},
            from_inner(std::move(t.scale)),
            std::move(t.zero_point),
            t.scheme};
  }

 private:
  using T = TrackedTensors<B>;
};

}  // namespace planck
