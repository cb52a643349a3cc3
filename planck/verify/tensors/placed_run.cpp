#include "planck/verify/tensors/placed_run.h"

#include <fmt/format.h>

#include <algorithm>

namespace planck::verify {

bool Subject::takes(std::size_t i, const NamedTensors& inputs) const {
  if (!specs[i].used) return false;
  return role(i) == Role::output || inputs.contains(info().operands[i].name);
}

const Shape& Subject::shape(std::size_t i, const NamedTensors& inputs) const {
  if (role(i) == Role::output) return specs[i].shape;
  return inputs.find(info().operands[i].name)->second.shape;
}

Layout legal_layout(const Subject& subject, const NamedTensors& inputs, std::size_t operand,
                    Layout wanted) {
  const OperandSpec& spec = subject.specs[operand];
  const Shape& shape = subject.shape(operand, inputs);
  const auto placement = place(wanted, spec.dtype, shape, subject.role(operand));
  if (!placement) return Layout::contiguous;
  if (spec.count_only) {
    const View view{nullptr, spec.dtype, shape, placement->strides, true};
    if (!reshaped_strides(view, spec.shape)) return Layout::contiguous;
  }
  return wanted;
}

Result<PlacedRun> PlacedRun::make(const Subject& subject, const Stream& stream,
                                  const NamedTensors& inputs, const Arrangement& arrangement) {
  PlacedRun run(stream);
  run.subject_ = &subject;
  run.arrangement_ = arrangement;
  run.tensors_.resize(subject.operands());
  run.placed_.assign(subject.operands(), false);
  for (std::size_t i = 0; i < subject.operands(); ++i) {
    const int index = static_cast<int>(i);
    if (!subject.takes(i, inputs) || index == arrangement.left_out ||
        index == arrangement.in_place_output)
      continue;
    const OperandSpec& spec = subject.specs[i];
    const auto given = inputs.find(subject.info().operands[i].name);
    const HostTensor* values = given == inputs.end() ? nullptr : &given->second;
    const Shape& shape = subject.shape(i, inputs);
    const auto placement = place(arrangement.layout(i), spec.dtype, shape, subject.role(i));
    auto tensor =
        GuardedTensor::make(stream, spec.dtype, shape,
                            placement ? *placement : Placement{row_major(shape), 0, numel(shape)},
                            arrangement.sentinel, values);
    if (!tensor) return tl::unexpected(tensor.error());
    run.tensors_[i] = std::move(*tensor);
    run.placed_[i] = true;
    run.operands_[i] = run.tensors_[i].view();
  }
  if (arrangement.in_place_output >= 0) {
    const auto out = static_cast<std::size_t>(arrangement.in_place_output);
    run.operands_[out] = run.operands_[static_cast<std::size_t>(arrangement.in_place_input)];
    run.operands_[out].dtype = subject.specs[out].dtype;
  }
  const std::size_t bytes = subject.plan->workspace_size();
  auto memory = GuardedBytes::filled(stream, bytes, arrangement.sentinel);
  if (!memory) return tl::unexpected(memory.error());
  run.workspace_memory_ = std::move(*memory);
  run.workspace_ = {run.workspace_memory_.data(), bytes};
  return run;
}

std::string PlacedRun::check_memory(Outcome& outcome) {
  const OpInfo& info = subject_->info();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!placed_[i]) continue;
    const bool overwritten = static_cast<int>(i) == arrangement_.in_place_input;
    if (auto ok = tensors_[i].download(stream_); !ok) return ok.error().message;
    const bool output = subject_->role(i) == Role::output;
    if (const std::string change =
            output || overwritten ? tensors_[i].stray_writes() : tensors_[i].changes();
        !change.empty())
      return fmt::format("{} {}: {}", output ? "outside of output" : "input", info.operands[i].name,
                         change);
    if (output) outcome.outputs[i] = tensors_[i].values();
    if (overwritten) {
      const auto out = static_cast<std::size_t>(arrangement_.in_place_output);
      outcome.outputs[out] = tensors_[i].values();
      outcome.outputs[out].dtype = subject_->specs[out].dtype;
    }
  }
  const auto kept = workspace_memory_.surrounded_by(stream_, arrangement_.sentinel);
  if (!kept) return kept.error().message;
  if (!*kept)
    return fmt::format("bytes outside of the workspace of {} bytes were written", workspace_.bytes);
  return "";
}

Outcome PlacedRun::finish() {
  Outcome outcome;
  outcome.outputs.resize(tensors_.size());
  if (auto ok = stream_.synchronize(); !ok)
    outcome.fault = ok.error().message;
  else
    outcome.fault = check_memory(outcome);
  return outcome;
}

Outcome execute(const Subject& subject, const Stream& stream, const NamedTensors& inputs,
                const Arrangement& arrangement) {
  const auto failed = [&](const Error& e) {
    return Outcome{std::vector<HostTensor>(subject.operands()),
                   fmt::format("{}: {}", name(e.code), e.message)};
  };
  auto run = PlacedRun::make(subject, stream, inputs, arrangement);
  if (!run) return failed(run.error());
  if (auto ok = run->run(); !ok) return failed(ok.error());
  return run->finish();
}

}  // namespace planck::verify
