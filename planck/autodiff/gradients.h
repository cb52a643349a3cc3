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

  std::size_t size() const { return found_.size(); }

  std::optional<FloatTensor> get(const Shared<Node<B>>& leaf) const {
    const auto it = found_.find(leaf.get());
    return it == found_.end() ? std::nullopt : std::optional(it->second.gradient);
  }
  std::optional<FloatTensor> remove(const Shared<Node<B>>& leaf) {
    const auto it = found_.find(leaf.get());
    if (it == found_.end()) return std::nullopt;
    std::optional<FloatTensor> gradient(std::move(it->second.gradient));
    found_.erase(it);
    return gradient;
  }
  void replace(const Shared<Node<B>>& leaf, FloatTensor gradient) {
    found_.insert_or_assign(leaf.get(), Entry{leaf, std::move(gradient)});
  }

  // For the pass that fills it.
  void add(const Shared<Node<B>>& leaf, FloatTensor gradient);
  void run_hooks();
  // Adds what another pass found, but for some leaves.
  void merge(Gradients&& other, std::span<const Shared<Node<B>>> except);

 private:
  struct Entry {
    Shared<Node<B>> leaf;
    FloatTensor gradient;
  };
  std::unordered_map<const Node<B>*, Entry> found_;
  std::vector<const Node<B>*> order_;  // of discovery: hooks and merges follow it
};

}  // namespace planck
