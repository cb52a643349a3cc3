#include "planck/verify/bench/bench.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "planck/core/cuda/runtime.h"
#include "planck/verify/bench/buffers.h"

namespace planck::verify {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What is timed: work k of a round runs on set `at`.
using Launch = std::function<Result<void>(std::size_t work, const BufferSet& set)>;

// Seconds of every work in every round: [work][round].
using Rounds = std::vector<std::vector<double>>;

Result<Rounds> time_on_cpu(const std::vector<BufferSet>& sets, std::size_t works,
                           double min_seconds, const Launch& launch) {
  constexpr std::size_t kLeastRounds = 7, kMostRounds = 2000;
  Rounds rounds(works);
  std::size_t at = 0;
  for (std::size_t w = 0; w < works; ++w)  // warm-up
    if (auto ok = launch(w, sets[at++ % sets.size()]); !ok) return tl::unexpected(ok.error());
  const auto begin = Clock::now();
  while (rounds[0].size() < kLeastRounds ||
         (seconds_since(begin) < min_seconds && rounds[0].size() < kMostRounds))
    for (std::size_t w = 0; w < works; ++w) {
      const auto start = Clock::now();
      if (auto ok = launch(w, sets[at++ % sets.size()]); !ok) return tl::unexpected(ok.error());
      rounds[w].push_back(seconds_since(start));
    }
  return rounds;
}

// CUDA events that are destroyed with their owner.
struct Events {
  std::vector<void*> all;
  ~Events() {
    for (void* e : all) cuda::destroy_event(e);
  }
};

Result<Rounds> time_on_cuda(const Stream& stream, const std::vector<BufferSet>& sets,
                            std::size_t works, double min_seconds, const Launch& launch) {
  constexpr std::size_t kLeastRounds = 10, kMostRounds = 400;
  constexpr std::size_t kBatch = 10;  // runs between two events
  const int ordinal = stream.device().ordinal;
  Rounds rounds(works);
  Events events;
  for (std::size_t w = 0; w <= works; ++w) {
    auto event = cuda::create_event(ordinal);
    if (!event) return tl::unexpected(event.error());
    events.all.push_back(*event);
  }
  std::size_t at = 0;
  const auto begin = Clock::now();
  for (std::size_t round = 0;
       round < 2 + kLeastRounds || (seconds_since(begin) < min_seconds && round < kMostRounds);
       ++round) {
    // About 1 ms: everything below queues behind it.
    Result<void> ok = cuda::spin(ordinal, stream.native(), 2'000'000);
    for (std::size_t w = 0; w < works && ok; ++w) {
      ok = cuda::record(ordinal, stream.native(), events.all[w]);
      for (std::size_t k = 0; k < kBatch && ok; ++k) ok = launch(w, sets[at++ % sets.size()]);
    }
    if (ok) ok = cuda::record(ordinal, stream.native(), events.all[works]);
    if (ok) ok = stream.synchronize();
    if (!ok) return tl::unexpected(ok.error());
    if (round < 2) continue;  // warm-up
    for (std::size_t w = 0; w < works; ++w) {
      const auto seconds = cuda::seconds_between(events.all[w], events.all[w + 1]);
      if (!seconds) return tl::unexpected(seconds.error());
      rounds[w].push_back(*seconds / kBatch);
    }
  }
  return rounds;
}

// Host seconds per call, from batches of many.
Result<double> time_call(const Stream& stream, const std::function<Result<void>()>& call,
                         double min_seconds) {
  const bool on_cuda = stream.device().kind == DeviceKind::cuda;
  constexpr int kBatch = 200;
  std::vector<double> batches;
  const auto begin = Clock::now();
  while (batches.size() < 12 || (seconds_since(begin) < min_seconds && batches.size() < 10000)) {
    const auto start = Clock::now();
    for (int k = 0; k < kBatch; ++k)
      if (auto ok = call(); !ok) return tl::unexpected(ok.error());
    batches.push_back(seconds_since(start) / kBatch);
    if (on_cuda)
      if (auto ok = stream.synchronize(); !ok) return tl::unexpected(ok.error());
  }
  return median(std::move(batches));
}

// The case with every extent of its tensors replaced by 0 along the first axis of the main one,
// where that is allowed.
Case without_elements(const Case& c, bool first_alone) {
  Case empty = c;
  if (c.inputs.empty()) return empty;
  const std::int64_t first = c.inputs.front().shape.rank() > 0 ? c.inputs.front().shape[0] : -1;
  for (CaseInput& in : empty.inputs)
    if (in.shape.rank() > 0 && in.shape[0] == first && (!first_alone || &in == &empty.inputs[0]))
      in.shape[0] = 0;
  return empty;
}

Result<void> measure_call(std::span<const OpEntry> ops, const BenchCase& bench, const AnyPlan& plan,
                          const BufferSet& set, Workspace workspace, const Stream& stream,
                          double min_seconds, BenchRow& row) {
  auto seconds = time_call(
      stream, [&] { return plan.run(stream, workspace, set.operands); }, min_seconds / 2);
  if (!seconds) return tl::unexpected(seconds.error());
  row.seconds = *seconds;
  Result<double> least = fail(ErrorCode::unsupported, "");
  if (stream.device().kind == DeviceKind::cuda) {
    least = time_call(
        stream, [&] { return launch_nothing(stream); }, min_seconds / 2);
  } else {
    Case empty = without_elements(bench.test_case, false);
    auto problem = parse_problem(ops, empty);
    if (!problem) {  // the other inputs' first axis is another one
      empty = without_elements(bench.test_case, true);
      problem = parse_problem(ops, empty);
    }
    if (!problem) return tl::unexpected(problem.error());
    const auto none = (*problem)->select(stream);
    if (!none) return tl::unexpected(none.error());
    const auto sets = make_buffer_sets({empty}, **problem, stream, 0);
    if (!sets) return tl::unexpected(sets.error());
    least = time_call(
        stream, [&] { return (*none)->run(stream, workspace, sets->front().operands); },
        min_seconds / 2);
  }
  if (!least) return tl::unexpected(least.error());
  // On the CPU run() on nothing is all overhead; on CUDA the launch itself is not ours.
  row.overhead_seconds = stream.device().kind == DeviceKind::cuda ? row.seconds - *least : *least;
  return {};
}

BenchRow describe(const BenchCase& bench, const AnyPlan& plan) {
  const KernelSku sku = plan.sku();
  const Case& c = bench.test_case;
  BenchRow row;
  row.op = c.op;
  row.dtypes = planck::name(sku.element);
  if (sku.aux) row.dtypes += fmt::format(" {}", planck::name(*sku.aux));
  if (!c.inputs.empty()) row.shape = to_string(c.inputs.front().shape);
  std::vector<std::string> details;
  for (const auto& [key, value] : c.attributes)
    if (key != "dtype") details.push_back(key + "=" + value);
  if (!c.inputs.empty() && c.inputs.front().layout != Layout::contiguous)
    details.emplace_back(name(c.inputs.front().layout));
  if (!bench.note.empty()) details.push_back(bench.note);
  row.detail = fmt::format("{}", fmt::join(details, " "));
  row.kernel = sku.kernel;
  row.aim_ms = bench.aim_ms;
  row.cpu_share = bench.cpu_share;
  row.call = bench.call;
  row.flops = bench.flops;
  return row;
}

}  // namespace

