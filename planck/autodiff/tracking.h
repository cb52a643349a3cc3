// One op on tracked tensors: B does it on the values, and the float outputs get a node.
//
// Where no input is tracked nothing is recorded. A strategy is a function pointer here, not a type:
// the same function serves all of them.
#pragma once

#include "planck/autodiff/flow.h"
#include "planck/autodiff/grad_mode.h"
#include "planck/autodiff/strategy.h"

namespace planck {

namespace autodiff_detail {

// Any pullback for Op on any record: what an op must have.
template <class Op, class R>
concept HasPullback = requires(const Op& op, const R& r) {
  pullback(op, r);
};

// Edges: an array of them, or a vector for ops on any number of tensors.
template <class B, class Edges>
class NodeWith : public Node<B> {
 public:
  explicit NodeWith(Edges edges) : edges_(std::move(edges)) { this->segment = current_segment(); }
  std::span<Edge<B>> edges() override { return edges_; }

 private:
  Edges edges_;
};

template <class B, class Op, class Fn, class Edges>
class OpNode final : public NodeWith<B, Edges> {
 public:
  OpNode(Fn fn, Edges edges) : NodeWith<B, Edges>(std::move(edges)), fn_(std::move(fn)) {}
  ~OpNode() override { release_saved(); }
  std::string_view op() const override { return Op::name; }
  void pull(Flow<B>& flow) override { fn_(flow); }
  bool released() const override { return released_; }
  void release_saved() override {
    if (!std::exchange(released_, true)) fn_.~Fn();
  }

 private:
  union {  // an optional costs each op more to compile than all the rest of its node
    Fn fn_;
  };
  bool released_ = false;
};

template <class B, class Op, class Fn, class Edges>
inline Shared<Node<B>> make_node(Fn fn, Edges edges) {
  return Shared<Node<B>>::adopt(new OpNode<B, Op, Fn, Edges>(std::move(fn), std::move(edges)));
}

}  // namespace autodiff_detail

// The tensors of Autodiff<B, C>, whatever C: floats are tracked, the others B's own.
template <class B>
struct TrackedTensors {
  using FloatTensor = Tracked<B>;
  using IntTensor = typename B::IntTensor;
  using BoolTensor = typename B::BoolTensor;
  using CodeTensor = TrackedCodes<B>;
  using InnerFloat = typename B::FloatTensor;

  // The inner tensor of a float, any other tensor as it is; vectors element by element.
  static const InnerFloat& value(const FloatTensor& t) { return t.value; }
  static const auto& value(const CodeTensor& t) { return t.value; }
  static auto value(const std::vector<FloatTensor>& all) { return values_of(all); }
  static auto value(const std::vector<CodeTensor>& all) { return values_of(all); }
  template <class T>
  static const T& value(const T& other) {
    return other;
  }
  static FloatTensor lift(InnerFloat&& t) { return {std::move(t), {}, nullptr}; }
  template <class... T>
  static auto lift(std::tuple<T...>&& all) {
    return std::apply([](auto&&... t) { return std::tuple{lift(std::move(t))...}; },
                      std::move(all));
  }
  template <class T>
  static T lift(T&& other) {
    return std::move(other);
  }

  // What an op gave, as an Out of these tensors.
  template <class Out, class T>
  static Out lift_as(T&& t) {
    if constexpr (std::same_as<Out, CodeTensor>)
      return {std::move(t), {}};
    else
      return lift(std::move(t));
  }
  template <class Out, class... T>
  static Out lift_as(std::tuple<T...>&& all) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return Out{lift_as<std::tuple_element_t<I, Out>>(std::get<I>(std::move(all)))...};
    }
    (std::index_sequence_for<T...>{});
  }

  static bool any_tracked(const FloatTensor& t) { return t.is_tracked(); }
  static bool any_tracked(const CodeTensor& t) { return t.is_tracked(); }
  template <class T>
  static bool any_tracked(const std::vector<T>& all) {
    for (const auto& t : all)
      if (any_tracked(t)) return true;
    return false;
  }
  static bool any_tracked(const auto&) { return false; }

  static Edge<B> edge(const FloatTensor& t) { return t.from; }
  static Edge<B> edge(const CodeTensor& t) { return t.from; }
  static Edge<B> edge(const auto&) { return {}; }

  static Saved<B> keep(const FloatTensor& t) { return t.saved(); }
  static auto keep(const CodeTensor& t) { return t.value; }
  static std::vector<Saved<B>> keep(const std::vector<FloatTensor>& all) {
    std::vector<Saved<B>> kept;
    for (const auto& t : all) kept.push_back(t.saved());
    return kept;
  }
  static auto keep(const std::vector<CodeTensor>& all) { return values_of(all); }
  template <class T>
  static T keep(const T& other) {
    return other;
  }

 private:
  template <class T>
  static auto values_of(const std::vector<T>& all) {
    std::vector<decltype(T::value)> values;
    for (const auto& t : all) values.push_back(t.value);
    return values;
  }
};

