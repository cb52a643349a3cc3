// One backward pass: from roots with cotangents to the gradients of the leaves.
//
// Twice over the graph, each time once over every node and edge. First from the roots down,
// claiming nodes for this pass and counting how many edges lead to each; then in an order where a
// node comes after all its consumers. That order, and so the order of every sum of gradients, is a
// function of the graph alone. Both walks keep their own stack.
#pragma once

#include <algorithm>

#include "planck/autodiff/flow.h"
#include "planck/ops/elementwise/elementwise.ops.h"

namespace planck {

struct BackwardOptions {
  bool retain_graph = false;  // keep saved values for another backward over the same graph
};

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
  // What was computed again is dropped with the last pullback that kept its recipe, or, where these
  // are retained, with the pass.
  const FloatTensor& value(const Saved<B>& saved) {
    return saved.get(options_.retain_graph ? &recomputed_ : nullptr);
  }
  Gradients<B>& found() { return found_; }
  const BackwardOptions& options() const { return options_; }

 private:
  explicit Pass(const BackwardOptions& options) : options_(options) {}
  Pass(const Pass&) = delete;

  void claim(const std::vector<Root>& roots);
  void walk(const std::vector<Root>& roots);

  BackwardOptions options_;
  Gradients<B> found_;
  std::vector<Node<B>*> claimed_;
  std::vector<Shared<Recipe<B>>> recomputed_;
};

template <class B>
Gradients<B> Pass<B>::run(std::vector<Root> roots, const BackwardOptions& options) {
  Pass pass(options);
  pass.claim(roots);
  for (Root& root : roots) pass.give(root.edge, std::move(root.cotangent));
  pass.walk(roots);
  pass.found_.run_hooks();
  return std::move(pass.found_);
}

