// checkpoint(segment, inputs…): a piece of a model whose inner values are not kept.
//
//   auto y = checkpoint([&](const auto& x) { return block(x); }, x);
//
// The segment runs once now, and once more in the backward pass, which then differentiates it.
// Random ops are functions of seed and position; a segment that draws from an Rng gets it as its
// first argument, checkpoint(rng, segment, inputs…), and the second run draws the same values.
// Tensors the segment captures must be leaves or untracked: pass others as inputs. Same bits as
// without.
#pragma once

#include <memory>

#include "planck/autodiff/autodiff.h"
#include "planck/ops/elementwise/elementwise.functions.h"

namespace planck {

struct Checkpoint {
  static constexpr std::string_view name = "checkpoint";
};

namespace autodiff_detail {

// Refuses a segment that reached tracked tensors of its surroundings other than leaves.
template <class B>
void refuse_captures(Node<B>* root, std::uint64_t begin) {
  std::vector<Node<B>*> stack{root};
  std::vector<Node<B>*> seen;
  const auto visit = [&](Node<B>* node) {
    if (node->is_leaf() || node->consumers != 0) return;
    if (node->stamp <= begin)
      refuse("checkpoint: the segment captures a tracked tensor that {} gave; pass it as an input",
             {node->op()});
    node->consumers = 1;  // seen; the graph is this thread's alone
    seen.push_back(node);
    stack.push_back(node);
  };
  struct Reset {
    std::vector<Node<B>*>& nodes;
    ~Reset() {
      for (Node<B>* n : nodes) n->consumers = 0;
    }
  } reset{seen};
  stack.clear();
  visit(root);
  while (!stack.empty()) {
    Node<B>* node = stack.back();
    stack.pop_back();
    for (const auto& edge : node->edges())
      if (edge.node) visit(edge.node.get());
  }
}

}  // namespace autodiff_detail

template <class Segment, class A, class... K>
requires AutodiffBackend<A> Tensor<A> checkpoint(const Segment& segment,
                                                 const Tensor<A, K>&... inputs) {
  using B = typename A::InnerBackend;
  // Inputs cut off from their history: leaves of their own where they were tracked.
  const auto cut = []<class Kind>(const Tensor<A, Kind>& t) {
    if constexpr (std::same_as<Kind, FloatKind>) {
      Tensor<A> fresh = t.detach();
      return t.is_tracked() ? std::move(fresh).require_grad() : fresh;
    } else {
      return t;
    }
  };
  const std::uint64_t begin = autodiff_detail::next_stamp();
  Tensor<A> y = segment(cut(inputs)...);
  if (!y.is_tracked()) return y;
  if (!y.primitive().from.node->is_leaf())
    autodiff_detail::refuse_captures(y.primitive().from.node.get(), begin);

  auto again = [segment, kept = std::tuple(cut(inputs)...)](Flow<B>& g) {
    const Tensor<A> out = std::apply(segment, kept);
    auto found = A::backward(out.primitive(), g.dy().primitive());
    std::vector<Shared<Node<B>>> own;
    std::size_t i = 0;
    const auto give = [&](const auto& t) {
      if constexpr (std::same_as<typename std::remove_cvref_t<decltype(t)>::Kind, FloatKind>)
        if (t.is_tracked()) {
          own.push_back(t.primitive().from.node);
          if (auto d = t.grad(found)) g.give(i, std::move(*d));
        }
      ++i;
    };
    std::apply([&](const auto&... t) { (give(t), ...); }, kept);
    g.merge(std::move(found), own);
  };
  const auto edge = []<class Kind>(const Tensor<A, Kind>& t) {
    if constexpr (std::same_as<Kind, FloatKind>)
      return t.primitive().from;
    else
      return Edge<B>{};
  };
  auto node = autodiff_detail::make_node<B, Checkpoint>(
      std::move(again), std::array<Edge<B>, sizeof...(K)>{edge(inputs)...});
  return Tensor<A>(Tracked<B>{y.primitive().value, {std::move(node), 0}, nullptr});
}

// segment(rng, inputs…)
template <class Segment, class A, class... K>
requires AutodiffBackend<A> Tensor<A> checkpoint(Rng& rng, const Segment& segment,
                                                 const Tensor<A, K>&... inputs) {
  auto end = std::make_shared<Rng>(rng);
  auto y = checkpoint(
      [segment, start = rng, end](const auto&... in) {
        *end = start;
        return segment(*end, in...);
      },
      inputs...);
  rng = *end;
  return y;
}

}  // namespace planck
