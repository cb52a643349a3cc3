// Two ops of one's own, outside the library: one made of other ops, one with its own gradient.
#include <iostream>

#include "planck/planck.h"

namespace mine {

using planck::Tensor;

// x sigmoid(βx). A decomposition is all it takes: it is differentiated op by op.
struct Swish {
  static constexpr std::string_view name = "swish";
  double beta = 1;
  template <class B>
  Tensor<B> decompose(const Tensor<B>& x) const {
    return x * sigmoid(x * beta);
  }
};

// Rounds, and lets the gradient through as if it had not: the value is computed with other ops, the
// gradient is the pullback below.
struct RoundStraightThrough {
  static constexpr std::string_view name = "round_straight_through";
  static constexpr bool computes = true;
  template <class B>
  Tensor<B> compute(const Tensor<B>& x) const {
    return round(x);
  }
};
template <class Record>
auto pullback(const RoundStraightThrough&, const Record&) {  // keeps nothing
  return [](auto& g) { g.give(g.dy()); };
}

}  // namespace mine

int main() {
  using A = planck::Autodiff<planck::Cpu>;
  const auto x = planck::Tensor<A>::from({-1.4f, 0.2f, 2.6f}, {3}).require_grad();

  const auto y = planck::call(mine::Swish{2.0}, x);
  std::cout << "swish     " << y << "  slope " << *x.grad(planck::sum(y).backward()) << "\n";

  const auto z = planck::call(mine::RoundStraightThrough{}, x);
  std::cout << "rounded   " << z << "  slope " << *x.grad(planck::sum(z).backward()) << "\n";
}
