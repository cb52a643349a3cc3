#include "planck/verify/checks/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "planck/verify/tensors/placed_run.h"

namespace planck::verify {

namespace {

// Maps a float to an integer so that neighbours differ by one and ±0 coincide.
std::int64_t position_on_line(Dtype dtype, double value) {
  HostTensor one(dtype, {1});
  one.set_number(0, value);
  const int width = bits(dtype);
  const std::uint64_t sign = std::uint64_t{1} << (width - 1);
  const std::uint64_t pattern = one.pattern(0), magnitude = pattern & (sign - 1);
  const auto distance = static_cast<std::int64_t>(magnitude);
  return (pattern & sign) ? -distance : distance;
}

}  // namespace

double ulps_apart(Dtype dtype, double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<double>::infinity();
  if (!is_float(dtype)) return a == b ? 0 : std::numeric_limits<double>::infinity();
  // As integers: neighbours of f64 are closer than f64 can tell their positions apart.
  const std::int64_t p = position_on_line(dtype, a), q = position_on_line(dtype, b);
  const auto apart = static_cast<std::uint64_t>(p) - static_cast<std::uint64_t>(q);
  return static_cast<double>(p > q ? apart : 0 - apart);
}

std::string value_difference(const HostTensor& actual, const std::vector<double>& expected,
                             double max_ulp) {
  if (static_cast<std::int64_t>(expected.size()) != actual.count())
    return fmt::format("has {} elements, the reference {}", actual.count(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double got = actual.number(static_cast<std::int64_t>(i));
    const double apart = ulps_apart(actual.dtype, got, expected[i]);
    if (!(apart <= max_ulp))
      return fmt::format(
          "[{}] is {:.17g}, the reference {:.17g}: {} ulp apart, at most {} are promised", i, got,
          expected[i], apart, max_ulp);
  }
  return "";
}

ValueCheck check_values(std::span<const OpEntry> ops, const Case& c, const Stream& stream,
                        const Reference& reference) {
  ValueCheck result;
  auto problem = parse_problem(ops, c);
  if (!problem) {
    result.failures.push_back(fmt::format("{}: {}", c.id(), problem.error().message));
    return result;
  }
  const NamedTensors inputs = c.make_inputs();
  const ReferenceOutputs expected = reference(c, inputs);
  Subject subject{&c, problem->get(), nullptr, (*problem)->specs()};
  for (const KernelStatus& kernel : (*problem)->kernels()) {
    if (!kernel.reject.empty() || kernel.device != stream.device().kind) continue;
    const auto failed = [&](std::string_view what) {
      result.failures.push_back(fmt::format("{}: {}: {}", c.id(), kernel.name, what));
    };
    PlanPreference preference;
    preference.at_least = Reproducibility::none;
    preference.kernel = kernel.name;
    auto plan = (*problem)->select(stream, preference);
    if (!plan) {
      failed(plan.error().message);
      continue;
    }
    subject.plan = plan->get();
    const Outcome outcome = execute(subject, stream, inputs, {.what = "values", .layouts = {}});
    if (!outcome.fault.empty()) {
      failed(outcome.fault);
      continue;
    }
    for (const auto& [output, values] : expected) {
      const int i = subject.info().operand(output);
      if (i < 0 || subject.role(static_cast<std::size_t>(i)) != Role::output) {
        failed(fmt::format("the reference names {}, which is no output", output));
        continue;
      }
      const HostTensor& actual = outcome.outputs[static_cast<std::size_t>(i)];
      const std::string difference = value_difference(actual, values, kernel.guarantee.max_ulp);
      if (!difference.empty()) failed(output + difference);
      for (std::size_t k = 0; difference.empty() && k < values.size(); ++k)
        result.worst_ulp = std::max(
            result.worst_ulp,
            ulps_apart(actual.dtype, actual.number(static_cast<std::int64_t>(k)), values[k]));
    }
  }
  return result;
}

}  // namespace planck::verify
