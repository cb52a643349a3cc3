// grid_sample on worked examples: published ones, coordinates that are no numbers, wrong
// descriptors.
#include "planck/ops/grid_sample/grid_sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "planck/verify/run_plan.test.h"

namespace planck {
namespace {

TEST(GridSample, AccumulateAddsAndLeavesTheRestAlone) {
  const Shape input = {1, 2, 3, 3}, grid = {1, 1, 1, 2}, out = {1, 2, 1, 1};
  const std::vector<float> x(18, 1.0f), g = {-0.5f, -0.5f}, dout = {4, 8};
  std::vector<float> dinput(18, 0.25f), dgrid(2, 7.0f);
  dinput[8] = std::numeric_limits<float>::signaling_NaN();
  const std::vector<float> before = dinput;
  GridSampleDescriptor d{.input = input, .grid = grid};
  d.accumulate = true;
  run<GridSampleBackwardPlan<float>>(d, {{dout.data(), out},
                                         {x.data(), input},
                                         {g.data(), grid},
                                         {dinput.data(), input},
                                         {dgrid.data(), grid}});
  // s = ((−0.5 + 1) · 3 − 1) / 2 = 0.25: weights 9/16, 3/16, 3/16, 1/16.
  const std::size_t taps[] = {0, 1, 3, 4};
  const float weights[] = {9.0f / 16, 3.0f / 16, 3.0f / 16, 1.0f / 16};
  for (std::size_t i = 0; i < 18; ++i) {
    float expected = before[i];
    for (std::size_t k = 0; k < 4; ++k)
      if (i % 9 == taps[k]) expected = 0.25f + weights[k] * dout[i / 9];
    EXPECT_EQ(std::memcmp(&dinput[i], &expected, sizeof(float)), 0) << i;
  }
  EXPECT_EQ(dgrid, (std::vector<float>{7, 7}));  // a constant image has no slope
}

// dgrid is added to as dinput is, in every mode, 2-D and 3-D: old + new, rounded once. Twice into
// zeros is twice the gradient.
TEST(GridSample, AccumulatesIntoDgridToo) {
  for (SampleMode mode : {SampleMode::bilinear, SampleMode::nearest, SampleMode::bicubic})
    for (int dims : {2, 3}) {
      if (dims == 3 && mode == SampleMode::bicubic) continue;
      Shape input = {2, 5, 4, 6}, grid = {2, 3, 7, dims}, out = {2, 5, 3, 7};
      if (dims == 3) {
        input = {2, 5, 3, 4, 6};
        grid = {2, 2, 3, 7, dims};
        out = {2, 5, 2, 3, 7};
      }
      const auto wave = [](const Shape& shape, double step) {
        std::vector<float> v;
        for (std::int64_t i = 0; i < numel(shape); ++i)
          v.push_back(static_cast<float>(std::sin(step * static_cast<double>(i + 1))));
        return v;
      };
      const auto x = wave(input, 0.7), g = wave(grid, 1.3), dout = wave(out, 0.9);
      const auto gradients = [&](bool accumulate, std::vector<float>& dinput,
                                 std::vector<float>& dgrid) {
        GridSampleDescriptor d{.input = input, .grid = grid, .mode = mode};
        d.accumulate = accumulate;
        run<GridSampleBackwardPlan<float>>(d, {{dout.data(), out},
                                               {x.data(), input},
                                               {g.data(), grid},
                                               {dinput.data(), input},
                                               {dgrid.data(), grid}});
      };
      std::vector<float> dinput(x.size()), dgrid(g.size());
      gradients(false, dinput, dgrid);
      std::vector<float> more(x.size(), 0.5f), more_grid(g.size(), 0.25f);
      gradients(true, more, more_grid);
      for (std::size_t i = 0; i < g.size(); ++i) EXPECT_EQ(more_grid[i], 0.25f + dgrid[i]) << i;
      gradients(true, dinput, dgrid);
      std::vector<float> twice(g.size()), zero(x.size());
      gradients(true, zero, twice);
      gradients(true, zero, twice);
      EXPECT_EQ(dgrid, twice);
      if (mode != SampleMode::nearest) {
        EXPECT_NE(twice, std::vector<float>(g.size()));
      }
    }
}

std::vector<float> sampled(const std::vector<float>& image, const Shape& input,
                           const std::vector<float>& points, const Shape& grid, SampleMode mode,
                           SamplePadding padding, bool align) {
  std::vector<float> out(points.size() / 2);
  run<GridSamplePlan<float>>(
      {input, grid, mode, padding, align},
      {{image.data(), input}, {points.data(), grid}, {out.data(), {1, 1, grid[1], grid[2]}}});
  return out;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(static_cast<double>(got[i]), expected[i], tolerance) << i;
}

// The examples of the ONNX operator GridSample, opset 16. Frameworks agree with all of them.
TEST(GridSample, ExamplesOfOnnx) {
  const std::vector<float> ramp = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  std::vector<float> even;
  for (float y : {-1.0f, -0.6f, -0.2f, 0.2f, 0.6f, 1.0f})
    for (float x : {-1.0f, -0.6f, -0.2f, 0.2f, 0.6f, 1.0f}) {
      even.push_back(x);
      even.push_back(y);
    }
  expect_near(sampled(ramp, {1, 1, 4, 4}, even, {1, 6, 6, 2}, SampleMode::bilinear,
                      SamplePadding::zeros, false),
              {0.0, 0.15, 0.55, 0.95, 1.35, 0.75, 0.6, 1.5,  2.3,  3.1,  3.9,  2.1,
               2.2, 4.7,  5.5,  6.3,  7.1,  3.7,  3.8, 7.9,  8.7,  9.5,  10.3, 5.3,
               5.4, 11.1, 11.9, 12.7, 13.5, 6.9,  3.0, 6.15, 6.55, 6.95, 7.35, 3.75},
              1e-5);

  const std::vector<float> image = {0, 1, 2, 3, 4, 5};
  const Shape input = {1, 1, 3, 2}, grid = {1, 2, 4, 2};
  const std::vector<float> far = {-10, -10, -5,    -5,    -0.2f, -0.2f, 10, 10,
                                  10,  10,  -0.2f, -0.2f, 5,     5,     10, 10};
  const auto padded = [&](SamplePadding padding) {
    return sampled(image, input, far, grid, SampleMode::bilinear, padding, false);
  };
  expect_near(padded(SamplePadding::zeros), {0, 0, 1.7, 0, 0, 1.7, 0, 0}, 1e-6);
  expect_near(padded(SamplePadding::border), {0, 0, 1.7, 5, 5, 1.7, 5, 5}, 1e-6);
  expect_near(padded(SamplePadding::reflection), {2.5, 0, 1.7, 2.5, 2.5, 1.7, 5, 2.5}, 1e-5);

  const std::vector<float> inner = {-1, -1, -0.5f, -0.5f, -0.2f, -0.2f, 0, 0,
                                    0,  0,  -0.2f, -0.2f, 0.5f,  0.5f,  1, 1};
  const auto as = [&](SampleMode mode) {
    return sampled(image, input, inner, grid, mode, SamplePadding::zeros, false);
  };
  expect_near(as(SampleMode::nearest), {0, 0, 2, 2, 2, 2, 5, 0}, 0);
  expect_near(as(SampleMode::bilinear), {0, 0.5, 1.7, 2.5, 2.5, 1.7, 4.5, 1.25}, 1e-6);
  expect_near(as(SampleMode::bicubic),
              {-0.1406, 0.3828, 1.7556, 2.9688, 2.9688, 1.7556, 5.1445, 1.3906}, 5e-5);
}

TEST(GridSample, CoordinatesThatAreNoNumbers) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  const std::vector<float> image = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<float> points = {nan, nan, inf, 0, 0, -inf, 3e38f, 0, -1e20f, -1e20f, nan, 0};
  const Shape input = {1, 1, 3, 3}, grid = {1, 1, 6, 2};
  const auto as = [&](SamplePadding padding, bool align) {
    return sampled(image, input, points, grid, SampleMode::bilinear, padding, align);
  };
  // NaN reads as −1: the corner with align_corners, a quarter of it without.
  EXPECT_EQ(as(SamplePadding::zeros, true), (std::vector<float>{1, 0, 0, 0, 0, 4}));
  EXPECT_EQ(as(SamplePadding::zeros, false), (std::vector<float>{0.25f, 0, 0, 0, 0, 2}));
  EXPECT_EQ(as(SamplePadding::border, true), (std::vector<float>{1, 6, 2, 6, 1, 4}));
  const std::vector<float> reflected = as(SamplePadding::reflection, true);
  EXPECT_EQ(reflected[1], 4.0f);  // an infinite x reads element 0
  EXPECT_EQ(reflected[2], 2.0f);
}

// An extent that f32 cannot hold and a position beyond it.
TEST(GridSample, LongAxes) {
  const std::int64_t width = (1 << 24) + 3;
  std::vector<float> image(static_cast<std::size_t>(width), 1.0f);
  image.back() = 5.0f;
  const std::vector<float> points = {1, 0, 0.5f, 0, -1, 0, 1e30f, 0};
  for (SampleMode mode : {SampleMode::bilinear, SampleMode::nearest, SampleMode::bicubic})
    for (SamplePadding padding :
         {SamplePadding::zeros, SamplePadding::border, SamplePadding::reflection})
      for (bool align : {false, true}) {
        const auto out =
            sampled(image, {1, 1, 1, width}, points, {1, 1, 4, 2}, mode, padding, align);
        for (float v : out) EXPECT_TRUE(v >= 0.0f && v <= 6.0f);
      }
}

TEST(GridSample, RefusesWhatItCannotDo) {
  const Stream stream = Stream::cpu();
  const auto message = [&](const GridSampleDescriptor& d) {
    const auto plan = GridSamplePlan<float>::select(stream, d);
    return plan ? std::string("accepted") : plan.error().message;
  };
  EXPECT_EQ(message({{2, 3, 4}, {2, 5, 5, 2}}),
            "grid_sample: input has shape [2, 3, 4], must be [N, C, H, W] or [N, C, D, H, W]");
  EXPECT_EQ(
      message({{2, 3, 4, 4}, {1, 5, 5, 2}}),
      "grid_sample: grid has shape [1, 5, 5, 2], an input of shape [2, 3, 4, 4] needs [2, OH, "
      "OW, 2]");
  EXPECT_EQ(message({{2, 3, 0, 4}, {2, 5, 5, 2}}),
            "grid_sample: input has shape [2, 3, 0, 4], there is nothing to sample");
  EXPECT_EQ(message({{2, 3, 4, 4, 4}, {2, 5, 5, 5, 3}, SampleMode::bicubic}),
            "grid_sample: mode is bicubic, input of shape [2, 3, 4, 4, 4] has 3 dimensions, must "
            "have 2");
  std::vector<float> buffer(64);
  const GridSampleDescriptor same{{1, 1, 4, 4}, {1, 4, 4, 2}};
  const auto plan = GridSamplePlan<float>::select(stream, same);
  ASSERT_TRUE(plan);
  const auto in_place = plan->can_implement({{buffer.data(), {1, 1, 4, 4}},
                                             {buffer.data() + 16, {1, 4, 4, 2}},
                                             {buffer.data(), {1, 1, 4, 4}}});
  ASSERT_FALSE(in_place);
  EXPECT_EQ(in_place.error().message,
            "grid_sample: output output cannot replace input: the op does not work in place");
}

}  // namespace
}  // namespace planck
