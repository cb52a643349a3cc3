// Wrong operands, workspaces and streams: the stated code, a message that names op and operand, and
// nothing written.
#include <fmt/format.h>

#include "planck/verify/checks/checks.h"

namespace planck::verify {

namespace {

class ErrorProbe {
 public:
  ErrorProbe(const KernelCheck& check, const PlacedRun& placed) : check_(check), placed_(placed) {}

  // run() must answer with `code`, naming the op and `mention`; can_implement() likewise where
  // operands are at fault.
  void expect(std::string_view what, ErrorCode code, std::string_view mention,
              const Operands& operands, Workspace workspace, const Stream& stream,
              bool operand_fault = true) const {
    verdict(what, code, mention, check_.subject.plan->run(stream, workspace, operands));
    if (operand_fault) verdict(what, code, mention, check_.subject.plan->can_implement(operands));
  }

  void expect(std::string_view what, ErrorCode code, std::string_view mention,
              const Operands& operands) const {
    expect(what, code, mention, operands, placed_.workspace(), check_.streams.front());
  }

 private:
  void verdict(std::string_view what, ErrorCode code, std::string_view mention,
               const Result<void>& got) const {
    std::string fault;
    if (got)
      fault = fmt::format("accepted, must be refused as {}", name(code));
    else if (got.error().code != code)
      fault = fmt::format("refused as {}, must be {}: {}", name(got.error().code), name(code),
                          got.error().message);
    else if (got.error().message.find(check_.subject.info().name) == std::string::npos ||
             got.error().message.find(mention) == std::string::npos)
      fault =
          fmt::format("message names not both the op and '{}': {}", mention, got.error().message);
    check_.expect_none(what, fault);
  }

