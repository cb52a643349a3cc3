#include "planck/verify/checks/sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "planck/verify/case_lists.h"
#include "planck/verify/checks/checks.h"
#include "planck/verify/replay.h"

namespace planck::verify {

namespace {

constexpr std::uint64_t kSeeds = 8;  // kinds of values times formulas, see hostile_case

struct Work {
  const OpEntry* entry;
  DtypePair dtypes;
  std::uint64_t seed;
};

std::vector<Work> all_work(std::span<const OpEntry> ops, const SweepOptions& options) {
  std::vector<Work> work;
  for (const OpEntry& entry : ops) {
    if (options.wanted && !options.wanted(entry.info->name)) continue;
    for (const DtypePair& dtypes : entry.dtypes)
      for (std::uint64_t seed = 0; seed < kSeeds; ++seed) work.push_back({&entry, dtypes, seed});
  }
  return work;
}

// Rows of an odd or even number of vectors, long or short: about `count` elements, never fewer.
Shape shape_for(std::int64_t count, std::uint64_t seed) {
  constexpr std::int64_t kRows[] = {256, 1000, 62, 4096};
  const std::int64_t columns = kRows[seed % std::size(kRows)];
  return {(count + columns - 1) / columns, columns};
}

// FNV-1a over words.
void mix(std::uint64_t& digest, const HostTensor& tensor) {
  if (tensor.bytes.empty()) return;  // an operand that is no output
  for (std::int64_t i = 0; i < tensor.count(); ++i)
    digest = (digest ^ tensor.pattern(i)) * 0x100000001b3u;
}

void compare(const Work& work, const Case& c, std::span<const Stream> streams,
             std::span<const OpEntry> ops, SweepReport& report) {
  const auto problem = parse_problem(ops, c);
  if (!problem)
    return report.failures.push_back(fmt::format("{}: {}", c.id(), problem.error().message));
  const NamedTensors inputs = c.make_inputs();
  Subject subject{&c, problem->get(), nullptr, (*problem)->specs()};
  Outcome golden;
  std::string golden_text;
  for (const Stream& stream : streams)
    for (const KernelStatus& kernel : (*problem)->kernels()) {
      if (!kernel.reject.empty() || kernel.device != stream.device().kind) continue;
      if (!kernel.unfit(stream.device()).empty()) continue;
      if (kernel.guarantee.reproducibility != Reproducibility::cross_device) continue;
      PlanPreference preference;
      preference.kernel = kernel.name;
      const auto plan = (*problem)->select(stream, preference);
      std::string fault = plan ? "" : plan.error().message;
      if (plan) {
        subject.plan = plan->get();
        Outcome outcome = execute(subject, stream, inputs, {.what = "sweep", .layouts = {}});
        fault = outcome.fault;
        if (golden_text.empty()) {
          golden = std::move(outcome);
          for (const auto& [operand, tensor] : inputs) mix(report.digest, tensor);
          for (const HostTensor& output : golden.outputs) {
            mix(report.digest, output);
            if (!output.bytes.empty()) report.outputs += output.count();
          }
          golden_text = fmt::format("{} with {} threads", kernel.name, stream.threads());
        } else if (fault.empty()) {
          fault = outputs_difference(subject, golden, outcome);
        }
      }
      ++report.comparisons;
      if (fault.empty()) continue;
      report.failures.push_back(fmt::format(
          "{}: {} on {}, {} threads, against {}: {}\n  case {}\n  {}", work.entry->info->name,
          kernel.name, to_string(stream.device()), stream.threads(), golden_text, fault, c.id(),
          report.failures.size() < 20 ? replay_line(c, inputs, stream.device(), kernel.name, "")
                                      : ""));
    }
}

}  // namespace

Result<SweepReport> sweep(std::span<const OpEntry> ops, const SweepOptions& options) {
  std::vector<Stream> streams = {Stream::cpu(1), Stream::cpu(options.threads)};
  if (options.device.kind == DeviceKind::cuda) {
    auto stream = Stream::on(options.device);
    if (!stream) return tl::unexpected(stream.error());
    streams.push_back(*stream);
  }
  const std::vector<Work> work = all_work(ops, options);
  SweepReport report;
  report.digest = 0xcbf29ce484222325u;
  if (work.empty()) return report;
  const std::int64_t each = (options.values + static_cast<std::int64_t>(work.size()) - 1) /
                            static_cast<std::int64_t>(work.size());
  for (const Work& w : work) {
    const Shape shape = shape_for(std::max<std::int64_t>(each, 1), w.seed);
    if (const auto c = hostile_case(w.entry->info->name, w.dtypes, shape, w.seed)) {
      compare(w, *c, streams, ops, report);
      report.values += numel(shape);
      ++report.cases;
    }
    if (options.progress)
      options.progress(static_cast<std::size_t>(&w - work.data()) + 1, work.size(),
                       w.entry->info->name);
  }
  return report;
}

}  // namespace planck::verify
