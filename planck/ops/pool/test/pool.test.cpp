// The pool family against loops over the taps of windows, on every case of its list, bit for bit.
// Layouts, memory and errors are held by the conformance tests.
#include "planck/ops/pool/pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "planck/verify/with_outputs.test.h"

namespace planck {
namespace {

using verify::Case;
using verify::HostTensor;
using verify::NamedTensors;

std::int64_t part(const Case& c, const char* name, std::size_t axis, std::int64_t otherwise) {
  const auto it = c.attributes.find(name);
  if (it == c.attributes.end()) return otherwise;
  const std::size_t comma = it->second.find(',');
  return std::stoll(axis == 0 || comma == std::string::npos ? it->second
                                                            : it->second.substr(comma + 1));
}
bool flag(const Case& c, const char* name, bool otherwise) {
  const auto it = c.attributes.find(name);
  return it == c.attributes.end() ? otherwise : it->second == "true";
}

// Pixels of every window along one axis, and the windows' counts.
struct Windows {
  std::vector<std::vector<std::int64_t>> pixels;
  std::vector<std::int64_t> counts;
};

Windows windows_of(const Case& c, std::size_t axis, std::int64_t in, std::int64_t adaptive) {
  Windows all;
  if (c.op.starts_with("adaptive")) {
    for (std::int64_t o = 0; o < adaptive; ++o) {
      const double step = static_cast<double>(in) / static_cast<double>(adaptive);
      std::vector<std::int64_t> pixels;
      for (auto i = static_cast<std::int64_t>(std::floor(static_cast<double>(o) * step + 1e-9));
           static_cast<double>(i) < static_cast<double>(o + 1) * step - 1e-9; ++i)
        pixels.push_back(i);
      all.counts.push_back(static_cast<std::int64_t>(pixels.size()));
      all.pixels.push_back(pixels);
    }
    return all;
  }
  const std::int64_t kernel = part(c, "kernel", axis, 0), padding = part(c, "padding", axis, 0),
                     dilation = part(c, "dilation", axis, 1);
  std::int64_t stride = part(c, "stride", axis, 0);
  if (stride == 0) stride = kernel;
  const std::int64_t span = dilation * (kernel - 1) + 1, padded = in + 2 * padding;
  for (std::int64_t o = 0;; ++o) {
    const bool whole = o * stride + span <= padded;
    // A window that is cut off: the one before does not end the image, and it starts within.
    const bool cut = (o - 1) * stride + span < padded && o * stride < in + padding;
    if (!(flag(c, "ceil_mode", false) ? cut : whole)) return all;
    std::vector<std::int64_t> pixels;
    std::int64_t count = 0;
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t i = o * stride + k * dilation - padding;
      if (i >= 0 && i < in) pixels.push_back(i);
      count += flag(c, "count_include_pad", true) ? i < in + padding : i >= 0 && i < in;
    }
    all.pixels.push_back(pixels);
    all.counts.push_back(count);
  }
}

struct Expected {
  HostTensor values, indices;
};

// C: what the dtype computes in.
template <class C>
Expected reference(const Case& c, const verify::NamedTensors& inputs) {
  const bool backward = c.op.ends_with("_backward"), max = c.op.starts_with("max");
  const HostTensor& from = inputs.find(backward ? "dy" : "x")->second;
  const int r = from.shape.rank() - 2;
  Shape image = from.shape;
  PoolPair size{from.shape[r], from.shape[r + 1]};
  for (std::size_t a : {0u, 1u}) {
    const int d = r + static_cast<int>(a);
    if (backward)
      image[d] = part(c, "input_size", a, 0);
    else
      size[a] = part(c, "size", a, 0);
  }
  const Windows rows = windows_of(c, 0, image[r], size[0]),
                columns = windows_of(c, 1, image[r + 1], size[1]);
  Shape out = image;
  out[r] = static_cast<std::int64_t>(rows.pixels.size());
  out[r + 1] = static_cast<std::int64_t>(columns.pixels.size());
  const std::int64_t width = image[r + 1], plane_pixels = image[r] * width;
  Expected e{HostTensor(from.dtype, backward ? image : out), HostTensor(Dtype::i32, out)};
  std::vector<C> dx(static_cast<std::size_t>(backward ? numel(image) : 0), C(0));
  std::int64_t at = 0, planes = 1;
  for (int d = 0; d < r; ++d) planes *= image[d];
  for (std::int64_t plane = 0; plane < planes; ++plane)
    for (std::size_t oh = 0; oh < rows.pixels.size(); ++oh)
      for (std::size_t ow = 0; ow < columns.pixels.size(); ++ow, ++at) {
        const auto count = static_cast<C>(rows.counts[oh] * columns.counts[ow]);
        C sum = 0, best = from.dtype == Dtype::s8 ? C(-128) : -std::numeric_limits<C>::infinity();
        std::int64_t chosen = -1;
        for (std::int64_t h : rows.pixels[oh])
          for (std::int64_t w : columns.pixels[ow]) {
            const std::int64_t pixel = h * width + w, here = plane * plane_pixels + pixel;
            if (backward) {
              const auto dy = static_cast<C>(from.number(at));
              if (!max)
                dx[static_cast<std::size_t>(here)] += dy / count;
              else if (inputs.find("indices")->second.number(at) == static_cast<double>(pixel))
                dx[static_cast<std::size_t>(here)] += dy;
              continue;
            }
            const auto v = static_cast<C>(from.number(here));
            sum += v;
            if (chosen >= 0 && !(v > best) && !(std::isnan(v) && !std::isnan(best))) continue;
            best = v;
            chosen = pixel;
          }
        if (backward) continue;
        const C y = max ? best : sum / count;
        e.values.set_number(at, std::isnan(y) ? std::nan("") : static_cast<double>(y));
        e.indices.set_number(at, static_cast<double>(chosen));
      }
  for (std::size_t i = 0; i < dx.size(); ++i)
    e.values.set_number(static_cast<std::int64_t>(i),
                        std::isnan(dx[i]) ? std::nan("") : static_cast<double>(dx[i]));
  return e;
}

TEST(Pool, EveryKernelAgreesWithTheReference) {
  const auto cases = verify::pool_cases(verify::ListSize::usual);
  EXPECT_GT(cases.size(), 400u);
  for (const Case& c : cases) {
    const NamedTensors inputs = c.make_inputs();
    const Expected expected = c.inputs[0].dtype == Dtype::f64 ? reference<double>(c, inputs)
                                                              : reference<float>(c, inputs);
    verify::with_outputs(c, inputs, [&](const NamedTensors& outputs, const KernelStatus&) {
      for (const auto& [name, actual] : outputs) {
        const HostTensor& wanted = name == "indices" ? expected.indices : expected.values;
        ASSERT_EQ(actual.shape, wanted.shape);
        ASSERT_EQ(bit_difference(wanted, actual), "") << name;
      }
    });
    if (testing::Test::HasFailure()) return;
  }
}

// What a CUDA thread computes, on the host: the functions of pool.math.h pixel by pixel.
template <class T>
void expect_same_by_pixels(const PoolProblem& p, bool ties) {
  const Shape out = p.out_shape();
  const auto pixels = static_cast<std::size_t>(numel(p.x)),
             windows = static_cast<std::size_t>(numel(out));
  std::vector<T> x(pixels), y(windows), dx(pixels), mean(windows), spread(pixels);
  std::vector<std::int32_t> indices(windows);
  for (std::size_t i = 0; i < pixels; ++i)
    x[i] = static_cast<T>(ties ? static_cast<double>(i * 7 % 5)
                               : std::sin(static_cast<double>(i * i)));
  const Stream stream = Stream::cpu(1);
  const auto launch = [&](PoolKind kind, const Operands& operands) {
    PoolProblem q = p;
    q.kind = kind;
    const auto plan = Selection<PoolProblem>::select(stream, q);
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_TRUE(plan->run(stream, {}, operands));
  };
  using In = TensorView<const T>;
  using Out = TensorView<T>;
  launch(PoolKind::max_pool2d,
         {In(x.data(), p.x), Out(y.data(), out), TensorView<std::int32_t>(indices.data(), out)});
  launch(PoolKind::max_pool2d_backward,
         {In(y.data(), out), TensorView<const std::int32_t>(indices.data(), out),
          Out(dx.data(), p.x)});
  const PoolAxes axes = p.axes();
  const bool averages = axes.rows.dilation == 1 && axes.columns.dilation == 1;
  PoolProblem average = p;
  average.kind = PoolKind::avg_pool2d;
  if (averages) {
    launch(PoolKind::avg_pool2d, {In(x.data(), p.x), Out(mean.data(), out)});
    launch(PoolKind::avg_pool2d_backward, {In(y.data(), out), Out(spread.data(), p.x)});
  }
  const std::int64_t height = axes.rows.in, width = axes.columns.in;
  const PoolPlane<T, T> image{x.data(), width, 1}, back{y.data(), axes.columns.out, 1};
  const PoolPlane<std::int32_t, std::int32_t> chosen{indices.data(), axes.columns.out, 1};
  for (std::int64_t o = 0; o < numel(out); ++o) {
    const std::int64_t oh = o / axes.columns.out, ow = o % axes.columns.out;
    pool_math::Largest<T> best[1];
    pool_math::largest(image, axes, pixels_of(axes, oh, ow), best);
    EXPECT_EQ(best[0].value, y[static_cast<std::size_t>(o)]);
    EXPECT_EQ(best[0].position, indices[static_cast<std::size_t>(o)]);
    if (averages) {
      T one[1];
      pool_math::average(image, pixels_of(average.axes(), oh, ow),
                         pool_math::divisor<T>(average.axes(), oh, ow), one);
      EXPECT_EQ(one[0], mean[static_cast<std::size_t>(o)]);
    }
  }
  for (std::int64_t i = 0; i < height * width; ++i) {
    T one[1];
    const PoolRange around = windows_of(axes, i / width, i % width);
    pool_math::largest_gradient(back, chosen, axes, around, i / width, i % width, one);
    EXPECT_EQ(one[0], dx[static_cast<std::size_t>(i)]);
    if (averages) {
      pool_math::average_gradient(back, average.axes(), around, one);
      EXPECT_EQ(one[0], spread[static_cast<std::size_t>(i)]);
    }
  }
}

TEST(Pool, PixelByPixelIsTheSameAsByRows) {
  const PoolOptions all[] = {
      {.kernel = {2, 2}},
      {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
      {.kernel = {3, 5}, .stride = {1, 1}, .padding = {1, 2}, .ceil_mode = true},
      {.kernel = {2, 3}, .stride = {5, 4}, .count_include_pad = false},
      {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}, .dilation = {2, 3}}};
  for (const PoolOptions& options : all)
    for (bool ties : {false, true}) {
      expect_same_by_pixels<float>({.x = {9, 14}, .options = options}, ties);
      expect_same_by_pixels<double>(
          {.element_dtype = Dtype::f64, .x = {13, 10}, .options = options}, ties);
    }
}

// The windows of pixel i are those that have it.
TEST(Pool, WindowsAndPixelsKnowEachOther) {
  for (std::int64_t in : {1, 2, 5, 7, 12})
    for (std::int64_t out : {1, 2, 3, 5, 7, 12, 30}) {
      const PoolProblem p{.kind = PoolKind::adaptive_avg_pool2d, .x = {in, in}, .size = {out, out}};
      const PoolAxis a = p.axes().rows;
      for (std::int64_t i = 0; i < in; ++i)
        for (std::int64_t o = 0; o < out; ++o)
          EXPECT_EQ(a.begin(o) <= i && i < a.end(o), a.first_window(i) <= o && o < a.last_window(i))
              << in << " pixels, " << out << " windows, pixel " << i << ", window " << o;
    }
}

}  // namespace
}  // namespace planck
