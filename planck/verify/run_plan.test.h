// Runs a typed plan once on host memory, for tests with worked examples.
#pragma once

#include <gtest/gtest.h>

#include "planck/core/allocator.h"
#include "planck/core/stream.h"

namespace planck {

template <class PlanType>
void run(const typename PlanType::Descriptor& d, const typename PlanType::Args& args,
         const Stream& stream = Stream::cpu()) {
  auto plan = PlanType::select(stream, d);
  ASSERT_TRUE(plan) << plan.error().message;
  auto workspace = allocate(stream, plan->workspace_size());
  ASSERT_TRUE(workspace) << workspace.error().message;
  const auto done = plan->run(stream, {workspace->data(), workspace->bytes()}, args);
  ASSERT_TRUE(done) << done.error().message;
}

}  // namespace planck
