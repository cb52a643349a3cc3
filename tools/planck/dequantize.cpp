// planck dequantize: floats from what planck quantize made, and from other narrow forms.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "tools/planck/checkpoint/checkpoint_dequantizer.h"
#include "tools/planck/checkpoint/size_option.h"
#include "tools/planck/commands.h"
#include "tools/planck/options/device_option.h"
#include "tools/planck/options/output_option.h"
#include "tools/planck/print/table.h"

namespace planck::cli {

namespace {

struct DequantizeArguments {
  std::vector<std::string> in;
  std::string out, shard_size;
  bool force = false;
  DeviceOption device;
};

int dequantize(const DequantizeArguments& arguments) {
  const auto stream = arguments.device.stream();
  if (!stream) return bad_input("dequantize", stream.error());
  Result<std::uint64_t> shard_bytes = 0;
  if (!arguments.shard_size.empty()) shard_bytes = parse_size(arguments.shard_size);
  if (!shard_bytes) return bad_input("dequantize", "--shard-size " + shard_bytes.error().message);
  const auto in = CheckpointSource::open(arguments.in);
  if (!in) return bad_input("dequantize", in.error());
  for (const std::string& file : in->files())
    if (auto ok = check_output(file, arguments.out, arguments.force); !ok)
      return bad_input("dequantize", ok.error());
  const InterruptHint hint(
      "dequantize", fmt::format("{} is as it was; the same command starts over", arguments.out));
  const auto report =
      dequantize_checkpoint(*in, arguments.out, *shard_bytes, *stream, arguments.device.threads);
  if (!report) return bad_input("dequantize", report.error());
  print("{}: {} tensors restored, {} kept, {} from {}\n", printable(arguments.out),
        report->restored, report->kept, size_text(report->file_bytes_after),
        size_text(report->file_bytes_before));
  return kOk;
}

}  // namespace

void add_dequantize(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<DequantizeArguments>();
  CLI::App* command =
      app.add_subcommand("dequantize", "Restore the floats of a quantized checkpoint");
  command
      ->add_option("input", arguments->in,
                   "A checkpoint made by planck quantize, or one with f8, MXFP4 or GGUF's blocks")
      ->required();
  command
      ->add_option("-o,--output", arguments->out,
                   "Where to write; replaced when complete, not before")
      ->required();
  command->add_option("--shard-size", arguments->shard_size,
                      "Write a folder of files of at most this size: 5GB, 500MB");
  add_force(*command, arguments->force);
  arguments->device.add_to(*command);
  command->footer(
      "Every quantized tensor becomes x = scale * (q - zero_point) in its original dtype, under "
      "its own name;\n"
      "scales and zero points go, everything else stays byte for byte. F8 and MXFP4 become BF16, "
      "GGUF's\n"
      "blocks F32. Inputs: files, a folder, an index.json (see planck quantize --help).\n\n"
      "Examples:\n"
      "  planck dequantize small.safetensors -o restored.safetensors\n"
      "  planck dequantize llama-q4_k.gguf -o llama/ --shard-size 5GB");
  command->callback([arguments, &exit_code] { exit_code = dequantize(*arguments); });
}

}  // namespace planck::cli
