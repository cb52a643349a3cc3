// One backward pass: from roots with cotangents to the gradients of the leaves.
//
// Twice over the graph, each time once over every node and edge. First from the roots down,
// claiming nodes for this pass and counting how many edges lead to each; then in an order where a
// node comes after all its consumers. That order, and so the order of every sum of gradients, is a
// function of the graph alone. Both walks keep their own stack.
//
// A pass that fails, whatever failed, leaves the graph as it was. For that, what nodes saved is let
// go of at the end of the pass; free_early gives the guarantee up for memory.
#pragma once

#include <unordered_map>

#include "planck/autodiff/flow.h"
#include "planck/backend/observe.h"
#include "planck/ops/elementwise/elementwise.ops.h"

namespace planck {

template <class B>
class Pass {
 public:
  using FloatTensor = typename B::FloatTensor;
  struct Root {
    Edge<B> edge;
    FloatTensor cotangent;
  };

  static Gradients<B> run(std::vector<Root> roots, const BackwardOptions& options);
  ~Pass();

  void give(const Edge<B>& edge, FloatTensor gradient);
  const FloatTensor& value(const Saved<B>& saved) { return recompute_.get(saved); }
  void splice(Node<B>& at, Edge<B> root, std::uint64_t segment,
              std::span<const Shared<Node<B>>> leaves);

 private:
  explicit Pass(const BackwardOptions& options) : options_(options) {}
  Pass(const Pass&) = delete;

  void claim(Node<B>* node);
  void claim(const std::vector<Root>& roots);
  void walk(const std::vector<Root>& roots);
  void pull(Node<B>& node);
  void await_hooks(const Edge<B>& edge);
  void release() noexcept;

