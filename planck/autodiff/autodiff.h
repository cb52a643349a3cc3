// Autodiff<B, C>: any backend made differentiable. It restates no op.
//
// apply(op, inputs…) lets B do the op on the values. Where an input is tracked and the op gives
// floats, the result gets a node with pullback(op, record), found beside the op (ops/*/*.grad.h);
// an op without one does not compile. Integer and boolean tensors are B's own and pass untouched;
// work on untracked tensors makes no node. Pullbacks are written in ops on B, so
// Autodiff<Autodiff<B>> gives second derivatives.
//
// No global state and no lock: tensors own the graph (node.h). Gradients of one graph are found by
// one thread at a time; graphs that share nothing but leaves may be differentiated by several.
// C says what is kept for the backward pass (checkpoint.h); it never changes a bit.
#pragma once

#include "planck/autodiff/backward.h"
#include "planck/autodiff/strategy.h"
#include "planck/backend/call.h"

namespace planck {

namespace autodiff_detail {

// Any pullback for Op on any record: what an op must have.
template <class Op, class R>
concept HasPullback = requires(const Op& op, const R& r) {
  pullback(op, r);
};

inline std::uint64_t next_stamp() {
  thread_local std::uint64_t stamp = 0;
  return ++stamp;
}

// Edges: an array of them, or a vector for ops on any number of tensors.
template <class B, class Op, class Fn, class Edges>
class OpNode final : public Node<B> {
 public:
  OpNode(Fn fn, Edges edges) : fn_(std::move(fn)), edges_(std::move(edges)) {
    this->stamp = next_stamp();
  }
  std::string_view op() const override { return Op::name; }
  std::span<Edge<B>> edges() override { return edges_; }
  void pull(Flow<B>& flow) override { (*fn_)(flow); }
  bool released() const override { return !fn_.has_value(); }
  void release_saved() override { fn_.reset(); }

 private:
  std::optional<Fn> fn_;
  Edges edges_;
};

template <class B, class Op, class Fn, class Edges>
Shared<Node<B>> make_node(Fn fn, Edges edges) {
  return Shared<Node<B>>::adopt(new OpNode<B, Op, Fn, Edges>(std::move(fn), std::move(edges)));
}

}  // namespace autodiff_detail

template <class B, class C = NoCheckpointing>
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
  using QuantizedTensor = typename B::QuantizedTensor;
  using Gradients = planck::Gradients<B>;
  using InnerFloat = typename B::FloatTensor;

  template <class Op>
  static constexpr bool applies = B::template applies<Op>;

  static Device default_device() { return B::default_device(); }
  static decltype(auto) shape(const auto& t) { return B::shape(value(t)); }
  static decltype(auto) dtype(const auto& t) { return B::dtype(value(t)); }
  static decltype(auto) device(const auto& t) { return B::device(value(t)); }
  template <class K>
  static auto from_host(const Device& device, Dtype dtype, const Shape& shape, const void* data) {
    return lift(B::template from_host<K>(device, dtype, shape, data));
  }
  static void to_host(const auto& t, void* data) { B::to_host(value(t), data); }

  template <class Op>
  static auto create(const Op& op, const Device& device) {
    return lift(B::create(op, device));
  }

  template <class Op, class... In>
  static auto apply(const Op& op, In&&... in) {
    if ((any_tracked(in) || ...)) return track(op, in...);
    return lift(B::apply(op, value(std::forward<In>(in))...));
  }

  // ---- gradients ----
  static FloatTensor require_grad(const FloatTensor& t) {
    return require_grad(FloatTensor{t.value, t.from, t.recipe});
  }
  // A leaf with this value; a leaf already is one.
  static FloatTensor require_grad(FloatTensor&& t) {
    if (t.from.node && t.from.node->is_leaf()) return std::move(t);
    return {std::move(t.value), {Shared<Node<B>>::adopt(new Leaf<B>), 0}, nullptr};
  }
  static bool is_tracked(const FloatTensor& t) { return t.is_tracked(); }
  // What fn returns replaces the gradient of a leaf, before backward() hands it out. Register hooks
  // before threads share the leaf.
  static void add_hook(const FloatTensor& leaf, typename Leaf<B>::Hook fn) {
    if (!leaf.from.node || !leaf.from.node->is_leaf())
      raise(ErrorCode::untracked, "add_hook: the tensor is not a leaf; call require_grad on it");
    static_cast<Leaf<B>*>(leaf.from.node.get())->hooks.push_back(std::move(fn));
  }

