// Gradients of softmax, cross entropy and the norms.
#include <cmath>

#include "tests/autodiff/gradcheck.h"
#include "tests/autodiff/tested_backend.h"

namespace planck::test {

namespace {

const Input kBox{{2, 3, 4}}, kLogits{{3, 5}}, kRow{{4}}, kPlane{{3, 4}};

template <class X>
Tensor<X, IntKind> targets(const Tensor<X>& like) {
  return Tensor<X, IntKind>::from({std::int64_t{4}, std::int64_t{-100}, std::int64_t{0}}, {3},
                                  like.device());
}

TEST_F(Gradients, OfSoftmax) {
  for (int axis : {0, 1, -1}) {
    check_gradient(
        "softmax", Order::second, [axis](const auto& x) { return softmax(x, axis); }, kBox);
    check_gradient(
        "log_softmax", Order::second, [axis](const auto& x) { return log_softmax(x, axis); }, kBox);
  }
}

TEST_F(Gradients, OfCrossEntropy) {
  check_gradient(
      "cross_entropy", Order::second, [](const auto& x) { return cross_entropy(x, targets(x)); },
      kLogits);
  const auto x = full<B>({3, 5}, 0.0, Dtype::f64);
  const auto loss = cross_entropy(x, targets(x)).template to_vector<double>();
  EXPECT_DOUBLE_EQ(loss[0], std::log(5.0));
  EXPECT_EQ(loss[1], 0);  // ignored
  EXPECT_THROW((void)cross_entropy(reshape(x, {5, 3}), targets(x)), Exception);
}

TEST_F(Gradients, OfNorms) {
  check_gradient(
      "layer_norm", Order::second, [](const auto& x) { return layer_norm(x); }, kBox);
  check_gradient(
      "over two axes", Order::second, [](const auto& x) { return layer_norm(x, 2, 1e-3); }, kBox);
  check_gradient(
      "with weight and bias", Order::second,
      [](const auto& x, const auto& w, const auto& b) { return layer_norm(x, w, b); }, kBox, kRow,
      kRow);
  check_gradient(
      "of a plane", Order::first,
      [](const auto& x, const auto& w, const auto& b) { return layer_norm(x, w, b); }, kBox, kPlane,
      kPlane);
  check_gradient(
      "rms_norm", Order::second, [](const auto& x, const auto& w) { return rms_norm(x, w); }, kBox,
      kRow);
}

}  // namespace

}  // namespace planck::test
