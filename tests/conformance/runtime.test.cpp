// Allocator, streams and the texts of refusals.
#include "planck/core/cuda/runtime.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "planck/core/allocator.h"
#include "planck/core/owned_tensor.h"
#include "planck/core/workspace.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"

namespace planck::conformance {
namespace {

TEST(Allocator, GivesABlockOutAgain) {
  const Stream stream = Stream::cpu(1);
  release_cached(Device::cpu());
  const std::size_t before = allocator_stats(Device::cpu()).in_use;
  void* first = nullptr;
  {
    auto buffer = allocate(stream, 100'000);
    ASSERT_TRUE(buffer);
    first = buffer->data();
    EXPECT_EQ(buffer->bytes(), 100'000u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % kWorkspaceAlignment, 0u);
    EXPECT_GE(allocator_stats(Device::cpu()).in_use, before + 100'000);
  }
  EXPECT_EQ(allocator_stats(Device::cpu()).in_use, before);
  EXPECT_GE(allocator_stats(Device::cpu()).cached, 100'000u);
  {
    auto again = allocate(stream, 99'999);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->data(), first);
    Buffer moved = std::move(*again);
    EXPECT_EQ(moved.data(), first);
    EXPECT_EQ(again->data(), nullptr);
  }
  release_cached(Device::cpu());
  EXPECT_EQ(allocator_stats(Device::cpu()).cached, 0u);
}

TEST(Allocator, ServesThreadsAtOnce) {
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([t] {
        for (int i = 0; i < 500; ++i) {
          auto buffer = allocate(Stream::cpu(1), 64 + static_cast<std::size_t>(i % 7) * 1000);
          ASSERT_TRUE(buffer);
          std::memset(buffer->data(), t, buffer->bytes());
          for (std::size_t k = 0; k < buffer->bytes(); k += 63)
            ASSERT_EQ(static_cast<const unsigned char*>(buffer->data())[k], t);
        }
      });
  }
  release_cached(Device::cpu());
}

TEST(Allocator, SaysWhenMemoryRunsOut) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer ends the process at requests of such a size";
#endif
  for (std::size_t bytes : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX - 4096}) {
    const auto buffer = allocate(Stream::cpu(1), bytes);
    ASSERT_FALSE(buffer) << bytes;
    EXPECT_EQ(buffer.error().code, ErrorCode::out_of_memory);
  }
}

TEST(OwnedTensor, CopiesBetweenStreams) {
  const Stream stream = Stream::cpu(1);
  auto a = OwnedTensor::empty(stream, Dtype::i32, {2, 3});
  ASSERT_TRUE(a);
  for (int i = 0; i < 6; ++i) a->as<std::int32_t>()[i] = i;
  const auto b = a->to(stream, Stream::cpu(2));
  ASSERT_TRUE(b);
  EXPECT_NE(a->data(), b->data());
  EXPECT_EQ(std::memcmp(a->data(), b->data(), 24), 0);
  EXPECT_TRUE(OwnedTensor::empty(stream, Dtype::f32, {0, 5}));
  EXPECT_FALSE(OwnedTensor::empty(stream, Dtype::f32, {-1}));
}

TEST(Stream, KnowsItsPlace) {
  EXPECT_EQ(Stream::cpu(3).threads(), 3);
  EXPECT_GE(Stream::cpu().threads(), 1);
  EXPECT_EQ(Stream::cpu().device(), Device::cpu());
  EXPECT_TRUE(Stream::cpu().synchronize());
  EXPECT_EQ(to_string(Device::cuda(2)), "cuda:2");
  const auto absent = Stream::cuda(4096);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::device);
  EXPECT_NE(absent.error().message.find("no CUDA device"), std::string::npos);
  EXPECT_FALSE(Stream::cuda(-1));
  int dummy = 0;
  const Stream borrowed = Stream::borrow_cuda(&dummy, 1);
  EXPECT_EQ(borrowed.native(), &dummy);
  EXPECT_EQ(borrowed.device(), Device::cuda(1));
}

TEST(CudaStream, CopiesThereAndBack) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  auto a = OwnedTensor::empty(Stream::cpu(1), Dtype::f64, {1000});
  ASSERT_TRUE(a);
  for (int i = 0; i < 1000; ++i) a->as<double>()[i] = i * 0.5;
  const auto there = a->to(Stream::cpu(1), *stream);
  ASSERT_TRUE(there);
  const auto back = there->to(*stream, Stream::cpu(1));
  ASSERT_TRUE(back);
  EXPECT_EQ(std::memcmp(a->data(), back->data(), 8000), 0);
}

// Texts a user will read, whole.
TEST(Refusals, NameTheOpAndWhatItWants) {
  const auto message = [](std::string_view op, const Attributes& attributes,
                          const InputSpecs& inputs) {
    const auto problem = parse_problem(all_ops(), op, attributes, inputs);
    return problem ? std::string("accepted") : problem.error().message;
  };
  const InputSpecs good = {
      {"x", {Dtype::f32, {4, 6}}}, {"scale", {Dtype::f32, {4}}}, {"zero_point", {Dtype::i32, {4}}}};
  EXPECT_EQ(message("quantise", {}, good), "no op is called quantise");
  EXPECT_EQ(message("quantize_per_token", {}, good), "accepted");
  EXPECT_EQ(message("quantize_per_token", {{"axes", "1"}}, good),
            "quantize_per_token: no attribute is called axes; it has: dtype, q_min, q_max, math");
  EXPECT_EQ(message("quantize_per_token", {}, {{"x", {Dtype::f32, {4}}}}),
            "quantize_per_token: input scale is missing; it has: x, scale, zero_point");
  InputSpecs extra = good;
  extra["y"] = {Dtype::f32, {4}};
  EXPECT_EQ(message("quantize_per_token", {}, extra),
            "quantize_per_token: no input is called y; it has: x, scale, zero_point");
  EXPECT_EQ(message("quantize_per_token", {{"q_min", "one"}}, good),
            "quantize_per_token: q_min=one is not a whole number");
}

TEST(Refusals, SelectListsEveryReason) {
  const auto c = verify::example_case("quantize_per_tensor", {Dtype::f32, Dtype::s8}, {4, 6});
  ASSERT_TRUE(c);
  const auto problem = verify::parse_problem(all_ops(), *c);
  ASSERT_TRUE(problem);
  PlanPreference preference;
  preference.kernel = "cpu:imagined";
  const auto none = (*problem)->select(Stream::cpu(1), preference);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::unsupported);
  for (const KernelStatus& kernel : (*problem)->kernels())
    EXPECT_NE(none.error().message.find(std::string(kernel.name) +
                                        " not the kernel asked for (cpu:imagined)"),
              std::string::npos)
        << none.error().message;
}

TEST(Refusals, SelectHonoursTheWorkspaceLimit) {
  for (const OpEntry& entry : all_ops()) {
    const auto c = verify::example_case(entry.info->name, entry.dtypes.front(), {64, 64});
    ASSERT_TRUE(c);
    const auto problem = verify::parse_problem(all_ops(), *c);
    ASSERT_TRUE(problem) << problem.error().message;
    for (const KernelStatus& kernel : (*problem)->kernels()) {
      if (kernel.device != DeviceKind::cpu || kernel.workspace == 0) continue;
      PlanPreference preference;
      preference.kernel = kernel.name;
      preference.max_workspace_bytes = kernel.workspace - 1;
      const auto none = (*problem)->select(Stream::cpu(1), preference);
      ASSERT_FALSE(none) << entry.info->name;
      EXPECT_EQ(none.error().code, ErrorCode::unsupported);
      EXPECT_NE(none.error().message.find("bytes of workspace"), std::string::npos);
      preference.max_workspace_bytes = kernel.workspace;
      EXPECT_TRUE((*problem)->select(Stream::cpu(1), preference));
    }
  }
}

}  // namespace
}  // namespace planck::conformance
