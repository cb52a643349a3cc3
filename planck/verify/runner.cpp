#include "planck/verify/runner.h"

#include <fmt/format.h>

#include "planck/verify/checks/checks.h"
#include "planck/verify/replay.h"

namespace planck::verify {

namespace {

// Kernels are forced by name; every promise is good enough to be tested.
PlanPreference only(std::string_view kernel) {
  PlanPreference preference;
  preference.at_least = Reproducibility::none;
  preference.kernel = kernel;
  return preference;
}

bool crosses_devices(const PrecisionGuarantee& g) {
  return g.reproducibility == Reproducibility::cross_device;
}

}  // namespace

bool KernelCheck::expect_none(std::string_view check, const std::string& fault) const {
  ++report.ops[subject.test_case->op].checks;
  if (fault.empty()) return true;
  on_failure(fmt::format("{}: {}", check, fault));
  return false;
}

bool KernelCheck::repeats() const {
  for (const OperandInfo& operand : subject.info().operands)
    if (operand.updates && inputs.contains(operand.name)) return false;
  return true;
}

bool KernelCheck::any_empty() const {
  for (std::size_t i = 0; i < subject.operands(); ++i)
    if (subject.takes(i, inputs) && numel(subject.shape(i, inputs)) == 0) return true;
  return false;
}

Result<Runner> Runner::make(std::span<const OpEntry> ops, Options options) {
  Runner runner(ops, std::move(options));
  if (runner.options_.device.kind == DeviceKind::cpu) {
    for (int threads : runner.options_.threads) runner.streams_.push_back(Stream::cpu(threads));
    return runner;
  }
  for (int k = 0; k < 2; ++k) {
    auto stream = Stream::on(runner.options_.device);
    if (!stream) return tl::unexpected(stream.error());
    runner.streams_.push_back(*stream);
  }
  return runner;
}

void Runner::run(const Case& c) {
  OpCounts& counts = report_.ops[c.op];
  ++counts.cases;
  bool written = false;  // one file of inputs is enough for all failures of a case
  std::string replay;
  const auto failed = [&](const NamedTensors& inputs, std::string_view kernel,
                          const std::string& what) {
    ++report_.ops[c.op].failures;
    if (!written && files_written_ < 20) {
      replay = replay_line(c, inputs, options_.device, kernel, options_.failure_folder);
      ++files_written_;
    }
    written = true;
    report_.failures.push_back(
        fmt::format("{}: {}: {}\n  planck verify --device {} --filter '^{}$'{}{}", c.op, kernel,
                    what, options_.device.kind == DeviceKind::cpu ? "cpu" : "cuda", c.id(),
                    replay.empty() ? "" : "\n  ", replay));
  };

  const NamedTensors inputs = c.make_inputs();
  auto problem = parse_problem(ops_, c);
  if (!problem) return failed(inputs, "parse", problem.error().message);
  Subject subject{&c, problem->get(), nullptr, (*problem)->specs()};

  // The bits everyone who promises cross_device must give: those of the first CPU kernel that does.
  Outcome golden;
  std::string_view golden_kernel;
  for (const KernelStatus& kernel : (*problem)->kernels()) {
    if (kernel.device != DeviceKind::cpu || !kernel.reject.empty() ||
        !crosses_devices(kernel.guarantee))
      continue;
    auto plan = (*problem)->select(Stream::cpu(1), only(kernel.name));
    if (!plan) continue;
    subject.plan = plan->get();
    golden = execute(subject, Stream::cpu(1), inputs, {.what = "reference", .layouts = {}});
    golden_kernel = kernel.name;
    break;
  }

  for (const KernelStatus& kernel : (*problem)->kernels()) {
    if (!kernel.reject.empty()) continue;
    if (kernel.device != options_.device.kind) {
      ++report_.skipped[fmt::format("kernel {} on {}", kernel.name,
                                    kernel.device == DeviceKind::cpu ? "cpu" : "cuda")];
      continue;
    }
    if (const std::string unfit = kernel.unfit(options_.device); !unfit.empty()) {
      ++report_.skipped[fmt::format("kernel {}, which {}", kernel.name, unfit)];
      continue;
    }
    ++counts.kernels;
    const KernelCheck check{
        subject,  inputs,  streams_,
        options_, report_, [&](const std::string& what) { failed(inputs, kernel.name, what); }};
    auto plan = (*problem)->select(streams_.front(), only(kernel.name));
    if (!plan) {
      check.expect_none("select", plan.error().message);
      continue;
    }
    subject.plan = plan->get();
    const Outcome first =
        execute(subject, streams_.front(), inputs, {.what = "contiguous", .layouts = {}});
    if (!check.expect_none("contiguous", first.fault)) continue;
    if (crosses_devices(kernel.guarantee) && !golden_kernel.empty())
      check.expect_none(fmt::format("same bits as {}", golden_kernel),
                        outputs_difference(subject, golden, first));
    check_bits(check, first);
    check_broadcasts(check);
    check_errors(check);
    check_concurrent_use(check, first);
    check_allocations(check);
    check_graph_replay(check, first);
    check_batch(check, ops_, first);
  }
}

}  // namespace planck::verify
