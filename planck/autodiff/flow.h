// The two sides of a pullback.
//
//   template <class R>
//   auto pullback(const Mul&, const R& r) {
//     return [a = in<0>(r, r.needs(1)), b = in<1>(r, r.needs(0))](auto& g) {
//       if (g.needs(0)) g.give(0, g.dy() * g[b]);
//       if (g.needs(1)) g.give(1, g.dy() * g[a]);
//     };
//   }
//
// pullback(op, record) runs in the forward pass: it saves what the gradient needs (what the closure
// captures is what stays alive) and returns what the backward pass will do. The closure gets a
// Flow: the gradients of the outputs, and where to give those of the inputs.
#pragma once

#include "planck/autodiff/gradients.h"
#include "planck/autodiff/recompute.h"

namespace planck {

// A float tensor of Autodiff<B, C>: the value, and how it came about where that is tracked.
template <class B>
struct Tracked {
  using Kind = FloatKind;
  using Inner = B;

  typename B::FloatTensor value;
  Edge<B> from;              // its node; null where it is not tracked
  Shared<Recipe<B>> recipe;  // null unless it can be computed again

  bool is_tracked() const { return static_cast<bool>(from.node); }
  Saved<B> saved() const { return recipe ? Saved<B>(recipe) : Saved<B>(value); }
};

// Integers of Autodiff<B, C> that stand for floats. Their gradient is a float tensor of their
// shape, in the type that the floats are computed in: f64 for f64, else f32. quantize and
// dequantize pass it straight through.
template <class B>
struct TrackedCodes {
  using Kind = CodeKind;
  using Inner = B;

  TensorOf<B, CodeKind> value;
  Edge<B> from;  // null where it is not tracked

  bool is_tracked() const { return static_cast<bool>(from.node); }
};

namespace autodiff_detail {

template <class B>
struct History<Tracked<B>> {
  explicit History(const Tracked<B>& t) : from(t.from), recipe(t.recipe) {}
  static Tracked<B> without(const Tracked<B>& t) { return {t.value, {}, nullptr}; }
  Tracked<B> given_to(Tracked<B>&& t) const { return {std::move(t.value), from, recipe}; }

  Edge<B> from;
  Shared<Recipe<B>> recipe;
};

// Notes which recipes a pullback saves.
template <class B>
class Notes {
 public:
  Saved<B> noted(Saved<B> saved) const {
    if (saved.recipe()) recipes.push_back(saved.recipe().get());
    return saved;
  }
  mutable std::vector<Recipe<B>*> recipes;
};

}  // namespace autodiff_detail

// What a pullback sees of the forward pass: inputs and outputs, as the op got and gave them.
template <class B, class Inputs, class Outputs>
class Record : public autodiff_detail::Notes<B> {
 public:
  using InnerBackend = B;
  Record(const Inputs& inputs, const Outputs& outputs) : inputs_(inputs), outputs_(outputs) {}

  // Whether input i is tracked. Save nothing for a gradient that nobody wants.
  bool needs(std::size_t i) const {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return ((I == i && is_tracked(std::get<I>(inputs_))) || ...);
    }
    (std::make_index_sequence<std::tuple_size_v<Inputs>>{});
  }
  const Inputs& inputs() const { return inputs_; }
  const Outputs& outputs() const { return outputs_; }

 private:
  static bool is_tracked(const Tracked<B>& t) { return t.is_tracked(); }
  static bool is_tracked(const TrackedCodes<B>& t) { return t.is_tracked(); }
  static bool is_tracked(const auto&) { return false; }
  const Inputs& inputs_;
  const Outputs& outputs_;
};

// Input I of the op, saved: a Saved<B> for floats, the tensor itself for others. With `wanted`
// false nothing is kept.
template <std::size_t I, class B, class In, class Out>
auto in(const Record<B, In, Out>& r, bool wanted = true) {
  const auto& x = std::get<I>(r.inputs());
  if constexpr (requires { x.saved(); })
    return wanted ? r.noted(x.saved()) : Saved<B>();
  else if constexpr (requires { x.from; })
    return Tensor<B, CodeKind>(x.value);
  else
    return Tensor<B, typename std::remove_cvref_t<decltype(x)>::Kind>(x);
}
template <std::size_t I = 0, class B, class In, class Out>
auto out(const Record<B, In, Out>& r, bool wanted = true) {
  const auto& y = std::get<I>(r.outputs());
  if constexpr (requires { y.saved(); })
    return wanted ? r.noted(y.saved()) : Saved<B>();
  else if constexpr (requires { y.from; })
    return Tensor<B, CodeKind>(y.value);
  else
    return Tensor<B, typename std::remove_cvref_t<decltype(y)>::Kind>(y);
}
// The shape of input I; of the inputs of an op that takes a vector, of element i.
template <std::size_t I, class B, class In, class Out>
Shape shape_of(const Record<B, In, Out>& r) {
  const auto& x = std::get<I>(r.inputs());
  if constexpr (requires { x.value; })
    return B::shape(x.value);
  else
    return B::shape(x);
}
template <std::size_t I, class B, class In, class Out>
Dtype dtype_of_input(const Record<B, In, Out>& r) {
  const auto& x = std::get<I>(r.inputs());
  if constexpr (requires { x.value; })
    return B::dtype(x.value);
  else
    return B::dtype(x);
}
template <class B, class In, class Out>
std::vector<Shape> shapes_of(const Record<B, In, Out>& r) {
  std::vector<Shape> shapes;
  for (const auto& x : std::get<0>(r.inputs())) shapes.push_back(B::shape(x.value));
  return shapes;
}

template <class B>
class Pass;

// What a pullback's closure gets.
template <class B>
class Flow {
 public:
  Flow(Pass<B>& pass, Node<B>& node) : pass_(pass), node_(node) {}

  // The gradient of output i; has() tells whether there is one.
  bool has(std::uint32_t i) const { return node_.gradient_if(i) != nullptr; }
  Tensor<B> dy(std::uint32_t i = 0) const;
  bool needs(std::size_t input) const { return static_cast<bool>(node_.edges()[input].node); }
  // In the dtype and the shape of the input; anything else is refused.
  void give(std::size_t input, Tensor<B> gradient);
  void give(Tensor<B> gradient) { give(0, std::move(gradient)); }
  // A saved value, computed again where only its recipe was kept.
  Tensor<B> operator[](const Saved<B>& saved);
  std::string_view op() const { return node_.op(); }
  // Puts a graph of the pass's own in the place of this node (checkpoint.h): nodes made in the run
  // of a segment, from `root` down to leaves. Leaf i, in the order of addresses, stands for edge i.
  void splice(const Edge<B>& root, std::uint64_t segment, std::span<const Shared<Node<B>>> leaves);

 private:
  Pass<B>& pass_;
  Node<B>& node_;
};

// For ops whose derivative is zero wherever it exists: floor, sign, …
inline auto zero_pullback() {
  return [](auto& g) { g.give(0, zeros_like(g.dy())); };
}
// For ops that nothing can be differentiated through.
inline auto no_pullback(std::string_view why) {
  return [why](auto& g) { refuse(ErrorCode::not_differentiable, "{}: {}", {g.op(), why}); };
}

}  // namespace planck
