// Carries out the recipes of a backward pass: each at most once, and none for longer than needed.
//
// Before a pass runs its pullbacks it says which recipes they will ask for (need), as often as they
// will; recipes count as asking for their inputs. Done with one (done), its result goes with the
// last that needed it. Everything that is left goes with the pass, whoever else holds the recipes.
#pragma once

#include "planck/autodiff/saved.h"

namespace planck {

template <class B>
class Recompute {
 public:
  using FloatTensor = typename B::FloatTensor;

  Recompute() = default;
  Recompute(const Recompute&) = delete;
  ~Recompute() { clear(); }

  void need(Recipe<B>* recipe);
  void done(Recipe<B>* recipe);
  const FloatTensor& get(const Saved<B>& saved);
  void clear() noexcept;

 private:
  void carry_out(Recipe<B>* recipe);
  void list(Recipe<B>* recipe) noexcept;
  void unlist(Recipe<B>* recipe) noexcept;

  Recipe<B>* first_ = nullptr;  // all that have needs
  std::vector<Recipe<B>*> work_, stack_, inputs_;
  std::vector<Shared<Recipe<B>>> unannounced_;  // needed until the pass ends
};

template <class B>
void Recompute<B>::need(Recipe<B>* recipe) {
  work_.assign(1, recipe);
  while (!work_.empty()) {
    Recipe<B>* next = work_.back();
    work_.pop_back();
    if (next->needs++ != 0) continue;
    list(next);
    next->inputs(work_);
  }
}

template <class B>
void Recompute<B>::done(Recipe<B>* recipe) {
  work_.assign(1, recipe);
  while (!work_.empty()) {
    Recipe<B>* next = work_.back();
    work_.pop_back();
    if (--next->needs != 0) continue;
    if (!next->carried_out) next->inputs(work_);
    unlist(next);
  }
}

template <class B>
auto Recompute<B>::get(const Saved<B>& saved) -> const FloatTensor& {
  if (const auto& recipe = saved.recipe(); recipe && !recipe->result) {
    if (recipe->needs == 0) {  // kept in a way that nobody saw
      unannounced_.push_back(recipe);
      need(recipe.get());
    }
    carry_out(recipe.get());
  }
  return saved.known();
}

template <class B>
void Recompute<B>::carry_out(Recipe<B>* recipe) {
  stack_.assign(1, recipe);
  while (!stack_.empty()) {
    Recipe<B>* top = stack_.back();
    inputs_.clear();
    if (!top->result) top->inputs(inputs_);
    bool ready = true;
    for (Recipe<B>* input : inputs_)
      if (!input->result) {
        stack_.push_back(input);
        ready = false;
      }
    if (!ready) continue;
    stack_.pop_back();
    if (top->result) continue;  // two asked for it
    top->result = top->compute();
    top->carried_out = true;
    for (Recipe<B>* input : inputs_) done(input);
  }
}

template <class B>
void Recompute<B>::clear() noexcept {
  while (first_ != nullptr) unlist(first_);
  unannounced_.clear();
}

template <class B>
void Recompute<B>::list(Recipe<B>* recipe) noexcept {
  recipe->before = nullptr;
  recipe->after = first_;
  if (first_ != nullptr) first_->before = recipe;
  first_ = recipe;
}

// As it was before the pass.
template <class B>
void Recompute<B>::unlist(Recipe<B>* recipe) noexcept {
  (recipe->before != nullptr ? recipe->before->after : first_) = recipe->after;
  if (recipe->after != nullptr) recipe->after->before = recipe->before;
  recipe->before = recipe->after = nullptr;
  recipe->needs = 0;
  recipe->carried_out = false;
  recipe->result.reset();
}

}  // namespace planck
