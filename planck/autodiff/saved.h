// What a pullback keeps of the forward pass: a value, or a recipe to compute it again.
//
// A recipe is an op and its inputs, saved the same way. Under a strategy that recomputes, the
// result of a memory-bound op carries a recipe; whoever saves that result saves the recipe instead
// of the elements. A recipe is carried out at most once in a backward pass and keeps its result
// until the last pullback that needs it has run.
#pragma once

#include <tuple>
#include <vector>

#include "planck/autodiff/node.h"

namespace planck {

template <class B>
class Recipe : public Counted {
 public:
  using FloatTensor = typename B::FloatTensor;

  virtual ~Recipe() = default;
  // The recipes among its inputs that have no result yet; null past the last.
  virtual Recipe* missing() = 0;
  virtual FloatTensor compute() const = 0;

  void release() noexcept {
    if (drop()) autodiff_detail::delete_iteratively(this);
  }
  Recipe* next_to_delete = nullptr;
  std::optional<FloatTensor> result;  // while a pass goes on
};

template <class B>
class Saved {
 public:
  using FloatTensor = typename B::FloatTensor;

  Saved() = default;
  explicit Saved(FloatTensor value) : value_(std::move(value)) {}
  explicit Saved(Shared<Recipe<B>> recipe) : recipe_(std::move(recipe)) {}

  explicit operator bool() const { return value_.has_value() || recipe_; }
  Recipe<B>* missing() const { return recipe_ && !recipe_->result ? recipe_.get() : nullptr; }
  const FloatTensor& known() const { return recipe_ ? *recipe_->result : *value_; }

  // Recipes that were carried out are listed in `done`, where there is one: their results outlive
  // the pullbacks.
  const FloatTensor& get(std::vector<Shared<Recipe<B>>>* done) const {
    if (missing() != nullptr) carry_out(done);
    return known();
  }

 private:
  void carry_out(std::vector<Shared<Recipe<B>>>* done) const;

  std::optional<FloatTensor> value_;
  Shared<Recipe<B>> recipe_;
};

template <class B>
void Saved<B>::carry_out(std::vector<Shared<Recipe<B>>>* done) const {
  std::vector<Recipe<B>*> stack{recipe_.get()};
  while (!stack.empty()) {
    Recipe<B>* top = stack.back();
    if (Recipe<B>* input = top->missing()) {
      stack.push_back(input);
      continue;
    }
    stack.pop_back();
    if (top->result) continue;
    top->result = top->compute();
    if (done == nullptr) continue;
    top->retain();
    done->push_back(Shared<Recipe<B>>::adopt(top));
  }
}

namespace autodiff_detail {

// Inputs of an op: floats saved, the others as they are.
template <class B, class... Input>
class RecipeFrom : public Recipe<B> {
 public:
  explicit RecipeFrom(Input... inputs) : inputs_(std::move(inputs)...) {}

  Recipe<B>* missing() override {
    Recipe<B>* found = nullptr;
    std::apply([&](const auto&... in) { (look(in, found), ...); }, inputs_);
    return found;
  }

 private:
  static void look(const Saved<B>& s, Recipe<B>*& found) {
    if (found == nullptr) found = s.missing();
  }
  static void look(const std::vector<Saved<B>>& all, Recipe<B>*& found) {
    for (const auto& s : all) look(s, found);
  }
  static void look(const auto&, Recipe<B>*&) {}

 protected:
  static const auto& value(const Saved<B>& s) { return s.known(); }
  static auto value(const std::vector<Saved<B>>& all) {
    std::vector<typename B::FloatTensor> values;
    for (const auto& s : all) values.push_back(s.known());
    return values;
  }
  static const auto& value(const auto& other) { return other; }

  std::tuple<Input...> inputs_;
};

template <class B, class Op, class... Input>
class OpRecipe final : public RecipeFrom<B, Input...> {
 public:
  OpRecipe(const Op& op, Input... inputs)
      : RecipeFrom<B, Input...>(std::move(inputs)...), op_(op) {}

  typename B::FloatTensor compute() const override {
    return compute(std::index_sequence_for<Input...>{});
  }

 private:
  template <std::size_t... I>
  typename B::FloatTensor compute(std::index_sequence<I...>) const {
    return B::apply(op_, this->value(std::get<I>(this->inputs_))...);
  }

  Op op_;
};

}  // namespace autodiff_detail

}  // namespace planck
