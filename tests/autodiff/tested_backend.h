// The backend that the tests of this executable are compiled for.
#pragma once

#include <gtest/gtest.h>

#include "planck/planck.h"
#include "tests/reference/reference.h"

namespace planck::test {

using TestedBackend = PLANCK_TESTED_BACKEND;
using B = TestedBackend;
using A = Autodiff<B>;

// Skips, visibly, where the backend's device is absent.
class Gradients : public testing::Test {
 protected:
  void SetUp() override {
    if constexpr (std::same_as<TestedBackend, Cuda>)
      if (!Stream::on({DeviceKind::cuda, 0})) GTEST_SKIP() << "no CUDA device";
  }
};
using Graphs = Gradients;

}  // namespace planck::test
