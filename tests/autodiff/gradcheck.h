// Gradients against finite differences, in f64.
//
// A case is a function of tensors, the same for every backend. Its whole Jacobian comes from
// backward passes with unit cotangents over one retained graph, and is compared with central
// differences; with and without checkpointing, which must agree bit for bit; and, for smooth
// functions, the gradient of the gradient likewise.
//
// The check is compiled once for each backend (gradcheck.cpp); a case adds its function alone, on
// tensors of B, tracked, and tracked twice.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "tests/autodiff/compiled.h"

namespace planck::test {

// A tensor of f64 values: shape, and the range its values come from.
struct Input {
  Shape shape;
  double low = -2, high = 2;
  std::vector<double> values = {};  // drawn where none are given
};

inline const Input kMatrix{{2, 3}};

enum class Order { first, second };
inline constexpr Order kFirst = Order::first, kSecond = Order::second;

// Recomputes or not as it is told, so that a function is compiled once for both.
struct SwitchedCheckpointing {
  static inline bool on = false;
  static bool recomputes(const OpResult& result) { return on && result.memory_bound; }
};
using OnceTracked = Autodiff<TestedBackend, SwitchedCheckpointing>;
using TwiceTracked = Autodiff<Autodiff<TestedBackend>>;

// A function of float tensors, as what calls it on each backend that the check needs.
struct TestedFunction {
  template <class X>
  using On = Tensor<X> (*)(const void* function, const Tensor<X>* x);
  const void* function;
  On<TestedBackend> plain;
  On<OnceTracked> once;
  On<TwiceTracked> twice;
};

void check_gradient(const char* name, Order order, const TestedFunction& f,
                    const std::vector<Input>& inputs);

namespace gradcheck_detail {

template <class X, class F, std::size_t... I>
Tensor<X> call_on(const void* function, const Tensor<X>* x) {
  return (*static_cast<const F*>(function))(x[I]...);
}
template <class F, std::size_t... I>
TestedFunction erase(const F& f, std::index_sequence<I...>) {
  return {&f, call_on<TestedBackend, F, I...>, call_on<OnceTracked, F, I...>,
          call_on<TwiceTracked, F, I...>};
}

}  // namespace gradcheck_detail

// f(x…) → a float tensor of f64. Order::second for functions that are smooth where they are tried.
template <class F, class... I>
void check_gradient(const char* name, Order order, const F& f, const I&... inputs) {
  check_gradient(name, order, gradcheck_detail::erase(f, std::index_sequence_for<I...>{}),
                 {Input(inputs)...});
}

}  // namespace planck::test

// The same, of an expression in x, in x and y, or in x, y and z.
#define CHECK1(order, body, ...) \
  check_gradient(                \
      #body, order, [](const auto& x) { return body; }, __VA_ARGS__)
#define CHECK2(order, body, ...) \
  check_gradient(                \
      #body, order, [](const auto& x, const auto& y) { return body; }, __VA_ARGS__)
#define CHECK3(order, body, ...) \
  check_gradient(                \
      #body, order, [](const auto& x, const auto& y, const auto& z) { return body; }, __VA_ARGS__)
