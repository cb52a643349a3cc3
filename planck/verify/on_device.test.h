// One problem on a CPU and on a GPU, for tests of kernels: operands between red zones on both, the
// same bits out of both.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <vector>

#include "planck/core/cuda/runtime.h"
#include "planck/plan/plan.h"
#include "planck/verify/tensors/guarded_tensor.h"

#define PLANCK_NEEDS_GPU() \
  if (planck::cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device"
#define PLANCK_NEEDS_TIME() \
  PLANCK_NEEDS_GPU();       \
  if (std::getenv("PLANCK_LONG_TESTS") == nullptr) GTEST_SKIP() << "PLANCK_LONG_TESTS is not set"

namespace planck::verify {

// One per operand: values, for outputs those before the run; nothing where it is not passed.
using TestTensors = std::vector<std::optional<HostTensor>>;

struct DeviceRun {
  // Where an operand lies: contiguous where this is empty.
  std::function<Placement(const OperandInfo&, const HostTensor&)> place;
  PlanPreference preference;
  int replays = 0;  // more than 0: recorded as a graph and replayed so often
};

// Every operand laid out so, where it can be.
inline DeviceRun laid_out(Layout layout) {
  return {[layout](const OperandInfo& info, const HostTensor& t) {
            const Placement plain{row_major(t.shape), 0, numel(t.shape)};
            return verify::place(layout, t.dtype, t.shape, info.role).value_or(plain);
          },
          {},
          0};
}

// The operands after a run, of which no byte outside the outputs may have changed.
template <class Problem>
TestTensors after_run(const Stream& stream, const Problem& p, const TestTensors& before,
                      const DeviceRun& how = {}) {
  constexpr std::uint8_t kSentinel = 0xa5;
  const auto infos = p.info().operands;
  const auto plan = Selection<Problem>::select(stream, p, how.preference);
  EXPECT_TRUE(plan) << plan.error().message;
  auto workspace = plan ? GuardedBytes::filled(stream, plan->workspace_size(), kSentinel)
                        : tl::unexpected(plan.error());
  if (!workspace) return {};
  std::vector<std::optional<GuardedTensor>> placed(before.size());
  Operands operands;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!before[i]) continue;
    const HostTensor& t = *before[i];
    const Placement where =
        how.place ? how.place(infos[i], t) : Placement{row_major(t.shape), 0, numel(t.shape)};
    auto made = GuardedTensor::make(stream, t.dtype, t.shape, where, kSentinel, &t);
    EXPECT_TRUE(made) << made.error().message;
    if (!made) return {};
    placed[i] = std::move(*made);
    operands[i] = placed[i]->view();
  }
  if (how.replays > 0) {
    EXPECT_TRUE(stream.synchronize() && cuda::begin_capture(0, stream.native()));
  }
  const auto ran = plan->run(stream, {workspace->data(), plan->workspace_size()}, operands);
  EXPECT_TRUE(ran) << ran.error().message;
  if (how.replays > 0) {
    const auto graph = cuda::end_capture(0, stream.native());
    EXPECT_TRUE(graph) << graph.error().message;
    for (int k = 0; graph && k < how.replays; ++k)
      EXPECT_TRUE(cuda::replay(0, stream.native(), *graph));
    EXPECT_TRUE(stream.synchronize());
    if (graph) cuda::destroy_graph(*graph);
  }
  const auto done = stream.synchronize();
  EXPECT_TRUE(done) << done.error().message;
  TestTensors after(before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!placed[i]) continue;
    EXPECT_TRUE(placed[i]->download(stream));
    const bool output = infos[i].role == Role::output;
    EXPECT_EQ(output ? placed[i]->stray_writes() : placed[i]->changes(), "") << infos[i].name;
    after[i] = placed[i]->values();
  }
  const auto surrounded = workspace->surrounded_by(stream, kSentinel);
  EXPECT_TRUE(surrounded && *surrounded) << "a write outside the workspace";
  return after;
}

// What the default kernel of the CPU makes of contiguous operands, and what a GPU does.
template <class Problem>
void expect_cpu_bits(const Problem& p, const TestTensors& before,
                     const std::vector<DeviceRun>& runs) {
  ASSERT_TRUE(p.check()) << p.check().error().message;
  static const Stream gpu = Stream::cuda().value();
  const TestTensors expected = after_run(Stream::cpu(), p, before);
  for (const DeviceRun& how : runs) {
    const TestTensors actual = after_run(gpu, p, before, how);
    ASSERT_EQ(expected.size(), actual.size());
    for (std::size_t i = 0; i < actual.size(); ++i)
      if (actual[i] && p.info().operands[i].role == Role::output) {
        ASSERT_EQ(bit_difference(*expected[i], *actual[i]), "")
            << p.info().operands[i].name << (how.replays > 0 ? ", replayed" : "");
      }
  }
}

}  // namespace planck::verify
