// Gradients against finite differences, in f64.
//
// A case is a function of tensors, the same for every backend. Its whole Jacobian comes from
// backward passes with unit cotangents over one retained graph, and is compared with central
// differences; with and without checkpointing, which must agree bit for bit; and, for smooth
// functions, the gradient of the gradient likewise.
#pragma once

#include <gtest/gtest.h>

#include <random>

#include "planck/planck.h"

namespace planck::test {

// A tensor of f64 values: shape, and the range its values come from.
struct Input {
  Shape shape;
  double low = -2, high = 2;
  std::vector<double> values = {};  // drawn where none are given
};

inline std::vector<double> draw(const Input& input, std::uint64_t seed) {
  if (!input.values.empty()) return input.values;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> range(input.low, input.high);
  std::vector<double> values(static_cast<std::size_t>(numel(input.shape)));
  for (double& v : values) v = range(random);
  return values;
}

enum class Order { first, second };

template <class B, std::size_t N>
class GradientCheck {
 public:
  using Values = std::array<std::vector<double>, N>;

  GradientCheck(const std::array<Input, N>& inputs, double tolerance) : tolerance_(tolerance) {
    for (std::size_t k = 0; k < N; ++k) {
      shapes_[k] = inputs[k].shape;
      values_[k] = draw(inputs[k], 17 + k);
    }
  }

  template <class F>
  void first_order(const F& f) const {
    const auto plain = jacobian<Autodiff<B>>(f);
    const auto recomputed = jacobian<Autodiff<B, BalancedCheckpointing>>(f);
    EXPECT_EQ(plain, recomputed) << "checkpointing changed bits";
    for (std::size_t k = 0; k < N; ++k)
      for (std::size_t i = 0; i < values_[k].size(); ++i) {
        const auto slope = difference([&](const Values& v) { return evaluate(f, v); }, k, i);
        for (std::size_t j = 0; j < slope.size(); ++j)
          expect_near(plain[k][j * values_[k].size() + i], slope[j],
                      "d out[" + std::to_string(j) + "] / d in" + std::to_string(k) + "[" +
                          std::to_string(i) + "]");
      }
  }

  template <class F>
  void second_order(const F& f) const {
    const auto exact = curvature(f);
    for (std::size_t k = 0; k < N; ++k)
      for (std::size_t i = 0; i < values_[k].size(); ++i) {
        const auto slope = difference([&](const Values& v) { return slope_along(f, v); }, k, i);
        expect_near(exact[k][i], slope[0],
                    "second derivative by in" + std::to_string(k) + "[" + std::to_string(i) + "]");
      }
  }

