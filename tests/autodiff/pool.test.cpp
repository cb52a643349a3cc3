// Gradients of pooling, and what its functions give. Compiled once for each backend.
#include "tests/reference/pool.h"

#include "planck/ops/pool/pool.grad.h"
#include "tests/autodiff/gradcheck.h"
#include "tests/autodiff/tested_backend.h"
#include "tests/reference/index.h"

namespace planck::test {

namespace {

const Input kImage{{5, 6}}, kImages{{2, 1, 4, 5}};

constexpr PoolOptions kPairs{.kernel = {2, 2}};
constexpr PoolOptions kOverlapping{.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}};
constexpr PoolOptions kDilated{
    .kernel = {2, 3}, .stride = {2, 1}, .padding = {1, 1}, .dilation = {2, 2}};
constexpr PoolOptions kCeil{.kernel = {2, 3}, .stride = {3, 2}, .ceil_mode = true};
constexpr PoolOptions kPixels{
    .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .count_include_pad = false};

TEST_F(Gradients, OfMaxPooling) {
  CHECK1(kSecond, square(max_pool2d(x, kPairs)), kImage);
  CHECK1(kSecond, max_pool2d(square(x), kPairs), kImages);
  CHECK1(kSecond, square(max_pool2d(x, kOverlapping)), kImage);
  CHECK1(kSecond, square(max_pool2d(x, kDilated)), kImages);
  CHECK1(kSecond, square(max_pool2d(x, kCeil)), kImage);
}

TEST_F(Gradients, OfAveragePooling) {
  CHECK1(kSecond, square(avg_pool2d(x, kPairs)), kImage);
  CHECK1(kSecond, avg_pool2d(square(x), kOverlapping), kImages);
  CHECK1(kSecond, square(avg_pool2d(x, kCeil)), kImage);
  CHECK1(kSecond, square(avg_pool2d(x, kPixels)), kImages);
}

TEST_F(Gradients, OfAdaptivePooling) {
  CHECK1(kSecond, square(adaptive_avg_pool2d(x, {1, 1})), kImages);
  CHECK1(kSecond, square(adaptive_avg_pool2d(x, {3, 2})), kImage);
  CHECK1(kSecond, adaptive_avg_pool2d(square(x), {2, 7}), kImages);  // windows that share a pixel
}

TEST_F(Gradients, OfOverlappingWindowsAddUp) {
  const auto x =
      Tensor<A>::template from<double>({1, 5, 2, 5, 0, 3, 7, 1, 4}, {3, 3}).require_grad();
  const auto [y, indices] =
      max_pool2d_with_indices(x, {.kernel = {2, 3}, .stride = {2, 1}, .padding = {1, 1}});
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_EQ(y.inner().template to_vector<double>(), (std::vector<double>{5, 5, 5, 7, 7, 4}));
  EXPECT_EQ(indices.template to_vector<std::int32_t>(),
            (std::vector<std::int32_t>{1, 1, 1, 6, 6, 8}));
  const auto weights = Tensor<A>::template from<double>({1, 2, 4, 8, 16, 32}, {2, 3});
  EXPECT_EQ(x.grad(sum(y * weights).backward())->template to_vector<double>(),
            (std::vector<double>{0, 7, 0, 0, 0, 0, 24, 0, 32}));
}

// A window that dilation lays around the whole image has no pixel, and passes nothing back, in
// either direction.
TEST_F(Gradients, OfAnEmptyWindowAreZero) {
  const auto x = Tensor<A>::template from<double>({1, 2, 3, 4}, {4, 1}).require_grad();
  const PoolOptions options{.kernel = {2, 1}, .padding = {1, 0}, .dilation = {5, 1}};
  const auto [y, indices] = max_pool2d_with_indices(x, options);
  EXPECT_EQ(y.inner().template to_vector<double>(),
            (std::vector<double>{-std::numeric_limits<double>::infinity()}));
  EXPECT_EQ(indices.template to_vector<std::int32_t>(), (std::vector<std::int32_t>{-1}));
  EXPECT_EQ(x.grad(sum(y).backward())->template to_vector<double>(),
            (std::vector<double>{0, 0, 0, 0}));
}

TEST_F(Gradients, PoolingServesIntegers) {
  const std::vector<std::int8_t> values = {-128, -5, 3, 3, 7, -1, 127, 0};
  const auto x = Tensor<B, IntKind>::from(std::span<const std::int8_t>(values), {2, 2, 2});
  EXPECT_EQ(max_pool2d(x, kPairs).template to_vector<std::int8_t>(),
            (std::vector<std::int8_t>{3, 127}));
}

TEST_F(Gradients, PoolingRefusesWrongWindows) {
  const auto x = zeros<B>({4, 4}, Dtype::f64);
  EXPECT_THROW((void)max_pool2d(x, {.kernel = {5, 2}}), Exception);
  EXPECT_THROW((void)max_pool2d(x, {.kernel = {2, 2}, .padding = {2, 0}}), Exception);
  EXPECT_THROW((void)avg_pool2d(x, {.kernel = {2, 2}, .dilation = {2, 1}}), Exception);
  EXPECT_THROW((void)adaptive_avg_pool2d(x, {0, 1}), Exception);
}

}  // namespace

}  // namespace planck::test
