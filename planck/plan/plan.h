// The plan protocol, written once.
//
//   descriptor → select → can_implement → workspace_size / sku / precision_guarantee → run
//
// A family supplies a Problem (a plain value: which op, which dtypes, which attributes) and a table
// of kernels, best first. select() takes the first row that accepts the problem on the stream's
// device; when none does, the error lists every row's reason. A plan is immutable, copyable and
// safe to share between threads. run() validates its operands, allocates nothing and, on CUDA,
// queues its launches on the stream, where they can be captured in a graph.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "planck/core/stream.h"
#include "planck/core/workspace.h"
#include "planck/plan/op.h"

namespace planck {

// One row of a kernel table. Problem is the family's.
template <class Problem>
struct Kernel {
  std::string_view name;  // device:idea[:variant]
  DeviceKind device;
  std::string (*reject)(const Problem&);  // the reason, or "" to accept
  std::size_t (*workspace)(const Problem&);
  PrecisionGuarantee (*guarantee)(const Problem&);
  // Operands have passed the problem's checks. Null where this build has no such device.
  Result<void> (*launch)(const Stream&, Workspace, const Problem&, const Operands&);
};

namespace plan_detail {

// Why a row cannot serve, before its own reject() is asked; "" where nothing speaks against it.
std::string unavailable(std::string_view kernel, DeviceKind device, bool built,
                        const Stream& stream, const PlanPreference& preference);
Error none_selected(const OpInfo& op, const Stream& stream,
                    std::span<const std::pair<std::string_view, std::string>> reasons);
Result<void> check_run(const OpInfo& op, Device selected, const Stream& stream, std::size_t need,
                       Workspace workspace);
std::string_view arch_name(Device device);

}  // namespace plan_detail

// A kernel chosen for one problem. Problem provides:
//   const OpInfo& info() const;                        Result<void> check() const;
//   std::array<OperandSpec, N> specs() const;          static std::span<const Kernel<Problem>>
//   kernels(…via info); Dtype element() const;                             std::optional<Dtype>
//   aux() const;
template <class Problem>
class Selection {
 public:
  [[nodiscard]] static Result<Selection> select(const Stream& stream, const Problem& problem,
                                                const PlanPreference& preference = {}) {
    if (auto ok = problem.check(); !ok) return tl::unexpected(ok.error());
    std::array<std::pair<std::string_view, std::string>, 16> reasons;
    std::size_t count = 0;
    for (const Kernel<Problem>& kernel : problem.kernels()) {
      std::string reason = plan_detail::unavailable(kernel.name, kernel.device,
                                                    kernel.launch != nullptr, stream, preference);
      if (reason.empty()) reason = kernel.reject(problem);
      if (reason.empty() && kernel.workspace(problem) > preference.max_workspace_bytes)
        reason = "needs " + std::to_string(kernel.workspace(problem)) +
                 " bytes of workspace, at most " + std::to_string(preference.max_workspace_bytes) +
                 " are allowed";
      if (reason.empty() && kernel.guarantee(problem).reproducibility < preference.at_least)
        reason = "promises " + std::string(name(kernel.guarantee(problem).reproducibility)) + ", " +
                 std::string(name(preference.at_least)) + " is asked for";
      if (reason.empty()) return Selection(problem, kernel, stream.device());
      if (count < reasons.size()) reasons[count++] = {kernel.name, std::move(reason)};
    }
    return tl::unexpected(
        plan_detail::none_selected(problem.info(), stream, {reasons.data(), count}));
  }

  [[nodiscard]] Result<void> can_implement(const Operands& operands) const {
    return check_operands(problem_.info(), specs_, operands);
  }
  std::size_t workspace_size() const { return workspace_; }
  PrecisionGuarantee precision_guarantee() const { return kernel_->guarantee(problem_); }
  KernelSku sku() const {
    return {problem_.info().category,
            problem_.info().name,
            kernel_->name,
            problem_.element(),
            problem_.aux(),
            plan_detail::arch_name(device_),
            device_.kind,
            precision_guarantee()};
  }
  const Problem& problem() const { return problem_; }

