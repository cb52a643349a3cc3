// How an odd case is tried.
#include <fmt/format.h>

#include "planck/ops/ops.h"
#include "planck/verify/tensors/fill.h"
#include "planck/verify/tensors/guarded_tensor.h"
#include "tests/conformance/odd_cases.h"
#include "tests/conformance/odd_reference.h"

namespace planck::conformance {

namespace {

using verify::GuardedBytes;
using verify::GuardedTensor;
using verify::HostTensor;

// What is larger is selected and not run.
constexpr std::uint64_t kMostBytes = 8 << 20;

std::string wrong_message(const OddCase& c, const Error& e) {
  if (e.message.find('\n') != e.message.npos) return "the error has several lines: " + e.message;
  if (!e.message.starts_with(c.op)) return "the error does not begin with the op: " + e.message;
  return "";
}

// Adversarial and usual values by turns; integers small ones, or any.
HostTensor values_of(const InputSpec& spec, std::uint64_t seed, std::uint64_t stream) {
  HostTensor t(spec.dtype, spec.shape);
  using verify::Fill;
  if (is_float(spec.dtype))
    verify::fill(t, seed % 2 == 0 ? Fill::adversarial : Fill::uniform, seed, stream);
  else if (seed % 2 == 0 || is_packed(spec.dtype) || spec.dtype == Dtype::boolean)
    verify::fill(t, Fill::integers, seed, stream);
  else
    verify::fill(t, Fill::integers, seed, stream, {0, 3});
  return t;
}

bool fits(const Shape& shape, std::uint64_t& bytes) {
  if (!check_shape(shape, "")) return false;
  const auto count = static_cast<std::uint64_t>(numel(shape));
  bytes += count * 8;
  return count <= kMostBytes && bytes <= kMostBytes;
}

struct Attempt {
  std::vector<HostTensor> outputs;
  std::optional<Error> refused;
  std::string fault;
};

// One run of a plan with outputs and workspace full of `sentinel`.
Attempt attempt(const OddCase& c, const AnyProblem& problem, const AnyPlan& plan,
                const Stream& stream, std::uint8_t sentinel) {
  Attempt result;
  const OpInfo& info = problem.info();
  const auto specs = problem.specs();
  std::vector<GuardedTensor> tensors(specs.size());
  Operands operands{};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto given = c.inputs.find(info.operands[i].name);
    const bool is_given = given != c.inputs.end();
    if (info.operands[i].role == Role::input ? !is_given : !specs[i].used) continue;
    const InputSpec spec = is_given ? given->second : InputSpec{specs[i].dtype, specs[i].shape};
    std::optional<HostTensor> values;
    if (is_given) values = values_of(spec, c.seed, i);
    auto tensor = GuardedTensor::make(stream, spec.dtype, spec.shape,
                                      {row_major(spec.shape), 0, numel(spec.shape)}, sentinel,
                                      values ? &*values : nullptr);
    if (!tensor) return {{}, {}, tensor.error().message};
    tensors[i] = std::move(*tensor);
    operands[i] = tensors[i].view();
  }
  auto workspace = GuardedBytes::filled(stream, plan.workspace_size(), sentinel);
  if (!workspace) return {{}, {}, workspace.error().message};
  const auto ran = plan.run(stream, {workspace->data(), plan.workspace_size()}, operands);
  if (auto done = stream.synchronize(); !done) return {{}, {}, done.error().message};
  if (!ran) result.refused = ran.error();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    result.outputs.emplace_back();
    if (!operands[i].present) continue;
    if (auto ok = tensors[i].download(stream); !ok) return {{}, {}, ok.error().message};
    const bool output = info.operands[i].role == Role::output;
    const std::string change = output && ran ? tensors[i].stray_writes() : tensors[i].changes();
    if (!change.empty())
      result.fault =
          fmt::format("{} {}: {}", output ? "output" : "input", info.operands[i].name, change);
    if (output) result.outputs.back() = tensors[i].values();
  }
  const auto kept = workspace->surrounded_by(stream, sentinel);
  if (!kept || !*kept) result.fault = "the workspace was overrun";
  return result;
}

std::string difference(const OpInfo& info, const Attempt& a, const Attempt& b) {
  for (std::size_t i = 0; i < a.outputs.size(); ++i)
    if (const std::string d = verify::bit_difference(a.outputs[i], b.outputs[i]); !d.empty())
      return fmt::format("{}: {}", info.operands[i].name, d);
  return "";
}

// The results of a kernel against naive ones.
std::string against_naive(const OddCase& c, const AnyProblem& problem, const Attempt& got,
                          double max_ulp, Counted& counted) {
  TakenCase taken{problem, {}, {}, max_ulp};
  const OpInfo& info = problem.info();
  for (std::size_t i = 0; i < info.operands.size(); ++i) {
    const auto given = c.inputs.find(info.operands[i].name);
    if (info.operands[i].role == Role::input && given != c.inputs.end())
      taken.inputs.push_back(values_of(given->second, c.seed, i));
    if (info.operands[i].role == Role::output && problem.specs()[i].used)
      taken.outputs.push_back(got.outputs[i]);
  }
  return wrong_values(taken, counted.compared);
}

}  // namespace

std::string run_odd_case(const OddCase& c, const Stream& stream, Counted& counted) {
  const auto problem = parse_problem(all_ops(), c.op, c.attributes, c.inputs);
  if (!problem) return wrong_message(c, problem.error());
  const OpInfo& info = (*problem)->info();
  {
    const auto plan = (*problem)->select(stream);
    if (!plan) return wrong_message(c, plan.error());
  }
  std::uint64_t bytes = 0;
  for (const auto& [name, spec] : c.inputs)
    if (!fits(spec.shape, bytes)) return "";
  for (const OperandSpec& spec : (*problem)->specs())
    if (spec.used && !fits(spec.shape, bytes)) return "";

  std::optional<Attempt> first;
  for (const KernelStatus& kernel : (*problem)->kernels()) {
    if (kernel.device != stream.device().kind || !kernel.reject.empty()) continue;
    PlanPreference only;
    only.at_least = Reproducibility::none;
    only.kernel = kernel.name;
    const auto plan = (*problem)->select(stream, only);
    if (!plan) return wrong_message(c, plan.error());
    if ((*plan)->workspace_size() > kMostBytes) continue;
    const auto failed = [&](const std::string& what) {
      return what.empty() ? what : fmt::format("{}: {}", kernel.name, what);
    };
    const Attempt once = attempt(c, **problem, **plan, stream, 0xa5);
    if (!once.fault.empty()) return failed(once.fault);
    if (once.refused) return failed(wrong_message(c, *once.refused));
    ++counted.taken;
    const Attempt again = attempt(c, **problem, **plan, stream, 0x3c);
    const bool bits = kernel.guarantee.reproducibility != Reproducibility::none;
    if (bits)
      if (const auto d = difference(info, once, again); !d.empty())
        return failed("depends on what was there before: " + d);
    if (!first) {
      if (auto d = against_naive(c, **problem, once, kernel.guarantee.max_ulp, counted); !d.empty())
        return failed(d);
      first = once;
    } else if (kernel.guarantee.reproducibility == Reproducibility::cross_device) {
      if (const auto d = difference(info, *first, once); !d.empty())
        return failed("other bits than the first kernel: " + d);
    }
  }
  return "";
}

}  // namespace planck::conformance