  const KernelCheck& check_;
  const PlacedRun& placed_;
};

void probe_operand(const ErrorProbe& probe, const KernelCheck& check, const Operands& good,
                   std::size_t i) {
  const OperandInfo& info = check.subject.info().operands[i];
  const auto with = [&](auto&& change) {
    Operands bad = good;
    change(bad[i]);
    return bad;
  };
  const View& v = good[i];
  const std::string who(info.name);
  const OperandSpec& spec = check.subject.specs[i];
  if (!info.optional || spec.required)
    probe.expect(who + " missing", ErrorCode::invalid_problem, who,
                 with([](View& b) { b = View{}; }));
  probe.expect(who + " of wrong dtype", ErrorCode::invalid_problem, who, with([&](View& b) {
                 b.dtype = spec.accepts(Dtype::i64) ? Dtype::f64 : Dtype::i64;
               }));
  const Operands reshaped = with([](View& b) {
    b.shape.rank() == 0 ? b.shape.push_back(2) : void(b.shape[0] += 1);
    b.strides = row_major(b.shape);
  });
  if (!spec.count_only || numel(reshaped[i].shape) != numel(v.shape))
    probe.expect(who + " of wrong shape", ErrorCode::invalid_problem, who, reshaped);
  probe.expect(who + " with too few strides", ErrorCode::invalid_problem, who, with([](View& b) {
                 b.strides = Extents::filled(b.shape.rank() == 0 ? 1 : b.shape.rank() - 1, 1);
               }));
  if (numel(v.shape) == 0) return;
  probe.expect(who + " null", ErrorCode::invalid_problem, who,
               with([](View& b) { b.data = nullptr; }));
  if (storage_bytes(v.dtype) > 1)
    probe.expect(who + " at an odd address", ErrorCode::misaligned_operand, who,
                 with([](View& b) { b.data = static_cast<std::byte*>(b.data) + 1; }));
  if (info.role == Role::input) return;
  for (int d = 0; d < v.shape.rank(); ++d)
    if (v.shape[d] > 1)
      probe.expect(fmt::format("{} broadcast along axis {}", who, d), ErrorCode::invalid_problem,
                   who, with([&](View& b) { b.strides[d] = 0; }));
}

// Each output laid over each other operand: one element further on, and where it would replace what
// it is made of.
void probe_aliases(const ErrorProbe& probe, const KernelCheck& check, const Operands& good) {
  const Subject& s = check.subject;
  for (std::size_t out = 0; out < s.operands(); ++out) {
    if (s.role(out) != Role::output || !good[out].present || numel(good[out].shape) == 0) continue;
    for (std::size_t other = 0; other < s.operands(); ++other) {
      if (other == out || !good[other].present || numel(good[other].shape) == 0) continue;
      const auto expect_refusal = [&](std::size_t bytes_on) {
        Operands bad = good;
        bad[out].data = static_cast<std::byte*>(good[other].data) + bytes_on;
        probe.expect(
            fmt::format("{} over {}", s.info().operands[out].name, s.info().operands[other].name),
            ErrorCode::invalid_problem, s.info().operands[out].name, bad);
      };
      const std::size_t step = storage_bytes(good[out].dtype);
      const ByteRange range = byte_range(good[other]);
      if (static_cast<std::size_t>(range.end - range.begin) > step) expect_refusal(step);
      if (s.role(other) == Role::output || !s.info().in_place ||
          s.specs[out].count_only != s.specs[other].count_only)
        expect_refusal(0);
    }
  }
}

void probe_packed_output(const ErrorProbe& probe, const KernelCheck& check, const Operands& good) {
  for (std::size_t i = 0; i < check.subject.operands(); ++i) {
    if (check.subject.role(i) != Role::output || !good[i].present || !is_packed(good[i].dtype))
      continue;
    if (numel(good[i].shape) == 0) continue;
    Operands bad = good;
    for (int d = 0; d < bad[i].shape.rank(); ++d)
      bad[i].strides[d] *= 2;  // no axis is left whose neighbours share a byte
    probe.expect("packed output with stride 2", ErrorCode::misaligned_operand,
                 check.subject.info().operands[i].name, bad);
  }
}

}  // namespace

void check_errors(const KernelCheck& check) {
  const Stream& stream = check.streams.front();
  auto placed =
      PlacedRun::make(check.subject, stream, check.inputs, {.what = "errors", .layouts = {}});
  if (!placed) return void(check.expect_none("errors", placed.error().message));
  const Operands& good = placed->operands();
  const Workspace workspace = placed->workspace();
  const ErrorProbe probe(check, *placed);

  for (std::size_t i = 0; i < check.subject.operands(); ++i)
    if (good[i].present) probe_operand(probe, check, good, i);
  probe_aliases(probe, check, good);
  probe_packed_output(probe, check, good);
  if (workspace.bytes > 0) {
    probe.expect("workspace one byte short", ErrorCode::workspace_too_small, "workspace", good,
                 {workspace.data, workspace.bytes - 1}, stream, false);
    probe.expect("workspace null", ErrorCode::misaligned_operand, "workspace", good,
                 {nullptr, workspace.bytes}, stream, false);
    probe.expect("workspace misaligned", ErrorCode::misaligned_operand, "workspace", good,
                 {static_cast<std::byte*>(workspace.data) + 1, workspace.bytes}, stream, false);
  }
  const bool on_cpu = stream.device().kind == DeviceKind::cpu;
  probe.expect("another device's stream", ErrorCode::invalid_problem, "stream", good, workspace,
               on_cpu ? Stream::borrow_cuda(nullptr) : Stream::cpu(), false);

  // Refused runs leave every output as it was.
  Outcome outcome = placed->finish();
  for (std::size_t i = 0; i < outcome.outputs.size() && outcome.fault.empty(); ++i) {
    const std::string_view operand = check.subject.info().operands[i].name;
    const auto given = check.inputs.find(operand);
    bool wrote = false;
    if (given != check.inputs.end() && !outcome.outputs[i].bytes.empty())
      wrote = outcome.outputs[i].bytes != given->second.bytes;
    else
      for (std::byte b : outcome.outputs[i].bytes) wrote |= b != std::byte{Arrangement{}.sentinel};
    if (wrote) outcome.fault = fmt::format("a refused run wrote to {}", operand);
  }
  check.expect_none("refused runs", outcome.fault);
}

}  // namespace planck::verify
