// Convolutions and their gradients on every backend.
#include "tests/autodiff/gradcheck.h"
#include "tests/autodiff/tested_backend.h"

namespace planck::test {

namespace {

using V = std::vector<double>;

TEST_F(Gradients, OfConv2d) {
  const auto conv = [](Conv2dOptions how) {
    return [how](const auto& x, const auto& w) { return conv2d(x, w, how); };
  };
  check_gradient("plain", Order::second, conv({}), Input{{2, 2, 4, 3}}, Input{{3, 2, 2, 2}});
  check_gradient("padded", Order::second, conv({.padding = {1, 2}}), Input{{1, 2, 3, 2}},
                 Input{{2, 2, 3, 3}});
  check_gradient("with stride", Order::second, conv({.stride = {2, 3}, .padding = {1, 0}}),
                 Input{{1, 2, 5, 7}}, Input{{2, 2, 3, 2}});
  check_gradient("dilated", Order::second, conv({.padding = {1, 1}, .dilation = {2, 3}}),
                 Input{{1, 1, 5, 6}}, Input{{2, 1, 2, 2}});
  check_gradient("in groups", Order::second,
                 conv({.stride = {1, 2}, .padding = {1, 1}, .groups = 2}), Input{{2, 4, 3, 4}},
                 Input{{2, 2, 2, 3}});
  check_gradient("depthwise", Order::first, conv({.padding = {1, 1}, .groups = 3}),
                 Input{{1, 3, 3, 3}}, Input{{6, 1, 3, 3}});
  check_gradient("one by one", Order::first, conv({}), Input{{2, 3, 2, 2}}, Input{{2, 3, 1, 1}});
}

TEST_F(Gradients, OfConvTranspose2d) {
  const auto transposed = [](Conv2dOptions how, std::array<std::int64_t, 2> more) {
    return [how, more](const auto& x, const auto& w) { return conv_transpose2d(x, w, how, more); };
  };
  check_gradient("plain", Order::second, transposed({}, {0, 0}), Input{{1, 2, 3, 2}},
                 Input{{2, 2, 2, 2}});
  check_gradient("with stride", Order::second,
                 transposed({.stride = {2, 3}, .padding = {1, 1}, .groups = 2}, {1, 2}),
                 Input{{1, 4, 2, 3}}, Input{{4, 1, 3, 3}});
}

TEST_F(Gradients, OfLinesAndVolumes) {
  check_gradient(
      "conv1d", Order::second,
      [](const auto& x, const auto& w) {
        return conv1d(x, w, {.stride = 2, .padding = 1, .dilation = 2, .groups = 2});
      },
      Input{{2, 4, 6}}, Input{{2, 2, 2}});
  check_gradient(
      "conv_transpose1d", Order::second,
      [](const auto& x, const auto& w) {
        return conv_transpose1d(x, w, {.stride = 3, .padding = 1, .groups = 2}, 2);
      },
      Input{{1, 4, 3}}, Input{{4, 1, 3}});
  check_gradient(
      "conv3d", Order::second,
      [](const auto& x, const auto& w) {
        return conv3d(x, w, {.stride = {2, 1, 1}, .padding = {1, 0, 1}, .groups = 2});
      },
      Input{{1, 2, 3, 2, 2}}, Input{{2, 1, 2, 2, 1}});
}

// The gradient of one argument alone, and of a product of two convolutions.
TEST_F(Gradients, OfConv2dByOneArgument) {
  check_gradient(
      "by x", Order::second,
      [](const auto& x) {
        return square(conv2d(x, full_like(x, 0.5, {2, 2, 2, 2})));
      },
      Input{{1, 2, 3, 3}});
  check_gradient(
      "by weight", Order::second,
      [](const auto& w) {
        const auto x = full_like(w, 0.25, {1, 2, 3, 3});
        return conv2d(x, w) * conv2d(x, square(w));
      },
      Input{{2, 2, 2, 2}});
}

// A worked example: rows 1 2 3 / 4 5 6 / 7 8 9, kernel 1 0 / 0 −1, and what it spreads back.
TEST_F(Gradients, Conv2dByHand) {
  const auto x = Tensor<B>::from<double>({1., 2., 3., 4., 5., 6., 7., 8., 9.}, {1, 1, 3, 3});
  const auto w = Tensor<B>::from<double>({1., 0., 0., -1.}, {1, 1, 2, 2});
  EXPECT_EQ(conv2d(x, w).template to_vector<double>(), V({-4, -4, -4, -4}));
  EXPECT_EQ(conv2d(x, w, {.stride = {2, 2}, .padding = {1, 1}}).template to_vector<double>(),
            V({-1, -3, -7, 5 - 9}));
  const auto y = Tensor<B>::from<double>({1., 2., 3., 4.}, {1, 1, 2, 2});
  EXPECT_EQ(conv_transpose2d(y, w).template to_vector<double>(), V({1, 2, 0, 3, 3, -2, 0, -3, -4}));
  EXPECT_EQ(conv_transpose2d(y, w, {.stride = {2, 2}}, {1, 0}).shape(), (Shape{1, 1, 5, 4}));
}

TEST_F(Gradients, Conv2dSaysWhatIsWrong) {
  const auto x = zeros<B>({1, 4, 3, 3}, Dtype::f64);
  const auto message = [&](const Shape& weight, const Conv2dOptions& how) -> std::string {
    try {
      (void)conv2d(x, zeros<B>(weight, Dtype::f64), how);
    } catch (const Exception& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  EXPECT_EQ(message({2, 3, 1, 1}, {}),
            "conv2d: x has 4 channels, weight has 3 in each of 1 groups");
  EXPECT_EQ(message({3, 2, 1, 1}, {.groups = 2}),
            "conv2d: weight has 3 filters, must be a multiple of groups, 2");
  EXPECT_EQ(message({2, 4, 2, 3}, {.dilation = {1, 2}}),
            "conv2d: the kernel covers 5 of width, x has 3 with its padding");
  EXPECT_EQ(message({2, 4, 1}, {}),
            "conv2d: x has shape [1, 4, 3, 3], weight [2, 4, 1]: both need four axes");
  EXPECT_THROW((void)conv_transpose2d(x, zeros<B>({4, 1, 2, 2}, Dtype::f64), {}, {1, 0}),
               Exception);
}

}  // namespace

}  // namespace planck::test