  BackwardOptions options_;
  Gradients<B> found_;
  std::vector<Node<B>*> claimed_, unseen_, ready_;
  std::vector<Edge<B>> spliced_;  // keep graphs of our own alive
  Recompute<B> recompute_;
  // Edges not yet followed to leaves that have hooks: these run as soon as there is none.
  std::unordered_map<const Node<B>*, std::uint32_t> awaited_;
};

template <class B>
Gradients<B> Pass<B>::run(std::vector<Root> roots, const BackwardOptions& options) {
  Pass pass(options);
  pass.claim(roots);
  for (Root& root : roots) pass.give(root.edge, std::move(root.cotangent));
  pass.walk(roots);
  pass.found_.run_hooks();
  if (!options.retain_graph) pass.release();
  return std::move(pass.found_);
}

template <class B>
Pass<B>::~Pass() {
  recompute_.clear();
  for (Node<B>* node : claimed_) {
    node->drop_gradients();
    node->consumers = 0;
    node->queued = false;
    node->pass.store(nullptr, std::memory_order_release);
  }
}

template <class B>
void Pass<B>::release() noexcept {
  recompute_.clear();
  for (Node<B>* node : claimed_) node->release_saved();
}

template <class B>
void Pass<B>::give(const Edge<B>& edge, FloatTensor gradient) {
  if (edge.node->is_leaf()) return found_.add(edge.node, std::move(gradient));
  auto& slot = edge.node->gradient_of(edge.output);
  if (slot)
    slot = B::apply(Add{}, std::move(*slot), std::move(gradient));
  else
    slot = std::move(gradient);
}

template <class B>
void Pass<B>::claim(Node<B>* node) {
  // Room first: a node that is claimed and not listed would stay so forever.
  if (claimed_.size() == claimed_.capacity())
    claimed_.reserve(claimed_.size() < 32 ? 64 : 2 * claimed_.size());
  const void* owner = nullptr;
  if (node->pass.compare_exchange_strong(owner, this, std::memory_order_acq_rel)) {
    claimed_.push_back(node);
    if (node->released())
      refuse(ErrorCode::graph_released,
             "backward: the values that {} saved were released by an earlier backward; call that "
             "one with retain_graph",
             {node->op()});
    for (Recipe<B>* recipe : node->recipes) recompute_.need(recipe);
    unseen_.push_back(node);
  } else if (owner != this) {
    refuse(ErrorCode::graph_busy, "backward: another backward is going through the same {} node",
           {node->op()});
  }
}

template <class B>
void Pass<B>::claim(const std::vector<Root>& roots) {
  for (const Root& root : roots)
    if (!root.edge.node->is_leaf()) claim(root.edge.node.get());
  while (!unseen_.empty()) {
    Node<B>* node = unseen_.back();
    unseen_.pop_back();
    for (const Edge<B>& edge : node->edges()) {
      if (!edge.node) continue;
      if (edge.node->is_leaf()) {
        await_hooks(edge);
        continue;
      }
      claim(edge.node.get());
      ++edge.node->consumers;
    }
  }
}

template <class B>
void Pass<B>::await_hooks(const Edge<B>& edge) {
  if (!static_cast<const Leaf<B>*>(edge.node.get())->hooks.empty()) ++awaited_[edge.node.get()];
}

template <class B>
void Pass<B>::walk(const std::vector<Root>& roots) {
  for (std::size_t i = roots.size(); i-- > 0;) {
    Node<B>* node = roots[i].edge.node.get();
    if (node->is_leaf() || node->consumers != 0 || node->queued) continue;
    ready_.push_back(node);
    node->queued = true;
  }
  while (!ready_.empty()) {
    Node<B>* node = ready_.back();
    ready_.pop_back();
    if (node->has_gradient()) pull(*node);
    node->drop_gradients();
    for (Recipe<B>* recipe : node->recipes) recompute_.done(recipe);
    if (node->own || (options_.free_early && !options_.retain_graph)) node->release_saved();
    for (const Edge<B>& edge : node->edges()) {
      if (!edge.node) continue;
      if (!edge.node->is_leaf()) {
        if (--edge.node->consumers == 0) ready_.push_back(edge.node.get());
      } else if (!awaited_.empty()) {
        const auto awaited = awaited_.find(edge.node.get());
        if (awaited != awaited_.end() && --awaited->second == 0) found_.run_hooks(awaited->first);
      }
    }
  }
}

template <class B>
void Pass<B>::pull(Node<B>& node) {
  struct Named {  // ops that run from here on belong to this gradient
    explicit Named(std::string_view op) : before(std::exchange(Observer::gradient_of, op)) {}
    ~Named() { Observer::gradient_of = before; }
    std::string_view before;
  } named(node.op());
  Flow<B> flow(*this, node);
  node.pull(flow);
}

// The graph becomes what it would be without the segment, from here on: the order of the walk, and
// with it that of every sum, is that of the whole graph.
template <class B>
void Pass<B>::splice(Node<B>& at, Edge<B> root, std::uint64_t segment,
                     std::span<const Shared<Node<B>>> leaves) {
  const auto resolve = [&](Edge<B>& edge) {
    if (edge.node->segment == segment) return;  // made by this run, for this run
    std::size_t leaf = 0, end = leaves.size();  // <algorithm> would cost who includes this 10 MB
    while (leaf < end) {
      const std::size_t middle = (leaf + end) / 2;
      if (std::less<>()(leaves[middle].get(), edge.node.get()))
        leaf = middle + 1;
      else
        end = middle;
    }
    if (leaf == leaves.size() || leaves[leaf] != edge.node)
      raise(ErrorCode::invalid_problem,
            "checkpoint: the segment's second run reaches a leaf that the first did not: a "
            "parameter or a captured tensor was set between the two");
    edge = at.edges()[leaf];
  };
  const auto enter = [&](Node<B>* node) {
    if (node->segment != segment)
      refuse("checkpoint: the segment captures a tracked tensor that {} gave; pass it as an input",
             {node->op()});
    claim(node);
    node->own = true;
  };
  FloatTensor gradient = *at.gradient;
  if (root.node->is_leaf()) {
    resolve(root);
    return give(root, std::move(gradient));
  }
  spliced_.push_back(root);
  enter(root.node.get());
  while (!unseen_.empty()) {
    Node<B>* node = unseen_.back();
    unseen_.pop_back();
    for (Edge<B>& edge : node->edges()) {
      if (!edge.node) continue;
      if (edge.node->is_leaf())
        resolve(edge);
      else
        enter(edge.node.get());
      if (!edge.node->is_leaf())
        ++edge.node->consumers;
      else
        await_hooks(edge);
    }
  }
  give(root, std::move(gradient));
  ready_.push_back(root.node.get());
}

template <class B>
Tensor<B> Flow<B>::dy(std::uint32_t i) const {
  using FloatTensor = typename B::FloatTensor;
  const FloatTensor* gradient = node_.gradient_if(i);
  if (gradient == nullptr)
    refuse("{}: the pullback reads the gradient of output {}, which has none; has() tells",
           {node_.op(), static_cast<std::int64_t>(i)});
  return Tensor<B>(*gradient);
}
template <class B>
void Flow<B>::give(std::size_t input, Tensor<B> gradient) {
  if (input >= node_.edges().size())
    refuse("{}: the pullback gives input {} a gradient, the op has {} inputs",
           {node_.op(), static_cast<std::int64_t>(input),
            static_cast<std::int64_t>(node_.edges().size())});
  const Edge<B>& edge = node_.edges()[input];
  if (!edge.node) return;
  const auto& wanted = edge.node->output(edge.output);
  if (wanted && gradient.shape() != wanted->shape)
    refuse("{}: the pullback gives input {} a gradient of shape {}, the input has {}",
           {node_.op(), static_cast<std::int64_t>(input), Shape(gradient.shape()), wanted->shape});
  if (wanted && gradient.dtype() != wanted->dtype)
    refuse("{}: the pullback gives input {} a gradient of {}, {} is expected",
           {node_.op(), static_cast<std::int64_t>(input), gradient.dtype(), wanted->dtype});
  pass_.give(edge, std::move(gradient).primitive());
}
template <class B>
Tensor<B> Flow<B>::operator[](const Saved<B>& saved) {
  return Tensor<B>(pass_.value(saved));
}
template <class B>
void Flow<B>::splice(const Edge<B>& root, std::uint64_t segment,
                     std::span<const Shared<Node<B>>> leaves) {
  pass_.splice(node_, root, segment, leaves);
}

}  // namespace planck
