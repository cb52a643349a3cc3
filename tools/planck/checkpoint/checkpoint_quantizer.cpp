#include "tools/planck/checkpoint/checkpoint_quantizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "tools/planck/checkpoint/tensor_streaming.h"
#include "tools/planck/ops/op_runner.h"
#include "tools/planck/progress.h"

namespace planck::cli {

namespace {

// What will be done with one tensor.
struct Step {
  const SafetensorsEntry* entry;
  TensorScheme scheme;
  std::string kept_reason;
  std::unique_ptr<AnyProblem> quantize, dequantize;
};

// Why a tensor is kept, whatever its scheme; "" where nothing speaks against it.
std::string kept_reason(const SafetensorsEntry& e, const QuantizeOptions& options) {
  if (!e.type->dtype || !is_float(*e.type->dtype)) return "not a float";
  if (options.include && !options.include->found_in(e.name)) return "not included";
  if (options.exclude && options.exclude->found_in(e.name)) return "excluded";
  const auto rank = static_cast<int>(std::min<std::size_t>(e.shape.size(), 1000));
  if (rank < options.min_rank) return fmt::format("rank {} is below {}", rank, options.min_rank);
  if (rank > kMaxRank) return fmt::format("rank {} is above {}", e.shape.size(), kMaxRank);
  if (e.bytes() == 0) return "empty";
  return "";
}

Result<Step> plan_step(const SafetensorsEntry& e, const QuantizeOptions& options) {
  Step step{&e, options.scheme, kept_reason(e, options), nullptr, nullptr};
  if (!step.kept_reason.empty()) return step;
  step.scheme.original_dtype = *e.type->dtype;
  step.scheme.original_shape = Shape(std::span<const std::int64_t>(e.shape));
  auto quantize = step.scheme.quantize_problem();
  if (!quantize) {
    // The rule without the op's name before it.
    const std::string& message = quantize.error().message;
    const std::size_t colon = message.find(": ");
    step.kept_reason = colon == message.npos ? message : message.substr(colon + 2);
    return step;
  }
  auto dequantize = step.scheme.dequantize_problem();
  if (!dequantize) return tl::unexpected(dequantize.error());
  step.quantize = std::move(*quantize);
  step.dequantize = std::move(*dequantize);
  return step;
}

// The tensors and metadata of the output.
struct Layout {
  std::vector<SafetensorsSpec> tensors;
  SafetensorsMetadata metadata;
};

Result<Layout> plan_layout(const SafetensorsFile& in, const std::vector<Step>& steps) {
  std::set<std::string_view> names;
  for (const SafetensorsEntry& e : in.entries()) names.insert(e.name);
  Layout layout{{}, in.header().metadata};
  layout.metadata.emplace(kQuantizedKey, kQuantizedVersion);
  for (const Step& step : steps) {
    const SafetensorsEntry& e = *step.entry;
    if (!step.quantize) {
      layout.tensors.push_back({e.name, e.type->text, e.shape});
      continue;
    }
    const auto specs = step.quantize->specs();
    for (const auto& [operand, suffix] : {std::pair<std::string_view, std::string_view>{"q", ""},
                                          {"scale", kScaleSuffix},
                                          {"zero_point", kZeroPointSuffix}}) {
      const OperandSpec& spec = specs[operand_index(*step.quantize, operand)];
      auto tensor = SafetensorsSpec::of(e.name + std::string(suffix), spec.dtype, spec.shape);
      if (!tensor) return tl::unexpected(tensor.error());
      if (!suffix.empty() && names.contains(tensor->name))
        return fail(
            ErrorCode::io,
            fmt::format("{}: tensor {} exists, quantizing {} would need that name; --exclude one",
                        in.path(), in_quotes(tensor->name), in_quotes(e.name)));
      layout.tensors.push_back(std::move(*tensor));
    }
    layout.metadata.emplace(std::string(kQuantizedPrefix) + e.name, step.scheme.metadata());
  }
  return layout;
}

Result<TensorReport> quantize_tensor(const SafetensorsFile& in, const Step& step,
                                     SafetensorsWriter& writer, OpRunner& quantizer,
                                     OpRunner& dequantizer, GrowingBuffer& copy, int threads) {
  const SafetensorsEntry& e = *step.entry;
  in.expect(e);
  const auto x = view_as_is(in, e, copy);
  if (!x) return tl::unexpected(x.error());
  Operands operands;
  operands[operand_index(*step.quantize, "x")] = *x;
  const auto made = quantizer.run(*step.quantize, operands);
  if (!made) return tl::unexpected(made.error());
  TensorReport report{&e, step.scheme.description(), "", made->kernel, {}, e.bytes(), 0};

  Operands back;
  for (const auto& [operand, suffix] : {std::pair<std::string_view, std::string_view>{"q", ""},
                                        {"scale", kScaleSuffix},
                                        {"zero_point", kZeroPointSuffix}}) {
    const View& v = made->operands[operand_index(*step.quantize, operand)];
    if (auto ok = writer.write(e.name + std::string(suffix), bytes_of(v)); !ok)
      return tl::unexpected(ok.error());
    report.bytes_after += bytes_of(v).size();
    back[operand_index(*step.dequantize, operand)] = v;
  }
  const auto restored = dequantizer.run(*step.dequantize, back);
  if (!restored) return tl::unexpected(restored.error());
  report.error = quantization_error(Stream::cpu(threads), *x,
                                    restored->operands[operand_index(*step.dequantize, "x")]);
  in.forget(e);
  return report;
}

}  // namespace

Result<CheckpointReport> quantize_checkpoint(const SafetensorsFile& in, const std::string& out,
                                             const QuantizeOptions& options, const Stream& stream,
                                             int threads) {
  if (is_quantized_checkpoint(in.header()))
    return fail(ErrorCode::io,
                fmt::format("{}: is quantized already; dequantize it first", in.path()));
  std::vector<Step> steps;
  for (const SafetensorsEntry& e : in.entries()) {
    auto step = plan_step(e, options);
    if (!step) return tl::unexpected(step.error());
    steps.push_back(std::move(*step));
  }
  if (std::none_of(steps.begin(), steps.end(), [](const Step& s) { return s.quantize != nullptr; }))
    return fail(
        ErrorCode::io,
        fmt::format("{}: no tensor can be quantized{}", in.path(),
                    steps.empty()
                        ? ", it has none"
                        : fmt::format(", {} are kept; the first, {}: {}", steps.size(),
                                      in_quotes(steps[0].entry->name), steps[0].kept_reason)));
  const auto layout = plan_layout(in, steps);
  if (!layout) return tl::unexpected(layout.error());
  auto writer = SafetensorsWriter::create(out, layout->tensors, layout->metadata);
  if (!writer) return tl::unexpected(writer.error());

  CheckpointReport report{{}, in.file_bytes(), writer->file_bytes()};
  OpRunner quantizer(stream), dequantizer(stream);
  GrowingBuffer copy;
  Progress progress(report.file_bytes_before);
  for (const Step& step : steps) {
    if (step.quantize) {
      auto tensor = quantize_tensor(in, step, *writer, quantizer, dequantizer, copy, threads);
      if (!tensor)
        return fail(tensor.error().code, fmt::format("tensor {}: {}", in_quotes(step.entry->name),
                                                     tensor.error().message));
      report.tensors.push_back(std::move(*tensor));
    } else {
      if (auto ok = copy_tensor(in, *step.entry, *writer); !ok) return tl::unexpected(ok.error());
      const std::uint64_t bytes = step.entry->bytes();
      report.tensors.push_back({step.entry, "", step.kept_reason, "", {}, bytes, bytes});
    }
    progress.advance(step.entry->bytes(), step.entry->name);
  }
  if (auto ok = writer->commit(); !ok) return tl::unexpected(ok.error());
  return report;
}

}  // namespace planck::cli
