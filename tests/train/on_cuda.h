// Tests of recorded steps that need a GPU.
#pragma once

#include <gtest/gtest.h>

#include "planck/training.h"

namespace planck::test {

// f(std::type_identity<A>{}) with A of CUDA, or the test is skipped.
template <class F>
void on_cuda(const F& f) {
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  with_backend_of(*gpu,
                  [&]<class B>(std::type_identity<B>) { f(std::type_identity<Autodiff<B>>{}); });
}

}  // namespace planck::test