 private:
  template <class A>
  Tensor<A> tensor(const Values& v, std::size_t k) const {
    return Tensor<A>::from(std::span<const double>(v[k]), shapes_[k]);
  }
  template <class A, class F>
  static auto call_with(const F& f, const std::array<std::optional<Tensor<A>>, N>& x) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return f(*x[I]...); }
    (std::make_index_sequence<N>{});
  }
  template <class A>
  std::array<std::optional<Tensor<A>>, N> leaves(const Values& v) const {
    std::array<std::optional<Tensor<A>>, N> x;
    for (std::size_t k = 0; k < N; ++k) x[k] = tensor<A>(v, k).require_grad();
    return x;
  }

  template <class F>
  std::vector<double> evaluate(const F& f, const Values& v) const {
    std::array<std::optional<Tensor<B>>, N> x;
    for (std::size_t k = 0; k < N; ++k) x[k] = tensor<B>(v, k);
    return call_with<B>(f, x).template to_vector<double>();
  }

  // [k][j * inputs + i] = d out[j] / d in_k[i]
  template <class A, class F>
  Values jacobian(const F& f) const {
    const auto x = leaves<A>(values_);
    const auto y = call_with<A>(f, x);
    const auto count = static_cast<std::size_t>(y.numel());
    Values all;
    for (std::size_t j = 0; j < count; ++j) {
      std::vector<double> unit(count, 0);
      unit[j] = 1;
      const auto seed =
          Tensor<typename A::InnerBackend>::from(std::span<const double>(unit), y.shape());
      const auto grads =
          A::backward(y.primitive(), seed.primitive(), BackwardOptions{.retain_graph = true});
      for (std::size_t k = 0; k < N; ++k) {
        const auto g = x[k]->grad(grads);
        std::vector<double> row(values_[k].size(), 0);  // an output may not depend on an input
        if (g) {
          EXPECT_EQ(g->shape(), shapes_[k]);
          row = g->template to_vector<double>();
        }
        all[k].insert(all[k].end(), row.begin(), row.end());
      }
    }
    return all;
  }

  // The gradient of Σ c out, with weights c = 1, 1.25, …, in the direction w_k[i] = cos(i + k).
  template <class A, class F>
  auto weighted(const F& f, const std::array<std::optional<Tensor<A>>, N>& x) const {
    const auto y = call_with<A>(f, x);
    std::vector<double> c(static_cast<std::size_t>(y.numel()));
    for (std::size_t j = 0; j < c.size(); ++j) c[j] = 1 + 0.25 * static_cast<double>(j % 5);
    return sum(y * Tensor<A>::from(std::span<const double>(c), y.shape()));
  }
  template <class A, class T>
  Tensor<A> along(const T& gradient, std::size_t k) const {
    std::vector<double> w(values_[k].size());
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = std::cos(static_cast<double>(i + k));
    return sum(gradient * Tensor<A>::from(std::span<const double>(w), shapes_[k]));
  }
  template <class F>
  std::vector<double> slope_along(const F& f, const Values& v) const {
    using A = Autodiff<B>;
    const auto x = leaves<A>(v);
    const auto grads = weighted<A>(f, x).backward();
    double total = 0;
    for (std::size_t k = 0; k < N; ++k)
      if (auto g = x[k]->grad(grads)) total += along<B>(*g, k).template item<double>();
    return {total};
  }
  template <class F>
  Values curvature(const F& f) const {
    using A = Autodiff<B>;
    using AA = Autodiff<A>;
    const auto inner = leaves<A>(values_);
    std::array<std::optional<Tensor<AA>>, N> outer;
    for (std::size_t k = 0; k < N; ++k)
      outer[k] = Tensor<AA>(AA::require_grad(AA::from_inner(inner[k]->primitive())));
    const auto grads = weighted<AA>(f, outer).backward();
    std::optional<Tensor<A>> total;
    for (std::size_t k = 0; k < N; ++k)
      if (auto g = outer[k]->grad(grads)) {
        auto part = along<A>(*g, k);
        total = total ? *total + part : part;
      }
    Values all;
    for (std::size_t k = 0; k < N; ++k) all[k].assign(values_[k].size(), 0);
    if (!total || !total->is_tracked()) return all;  // linear: nothing depends on the inputs
    const auto second = total->backward();
    for (std::size_t k = 0; k < N; ++k)
      if (auto g = inner[k]->grad(second)) all[k] = g->template to_vector<double>();
    return all;
  }

  // Central differences with one step of Richardson's extrapolation: error O(h⁴).
  template <class G>
  std::vector<double> difference(const G& g, std::size_t k, std::size_t i) const {
    const auto central = [&](double h) {
      Values up = values_, down = values_;
      up[k][i] += h;
      down[k][i] -= h;
      auto a = g(up);
      const auto b = g(down);
      for (std::size_t j = 0; j < a.size(); ++j) a[j] = (a[j] - b[j]) / (2 * h);
      return a;
    };
    constexpr double kStep = 1e-4;
    auto fine = central(kStep);
    const auto coarse = central(2 * kStep);
    for (std::size_t j = 0; j < fine.size(); ++j) fine[j] = (4 * fine[j] - coarse[j]) / 3;
    return fine;
  }
  void expect_near(double got, double want, const std::string& what) const {
    EXPECT_NEAR(got, want, tolerance_ * std::max(1.0, std::fabs(want))) << what;
  }

  std::array<Shape, N> shapes_;
  Values values_;
  double tolerance_;
};

// f(x…) → a float tensor of f64. Order::second for functions that are smooth where they are tried.
template <class B, class F, class... I>
void check_gradient(const char* name, Order order, const F& f, const I&... inputs) {
  SCOPED_TRACE(name);
  GradientCheck<B, sizeof...(I)> check({Input(inputs)...}, 1e-7);
  check.first_order(f);
  if (order == Order::second) check.second_order(f);
}

}  // namespace planck::test
