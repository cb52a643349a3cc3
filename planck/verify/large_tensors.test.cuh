// Tensors of more than 2^31 elements on a GPU, made and checked there: what tests of several
// families need of them.
#pragma once

#include <gtest/gtest.h>

#include "planck/core/allocator.h"
#include "planck/core/cuda/runtime.h"
#include "planck/core/owned_tensor.h"
#include "planck/loops/cuda/launch.cuh"
#include "planck/verify/on_device.test.h"

namespace planck::large_test {

inline constexpr std::int64_t kCount = (std::int64_t{1} << 31) + 4097;

__host__ __device__ inline std::uint32_t mixed(std::int64_t i) {
  const auto x = (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<std::uint32_t>((x ^ x >> 31) >> 17);
}

template <class F>
__global__ void for_each(std::int64_t count, F f) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x)
    f(i);
}

template <class F>
struct Count {
  F is_right;
  unsigned long long* wrong;
  __device__ void operator()(std::int64_t i) const {
    if (!is_right(i)) atomicAdd(wrong, 1ull);
  }
};

struct LargeTensors {
  Stream stream = Stream::cuda().value();

  OwnedTensor tensor(Dtype dtype, const Shape& shape) {
    auto t = OwnedTensor::empty(stream, dtype, shape);
    EXPECT_TRUE(t) << t.error().message;
    return std::move(*t);
  }
  template <class F>
  void each(std::int64_t count, F f) {
    for_each<<<132 * 16, 256, 0, native(stream)>>>(count, f);
    EXPECT_TRUE(stream.synchronize());
  }
  template <class Plan>
  void run(const Plan& plan, const auto& args) {
    ASSERT_TRUE(plan) << plan.error().message;
    const auto workspace = allocate(stream, plan->workspace_size());
    ASSERT_TRUE(workspace) << workspace.error().message;
    const auto ran = plan->run(stream, {workspace->data(), workspace->bytes()}, args);
    ASSERT_TRUE(ran) << ran.error().message;
    const auto done = stream.synchronize();
    ASSERT_TRUE(done) << done.error().message;
  }
  // How many i below count are wrong.
  template <class F>
  std::int64_t wrong(std::int64_t count, F is_right) {
    const OwnedTensor counter = tensor(Dtype::i64, {1});
    auto* at = counter.as<unsigned long long>();
    EXPECT_TRUE(cuda::fill(0, stream.native(), at, 0, 8));
    each(count, Count<F>{is_right, at});
    return number(counter);
  }
  std::int64_t number(const OwnedTensor& one) {
    const auto host = one.to(stream, Stream::cpu());
    EXPECT_TRUE(host);
    return *host->as<std::int64_t>();
  }
};

}  // namespace planck::large_test
