#include "tools/planck/ops/run_op.h"

#include <fmt/format.h>

#include <cstring>

#include "planck/core/cuda/runtime.h"
#include "planck/io/safetensors.h"
#include "planck/ops/ops.h"
#include "planck/ops/shape/shape.ops.h"
#include "planck/plan/request.h"
#include "tools/planck/ops/on_tensors.h"
#include "tools/planck/ops/shape_ops.h"

namespace planck::cli {

namespace {

// The tensors of a file by name, as inputs of an op: at any address, and where the attribute dtype
// is s4 or u4, a tensor of U8 holds pairs.
Result<std::map<std::string, HostView, std::less<>>> read_inputs(const SafetensorsFile& file,
                                                                 const Attributes& attributes) {
  std::optional<Dtype> packed;
  if (const auto it = attributes.find("dtype"); it != attributes.end())
    if (const auto dtype = parse_dtype(it->second); dtype && is_packed(*dtype)) packed = dtype;
  std::map<std::string, HostView, std::less<>> inputs;
  for (const SafetensorsEntry& entry : file.entries()) {
    const auto shape = file.computable_shape(entry);
    if (!shape) return tl::unexpected(shape.error());
    HostView view{*entry.type->dtype, *shape, file.bytes(entry)};
    if (packed && view.dtype == Dtype::u8 && view.shape.rank() > 0) {
      view.dtype = *packed;
      view.shape[view.shape.rank() - 1] *= 2;
    }
    inputs.emplace(entry.name, view);
  }
  return inputs;
}

Result<void> write_outputs(const std::string& path, const std::vector<HostTensor>& tensors) {
  std::vector<SafetensorsSpec> specs;
  for (const HostTensor& t : tensors) {
    auto spec = SafetensorsSpec::of(t.name, t.dtype, t.shape);
    if (!spec) return tl::unexpected(spec.error());
    specs.push_back(std::move(*spec));
  }
  auto writer = SafetensorsWriter::create(path, specs, {});
  if (!writer) return tl::unexpected(writer.error());
  for (const HostTensor& t : tensors)
    if (auto ok = writer->write(t.name, t.bytes); !ok) return ok;
  return writer->commit();
}

// Some faults of the inputs are counted rather than refused; here they are refused.
Result<void> check_count(const OpInfo& info, std::size_t i, const HostTensor& tensor) {
  const OperandInfo& operand = info.operands[i];
  if (operand.refusal.empty()) return {};
  std::int64_t count = 0;
  std::memcpy(&count, tensor.bytes.data(), sizeof count);
  if (count == 0) return {};
  return fail(ErrorCode::invalid_problem, fmt::format("{}: {} is {}, must be 0: {}", info.name,
                                                      operand.name, count, operand.refusal));
}

// The shape of an output: gradients of scales and zero points have that of what they are for.
Shape shape_of(const OpInfo& info, std::size_t i, const OperandSpec& spec,
               const std::map<std::string, HostView, std::less<>>& inputs) {
  const std::string_view name = info.operands[i].name;
  if (!spec.count_only || !name.starts_with('d')) return spec.shape;
  const auto of = inputs.find(name.substr(1));
  return of == inputs.end() ? spec.shape : of->second.shape;
}

class PlanRun {
 public:
  PlanRun(const AnyProblem& problem, const std::map<std::string, HostView, std::less<>>& inputs,
          const Stream& stream)
      : info_(problem.info()), specs_(problem.specs()), inputs_(inputs), stream_(stream) {}

  // Results on the host, those of the op's outputs that the problem writes.
  Result<std::vector<HostTensor>> operator()(const AnyPlan& plan) {
    for (std::size_t i = 0; i < specs_.size(); ++i)
      if (auto ok = place(i); !ok) return tl::unexpected(ok.error());
    const auto workspace = allocate(stream_, plan.workspace_size());
    if (!workspace) return tl::unexpected(workspace.error());
    if (auto ok = plan.run(stream_, {workspace->data(), workspace->bytes()}, operands_); !ok)
      return tl::unexpected(ok.error());
    if (auto ok = stream_.synchronize(); !ok) return tl::unexpected(ok.error());
    std::vector<HostTensor> results;
    for (std::size_t i = 0; i < specs_.size(); ++i) {
      if (info_.operands[i].role != Role::output || !operands_[i].present) continue;
      const auto copy = tensors_[i].to(stream_, Stream::cpu(1));
      if (!copy) return tl::unexpected(copy.error());
      const auto* bytes = copy->as<const std::byte>();
      HostTensor host{std::string(info_.operands[i].name), copy->dtype(), copy->shape(), {}};
      if (copy->bytes() > 0) host.bytes.assign(bytes, bytes + copy->bytes());
      if (auto ok = check_count(info_, i, host); !ok) return tl::unexpected(ok.error());
      results.push_back(std::move(host));
    }
    return results;
  }

