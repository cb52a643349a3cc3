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
#include "planck/core/shared.h"

namespace planck {

namespace autodiff_detail {

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

  // Of a backward pass that goes through this node.
  std::atomic<const void*> pass{nullptr};
  std::uint32_t consumers = 0;  // edges to this node not yet followed
  std::uint32_t outputs = 1;
  std::optional<FloatTensor> gradient;                // of the first output
  std::vector<std::optional<FloatTensor>> gradients;  // of the others
  std::uint64_t stamp = 0;  // when it was made, on its thread; see checkpoint.h

  Node* next_to_delete = nullptr;

  std::optional<FloatTensor>& gradient_of(std::uint32_t output) {
    if (output == 0) return gradient;
    if (gradients.size() < output) gradients.resize(outputs - 1);
    return gradients[output - 1];
  }

 private:
  static inline std::atomic<std::int64_t> live_{0};
};

// A tensor that gradients are wanted for. Backward passes only read it: threads may share leaves.
template <class B>
class Leaf final : public Node<B> {
 public:
  using FloatTensor = typename B::FloatTensor;
  using Hook = std::function<FloatTensor(const FloatTensor&)>;

  std::string_view op() const override { return "leaf"; }
  std::span<Edge<B>> edges() override { return {}; }
  bool is_leaf() const override { return true; }
  void pull(Flow<B>&) override {}
  bool released() const override { return false; }
  void release_saved() override {}

  std::vector<Hook> hooks;  // what they return replaces the gradient, in order of registration
};

}  // namespace planck