template <class B>
Pass<B>::~Pass() {
  for (Node<B>* node : claimed_) {
    node->gradient.reset();
    node->gradients.clear();
    node->consumers = 0;
    node->pass.store(nullptr, std::memory_order_release);
  }
  for (const auto& recipe : recomputed_) recipe->result.reset();
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
void Pass<B>::claim(const std::vector<Root>& roots) {
  std::vector<Node<B>*> stack;
  const auto visit = [&](Node<B>* node) {
    const void* owner = nullptr;
    if (node->pass.compare_exchange_strong(owner, this, std::memory_order_acq_rel)) {
      claimed_.push_back(node);
      if (node->released())
        refuse(ErrorCode::graph_released,
               "backward: the values that {} saved were released by an earlier backward; call that "
               "one with retain_graph",
               {node->op()});
      stack.push_back(node);
    } else if (owner != this) {
      refuse(ErrorCode::graph_busy, "backward: another backward is going through the same {} node",
             {node->op()});
    }
  };
  for (const Root& root : roots)
    if (!root.edge.node->is_leaf()) visit(root.edge.node.get());
  while (!stack.empty()) {
    Node<B>* node = stack.back();
    stack.pop_back();
    for (const Edge<B>& edge : node->edges())
      if (edge.node && !edge.node->is_leaf()) {
        visit(edge.node.get());
        ++edge.node->consumers;
      }
  }
}

template <class B>
void Pass<B>::walk(const std::vector<Root>& roots) {
  std::vector<Node<B>*> ready;
  for (std::size_t i = roots.size(); i-- > 0;) {
    Node<B>* node = roots[i].edge.node.get();
    if (!node->is_leaf() && node->consumers == 0 &&
        std::find(ready.begin(), ready.end(), node) == ready.end())
      ready.push_back(node);
  }
  while (!ready.empty()) {
    Node<B>* node = ready.back();
    ready.pop_back();
    bool any = node->gradient.has_value();
    for (const auto& g : node->gradients) any |= g.has_value();
    if (any) {
      Flow<B> flow(*this, *node);
      node->pull(flow);
    }
    node->gradient.reset();
    node->gradients.clear();
    if (!options_.retain_graph) node->release_saved();
    for (const Edge<B>& edge : node->edges())
      if (edge.node && !edge.node->is_leaf() && --edge.node->consumers == 0)
        ready.push_back(edge.node.get());
  }
}

template <class B>
void Flow<B>::give(std::size_t input, Tensor<B> gradient) {
  const Edge<B>& edge = node_.edges()[input];
  if (edge.node) pass_.give(edge, std::move(gradient).primitive());
}
template <class B>
Tensor<B> Flow<B>::operator[](const Saved<B>& saved) {
  return Tensor<B>(pass_.value(saved));
}
template <class B>
void Flow<B>::merge(Gradients<B>&& found, std::span<const Shared<Node<B>>> except) {
  pass_.found().merge(std::move(found), except);
}
template <class B>
bool Flow<B>::retains() const {
  return pass_.options().retain_graph;
}

template <class B>
void Gradients<B>::add(const Shared<Node<B>>& leaf, FloatTensor gradient) {
  const auto it = found_.find(leaf.get());
  if (it != found_.end()) {
    it->second.gradient = B::apply(Add{}, std::move(it->second.gradient), std::move(gradient));
    return;
  }
  found_.emplace(leaf.get(), Entry{leaf, std::move(gradient)});
  order_.push_back(leaf.get());
}

template <class B>
void Gradients<B>::run_hooks() {
  for (const Node<B>* leaf : order_) {
    Entry& entry = found_.at(leaf);
    for (const auto& hook : static_cast<const Leaf<B>*>(leaf)->hooks)
      entry.gradient = hook(entry.gradient);
  }
}

template <class B>
void Gradients<B>::merge(Gradients&& other, std::span<const Shared<Node<B>>> except) {
  for (const Node<B>* leaf : other.order_) {
    const auto it = other.found_.find(leaf);
    if (it == other.found_.end()) continue;
    bool skip = false;
    for (const auto& e : except) skip |= e.get() == leaf;
    if (!skip) add(it->second.leaf, std::move(it->second.gradient));
  }
}

// What can be done with a graph from outside, for every Autodiff<B, C>.
template <class B>
class Tape {
 public:
  using FloatTensor = typename B::FloatTensor;

  static Tracked<B> leaf(Tracked<B> t);
  static void add_hook(const Tracked<B>& leaf, typename Leaf<B>::Hook fn);
  static Gradients<B> backward(const Tracked<B>& root, const BackwardOptions& options);
  static Gradients<B> backward(const Tracked<B>& root, FloatTensor cotangent,
                               const BackwardOptions& options);
  static Gradients<B> backward(std::vector<std::pair<Tracked<B>, FloatTensor>> roots,
                               const BackwardOptions& options);
  static void replace(const Tracked<B>& t, Gradients<B>& gradients, FloatTensor gradient);
};

template <class B>
Tracked<B> Tape<B>::leaf(Tracked<B> t) {
  if (t.from.node && t.from.node->is_leaf()) return t;
  return {std::move(t.value), {Shared<Node<B>>::adopt(new Leaf<B>), 0}, nullptr};
}
template <class B>
void Tape<B>::add_hook(const Tracked<B>& leaf, typename Leaf<B>::Hook fn) {
  if (!leaf.from.node || !leaf.from.node->is_leaf())
    raise(ErrorCode::untracked, "add_hook: the tensor is not a leaf; call require_grad on it");
  static_cast<Leaf<B>*>(leaf.from.node.get())->hooks.push_back(std::move(fn));
}
template <class B>
Gradients<B> Tape<B>::backward(const Tracked<B>& root, const BackwardOptions& options) {
  auto ones = B::create(Full<FloatKind>{1, B::dtype(root.value), B::shape(root.value)},
                        B::device(root.value));
  return backward(root, std::move(ones), options);
}
template <class B>
Gradients<B> Tape<B>::backward(const Tracked<B>& root, FloatTensor cotangent,
                               const BackwardOptions& options) {
  std::vector<std::pair<Tracked<B>, FloatTensor>> roots;
  roots.emplace_back(root, std::move(cotangent));
  return backward(std::move(roots), options);
}
template <class B>
Gradients<B> Tape<B>::backward(std::vector<std::pair<Tracked<B>, FloatTensor>> roots,
                               const BackwardOptions& options) {
  std::vector<typename Pass<B>::Root> from;
  for (auto& [root, cotangent] : roots) {
    if (!root.is_tracked())
      raise(ErrorCode::untracked,
            "backward: the tensor depends on no tracked tensor; call require_grad on the tensors "
            "whose gradients are wanted before using them");
    if (B::shape(cotangent) != B::shape(root.value))
      refuse("backward: the cotangent has shape {}, the tensor {}",
             {B::shape(cotangent), B::shape(root.value)});
    if (B::dtype(cotangent) != B::dtype(root.value))
      refuse("backward: the cotangent is {}, the tensor {}",
             {B::dtype(cotangent), B::dtype(root.value)});
    from.push_back({root.from, std::move(cotangent)});
  }
  return Pass<B>::run(std::move(from), options);
}
template <class B>
void Tape<B>::replace(const Tracked<B>& t, Gradients<B>& gradients, FloatTensor gradient) {
  if (!t.from.node || !t.from.node->is_leaf())
    raise(ErrorCode::untracked, "grad_replace: the tensor is not a leaf; call require_grad on it");
  if (B::shape(gradient) != B::shape(t.value))
    refuse("grad_replace: the gradient has shape {}, the tensor {}",
           {B::shape(gradient), B::shape(t.value)});
  gradients.replace(t.from.node, std::move(gradient));
}

}  // namespace planck