std::string name(const BenchCase& bench) {
  const Case& c = bench.test_case;
  std::string text = c.op;
  if (!c.inputs.empty())
    text += fmt::format(" {} {}", planck::name(c.inputs.front().dtype),
                        to_string(c.inputs.front().shape));
  for (const auto& [key, value] : c.attributes) text += fmt::format(" {}={}", key, value);
  if (!c.inputs.empty() && c.inputs.front().layout != Layout::contiguous)
    text += fmt::format(" {}", name(c.inputs.front().layout));
  if (!bench.note.empty()) text += " " + bench.note;
  if (bench.kernel) text += fmt::format(" {}", *bench.kernel);
  return text;
}

Result<BenchRow> run_bench(std::span<const OpEntry> ops, const BenchCase& bench,
                           const Stream& stream, double min_seconds) {
  const Case& c = bench.test_case;
  const auto problem = parse_problem(ops, c);
  if (!problem) return tl::unexpected(problem.error());
  PlanPreference preference;
  preference.kernel = bench.kernel;
  if (bench.kernel) preference.at_least = Reproducibility::none;
  const auto plan = (*problem)->select(stream, preference);
  if (!plan) return tl::unexpected(plan.error());
  const auto workspace_buffer = allocate(stream, (*plan)->workspace_size());
  if (!workspace_buffer) return tl::unexpected(workspace_buffer.error());
  const Workspace workspace{workspace_buffer->data(), workspace_buffer->bytes()};
  const auto sets =
      make_buffer_sets(bench, **problem, stream, bench.call ? 0 : cache_footprint(stream));
  if (!sets) return tl::unexpected(sets.error());

  BenchRow row = describe(bench, **plan);
  for (const auto* side : {&sets->front().traffic.reads, &sets->front().traffic.writes})
    for (const Bytes& b : *side) row.bytes += b.count;
  if (bench.call) {
    if (auto ok =
            measure_call(ops, bench, **plan, sets->front(), workspace, stream, min_seconds, row);
        !ok)
      return tl::unexpected(ok.error());
    return row;
  }

  // A peer that this machine does not have is no failure: the row then has no ratio.
  std::vector<std::string_view> variants;
  std::unique_ptr<AnyPlan> peer;
  Buffer peer_buffer;
  if (bench.flops > 0) {
    PlanPreference other;
    other.kernel = bench.peer;
    if (auto found = (*problem)->select(stream, other); found && !bench.peer.empty()) {
      auto buffer = allocate(stream, (*found)->workspace_size());
      if (!buffer) return tl::unexpected(buffer.error());
      peer_buffer = std::move(*buffer);
      peer = std::move(*found);
      variants.push_back(bench.peer);
    }
  } else {
    const auto all = ceiling_variants(stream.device().kind);
    variants.assign(all.begin(), all.end());
  }
  const Workspace peer_workspace{peer_buffer.data(), peer_buffer.bytes()};
  const Launch launch = [&](std::size_t work, const BufferSet& set) -> Result<void> {
    if (work == 0) return (*plan)->run(stream, workspace, set.operands);
    if (peer != nullptr) return peer->run(stream, peer_workspace, set.operands);
    return move_bytes(stream, set.traffic, work - 1);
  };
  const std::size_t works = 1 + variants.size();
  const auto rounds = stream.device().kind == DeviceKind::cpu
                          ? time_on_cpu(*sets, works, min_seconds, launch)
                          : time_on_cuda(stream, *sets, works, min_seconds, launch);
  if (!rounds) return tl::unexpected(rounds.error());
  row.seconds = median((*rounds)[0]);
  if (variants.empty()) return row;
  std::size_t best = 1;
  for (std::size_t w = 2; w < works; ++w)
    if (median((*rounds)[w]) < median((*rounds)[best])) best = w;
  row.ceiling_variant = variants[best - 1];
  row.ceiling_seconds = median((*rounds)[best]);
  std::vector<double> ratios;
  for (std::size_t r = 0; r < (*rounds)[0].size(); ++r)
    ratios.push_back((*rounds)[best][r] / (*rounds)[0][r]);
  row.ratio = median(std::move(ratios));
  return row;
}

std::vector<BenchCase> all_benches(DeviceKind device) {
  std::vector<BenchCase> all;
  const auto add = [&all](const std::vector<BenchCase>& family) {
    all.insert(all.end(), family.begin(), family.end());
  };
#define PLANCK_ADD(family) add(family##_benches(device));
  PLANCK_FAMILIES(PLANCK_ADD)
#undef PLANCK_ADD
  return all;
}

}  // namespace planck::verify
