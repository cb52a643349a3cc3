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
  // Operands have passed the problem's checks.
  Result<void> (*launch)(const Stream&, Workspace, const Problem&, const Operands&);
  int capability = 0;  // of the GPU whose instructions it is made of, 90 for 9.0; 0: any
  // Why such a GPU cannot serve all the same, the reason or ""; null where nothing is to be asked.
  // Asked by every selection: what takes time to find out is kept.
  std::string (*unfit)(const Problem&, Device) = nullptr;
};

namespace plan_detail {

// Why a row that is made of a GPU's own instructions cannot run on the device; "" where it can. The
// device must have that capability, and the build code for it: without, its launches are empty.
std::string lacks(int capability, Device device);
// The same, and what the row itself says of the device.
template <class Problem>
std::string unfit(const Kernel<Problem>& kernel, const Problem& problem, Device device) {
  std::string reason = lacks(kernel.capability, device);
  return reason.empty() && kernel.unfit != nullptr ? kernel.unfit(problem, device) : reason;
}
// Why a row cannot serve, whatever its own reject() says; "" where nothing speaks against it.
std::string unavailable(std::string_view kernel, DeviceKind device, int capability,
                        const Stream& stream, const PlanPreference& preference);
Error none_selected(const OpInfo& op, const Stream& stream,
                    std::span<const std::pair<std::string_view, std::string>> reasons);
Result<void> check_run(const OpInfo& op, Device selected, const Stream& stream, std::size_t need,
                       Workspace workspace);
std::string_view arch_name(Device device);

}  // namespace plan_detail

// A kernel chosen for one problem. Problem provides:
//   const OpInfo& info() const                         names, operands, attributes
//   Result<void> check() const                         refuses, naming both values
//   std::array<OperandSpec, N> specs() const           what each operand must be
//   std::span<const Kernel<Problem>> kernels() const   the op's table, best first
//   Dtype element() const                              the dtypes the sku names: of the elements,
//   std::optional<Dtype> aux() const                   and a second one, where the op has one
template <class Problem>
class Selection {
 public:
  [[nodiscard]] static Result<Selection> select(const Stream& stream, const Problem& problem,
                                                const PlanPreference& preference = {}) {
    if (auto ok = problem.check(); !ok) return tl::unexpected(ok.error());
    std::array<std::pair<std::string_view, std::string>, 16> reasons;
    std::size_t count = 0;
    for (const Kernel<Problem>& kernel : problem.kernels()) {
      std::string reason = plan_detail::unavailable(kernel.name, kernel.device, kernel.capability,
                                                    stream, preference);
      if (reason.empty()) reason = kernel.reject(problem);
      if (reason.empty() && kernel.workspace(problem) > preference.max_workspace_bytes)
        reason = "needs " + std::to_string(kernel.workspace(problem)) +
                 " bytes of workspace, at most " + std::to_string(preference.max_workspace_bytes) +
                 " are allowed";
      if (reason.empty() && kernel.guarantee(problem).reproducibility < preference.at_least)
        reason = "promises " + std::string(name(kernel.guarantee(problem).reproducibility)) + ", " +
                 std::string(name(preference.at_least)) + " is asked for";
      if (reason.empty() && kernel.unfit != nullptr)
        reason = kernel.unfit(problem, stream.device());
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
            precision_guarantee(),
            product()};
  }
  const Problem& problem() const { return problem_; }
  const auto& specs() const { return specs_; }

  [[nodiscard]] Result<void> run(const Stream& stream, Workspace workspace,
                                 const Operands& operands) const {
    if (auto ok = plan_detail::check_run(problem_.info(), device_, stream, workspace_, workspace);
        !ok)
      return ok;
    if (auto ok = can_implement(operands); !ok) return ok;
    return kernel_->launch(stream, workspace, problem_, operands);
  }

 private:
  std::optional<ProductMath> product() const {
    if constexpr (requires {
                    { problem_.product_math() } -> std::same_as<ProductMath>;
                  })
      return problem_.product_math();
    else
      return std::nullopt;
  }
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

// What every typed face of a Selection has. Op provides:
//   Problem, Descriptor                           types
//   static Problem problem(const Descriptor&)     the problem a descriptor describes
template <class Op, class Face>
class PlanFace {
 public:
  using Descriptor = typename Op::Descriptor;

  [[nodiscard]] static Result<Face> select(const Stream& stream, const Descriptor& descriptor,
                                           PlanPreference preference = {}) {
    return Selected::select(stream, Op::problem(descriptor), preference).map([](auto&& selection) {
      return Face(std::move(selection));
    });
  }
  std::size_t workspace_size() const { return selection_.workspace_size(); }
  KernelSku sku() const { return selection_.sku(); }
  PrecisionGuarantee precision_guarantee() const { return selection_.precision_guarantee(); }

 protected:
  using Selected = Selection<typename Op::Problem>;
  explicit PlanFace(Selected selection) : selection_(std::move(selection)) {}
  Selected selection_;
};

// Op::Args are the operands, and Op::operands(args) puts them in order.
template <class Op>
class Plan : public PlanFace<Op, Plan<Op>> {
 public:
  using Args = typename Op::Args;

  [[nodiscard]] Result<void> can_implement(const Args& args) const {
    return this->selection_.can_implement(Op::operands(args));
  }
  [[nodiscard]] Result<void> run(const Stream& stream, Workspace workspace,
                                 const Args& args) const {
    return this->selection_.run(stream, workspace, Op::operands(args));
  }

 private:
  friend PlanFace<Op, Plan>;
  using PlanFace<Op, Plan>::PlanFace;
};

// An op whose index dtype is seen at run: Op::Args is a template over it, and so are can_implement
// and run.
template <class T>
concept IndexInt = std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>;

template <class Op>
class IndexedPlan : public PlanFace<Op, IndexedPlan<Op>> {
 public:
  template <IndexInt Index>
  using Args = typename Op::template Args<Index>;

  template <IndexInt Index = std::int64_t>
  [[nodiscard]] Result<void> can_implement(const Args<Index>& args) const {
    return this->selection_.can_implement(args.operands());
  }
  template <IndexInt Index = std::int64_t>
  [[nodiscard]] Result<void> run(const Stream& stream, Workspace workspace,
                                 const Args<Index>& args) const {
    return this->selection_.run(stream, workspace, args.operands());
  }

 private:
  friend PlanFace<Op, IndexedPlan>;
  using PlanFace<Op, IndexedPlan>::PlanFace;
};

}  // namespace planck
