// Every op by name, with its types erased: what the command line, the docs table, the harness and
// the benchmarks use.
//
// A family adds its ops in ops/ops.cpp with one line. From attributes and input specs an entry
// makes an AnyProblem: it knows the spec of every operand, every kernel of the table with its
// reason to refuse, and selects plans.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "planck/plan/attributes.h"
#include "planck/plan/plan.h"

namespace planck {

using InputSpecs = std::map<std::string, InputSpec, std::less<>>;

struct KernelStatus {
  std::string_view name;
  DeviceKind device;
  std::string reject;  // "" where the kernel accepts the problem
  std::size_t workspace;
  PrecisionGuarantee guarantee;
  int capability = 0;  // as the row's
  // Why it cannot run on a device of its kind, "" where it can.
  std::function<std::string(Device)> unfit;
};

class AnyPlan {
 public:
  virtual ~AnyPlan() = default;
  virtual std::size_t workspace_size() const = 0;
  virtual KernelSku sku() const = 0;
  virtual PrecisionGuarantee precision_guarantee() const = 0;
  [[nodiscard]] virtual Result<void> can_implement(const Operands&) const = 0;
  [[nodiscard]] virtual Result<void> run(const Stream&, Workspace, const Operands&) const = 0;
};

class AnyProblem {
 public:
  virtual ~AnyProblem() = default;
  virtual const OpInfo& info() const = 0;
  virtual std::vector<OperandSpec> specs() const = 0;
  virtual std::vector<KernelStatus> kernels() const = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<AnyPlan>> select(
      const Stream&, const PlanPreference& = {}) const = 0;
};

// Combinations of dtypes an op is instantiated for: element × aux.
struct DtypePair {
  Dtype element;
  std::optional<Dtype> aux;
};

struct OpEntry {
  const OpInfo* info;
  std::vector<DtypePair> dtypes;
  // Attributes have been checked to be known ones.
  Result<std::unique_ptr<AnyProblem>> (*parse)(const OpInfo&, const Attributes&, const InputSpecs&);
};

// Elements of these dtypes, or of every float, without an aux.
std::vector<DtypePair> elements_of(std::span<const Dtype> dtypes);
std::vector<DtypePair> float_elements();  // f32, f64, f16, bf16

// Finds the op, refuses unknown attributes and inputs and names missing inputs, then asks the
// family.
[[nodiscard]] Result<std::unique_ptr<AnyProblem>> parse_problem(std::span<const OpEntry> entries,
                                                                std::string_view op,
                                                                const Attributes&,
                                                                const InputSpecs&);
const OpEntry* find_op(std::span<const OpEntry> entries, std::string_view op);

// Makes an AnyProblem of a family's Problem.
template <class Problem>
class ErasedProblem final : public AnyProblem {
 public:
  explicit ErasedProblem(const Problem& problem) : problem_(problem) {}

  const Problem& problem() const { return problem_; }
  const OpInfo& info() const override { return problem_.info(); }
  std::vector<OperandSpec> specs() const override {
    const auto all = problem_.specs();
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(info().operands.size())};
  }
  std::vector<KernelStatus> kernels() const override {
    std::vector<KernelStatus> rows;
    for (const Kernel<Problem>& k : problem_.kernels())
      rows.push_back({k.name, k.device, k.reject(problem_), k.workspace(problem_),
                      k.guarantee(problem_), k.capability, [&k, p = problem_](Device device) {
                        return plan_detail::unfit(k, p, device);
                      }});
    return rows;
  }
  Result<std::unique_ptr<AnyPlan>> select(const Stream& stream,
                                          const PlanPreference& preference) const override {
    return Selection<Problem>::select(stream, problem_, preference).map([](auto&& s) {
      return std::unique_ptr<AnyPlan>(new Erased(std::move(s)));
    });
  }

 private:
  struct Erased final : AnyPlan {
    explicit Erased(Selection<Problem> s) : selection(std::move(s)) {}
    std::size_t workspace_size() const override { return selection.workspace_size(); }
    KernelSku sku() const override { return selection.sku(); }
    PrecisionGuarantee precision_guarantee() const override {
      return selection.precision_guarantee();
    }
    Result<void> can_implement(const Operands& o) const override {
      return selection.can_implement(o);
    }
    Result<void> run(const Stream& s, Workspace w, const Operands& o) const override {
      return selection.run(s, w, o);
    }
    Selection<Problem> selection;
  };
  Problem problem_;
};

// What a family with an enum of ops, Kind, has to write: how one of its problems is parsed.
template <class Kind>
using ParseKind = Result<std::unique_ptr<AnyProblem>> (*)(const OpInfo&, const Attributes&,
                                                          const InputSpecs&, Kind);

namespace registry_detail {

template <class Kind>
Kind kind_of(ParseKind<Kind>);  // of a parse function, never called

template <auto kParse, std::size_t kKind>
Result<std::unique_ptr<AnyProblem>> parse_kind(const OpInfo& op, const Attributes& attributes,
                                               const InputSpecs& inputs) {
  return kParse(op, attributes, inputs, static_cast<decltype(kind_of(kParse))>(kKind));
}

}  // namespace registry_detail

// The entries of such a family: infos in the order of Kind, dtypes_of(kind) the pairs of an op.
template <auto kParse, std::size_t kCount, class DtypesOf>
std::vector<OpEntry> entries_of_kinds(const OpInfo (&infos)[kCount], const DtypesOf& dtypes_of) {
  using Kind = decltype(registry_detail::kind_of(kParse));
  std::vector<OpEntry> entries;
  [&]<std::size_t... kKinds>(std::index_sequence<kKinds...>) {
    (entries.push_back({&infos[kKinds], dtypes_of(static_cast<Kind>(kKinds)),
                        &registry_detail::parse_kind<kParse, kKinds>}),
     ...);
  }
  (std::make_index_sequence<kCount>());
  return entries;
}

}  // namespace planck
