// Convolutions of lines and volumes, as functions and as modules, against loops: the bits of one
// chain of fma in the order that docs/numerics.md states; PyTorch's shapes.
#include <gtest/gtest.h>

#include <cmath>

#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;
using Index = std::int64_t;
using Floats = std::vector<float>;

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// y[n, f, i] = Σ over c, u of weight[f, c, u] x[n, c, i stride + u dilation − padding]
Floats line(const Floats& x, const Shape& xs, const Floats& w, const Shape& ws,
            const Conv1dOptions& o, Index length) {
  Floats y;
  const Index filters = ws[0], channels = ws[1], taps = ws[2];
  for (Index n = 0; n < xs[0]; ++n)
    for (Index f = 0; f < filters; ++f)
      for (Index i = 0; i < length; ++i) {
        float sum = 0;
        for (Index c = 0; c < channels; ++c)
          for (Index u = 0; u < taps; ++u) {
            const Index from = i * o.stride + u * o.dilation - o.padding;
            const Index channel = f / (filters / o.groups) * channels + c;
            const float value =
                from < 0 || from >= xs[2] ? 0 : x[at((n * xs[1] + channel) * xs[2] + from)];
            sum = std::fma(w[at((f * channels + c) * taps + u)], value, sum);
          }
        y.push_back(sum);
      }
  return y;
}
// dx[n, c, j] = Σ over f, u of weight[f, c, u] x[n, f, i], i stride + u dilation − padding = j
Floats line_back(const Floats& x, const Shape& xs, const Floats& w, const Shape& ws,
                 const Conv1dOptions& o, Index length) {
  Floats y;
  const Index per_group = xs[1] / o.groups, channels = ws[1], taps = ws[2];
  for (Index n = 0; n < xs[0]; ++n)
    for (Index c = 0; c < channels * o.groups; ++c)
      for (Index j = 0; j < length; ++j) {
        float sum = 0;
        for (Index each = 0; each < per_group; ++each)
          for (Index u = 0; u < taps; ++u) {
            const Index f = c / channels * per_group + each,
                        scaled = j + o.padding - u * o.dilation;
            if (scaled < 0 || scaled % o.stride != 0 || scaled / o.stride >= xs[2]) continue;
            sum = std::fma(w[at((f * channels + c % channels) * taps + u)],
                           x[at((n * xs[1] + f) * xs[2] + scaled / o.stride)], sum);
          }
        y.push_back(sum);
      }
  return y;
}

TEST(Conv1d, IsItsDefinition) {
  Rng rng{.seed = 1};
  for (const Conv1dOptions& o : {Conv1dOptions{},
                                 {.stride = 2, .padding = 3},
                                 {.padding = 2, .dilation = 2},
                                 {.stride = 3, .padding = 1, .groups = 2}}) {
    const auto x = normal<Cpu>(rng, {2, 4, 17}), w = normal<Cpu>(rng, {6, 4 / o.groups, 3});
    const auto y = conv1d(x, w, o);
    const Index length = (17 + 2 * o.padding - 2 * o.dilation - 1) / o.stride + 1;
    ASSERT_EQ(y.shape(), (Shape{2, 6, length}));
    EXPECT_EQ(y.to_vector<float>(),
              line(x.to_vector<float>(), x.shape(), w.to_vector<float>(), w.shape(), o, length));
    // And back, from as many channels as y has.
    for (Index more = 0; more < o.stride; ++more) {
      const auto back = conv_transpose1d(y, w, o, more);
      const Index whole = (length - 1) * o.stride - 2 * o.padding + 2 * o.dilation + 1 + more;
      ASSERT_EQ(back.shape(), (Shape{2, 4, whole}));
      EXPECT_EQ(back.to_vector<float>(), line_back(y.to_vector<float>(), y.shape(),
                                                   w.to_vector<float>(), w.shape(), o, whole));
    }
  }
}

TEST(Conv1d, TakesIntegersAndAnyMeaning) {
  const auto x = Tensor<Cpu, IntKind>::from<std::int8_t>({1, 2, 3, 4}, {1, 1, 4});
  const auto w = Tensor<Cpu, IntKind>::from<std::int8_t>({1, -1}, {1, 1, 2});
  EXPECT_EQ(conv1d(x, w).to_vector<std::int32_t>(), (std::vector<std::int32_t>{-1, -1, -1}));
  Rng rng{.seed = 2};
  const auto a = normal<Cpu>(rng, {1, 3, 40}), b = normal<Cpu>(rng, {2, 3, 5});
  const auto exact = conv1d(a, b, {}, ProductMath::exact), chain = conv1d(a, b);
  EXPECT_NE(exact.to_vector<float>(), chain.to_vector<float>());
  for (std::size_t i = 0; i < 72; ++i)
    EXPECT_NEAR(exact.to_vector<float>()[i], chain.to_vector<float>()[i], 1e-5);
}

TEST(Conv1d, SaysWhatIsWrong) {
  const auto x = zeros<Cpu>({1, 4, 3});
  EXPECT_EQ(message([&] {
              (void)conv1d(x, zeros<Cpu>({2, 4, 1, 1}));
            }),
            "conv1d: x has shape [1, 4, 3], weight [2, 4, 1, 1]: both need three axes");
  EXPECT_EQ(message([&] {
              (void)conv_transpose1d(x, zeros<Cpu>({4, 2, 3}), {.stride = 2}, 2);
            }),
            "conv_transpose1d: output_padding is 2, must be less than stride, 2");
  Rng rng{.seed = 3};
  EXPECT_EQ(message([&] { nn::Conv1d<Cpu>(rng, {.in = 4, .out = 6, .shape = {.groups = 4}}); }),
            "conv: 4 channels in and 6 out do not divide into 4 groups");
}

