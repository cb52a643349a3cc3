// What can be done with a graph from outside, for every Autodiff<B, C>: leaves, hooks, backward
// passes, and gradients put in by hand. What is handed over must have the dtype and the shape of
// the tensor it belongs to.
#pragma once

#include "planck/autodiff/backward.h"

namespace planck {

namespace autodiff_detail {

// What somebody hands over as the gradient of a tensor.
template <class B>
void check_gradient(const char* what, const typename B::FloatTensor& gradient,
                    const std::optional<InputSpec>& tensor) {
  if (!tensor) return;
  if (const Shape shape = B::shape(gradient); shape != tensor->shape)
    refuse("{} has shape {}, the tensor {}", {what, shape, tensor->shape});
  if (B::dtype(gradient) != tensor->dtype)
    refuse("{} is {}, the tensor {}", {what, B::dtype(gradient), tensor->dtype});
}

}  // namespace autodiff_detail

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
void Gradients<B>::run_hooks(const Node<B>* leaf) {
  const auto found = found_.find(leaf);
  if (found == found_.end() || std::exchange(found->second.hooked, true)) return;
  Entry& entry = found->second;
  for (const auto& hook : static_cast<const Leaf<B>*>(leaf)->hooks) {
    FloatTensor replaced = hook(entry.gradient);
    autodiff_detail::check_gradient<B>("hook: the gradient that it gives", replaced,
                                       leaf->first_output);
    entry.gradient = std::move(replaced);
  }
}
template <class B>
void Gradients<B>::run_hooks() {
  for (const Node<B>* leaf : order_) run_hooks(leaf);
}

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
  auto node = Shared<Node<B>>::adopt(new Leaf<B>(B::dtype(t.value), B::shape(t.value)));
  return {std::move(t.value), {std::move(node), 0}, nullptr};
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
    autodiff_detail::check_gradient<B>("backward: the cotangent", cotangent,
                                       InputSpec{B::dtype(root.value), B::shape(root.value)});
    from.push_back({root.from, std::move(cotangent)});
  }
  return Pass<B>::run(std::move(from), options);
}
template <class B>
void Tape<B>::replace(const Tracked<B>& t, Gradients<B>& gradients, FloatTensor gradient) {
  if (!t.from.node || !t.from.node->is_leaf())
    raise(ErrorCode::untracked, "grad_replace: the tensor is not a leaf; call require_grad on it");
  autodiff_detail::check_gradient<B>("grad_replace: the gradient", gradient,
                                     t.from.node->first_output);
  gradients.replace(t.from.node, std::move(gradient));
}

}  // namespace planck
