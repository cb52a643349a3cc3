// More than 2^31 elements: the same bits as the same elements in a small tensor.
#include <gtest/gtest.h>

#include <cstring>

#include "planck/core/cuda/runtime.h"
#include "planck/core/owned_tensor.h"
#include "planck/ops/ops.h"

namespace planck::conformance {
namespace {

// 2^31 elements and some.
constexpr std::int64_t kChannels = 3, kColumns = (std::int64_t{1} << 30) / 3 * 2 + 10;
constexpr std::int64_t kTail = 4096;

// Any function of the position will do; it must not repeat with 2^31 or 2^32.
std::uint16_t pattern_at(std::int64_t i) {
  // f16 from 0.125 to 2.
  const auto n = static_cast<std::uint64_t>(i);
  return static_cast<std::uint16_t>(0x3000u + (n * 0x9e3779b97f4a7c15u >> 52));
}

// quantize_per_channel, f16 to s8, of x: [kChannels, columns].
Result<OwnedTensor> quantize(const Stream& stream, const OwnedTensor& x, const OwnedTensor& scale,
                             const OwnedTensor& zero_point) {
  const auto problem =
      parse_problem(all_ops(), "quantize_per_channel", {{"axis", "0"}, {"dtype", "s8"}},
                    {{"x", {x.dtype(), x.shape()}},
                     {"scale", {scale.dtype(), scale.shape()}},
                     {"zero_point", {Dtype::i32, {kChannels}}}});
  if (!problem) return tl::unexpected(problem.error());
  const auto plan = (*problem)->select(stream);
  if (!plan) return tl::unexpected(plan.error());
  auto q = OwnedTensor::empty(stream, Dtype::s8, x.shape());
  if (!q) return q;
  const auto workspace = allocate(stream, (*plan)->workspace_size());
  if (!workspace) return tl::unexpected(workspace.error());
  const Operands operands = {x.view(), scale.view(), zero_point.view(), q->view()};
  if (auto ok = (*plan)->run(stream, {workspace->data(), workspace->bytes()}, operands); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = stream.synchronize(); !ok) return tl::unexpected(ok.error());
  return q;
}

// x: [kChannels, columns], where column c holds what column `first` + c of the large tensor holds.
Result<OwnedTensor> make_x(std::int64_t columns, std::int64_t first) {
  auto x = OwnedTensor::empty(Stream::cpu(), Dtype::f16, {kChannels, columns});
  if (!x) return x;
  for (std::int64_t r = 0; r < kChannels; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      x->as<std::uint16_t>()[r * columns + c] = pattern_at(r * kColumns + first + c);
  return x;
}

void expect_same_tail(const Stream& stream) {
  const Stream host = Stream::cpu();
  auto scale = OwnedTensor::empty(host, Dtype::f16, {kChannels}),
       zero_point = OwnedTensor::empty(host, Dtype::i32, {kChannels});
  ASSERT_TRUE(scale && zero_point);
  for (int r = 0; r < kChannels; ++r) {
    scale->as<f16>()[r] = f16(0.01f * static_cast<float>(r + 1));
    zero_point->as<std::int32_t>()[r] = r - 1;
  }
  const auto large = make_x(kColumns, 0), small = make_x(kTail, kColumns - kTail);
  ASSERT_TRUE(large && small);
  ASSERT_GT(numel(large->shape()), std::int64_t{1} << 31);
  const auto small_q = quantize(host, *small, *scale, *zero_point);
  ASSERT_TRUE(small_q) << small_q.error().message;
  const auto there_x = large->to(host, stream), there_scale = scale->to(host, stream);
  const auto there_zero_point = zero_point->to(host, stream);
  ASSERT_TRUE(there_x && there_scale && there_zero_point);
  const auto there_q = quantize(stream, *there_x, *there_scale, *there_zero_point);
  ASSERT_TRUE(there_q) << there_q.error().message;
  const auto large_q = there_q->to(stream, host);
  ASSERT_TRUE(large_q) << large_q.error().message;
  for (std::int64_t r = 0; r < kChannels; ++r)
    EXPECT_EQ(std::memcmp(large_q->as<std::byte>() + (r + 1) * kColumns - kTail,
                          small_q->as<std::byte>() + r * kTail, kTail),
              0)
        << "channel " << r;
  release_cached(Device::cpu());
}

TEST(Long, MoreThan2To31ElementsOnTheCpu) { expect_same_tail(Stream::cpu()); }

TEST(Long, MoreThan2To31ElementsOnCuda) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  expect_same_tail(*stream);
}

}  // namespace
}  // namespace planck::conformance
