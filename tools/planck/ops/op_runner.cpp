#include "tools/planck/ops/op_runner.h"

#include <utility>

#include "planck/core/cuda/runtime.h"

namespace planck::cli {

Result<void*> GrowingBuffer::reserve(const Stream& stream, std::size_t bytes) {
  if (buffer_.data() != nullptr && buffer_.bytes() >= bytes) return buffer_.data();
  { const Buffer old = std::move(buffer_); }
  release_cached(stream.device());  // or the allocator would keep every size this buffer has had
  auto fresh = allocate(stream, bytes);
  if (!fresh) return tl::unexpected(fresh.error());
  buffer_ = std::move(*fresh);
  return buffer_.data();
}

Result<OpRunner::Outcome> OpRunner::run(const AnyProblem& problem, const Operands& inputs) {
  auto plan = problem.select(stream_);
  if (!plan) return tl::unexpected(plan.error());
  const bool on_cpu = stream_.device().kind == DeviceKind::cpu;
  const int ordinal = stream_.device().ordinal;
  const Stream host = Stream::cpu();
  const auto specs = problem.specs();
  const auto& infos = problem.info().operands;
  Outcome outcome{inputs, (*plan)->sku().kernel};
  Operands placed;

  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i].used) continue;
    const bool output = infos[i].role == Role::output;
    const std::size_t bytes = bytes_for(specs[i].dtype, numel(specs[i].shape));
    if (output) {
      const auto data = host_[i].reserve(host, bytes);
      if (!data) return tl::unexpected(data.error());
      outcome.operands[i] =
          View{*data, specs[i].dtype, specs[i].shape, row_major(specs[i].shape), true};
    }
    placed[i] = outcome.operands[i];
    if (on_cpu || !placed[i].present) continue;
    const auto data = device_[i].reserve(stream_, bytes);
    if (!data) return tl::unexpected(data.error());
    placed[i].data = *data;
    if (output) continue;
    if (auto ok = cuda::copy_to_device(ordinal, stream_.native(), *data, inputs[i].data, bytes);
        !ok)
      return tl::unexpected(ok.error());
  }
  const auto workspace = workspace_.reserve(stream_, (*plan)->workspace_size());
  if (!workspace) return tl::unexpected(workspace.error());
  if (auto ok = (*plan)->run(stream_, {*workspace, (*plan)->workspace_size()}, placed); !ok)
    return tl::unexpected(ok.error());
  if (!on_cpu)
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!specs[i].used || infos[i].role != Role::output) continue;
      const std::size_t bytes = bytes_for(specs[i].dtype, numel(specs[i].shape));
      if (auto ok = cuda::copy_to_host(ordinal, stream_.native(), outcome.operands[i].data,
                                       placed[i].data, bytes);
          !ok)
        return tl::unexpected(ok.error());
    }
  if (auto ok = stream_.synchronize(); !ok) return tl::unexpected(ok.error());
  return outcome;
}

}  // namespace planck::cli
