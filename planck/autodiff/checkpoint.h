// checkpoint(segment, inputs…): a piece of a model whose inner values are not kept.
//
//   auto y = checkpoint([&](const auto& x) { return block(x); }, x);
//
// The segment runs once now, and once more in the backward pass, where the graph of that run takes
// its place: gradients are summed in the order of the graph without segments, to the same bits, and
// hooks see whole gradients. The second run sees the state that the first saw: draws from any Rng
// are repeated and move nothing, and so is what modules say with once() (core/replay.h), as
// dropout, normalization and observers do. A second run that does something else is refused.
//
// Tensors that the segment captures must be leaves or untracked: pass others as inputs. Second
// derivatives are right, and not bit for bit those without segments: the graph of a gradient has
// both runs in it, as two sets of nodes whose gradients are summed apart.
#pragma once

#include "planck/autodiff/autodiff.h"
#include "planck/core/rng.h"

namespace planck {

struct Checkpoint {
  static constexpr std::string_view name = "checkpoint";
};

namespace autodiff_detail {

// The leaves that a run of a segment reached, in the order of addresses. Refuses one that reached
// tracked tensors of its surroundings other than leaves.
template <class B>
std::vector<Shared<Node<B>>> leaves_of_segment(Node<B>* root, std::uint64_t segment) {
  struct Seen {  // marks nodes by their count of consumers; the graph is this thread's alone
    std::vector<Node<B>*> nodes;
    ~Seen() {
      for (Node<B>* n : nodes) n->consumers = 0;
    }
  } seen;
  std::vector<Shared<Node<B>>> leaves;
  const auto visit = [&](Node<B>* node) {
    if (node->consumers != 0) return;
    if (node->segment != segment)
      refuse("checkpoint: the segment captures a tracked tensor that {} gave; pass it as an input",
             {node->op()});
    seen.nodes.push_back(node);
    node->consumers = 1;
  };
  visit(root);
  for (std::size_t i = 0; i < seen.nodes.size(); ++i)
    for (const auto& edge : seen.nodes[i]->edges()) {
      if (!edge.node) continue;
      if (!edge.node->is_leaf())
        visit(edge.node.get());
      else if (edge.node->segment != segment)  // a leaf that a run makes is that run's alone
        leaves.push_back(edge.node);
    }
  std::sort(leaves.begin(), leaves.end(),
            [](const auto& a, const auto& b) { return std::less<>()(a.get(), b.get()); });
  leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
  return leaves;
}

// A leaf that stands for an input of a segment, and where the input came from.
template <class B>
struct StandIn {
  Shared<Node<B>> leaf;
  Edge<B> input;

  // What an edge to a leaf is outside of the segment.
  static Edge<B> outside(std::span<const StandIn> all, const Shared<Node<B>>& leaf) {
    for (const StandIn& s : all)
      if (s.leaf == leaf) return s.input;
    return {leaf, 0};
  }
};

}  // namespace autodiff_detail

template <class Segment, class A, class... K>
requires AutodiffBackend<A> Tensor<A> checkpoint(const Segment& segment,
                                                 const Tensor<A, K>&... inputs) {
  using B = typename A::InnerBackend;
  using StandIn = autodiff_detail::StandIn<B>;
  // Inputs cut off from their history: leaves of their own where they were tracked.
  std::vector<StandIn> stand_ins;
  const auto cut = [&]<class Kind>(const Tensor<A, Kind>& t) {
    if constexpr (std::same_as<Kind, FloatKind>) {
      if (!t.is_tracked() || !grad_enabled()) return t.detach();
      Tensor<A> fresh = t.detach().require_grad();
      stand_ins.push_back({fresh.primitive().from.node, t.primitive().from});
      return fresh;
    } else {
      return t;
    }
  };
  std::tuple<Tensor<A, K>...> kept{cut(inputs)...};

  Replay log;
  std::uint64_t run = 0;
  Tensor<A> y = [&] {
    const Replay::Run first(log);
    run = first.id();
    return std::apply(segment, std::as_const(kept));
  }();
  if (!y.is_tracked()) return y;
  const Edge<B>& root = y.primitive().from;
  if (root.node->is_leaf())  // an input, or a leaf that the segment captures
    return Tensor<A>(Tracked<B>{y.primitive().value, StandIn::outside(stand_ins, root.node), {}});

  auto leaves = autodiff_detail::leaves_of_segment(root.node.get(), run);
  std::vector<Edge<B>> edges;
  for (const auto& leaf : leaves) edges.push_back(StandIn::outside(stand_ins, leaf));
  auto again = [segment, kept = std::move(kept), log = std::move(log),
                leaves = std::move(leaves)](Flow<B>& g) {
    const autodiff_detail::Recording on(true);
    std::uint64_t second = 0;
    const Tensor<A> out = [&] {
      const Replay::Run replay(log);
      second = replay.id();
      Tensor<A> t = std::apply(segment, kept);
      replay.finish();
      return t;
    }();
    if (!out.is_tracked())
      raise(ErrorCode::invalid_problem,
            "checkpoint: the segment's second run gave a tensor that is not tracked");
    g.splice(out.primitive().from, second, leaves);
  };
  auto node = autodiff_detail::make_node<B, Checkpoint>(std::move(again), std::move(edges));
  node->first_output = InputSpec{y.dtype(), y.shape()};
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
