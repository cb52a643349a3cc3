#include "tests/autodiff/gradcheck.h"

#include <cmath>
#include <random>

namespace planck::test {

namespace {

using Values = std::vector<std::vector<double>>;

std::vector<double> draw(const Input& input, std::uint64_t seed) {
  if (!input.values.empty()) return input.values;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> range(input.low, input.high);
  std::vector<double> values(static_cast<std::size_t>(numel(input.shape)));
  for (double& v : values) v = range(random);
  return values;
}

class GradientCheck {
 public:
  GradientCheck(const TestedFunction& f, const std::vector<Input>& inputs, double tolerance)
      : f_(f), tolerance_(tolerance) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      shapes_.push_back(inputs[k].shape);
      values_.push_back(draw(inputs[k], 17 + k));
    }
  }

  void first_order() const {
    const auto plain = jacobian(false);
    const auto recomputed = jacobian(true);
    EXPECT_EQ(plain, recomputed) << "checkpointing changed bits";
    for (std::size_t k = 0; k < values_.size(); ++k)
      for (std::size_t i = 0; i < values_[k].size(); ++i) {
        const auto slope = difference([&](const Values& v) { return evaluate(v); }, k, i);
        for (std::size_t j = 0; j < slope.size(); ++j)
          expect_near(plain[k][j * values_[k].size() + i], slope[j],
                      "d out[" + std::to_string(j) + "] / d in" + std::to_string(k) + "[" +
                          std::to_string(i) + "]");
      }
  }

  void second_order() const {
    const auto exact = curvature();
    for (std::size_t k = 0; k < values_.size(); ++k)
      for (std::size_t i = 0; i < values_[k].size(); ++i) {
        const auto slope = difference([&](const Values& v) { return slope_along(v); }, k, i);
        expect_near(exact[k][i], slope[0],
                    "second derivative by in" + std::to_string(k) + "[" + std::to_string(i) + "]");
      }
  }

 private:
  template <class X>
  std::vector<Tensor<X>> tensors(const Values& v) const {
    std::vector<Tensor<X>> x;
    for (std::size_t k = 0; k < v.size(); ++k)
      x.push_back(Tensor<X>::from(std::span<const double>(v[k]), shapes_[k]));
    return x;
  }
  template <class A>
  std::vector<Tensor<A>> leaves(const Values& v) const {
    auto x = tensors<A>(v);
    for (auto& t : x) t = std::move(t).require_grad();
    return x;
  }

  std::vector<double> evaluate(const Values& v) const {
    return f_.plain(f_.function, tensors<B>(v).data()).template to_vector<double>();
  }

  // [k][j * inputs + i] = d out[j] / d in_k[i]
  Values jacobian(bool recomputes) const {
    SwitchedCheckpointing::on = recomputes;
    const auto x = leaves<OnceTracked>(values_);
    const auto y = f_.once(f_.function, x.data());
    const auto count = static_cast<std::size_t>(y.numel());
    Values all(values_.size());
    for (std::size_t j = 0; j < count; ++j) {
      std::vector<double> unit(count, 0);
      unit[j] = 1;
      const auto seed = Tensor<B>::from(std::span<const double>(unit), y.shape());
      const auto grads = OnceTracked::backward(y.primitive(), seed.primitive(),
                                               BackwardOptions{.retain_graph = true});
      for (std::size_t k = 0; k < x.size(); ++k) {
        const auto g = x[k].grad(grads);
        std::vector<double> row(values_[k].size(), 0);  // an output may not depend on an input
        if (g) {
          EXPECT_EQ(g->shape(), shapes_[k]);
          row = g->template to_vector<double>();
        }
        all[k].insert(all[k].end(), row.begin(), row.end());
      }
    }
    SwitchedCheckpointing::on = false;
    return all;
  }

  // Σ c out, with weights c = 1, 1.25, …, and its gradient in the direction w_k[i] = cos(i + k).
  template <class A>
  static Tensor<A> weighted(const Tensor<A>& y) {
    std::vector<double> c(static_cast<std::size_t>(y.numel()));
    for (std::size_t j = 0; j < c.size(); ++j) c[j] = 1 + 0.25 * static_cast<double>(j % 5);
    return sum(y * Tensor<A>::from(std::span<const double>(c), y.shape()));
  }
  template <class A>
  Tensor<A> along(const Tensor<A>& gradient, std::size_t k) const {
    std::vector<double> w(values_[k].size());
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = std::cos(static_cast<double>(i + k));
    return sum(gradient * Tensor<A>::from(std::span<const double>(w), shapes_[k]));
  }
  std::vector<double> slope_along(const Values& v) const {
    const auto x = leaves<OnceTracked>(v);
    const auto grads = weighted(f_.once(f_.function, x.data())).backward();
    double total = 0;
    for (std::size_t k = 0; k < x.size(); ++k)
      if (auto g = x[k].grad(grads)) total += along(*g, k).template item<double>();
    return {total};
  }
  Values curvature() const {
    const auto inner = leaves<A>(values_);
    std::vector<Tensor<TwiceTracked>> outer;
    for (const auto& t : inner)
      outer.emplace_back(TwiceTracked::require_grad(TwiceTracked::from_inner(t.primitive())));
    const auto grads = weighted(f_.twice(f_.function, outer.data())).backward();
    std::optional<Tensor<A>> total;
    for (std::size_t k = 0; k < outer.size(); ++k)
      if (auto g = outer[k].grad(grads)) {
        auto part = along(*g, k);
        total = total ? *total + part : part;
      }
    Values all;
    for (const auto& v : values_) all.emplace_back(v.size(), 0.0);
    if (!total || !total->is_tracked()) return all;  // linear: nothing depends on the inputs
    const auto second = total->backward();
    for (std::size_t k = 0; k < inner.size(); ++k)
      if (auto g = inner[k].grad(second)) all[k] = g->template to_vector<double>();
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

  const TestedFunction& f_;
  std::vector<Shape> shapes_;
  Values values_;
  double tolerance_;
};

}  // namespace

void check_gradient(const char* name, Order order, const TestedFunction& f,
                    const std::vector<Input>& inputs) {
  SCOPED_TRACE(name);
  const GradientCheck check(f, inputs, 1e-7);
  check.first_order();
  if (order == Order::second) check.second_order();
}

}  // namespace planck::test
