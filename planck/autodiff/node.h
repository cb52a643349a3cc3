// The graph: one node for each op that a tracked tensor went through.
//
// Tensors own the graph: a tensor holds its node, a node the nodes of its inputs. There is no list
// of nodes anywhere, so a dropped graph is freed at once. Freeing is iterative: a chain of a
// million nodes takes no deeper stack than one.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "planck/backend/tensor.h"
#include "planck/core/replay.h"
#include "planck/core/shared.h"

namespace planck {

namespace autodiff_detail {

// The run of a segment that this thread is in; 0 outside.
inline std::uint64_t current_segment() {
  const Replay::Run* run = Replay::Run::innermost();
  return run == nullptr ? 0 : run->id();
}

// Deletes what has lost its last owner, without recursion: what a destructor lets go of waits here
// until that destructor has returned.
template <class T>
void delete_iteratively(T* object) noexcept {
  thread_local T* waiting = nullptr;
  thread_local bool deleting = false;
  object->next_to_delete = waiting;
  waiting = object;
  if (deleting) return;
  deleting = true;
  while (waiting != nullptr) {
    T* next = waiting;
    waiting = next->next_to_delete;
    delete next;
  }
  deleting = false;
}

}  // namespace autodiff_detail

template <class B>
class Node;
template <class B>
class Flow;
template <class B>
class Recipe;

// Where an input came from: which node, and which of its outputs. Null where it is not tracked.
template <class B>
struct Edge {
  Shared<Node<B>> node;
  std::uint32_t output = 0;
};

template <class B>
class Node : public Counted {
 public:
  using FloatTensor = typename B::FloatTensor;

  Node() { live_.fetch_add(1, std::memory_order_relaxed); }
  Node(const Node&) = delete;
  virtual ~Node() { live_.fetch_sub(1, std::memory_order_relaxed); }

  virtual std::string_view op() const = 0;
  virtual std::span<Edge<B>> edges() = 0;
  virtual bool is_leaf() const { return false; }
  // Gives each tracked input its gradient. Called with the gradients of the outputs.
  virtual void pull(Flow<B>& flow) = 0;
  virtual bool released() const = 0;
  virtual void release_saved() = 0;

  void release() noexcept {
    if (drop()) autodiff_detail::delete_iteratively(this);
  }
  // Nodes alive in this process: tests hold it to zero.
  static std::int64_t live() { return live_.load(std::memory_order_relaxed); }

  // What it gave: gradients of it are of this dtype and shape, where that is known.
  std::optional<InputSpec> first_output;
  std::vector<std::optional<InputSpec>> other_outputs;
  const std::optional<InputSpec>& output(std::uint32_t i) const {
    return i == 0 ? first_output : other_outputs[i - 1];
  }
  // Recipes among what it saved, one entry for each time. Null or unused once that is released.
  std::vector<Recipe<B>*> recipes;
  std::uint64_t segment = 0;  // the run of a segment it was made in; see checkpoint.h

  // Of a backward pass that goes through this node.
  std::atomic<const void*> pass{nullptr};
  std::uint32_t consumers = 0;          // edges to this node not yet followed
  bool queued = false;                  // a root that waits already
  bool own = false;                     // made by the pass: nobody else will come through
  std::optional<FloatTensor> gradient;  // of the first output
  std::vector<std::optional<FloatTensor>> gradients;  // of the others

  Node* next_to_delete = nullptr;

  std::optional<FloatTensor>& gradient_of(std::uint32_t i) {
    if (i == 0) return gradient;
    if (gradients.empty()) gradients.resize(other_outputs.size());
    return gradients[i - 1];
  }
  // The same to read: null where there is none.
  const FloatTensor* gradient_if(std::uint32_t i) const {
    if (i > gradients.size()) return nullptr;
    const auto& g = i == 0 ? gradient : gradients[i - 1];
    return g ? &*g : nullptr;
  }
  bool has_gradient() const {
    bool any = gradient.has_value();
    for (const auto& g : gradients) any |= g.has_value();
    return any;
  }
  void drop_gradients() noexcept {
    gradient.reset();
    gradients.clear();
  }

 private:
  static inline std::atomic<std::int64_t> live_{0};
};

// A tensor that gradients are wanted for. Backward passes only read it: threads may share leaves.
template <class B>
class Leaf : public Node<B> {
 public:
  using FloatTensor = typename B::FloatTensor;
  using Hook = std::function<FloatTensor(const FloatTensor&)>;

  Leaf() { this->segment = autodiff_detail::current_segment(); }
  Leaf(Dtype dtype, const Shape& shape) : Leaf() { this->first_output = InputSpec{dtype, shape}; }
  std::string_view op() const override { return "leaf"; }
  std::span<Edge<B>> edges() override { return {}; }
  bool is_leaf() const override { return true; }
  void pull(Flow<B>&) override {}
  bool released() const override { return false; }
  void release_saved() override {}

  std::vector<Hook> hooks;  // what they return replaces the gradient, in order of registration
};

}  // namespace planck