// One chain over channel, depth, height and width, whatever lies beside it.
TEST(Conv3d, IsItsDefinition) {
  Rng rng{.seed = 4};
  const auto within = [](Index i, Index n) { return i >= 0 && i < n; };
  for (const Conv3dOptions& o :
       {Conv3dOptions{},
        {.stride = {2, 1, 2}, .padding = {1, 2, 0}},
        {.stride = {1, 2, 1}, .padding = {2, 1, 1}, .dilation = {2, 1, 2}, .groups = 2}}) {
    const Shape xs{2, 4, 6, 5, 7}, ws{6, 4 / o.groups, 3, 2, 3};
    const auto x = normal<Cpu>(rng, xs), w = normal<Cpu>(rng, ws);
    const auto y = conv3d(x, w, o);
    Shape want{2, 6};
    for (int d = 0; d < 3; ++d) {
      const auto a = static_cast<std::size_t>(d);
      want.push_back(
          (xs[2 + d] + 2 * o.padding[a] - (ws[2 + d] - 1) * o.dilation[a] - 1) / o.stride[a] + 1);
    }
    ASSERT_EQ(y.shape(), want);
    const Floats in = x.to_vector<float>(), by = w.to_vector<float>(), got = y.to_vector<float>();
    std::size_t place = 0;
    for (Index n = 0; n < 2; ++n)
      for (Index f = 0; f < 6; ++f)
        for (Index i = 0; i < want[2]; ++i)
          for (Index j = 0; j < want[3]; ++j)
            for (Index k = 0; k < want[4]; ++k) {
              float sum = 0;
              for (Index c = 0; c < ws[1]; ++c)
                for (Index u = 0; u < 3; ++u)
                  for (Index v = 0; v < 2; ++v)
                    for (Index t = 0; t < 3; ++t) {
                      const Index d = i * o.stride[0] + u * o.dilation[0] - o.padding[0],
                                  h = j * o.stride[1] + v * o.dilation[1] - o.padding[1],
                                  s = k * o.stride[2] + t * o.dilation[2] - o.padding[2];
                      const Index channel = f / (6 / o.groups) * ws[1] + c;
                      const float value =
                          within(d, 6) && within(h, 5) && within(s, 7)
                              ? in[at((((n * 4 + channel) * 6 + d) * 5 + h) * 7 + s)]
                              : 0;
                      sum =
                          std::fma(by[at((((f * ws[1] + c) * 3 + u) * 2 + v) * 3 + t)], value, sum);
                    }
              ASSERT_EQ(got[place++], sum) << to_string(Shape{n, f, i, j, k});
            }
  }
  EXPECT_EQ(message([&] {
              (void)conv3d(zeros<Cpu>({1, 1, 3, 9, 9}), zeros<Cpu>({1, 1, 3, 2, 2}),
                           {.dilation = {2, 1, 1}});
            }),
            "conv3d: the kernel covers 5 of depth, x has 3 with its padding");
  EXPECT_EQ(message([&] {
              (void)conv3d(zeros<Cpu>({1, 1, 3, 9}), zeros<Cpu>({1, 1, 3, 2}));
            }),
            "conv3d: x has shape [1, 1, 3, 9], weight [1, 1, 3, 2]: both need five axes");
}

// Layers: shapes and first values as PyTorch's, a bias per channel, gradients by every parameter.
TEST(ConvLayers, AddTheirBias) {
  Rng rng{.seed = 5};
  const auto check = [&](auto layer, const Shape& in, const Shape& weight, const Shape& out,
                         double bound) {
    EXPECT_EQ(layer.weight->shape(), weight);
    for (const float first : layer.weight.value().template to_vector<float>())
      EXPECT_LE(std::abs(first), bound);
    const auto x = nn::constant<A>(normal<Cpu>(rng, in));
    const auto y = layer(x);
    EXPECT_EQ(y.shape(), out);
    const auto gradients = optim::collect<A>(layer, sum(y).backward());
    EXPECT_EQ(gradients.at("weight").shape(), weight);
    const auto per_channel = static_cast<float>(y.numel() / y.extent(1));
    for (const float slope : gradients.at("bias").template to_vector<float>())
      EXPECT_EQ(slope, per_channel);
    auto without = layer;
    without.bias.reset();
    auto channels = Shape::filled(y.rank(), 1);
    channels[1] = y.extent(1);
    EXPECT_EQ(y.inner().template to_vector<float>(),
              (without(x) + reshape(**layer.bias, channels)).inner().template to_vector<float>());
  };
  check(nn::Conv1d<A>(rng, {.in = 4, .out = 6, .kernel = 5, .shape = {.stride = 2, .groups = 2}}),
        {3, 4, 11}, {6, 2, 5}, {3, 6, 4}, 1 / std::sqrt(10.0));
  check(nn::ConvTranspose1d<A>(
            rng, {.in = 4, .out = 6, .shape = {.stride = 2, .padding = 1}, .output_padding = 1}),
        {3, 4, 11}, {4, 6, 3}, {3, 6, 22}, 1 / std::sqrt(18.0));
  check(
      nn::Conv3d<A>(rng, {.in = 2, .out = 3, .kernel = {3, 2, 1}, .shape = {.padding = {1, 0, 0}}}),
      {2, 2, 4, 5, 3}, {3, 2, 3, 2, 1}, {2, 3, 4, 4, 3}, 1 / std::sqrt(12.0));
}

}  // namespace

}  // namespace planck::test
