// affine_grid against its formula, to the very bit; finite differences; worked examples.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "planck/core/allocator.h"
#include "planck/ops/grid_sample/grid_sample.h"
#include "planck/ops/ops.h"
#include "planck/verify/gradient.h"
#include "planck/verify/run_plan.test.h"

namespace planck {
namespace {

// The normalized coordinate of element i, exact but for one division.
template <class C>
C coordinate(std::int64_t i, std::int64_t size, bool align) {
  if (size == 1) return 0;
  return C(2 * i + 1 - size) / C(align ? size - 1 : size);
}

template <class C>
C tree(const std::vector<C>& v, std::size_t begin, std::size_t n) {
  if (n == 0) return 0;
  if (n == 1) return v[begin];
  std::size_t half = 1;
  while (2 * half < n) half *= 2;
  return tree(v, begin, half) + tree(v, begin + half, n - half);
}

template <class T>
void check(const Shape& size, bool align) {
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const int dims = size.rank() - 2;
  Shape grid_shape = {size[0]};
  std::int64_t points = 1;
  for (int d = 0; d < dims; ++d) {
    grid_shape.push_back(size[2 + d]);
    points *= size[2 + d];
  }
  grid_shape.push_back(dims);
  const Shape theta_shape = {size[0], dims, dims + 1};
  std::vector<T> theta, dgrid, grid(static_cast<std::size_t>(numel(grid_shape))),
      dtheta(static_cast<std::size_t>(numel(theta_shape)));
  for (std::int64_t i = 0; i < numel(theta_shape); ++i)
    theta.push_back(T(static_cast<C>(std::sin(1.7 * static_cast<double>(i) + 0.3))));
  for (std::int64_t i = 0; i < numel(grid_shape); ++i)
    dgrid.push_back(T(static_cast<C>(std::cos(0.9 * static_cast<double>(i)))));
  const AffineGridDescriptor d{size, align};
  run<AffineGridPlan<T>>(d, {{theta.data(), theta_shape}, {grid.data(), grid_shape}});
  run<AffineGridBackwardPlan<T>>(d, {{dgrid.data(), grid_shape}, {dtheta.data(), theta_shape}});

  for (std::int64_t n = 0; n < size[0]; ++n)
    for (std::int64_t i = 0; i < dims; ++i) {
      std::vector<std::vector<C>> terms(static_cast<std::size_t>(dims) + 1);
      const auto row = static_cast<std::size_t>((n * dims + i) * (dims + 1));
      for (std::int64_t p = 0; p < points; ++p) {
        std::int64_t rest = p;
        std::vector<C> at;  // x, y, z
        for (int k = dims - 1; k >= 0; --k) {
          at.push_back(coordinate<C>(rest % size[2 + k], size[2 + k], align));
          rest /= size[2 + k];
        }
        C sum = C(theta[row]) * at[0] + C(theta[row + 1]) * at[1];
        if (dims == 3) sum = sum + C(theta[row + 2]) * at[2];
        sum = sum + C(theta[row + static_cast<std::size_t>(dims)]);
        const auto k = static_cast<std::size_t>((n * points + p) * dims + i);
        const T expected = T(sum);
        ASSERT_EQ(std::memcmp(&grid[k], &expected, sizeof(T)), 0)
            << to_string(size) << " " << align << " " << k;
        for (std::size_t j = 0; j < static_cast<std::size_t>(dims); ++j)
          terms[j].push_back(C(dgrid[k]) * at[j]);
        terms.back().push_back(C(dgrid[k]));
      }
      for (std::size_t j = 0; j <= static_cast<std::size_t>(dims); ++j) {
        const T expected = T(tree(terms[j], 0, terms[j].size()));
        ASSERT_EQ(std::memcmp(&dtheta[row + j], &expected, sizeof(T)), 0)
            << to_string(size) << " " << align << " dtheta " << row + j;
      }
    }
}

TEST(AffineGrid, FollowsItsFormula) {
  for (const Shape& size : {Shape{2, 3, 5, 7}, Shape{1, 1, 1, 1}, Shape{3, 1, 1, 9},
                            Shape{1, 2, 0, 4}, Shape{0, 1, 2, 2}, Shape{2, 1, 300, 301},
                            Shape{2, 3, 4, 5, 6}, Shape{1, 1, 1, 3, 2}, Shape{1, 1, 50, 40, 41}})
    for (bool align : {false, true}) {
      check<float>(size, align);
      check<double>(size, align);
      check<f16>(size, align);
      check<bf16>(size, align);
    }
}

TEST(AffineGrid, IdentityNamesTheCentersOfTheElements) {
  const std::vector<float> theta = {1, 0, 0, 0, 1, 0};
  std::vector<float> grid(12);
  run<AffineGridPlan<float>>({{1, 1, 2, 3}, false},
                             {{theta.data(), {1, 2, 3}}, {grid.data(), {1, 2, 3, 2}}});
  const float third = 2.0f / 3;
  EXPECT_EQ(grid, (std::vector<float>{-third, -0.5f, 0, -0.5f, third, -0.5f, -third, 0.5f, 0, 0.5f,
                                      third, 0.5f}));
  run<AffineGridPlan<float>>({{1, 1, 2, 3}, true},
                             {{theta.data(), {1, 2, 3}}, {grid.data(), {1, 2, 3, 2}}});
  EXPECT_EQ(grid, (std::vector<float>{-1, -1, 0, -1, 1, -1, -1, 1, 0, 1, 1, 1}));
}

// Sampling with the identity gives the input back, whatever the convention.
TEST(AffineGrid, IdentitySamplesTheInput) {
  const Shape size = {1, 2, 8, 16};
  const std::vector<float> theta = {1, 0, 0, 0, 1, 0};
  std::vector<float> input(256), output(256), grid(256);
  for (std::size_t i = 0; i < 256; ++i) input[i] = static_cast<float>(i) * 0.37f;
  for (SampleMode mode : {SampleMode::bilinear, SampleMode::nearest, SampleMode::bicubic}) {
    run<AffineGridPlan<float>>({size, false},
                               {{theta.data(), {1, 2, 3}}, {grid.data(), {1, 8, 16, 2}}});
    const Stream stream = Stream::cpu();
    auto plan = GridSamplePlan<float>::select(stream, {size, {1, 8, 16, 2}, mode});
    ASSERT_TRUE(plan);
    auto workspace = allocate(stream, plan->workspace_size());
    ASSERT_TRUE(
        plan->run(stream, {workspace->data(), workspace->bytes()},
                  {{input.data(), size}, {grid.data(), {1, 8, 16, 2}}, {output.data(), size}}));
    EXPECT_EQ(output, input);  // extents are powers of two: every coordinate is exact
  }
}

TEST(AffineGrid, GradientsAreThoseOfTheForward) {
  for (const char* size : {"2,1,5,4", "2,1,3,4,5"})
    for (const char* align : {"true", "false"}) {
      const int dims = std::strlen(size) == 7 ? 2 : 3;
      verify::GradientCheck check;
      check.forward.op = "affine_grid";
      check.forward.attributes = {{"size", size}, {"align_corners", align}};
      check.forward.inputs = {{.name = "theta", .dtype = Dtype::f64, .shape = {2, dims, dims + 1}}};
      check.forward.seed = 3;
      check.output = "grid";
      check.backward_op = "affine_grid_backward";
      check.backward_attributes = {{"align_corners", align}};
      check.cotangent = "dgrid";
      check.pairs = {{"theta", "dtheta"}};
      EXPECT_EQ(verify::check_gradients(all_ops(), check), "") << size << " " << align;
    }
}

TEST(AffineGrid, RefusesWrongSizes) {
  const auto message = [&](const char* size) {
    const auto problem = parse_problem(all_ops(), "affine_grid", {{"size", size}},
                                       {{"theta", {Dtype::f32, {2, 2, 3}}}});
    return problem ? std::string("accepted") : problem.error().message;
  };
  EXPECT_EQ(message("2,3,4,5"), "accepted");
  for (const char* wrong : {"2,3,four,5", "2,3,4,"})
    EXPECT_EQ(message(wrong),
              "affine_grid: size=" + std::string(wrong) + " is not N,C,H,W or N,C,D,H,W");
  const std::string must = ", must be [N, C, H, W] or [N, C, D, H, W]";
  EXPECT_EQ(message(""), "affine_grid: size is []" + must);
  EXPECT_EQ(message("2,3"), "affine_grid: size is [2, 3]" + must);
  EXPECT_EQ(message("1,2,3,4,5,6"), "affine_grid: size is [1, 2, 3, 4, 5, 6]" + must);
  EXPECT_EQ(message("2,3,-4,5"), "affine_grid: extent 2 is -4, must be >= 0");
}

}  // namespace
}  // namespace planck
