// What a backward pass found: a gradient for each tracked leaf that the roots depend on. A value of
// its own, keyed by the leaves it keeps alive; it may move to another thread.
#pragma once

#include <unordered_map>

#include "planck/autodiff/node.h"

namespace planck {

template <class B>
class Gradients {
 public:
  using FloatTensor = typename B::FloatTensor;

  Gradients();
  Gradients(const Gradients&);
  Gradients(Gradients&&) noexcept;
  Gradients& operator=(Gradients) noexcept;
  ~Gradients();

  std::size_t size() const { return found_.size(); }
  std::optional<FloatTensor> get(const Shared<Node<B>>& leaf) const;
  std::optional<FloatTensor> remove(const Shared<Node<B>>& leaf);
  void replace(const Shared<Node<B>>& leaf, FloatTensor gradient);

  // Calls f(leaf, gradient) in the order in which the pass found them.
  template <class F>
  void for_each(const F& f) const {
    for (const Node<B>* leaf : order_)
      if (const auto it = found_.find(leaf); it != found_.end()) f(*leaf, it->second.gradient);
  }

  // For the pass that fills it.
  void add(const Shared<Node<B>>& leaf, FloatTensor gradient);
  // Of one leaf, of which nothing more is expected; of all whose hooks did not run yet.
  void run_hooks(const Node<B>* leaf);
  void run_hooks();

 private:
  struct Entry {
    Shared<Node<B>> leaf;
    FloatTensor gradient;
    bool hooked = false;  // its hooks have run
  };
  std::unordered_map<const Node<B>*, Entry> found_;
  std::vector<const Node<B>*> order_;  // of discovery: hooks follow it
};

template <class B>
Gradients<B>::Gradients() = default;
template <class B>
Gradients<B>::Gradients(const Gradients&) = default;
template <class B>
Gradients<B>::Gradients(Gradients&&) noexcept = default;
template <class B>
Gradients<B>& Gradients<B>::operator=(Gradients other) noexcept {
  found_.swap(other.found_);
  order_.swap(other.order_);
  return *this;
}
template <class B>
Gradients<B>::~Gradients() = default;

template <class B>
auto Gradients<B>::get(const Shared<Node<B>>& leaf) const -> std::optional<FloatTensor> {
  const auto it = found_.find(leaf.get());
  return it == found_.end() ? std::nullopt : std::optional(it->second.gradient);
}
template <class B>
auto Gradients<B>::remove(const Shared<Node<B>>& leaf) -> std::optional<FloatTensor> {
  const auto it = found_.find(leaf.get());
  if (it == found_.end()) return std::nullopt;
  std::optional<FloatTensor> gradient(std::move(it->second.gradient));
  found_.erase(it);
  return gradient;
}
template <class B>
void Gradients<B>::replace(const Shared<Node<B>>& leaf, FloatTensor gradient) {
  found_.insert_or_assign(leaf.get(), Entry{leaf, std::move(gradient)});
}

}  // namespace planck