  static Gradients backward(FloatTensor root) { return backward(root, BackwardOptions{}); }
  static Gradients backward(const FloatTensor& root, const BackwardOptions& options) {
    auto ones = B::create(Full<FloatKind>{1, B::dtype(root.value), B::shape(root.value)},
                          B::device(root.value));
    return backward(root, std::move(ones), options);
  }
  static Gradients backward(const FloatTensor& root, InnerFloat cotangent,
                            const BackwardOptions& options = {}) {
    std::vector<std::pair<FloatTensor, InnerFloat>> roots;
    roots.emplace_back(root, std::move(cotangent));
    return backward(std::move(roots), options);
  }
  static Gradients backward(std::vector<std::pair<FloatTensor, InnerFloat>> roots,
                            const BackwardOptions& options = {}) {
    std::vector<typename Pass<B>::Root> from;
    for (auto& [root, cotangent] : roots) {
      if (!root.is_tracked())
        raise(ErrorCode::untracked,
              "backward: the tensor depends on no tracked tensor; call require_grad on the tensors "
              "whose gradients are wanted before using them");
      if (B::shape(cotangent) != B::shape(root.value))
        raise(ErrorCode::invalid_problem,
              fmt::format("backward: the cotangent has shape {}, the tensor {}",
                          to_string(B::shape(cotangent)), to_string(B::shape(root.value))));
      if (B::dtype(cotangent) != B::dtype(root.value))
        raise(ErrorCode::invalid_problem,
              fmt::format("backward: the cotangent is {}, the tensor {}", name(B::dtype(cotangent)),
                          name(B::dtype(root.value))));
      from.push_back({root.from, std::move(cotangent)});
    }
    return Pass<B>::run(std::move(from), options);
  }

  static std::optional<InnerFloat> grad(const FloatTensor& t, const Gradients& gradients) {
    return gradients.get(t.from.node);
  }
  static std::optional<InnerFloat> grad_remove(const FloatTensor& t, Gradients& gradients) {
    return gradients.remove(t.from.node);
  }
  static void grad_replace(const FloatTensor& t, Gradients& gradients, InnerFloat gradient) {
    if (!t.from.node || !t.from.node->is_leaf())
      raise(ErrorCode::untracked,
            "grad_replace: the tensor is not a leaf; call require_grad on it");
    if (B::shape(gradient) != B::shape(t.value))
      raise(ErrorCode::invalid_problem,
            fmt::format("grad_replace: the gradient has shape {}, the tensor {}",
                        to_string(B::shape(gradient)), to_string(B::shape(t.value))));
    gradients.replace(t.from.node, std::move(gradient));
  }

  // ---- between the two backends ----
  static InnerFloat inner(FloatTensor t) { return std::move(t.value); }
  static IntTensor int_inner(IntTensor t) { return t; }
  static BoolTensor bool_inner(BoolTensor t) { return t; }
  static QuantizedTensor q_inner(QuantizedTensor t) { return t; }
  static FloatTensor from_inner(InnerFloat t) { return {std::move(t), {}, nullptr}; }
  static IntTensor int_from_inner(IntTensor t) { return t; }
  static BoolTensor bool_from_inner(BoolTensor t) { return t; }
  static QuantizedTensor q_from_inner(QuantizedTensor t) { return t; }