namespace autodiff_detail {

// The outputs of an op, one or several, as a tuple of references.
template <class T>
std::tuple<T&> refer(T& out) {
  return {out};
}
template <class... T>
std::tuple<T&...> refer(std::tuple<T...>& out) {
  return std::apply([](auto&... t) { return std::tuple<T&...>{t...}; }, out);
}

template <class B, class... In>
std::array<Edge<B>, sizeof...(In)> edges_of(const In&... in) {
  return {TrackedTensors<B>::edge(in)...};
}
template <class B, class T>
std::vector<Edge<B>> edges_of(const std::vector<T>& all) {
  std::vector<Edge<B>> edges;
  for (const auto& t : all) edges.push_back(TrackedTensors<B>::edge(t));
  return edges;
}

// The dtype of the gradients of the codes that an op gives: what its float input is computed in, so
// that nothing is rounded to 16 bits on the way through the integers; of an op on codes, as before.
template <class B>
std::optional<Dtype> code_gradient(const auto&) {
  return std::nullopt;
}
template <class B>
std::optional<Dtype> code_gradient(const Tracked<B>& t) {
  return compute_dtype(B::dtype(t.value));
}
template <class B>
std::optional<Dtype> code_gradient(const TrackedCodes<B>& t) {
  if (!t.is_tracked()) return std::nullopt;
  const auto& given = t.from.node->output(t.from.output);
  return given ? std::optional(given->dtype) : std::nullopt;
}
template <class B, class T>
std::optional<Dtype> code_gradient(const std::vector<T>& all) {
  for (const T& t : all)
    if (const auto dtype = code_gradient<B>(t)) return dtype;
  return std::nullopt;
}

template <class B, class... Out, class... In>
void set_node(const Shared<Node<B>>& node, const std::tuple<Out&...>& out, const In&... in) {
  if constexpr (sizeof...(Out) > 1) node->other_outputs.resize(sizeof...(Out) - 1);
  std::uint32_t position = 0;
  const auto set = [&](auto& t) {
    if constexpr (requires { t.from; }) {
      auto& given = position == 0 ? node->first_output : node->other_outputs[position - 1];
      std::optional<Dtype> dtype;
      if constexpr (std::same_as<std::remove_cvref_t<decltype(t)>, Tracked<B>>)
        dtype = B::dtype(t.value);
      else
        ((dtype = dtype ? dtype : code_gradient<B>(in)), ...);
      if (dtype) given = InputSpec{*dtype, B::shape(t.value)};
      t.from = {node, position};
    }
    ++position;
  };
  std::apply([&](auto&... t) { (set(t), ...); }, out);
}

// What a strategy is told.
template <class B, class Op>
OpResult result_of(const Tracked<B>& y) {
  return {Op::name, memory_bound<Op>(), bytes_for(B::dtype(y.value), numel(B::shape(y.value)))};
}

// Gives the outputs of an op that have gradients their node.
template <class B, class Op, class... Out, class... In>
inline void connect(const Op& op, Recomputes recomputes, const std::tuple<Out&...>& out,
                    const In&... in) {
  using T = TrackedTensors<B>;
  if constexpr ((requires { &Out::from; } || ...)) {
    static_assert(sizeof...(In) == 1 || !(kIsVector<In> || ...),
                  "a vector of tensors is an op's only input");
    if constexpr (sizeof...(Out) == 1 && (std::same_as<Out, Tracked<B>> && ...))
      if (auto& y = std::get<0>(out); recomputes != nullptr && recomputes(result_of<B, Op>(y)))
        y.recipe = Shared<Recipe<B>>::adopt(
            new OpRecipe<B, Op, decltype(T::keep(in))...>(op, y.value, T::keep(in)...));
    using R = Record<B, std::tuple<const In&...>, std::tuple<Out&...>>;
    const std::tuple<const In&...> inputs(in...);
    const R record(inputs, out);
    static_assert(HasPullback<Op, R>,
                  "an op that gives floats needs a pullback(const Op&, const R&) beside it");
    const auto node = make_node<B, Op>(pullback(op, record), edges_of<B>(in...));
    node->recipes = std::move(record.recipes);
    set_node<B>(node, out, in...);
  }
}

}  // namespace autodiff_detail

// Op on tensors of these kinds. The library has it compiled for its own ops on its own backends
// (autodiff/compiled.h).
template <class B, class Op, class... K>
struct Tracking {
  using T = TrackedTensors<B>;
  using Out = Given<T, Op, std::tuple_element_t<0, std::tuple<K...>>>;
  static Out apply(const Op& op, autodiff_detail::Recomputes recomputes, unsigned handed,
                   const TensorOf<T, K>&... in);
};

template <class B, class Op, class... K>
auto Tracking<B, Op, K...>::apply(const Op& op, autodiff_detail::Recomputes recomputes,
                                  unsigned handed, const TensorOf<T, K>&... in) -> Out {
  const bool tracked = grad_enabled() && (T::any_tracked(in) || ...);
  if (tracked) handed = 0;  // pullbacks may keep them
  Out out = T::template lift_as<Out>(apply_handed<B>(op, handed, T::value(in)...));
  if (tracked) autodiff_detail::connect<B>(op, recomputes, autodiff_detail::refer(out), in...);
  return out;
}

}  // namespace planck
