// What a pullback keeps of the forward pass: a value, or a recipe to compute it again.
//
// A recipe is an op and its inputs, saved the same way. Where the strategy recomputes, the result
// of an op carries a recipe; whoever saves that result saves the recipe instead of the elements.
// recompute.h carries recipes out.
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
  // Appends the recipes among its inputs, one entry for each time.
  virtual void inputs(std::vector<Recipe*>& to) const = 0;
  // Where all inputs have their results.
  virtual FloatTensor compute() const = 0;

  void release() noexcept {
    if (drop()) autodiff_detail::delete_iteratively(this);
  }
  Recipe* next_to_delete = nullptr;

  // Of a backward pass; recompute.h.
  std::optional<FloatTensor> result;
  std::uint32_t needs = 0;   // pullbacks and recipes that will still ask for it
  bool carried_out = false;  // and needs its own inputs no more
  Recipe *before = nullptr, *after = nullptr;
};

template <class B>
class Saved {
 public:
  using FloatTensor = typename B::FloatTensor;

  Saved() = default;
  explicit Saved(FloatTensor value) : value_(std::move(value)) {}
  explicit Saved(Shared<Recipe<B>> recipe) : recipe_(std::move(recipe)) {}

  explicit operator bool() const { return value_.has_value() || recipe_; }
  const Shared<Recipe<B>>& recipe() const { return recipe_; }
  // The value; of a recipe that was carried out its result.
  const FloatTensor& known() const { return recipe_ ? *recipe_->result : *value_; }

 private:
  std::optional<FloatTensor> value_;
  Shared<Recipe<B>> recipe_;
};

namespace autodiff_detail {

// How a tensor came about, for tensors that know: those of an Autodiff of their own, below this one
// (flow.h). What is computed again is given the history of what it stands for, so that the graph
// below is the same graph.
template <class T>
struct History {
  explicit History(const T&) {}
  static const T& without(const T& t) { return t; }
  T given_to(T&& t) const { return std::move(t); }
};

// Inputs of an op: floats saved, the others as they are.
template <class B, class... Input>
class RecipeFrom : public Recipe<B> {
 public:
  explicit RecipeFrom(Input... in) : inputs_(std::move(in)...) {}

  void inputs(std::vector<Recipe<B>*>& to) const override {
    std::apply([&](const auto&... in) { (list(in, to), ...); }, inputs_);
  }

 private:
  static void list(const Saved<B>& s, std::vector<Recipe<B>*>& to) {
    if (s.recipe()) to.push_back(s.recipe().get());
  }
  static void list(const std::vector<Saved<B>>& all, std::vector<Recipe<B>*>& to) {
    for (const auto& s : all) list(s, to);
  }
  static void list(const auto&, std::vector<Recipe<B>*>&) {}

 protected:
  using Past = History<typename B::FloatTensor>;
  static decltype(auto) value(const Saved<B>& s) { return Past::without(s.known()); }
  static auto value(const std::vector<Saved<B>>& all) {
    std::vector<typename B::FloatTensor> values;
    for (const auto& s : all) values.push_back(Past::without(s.known()));
    return values;
  }
  static const auto& value(const auto& other) { return other; }

  std::tuple<Input...> inputs_;
};

template <class B, class Op, class... Input>
class OpRecipe final : public RecipeFrom<B, Input...> {
 public:
  using T = typename B::FloatTensor;
  OpRecipe(const Op& op, const T& y, Input... in)
      : RecipeFrom<B, Input...>(std::move(in)...), op_(op), past_(y) {}

  T compute() const override { return compute(std::index_sequence_for<Input...>{}); }

 private:
  template <std::size_t... I>
  T compute(std::index_sequence<I...>) const {
    return past_.given_to(only(B::apply(op_, this->value(std::get<I>(this->inputs_))...)));
  }
  static T only(T&& y) { return std::move(y); }
  static T only(std::tuple<T>&& y) { return std::get<0>(std::move(y)); }

  Op op_;
  [[no_unique_address]] History<T> past_;
};

}  // namespace autodiff_detail

}  // namespace planck
