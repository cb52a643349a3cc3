// What every kernel of a case's table makes of it, on the CPU and, where there is one, on a GPU,
// for tests that have a reference of their own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/tensors/placed_run.h"

namespace planck::verify {

// Where a case is run: the layout of each operand, contiguous where the list ends, and numbers of
// CPU threads (0: one per core).
struct Where {
  std::vector<Layout> layouts = {};
  std::vector<int> threads = {0};
};

// Outputs by name, of one kernel.
using OutputCheck = std::function<void(const NamedTensors& outputs, const KernelStatus& kernel)>;
inline void with_outputs(const Case& c, const NamedTensors& inputs, const OutputCheck& check,
                         const Where& where = {}) {
  static const auto cuda = Stream::cuda();
  std::vector<Stream> streams;
  for (int threads : where.threads) streams.push_back(Stream::cpu(threads));
  if (cuda) streams.push_back(*cuda);
  const auto problem = parse_problem(all_ops(), c);
  ASSERT_TRUE(problem) << c.id() << ": " << problem.error().message;
  Subject subject{&c, problem->get(), nullptr, (*problem)->specs()};
  for (const Stream& stream : streams)
    for (const KernelStatus& kernel : (*problem)->kernels()) {
      if (!kernel.reject.empty() || kernel.device != stream.device().kind) continue;
      SCOPED_TRACE(c.id() + ": " + std::string(kernel.name));
      const auto plan =
          (*problem)->select(stream, {.at_least = Reproducibility::none, .kernel = kernel.name});
      ASSERT_TRUE(plan) << plan.error().message;
      subject.plan = plan->get();
      const Outcome outcome =
          execute(subject, stream, inputs, {.what = "values", .layouts = where.layouts});
      ASSERT_EQ(outcome.fault, "");
      NamedTensors outputs;
      for (std::size_t i = 0; i < subject.specs.size(); ++i)
        if (subject.role(i) == Role::output && subject.specs[i].used)
          outputs.emplace(subject.info().operands[i].name, outcome.outputs[i]);
      check(outputs, kernel);
    }
}

}  // namespace planck::verify
