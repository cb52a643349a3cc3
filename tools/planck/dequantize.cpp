// planck dequantize: restores what planck quantize made.
#include <fmt/format.h>

#include <set>
#include <string>

#include "tools/planck/checkpoint/quantized_checkpoint.h"
#include "tools/planck/checkpoint/tensor_streaming.h"
#include "tools/planck/commands.h"
#include "tools/planck/device_option.h"
#include "tools/planck/ops/op_runner.h"
#include "tools/planck/progress.h"
#include "tools/planck/table.h"

namespace planck::cli {

namespace {

struct RestoreReport {
  std::size_t restored = 0, kept = 0;
  std::uint64_t file_bytes_before = 0, file_bytes_after = 0;
};

Result<RestoreReport> dequantize_checkpoint(const SafetensorsFile& in, const std::string& out,
                                            const Stream& stream) {
  const auto in_file = [&](const Error& error) {
    return fail(error.code, fmt::format("{}: {}", in.path(), error.message));
  };
  const auto quantized = quantized_tensors(in.header());
  if (!quantized) return in_file(quantized.error());
  if (!is_quantized_checkpoint(in.header()))
    return fail(ErrorCode::io, fmt::format("{}: is not quantized: its metadata has no {}",
                                           in.path(), kQuantizedKey));

  std::set<const SafetensorsEntry*> parts;  // scales and zero points: they are not in the output
  for (const auto& [name, t] : *quantized) {
    parts.insert(t.scale);
    parts.insert(t.zero_point);
  }
  std::vector<SafetensorsSpec> tensors;
  for (const SafetensorsEntry& e : in.entries()) {
    if (const auto t = quantized->find(e.name); t != quantized->end()) {
      auto spec = SafetensorsSpec::of(e.name, t->second.scheme.original_dtype,
                                      t->second.scheme.original_shape);
      if (!spec) return in_file(spec.error());
      tensors.push_back(std::move(*spec));
    } else if (!parts.contains(&e)) {
      tensors.push_back({e.name, e.type->text, e.shape});
    }
  }
  auto writer = SafetensorsWriter::create(out, tensors, original_metadata(in.header()));
  if (!writer) return tl::unexpected(writer.error());

  RestoreReport report{0, 0, in.file_bytes(), writer->file_bytes()};
  OpRunner runner(stream);
  GrowingBuffer copies[3];
  Progress progress(report.file_bytes_before);
  for (const SafetensorsEntry& e : in.entries()) {
    progress.advance(e.bytes(), e.name);
    if (parts.contains(&e)) continue;
    const auto t = quantized->find(e.name);
    if (t == quantized->end()) {
      if (auto ok = copy_tensor(in, e, *writer); !ok) return tl::unexpected(ok.error());
      ++report.kept;
      continue;
    }
    const TensorScheme& scheme = t->second.scheme;
    const auto problem = scheme.dequantize_problem();
    if (!problem) return in_file(problem.error());
    Operands operands;
    const auto q = view_as(in, e, scheme.dtype, scheme.original_shape, copies[0]);
    const auto scale = view_as_is(in, *t->second.scale, copies[1]);
    const auto zero_point = view_as_is(in, *t->second.zero_point, copies[2]);
    for (const auto& [operand, view] : {std::pair<std::string_view, const Result<View>*>{"q", &q},
                                        {"scale", &scale},
                                        {"zero_point", &zero_point}}) {
      if (!*view) return in_file(view->error());
      operands[operand_index(**problem, operand)] = **view;
    }
    const auto restored = runner.run(**problem, operands);
    if (!restored) return in_file(restored.error());
    if (auto ok =
            writer->write(e.name, bytes_of(restored->operands[operand_index(**problem, "x")]));
        !ok)
      return tl::unexpected(ok.error());
    for (const SafetensorsEntry* used : {&e, t->second.scale, t->second.zero_point})
      in.forget(*used);
    ++report.restored;
  }
  if (auto ok = writer->commit(); !ok) return tl::unexpected(ok.error());
  return report;
}

struct DequantizeArguments {
  std::string in, out;
  DeviceOption device;
};

int dequantize(const DequantizeArguments& arguments) {
  const auto stream = arguments.device.stream();
  if (!stream) return bad_input("dequantize", stream.error());
  const auto in = SafetensorsFile::open(arguments.in);
  if (!in) return bad_input("dequantize", in.error());
  const auto report = dequantize_checkpoint(*in, arguments.out, *stream);
  if (!report) return bad_input("dequantize", report.error());
  fmt::print("{}: {} tensors restored, {} kept, {} from {}\n", printable(arguments.out),
             report->restored, report->kept, size_text(report->file_bytes_after),
             size_text(report->file_bytes_before));
  return kOk;
}

}  // namespace

void add_dequantize(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<DequantizeArguments>();
  CLI::App* command =
      app.add_subcommand("dequantize", "Restore the floats of a quantized checkpoint");
  command->add_option("input", arguments->in, "A checkpoint made by planck quantize")->required();
  command
      ->add_option("-o,--output", arguments->out,
                   "Where to write; replaced when complete, not before")
      ->required();
  arguments->device.add_to(*command);
  command->footer(
      "Every quantized tensor becomes x = scale * (q - zero_point) in its original dtype, under "
      "its own name;\n"
      "scales and zero points go, everything else stays byte for byte.\n\n"
      "Example:\n"
      "  planck dequantize small.safetensors -o restored.safetensors");
  command->callback([arguments, &exit_code] { exit_code = dequantize(*arguments); });
}

}  // namespace planck::cli
