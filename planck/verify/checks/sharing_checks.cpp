// One plan, several users: threads at once, a run that must not allocate, a CUDA graph.
#include <fmt/format.h>

#include <barrier>
#include <thread>

#include "planck/core/cuda/runtime.h"
#include "planck/verify/checks/checks.h"

namespace planck::verify {

void check_concurrent_use(const KernelCheck& check, const Outcome& golden) {
  constexpr std::size_t kUsers = 4;
  const int runs = check.repeats() ? 3 : 1;
  std::vector<Outcome> outcomes(kUsers);
  std::barrier all_ready(kUsers);
  {
    std::vector<std::jthread> users;
    for (std::size_t u = 0; u < kUsers; ++u)
      users.emplace_back([&, u] {
        const Stream& stream = check.streams[u % check.streams.size()];
        auto placed =
            PlacedRun::make(check.subject, stream, check.inputs, {.what = "", .layouts = {}});
        all_ready.arrive_and_wait();
        if (!placed) return void(outcomes[u].fault = placed.error().message);
        Result<void> ran;
        for (int k = 0; k < runs && ran; ++k) ran = placed->run();
        outcomes[u] = placed->finish();
        if (!ran) outcomes[u].fault = ran.error().message;
      });
  }
  for (const Outcome& outcome : outcomes) {
    if (!check.expect_none("concurrent use", outcome.fault) || !check.promises_bits()) return;
    check.expect_none("concurrent use", outputs_difference(check.subject, golden, outcome));
  }
}

void check_allocations(const KernelCheck& check) {
  if (check.options.allocations == nullptr) {
    ++check.report.skipped["allocations of run() (counted in the test binary only)"];
    return;
  }
  // A foreign library has memory of its own.
  if (check.subject.plan->sku().kernel.ends_with(":openblas")) {
    ++check.report.skipped["allocations of run() inside OpenBLAS"];
    return;
  }
  for (const Stream& stream : check.streams) {
    auto placed = PlacedRun::make(check.subject, stream, check.inputs, {.what = "", .layouts = {}});
    if (!placed) return void(check.expect_none("allocations", placed.error().message));
    std::size_t made = 0;
    for (int repeat = 0; repeat < 3; ++repeat) {  // the first may wake a scheduler
      const std::size_t before = check.options.allocations();
      if (auto ok = placed->run(); !ok)
        return void(check.expect_none("allocations", ok.error().message));
      made = check.options.allocations() - before;
    }
    check.expect_none(fmt::format("allocations with {} threads", stream.threads()),
                      made > 0 ? fmt::format("run() allocated {} times, must never", made) : "");
    (void)stream.synchronize();
  }
}

void check_graph_replay(const KernelCheck& check, const Outcome& golden) {
  const Stream& stream = check.streams.front();
  if (stream.device().kind != DeviceKind::cuda) return;
  auto placed =
      PlacedRun::make(check.subject, stream, check.inputs, {.what = "graph", .layouts = {}});
  if (!placed) return void(check.expect_none("graph", placed.error().message));
  const int ordinal = stream.device().ordinal;
  std::string fault;
  const auto record = [&](const Result<void>& r) {
    if (!r && fault.empty()) fault = r.error().message;
  };
  record(stream.synchronize());
  record(cuda::begin_capture(ordinal, stream.native()));
  if (!fault.empty()) return void(check.expect_none("graph", fault));
  record(placed->run());
  auto graph = cuda::end_capture(ordinal, stream.native());
  if (!graph)
    return void(check.expect_none("graph", fault.empty() ? graph.error().message : fault));
  const int repeats = check.repeats() ? 2 : 1;
  for (int repeat = 0; repeat < repeats; ++repeat)
    record(cuda::replay(ordinal, stream.native(), *graph));
  Outcome outcome = placed->finish();
  cuda::destroy_graph(*graph);
  if (fault.empty()) fault = outcome.fault;
  if (check.expect_none("graph", fault) && check.promises_bits())
    check.expect_none("graph", outputs_difference(check.subject, golden, outcome));
}

}  // namespace planck::verify
