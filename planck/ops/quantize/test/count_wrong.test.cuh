// For tests whose kernels count what is wrong.
#pragma once

#include <gtest/gtest.h>

#include "planck/core/cuda/runtime.h"

namespace planck {

template <class Kernel, class... A>
void expect_none_wrong(Kernel kernel, A... arguments) {
  auto* wrong = static_cast<unsigned long long*>(cuda::allocate(0, 8).value());
  unsigned long long count = 0;
  ASSERT_EQ(cudaMemset(wrong, 0, 8), cudaSuccess);
  kernel<<<132 * 8, 256>>>(wrong, arguments...);
  ASSERT_EQ(cudaMemcpy(&count, wrong, 8, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(count, 0u);
  cuda::release(0, wrong);
}

}  // namespace planck