 private:
  // Operand i on the device: an input, an output that starts from a given value, or an empty one.
  Result<void> place(std::size_t i) {
    const OperandInfo& operand = info_.operands[i];
    const auto given = inputs_.find(operand.name);
    const bool read = given != inputs_.end() && (operand.role == Role::input || operand.updates);
    if (!read && (operand.role == Role::input || !specs_[i].used)) return {};
    const Dtype dtype = read ? given->second.dtype : specs_[i].dtype;
    const Shape shape = read ? given->second.shape : shape_of(info_, i, specs_[i], inputs_);
    if (auto ok = check_memory(info_.name, operand.name, dtype, shape); !ok) return ok;
    auto tensor = OwnedTensor::empty(stream_, dtype, shape);
    if (!tensor) return tl::unexpected(tensor.error());
    tensors_[i] = std::move(*tensor);
    operands_[i] = tensors_[i].view();
    if (!read) return {};
    if (auto ok = upload(given->second.bytes, tensors_[i]); !ok) return ok;
    if (info_.broadcasts && shape != specs_[i].shape)
      if (const auto wide = Expand{specs_[i].shape}.view(operands_[i])) operands_[i] = *wide;
    return {};
  }
  Result<void> upload(std::span<const std::byte> bytes, const OwnedTensor& to) const {
    if (bytes.empty()) return {};
    if (stream_.device().kind == DeviceKind::cpu) {
      std::memcpy(to.data(), bytes.data(), bytes.size());
      return {};
    }
    auto done = cuda::copy_to_device(stream_.device().ordinal, stream_.native(), to.data(),
                                     bytes.data(), bytes.size());
    return done ? stream_.synchronize() : done;
  }

  const OpInfo& info_;
  const std::vector<OperandSpec> specs_;
  const std::map<std::string, HostView, std::less<>>& inputs_;
  const Stream& stream_;
  std::array<OwnedTensor, kMaxOperands> tensors_;
  Operands operands_{};
};

}  // namespace

Result<RunOutcome> run_op(const RunRequest& request, const Stream& stream) {
  const auto info = find_op_info(request.op);
  if (!info) return tl::unexpected(info.error());
  if (auto ok = check_attributes(**info, request.attributes); !ok)
    return tl::unexpected(ok.error());
  if (request.gradients && !is_differentiable(**info))
    return fail(ErrorCode::not_differentiable,
                fmt::format("--grad: {} has no gradient", request.op));
  const auto file = SafetensorsFile::open(request.in);
  if (!file) return tl::unexpected(file.error());
  auto given = read_inputs(*file, request.attributes);
  if (!given) return tl::unexpected(given.error());
  TensorRequest tensors{*info, nullptr, request.attributes, {}, {}, request.gradients};
  InputSpecs specs;
  for (const auto& [name, view] : *given) {
    if (request.gradients && name.starts_with(kGradient)) {
      tensors.cotangents.emplace(name.substr(kGradient.size()), view);
      continue;
    }
    tensors.inputs.emplace(name, view);
    specs.emplace(name, InputSpec{view.dtype, view.shape});
  }

  RunOutcome outcome;
  Result<std::vector<HostTensor>> results;
  if (find_op(all_ops(), request.op) != nullptr) {
    const auto problem = parse_problem(all_ops(), request.op, request.attributes, specs);
    if (!problem) return tl::unexpected(problem.error());
    const auto plan = (*problem)->select(stream, request.preference);
    if (!plan) return tl::unexpected(plan.error());
    outcome.sku = (*plan)->sku();
    outcome.workspace = (*plan)->workspace_size();
    tensors.problem = problem->get();
    results = request.gradients ? run_on_tensors(tensors, stream)
                                : PlanRun(**problem, tensors.inputs, stream)(**plan);
  } else {
    if ((*info)->operands[0].name != "x0")
      if (auto ok = check_inputs(**info, specs); !ok) return tl::unexpected(ok.error());
    results = run_on_tensors(tensors, stream);
  }
  if (!results) return tl::unexpected(results.error());
  for (const HostTensor& t : *results)
    outcome.outputs.push_back(fmt::format("{} {} {}", t.name, name(t.dtype), to_string(t.shape)));
  if (auto ok = write_outputs(request.out, *results); !ok) return tl::unexpected(ok.error());
  return outcome;
}

}  // namespace planck::cli