 private:
  // The inner tensor of a float, any other tensor as it is; vectors element by element.
  static const InnerFloat& value(const FloatTensor& t) { return t.value; }
  static InnerFloat&& value(FloatTensor&& t) { return std::move(t.value); }
  static std::vector<InnerFloat> value(const std::vector<FloatTensor>& all) {
    std::vector<InnerFloat> values;
    for (const auto& t : all) values.push_back(t.value);
    return values;
  }
  template <class T>
  requires(
      !std::same_as<std::remove_cvref_t<T>, FloatTensor> &&
      !std::same_as<std::remove_cvref_t<T>, std::vector<FloatTensor>>) static T&& value(T&& other) {
    return std::forward<T>(other);
  }
  static FloatTensor lift(InnerFloat&& t) { return from_inner(std::move(t)); }
  template <class... T>
  static auto lift(std::tuple<T...>&& all) {
    return std::apply([](auto&&... t) { return std::tuple{lift(std::move(t))...}; },
                      std::move(all));
  }
  template <class T>
  static T lift(T&& other) {
    return std::move(other);
  }
  static bool any_tracked(const FloatTensor& t) { return t.is_tracked(); }
  static bool any_tracked(const std::vector<FloatTensor>& all) {
    for (const auto& t : all)
      if (t.is_tracked()) return true;
    return false;
  }
  static bool any_tracked(const auto&) { return false; }

  static Edge<B> edge(const FloatTensor& t) { return t.from; }
  static Edge<B> edge(const auto&) { return {}; }

  template <class Op, class... In>
  static auto track(const Op& op, const In&... in) {
    auto result = lift(B::apply(op, value(in)...));
    using R = decltype(result);
    if constexpr (requires { std::tuple_size<R>::value; }) {
      std::apply([&](auto&... out) { connect(op, std::tie(in...), std::tie(out...)); }, result);
    } else {
      connect(op, std::tie(in...), std::tie(result));
    }
    return result;
  }

  // Gives the float outputs their node.
  template <class Op, class... In, class... Out>
  static void connect(const Op& op, std::tuple<const In&...> in, std::tuple<Out&...> out) {
    if constexpr ((std::same_as<Out, FloatTensor> || ...)) {
      if constexpr (C::recomputes && memory_bound<Op>() && sizeof...(Out) == 1)
        std::get<0>(out).recipe = std::apply(
            [&](const auto&... x) {
              using Recipe = autodiff_detail::OpRecipe<B, Op, decltype(keep(x))...>;
              return Shared<planck::Recipe<B>>::adopt(new Recipe(op, keep(x)...));
            },
            in);
      using R = Record<B, std::tuple<const In&...>, std::tuple<Out&...>>;
      const R record(in, out);
      static_assert(autodiff_detail::HasPullback<Op, R>,
                    "an op that gives floats needs a pullback(const Op&, const R&) beside it");
      auto fn = pullback(op, record);
      Shared<Node<B>> node;
      if constexpr ((kIsVector<In> || ...)) {
        static_assert(sizeof...(In) == 1, "a vector of tensors is an op's only input");
        std::vector<Edge<B>> edges;
        for (const auto& t : std::get<0>(in)) edges.push_back(edge(t));
        node = autodiff_detail::make_node<B, Op>(std::move(fn), std::move(edges));
      } else {
        node = autodiff_detail::make_node<B, Op>(
            std::move(fn), std::apply([](const auto&... t) { return std::array{edge(t)...}; }, in));
      }
      node->outputs = sizeof...(Out);
      std::uint32_t position = 0;
      const auto set = [&](auto& t) {
        if constexpr (std::same_as<std::remove_cvref_t<decltype(t)>, FloatTensor>)
          t.from = {node, position};
        ++position;
      };
      std::apply([&](auto&... t) { (set(t), ...); }, out);
    }
  }
  static Saved<B> keep(const FloatTensor& t) { return t.saved(); }
  static std::vector<Saved<B>> keep(const std::vector<FloatTensor>& all) {
    std::vector<Saved<B>> kept;
    for (const auto& t : all) kept.push_back(t.saved());
    return kept;
  }
  template <class T>
  static T keep(const T& other) {
    return other;
  }
};

}  // namespace planck