  [[nodiscard]] Result<void> run(const Stream& stream, Workspace workspace,
                                 const Operands& operands) const {
    if (auto ok = plan_detail::check_run(problem_.info(), device_, stream, workspace_, workspace);
        !ok)
      return ok;
    if (auto ok = can_implement(operands); !ok) return ok;
    return kernel_->launch(stream, workspace, problem_, operands);
  }

 private:
  Selection(const Problem& problem, const Kernel<Problem>& kernel, Device device)
      : problem_(problem),
        specs_(problem.specs()),
        kernel_(&kernel),
        device_(device),
        workspace_(kernel.workspace(problem)) {}

  Problem problem_;
  decltype(std::declval<const Problem&>().specs()) specs_;
  const Kernel<Problem>* kernel_;
  Device device_;
  std::size_t workspace_;
};

// The typed face of a Selection. Op provides:
//   Problem, Descriptor, Args;   static Result<Problem> problem(const Descriptor&);   static
//   Operands operands(const Args&);
template <class Op>
class Plan {
 public:
  using Descriptor = typename Op::Descriptor;
  using Args = typename Op::Args;

  [[nodiscard]] static Result<Plan> select(const Stream& stream, const Descriptor& descriptor,
                                           PlanPreference preference = {}) {
    return Selection<typename Op::Problem>::select(stream, Op::problem(descriptor), preference)
        .map([](auto&& selection) { return Plan(std::move(selection)); });
  }
  [[nodiscard]] Result<void> can_implement(const Args& args) const {
    return selection_.can_implement(Op::operands(args));
  }
  std::size_t workspace_size() const { return selection_.workspace_size(); }
  KernelSku sku() const { return selection_.sku(); }
  PrecisionGuarantee precision_guarantee() const { return selection_.precision_guarantee(); }
  [[nodiscard]] Result<void> run(const Stream& stream, Workspace workspace,
                                 const Args& args) const {
    return selection_.run(stream, workspace, Op::operands(args));
  }

 private:
  explicit Plan(Selection<typename Op::Problem> selection) : selection_(std::move(selection)) {}
  Selection<typename Op::Problem> selection_;
};

// The typed face of an op whose index dtype is seen at run: Op::Args is a template over it, and so
// are can_implement and run.
template <class T>
concept IndexInt = std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>;

template <class Op>
class IndexedPlan {
 public:
  using Descriptor = typename Op::Descriptor;
  template <IndexInt Index>
  using Args = typename Op::template Args<Index>;

  [[nodiscard]] static Result<IndexedPlan> select(const Stream& stream,
                                                  const Descriptor& descriptor,
                                                  PlanPreference preference = {}) {
    return Selection<typename Op::Problem>::select(stream, Op::problem(descriptor), preference)
        .map([](auto&& selection) { return IndexedPlan(std::move(selection)); });
  }
  template <IndexInt Index = std::int64_t>
  [[nodiscard]] Result<void> can_implement(const Args<Index>& args) const {
    return selection_.can_implement(args.operands());
  }
  std::size_t workspace_size() const { return selection_.workspace_size(); }
  KernelSku sku() const { return selection_.sku(); }
  PrecisionGuarantee precision_guarantee() const { return selection_.precision_guarantee(); }
  template <IndexInt Index = std::int64_t>
  [[nodiscard]] Result<void> run(const Stream& stream, Workspace workspace,
                                 const Args<Index>& args) const {
    return selection_.run(stream, workspace, args.operands());
  }

 private:
  explicit IndexedPlan(Selection<typename Op::Problem> selection)
      : selection_(std::move(selection)) {}
  Selection<typename Op::Problem> selection_;
};

}  // namespace planck
