// planck compare: what each way of quantizing costs, on a checkpoint given or made here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>

#include "planck/io/mapped_file.h"
#include "tools/planck/checkpoint/checkpoint_quantizer.h"
#include "tools/planck/checkpoint/sample_checkpoint.h"
#include "tools/planck/commands.h"
#include "tools/planck/device_option.h"
#include "tools/planck/table.h"

namespace planck::cli {

namespace {

constexpr std::uint64_t kSeed = 2024;

// FNV-1a, 64 bits: enough to tell two files apart that should be the same.
std::uint64_t fnv1a(std::span<const std::byte> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::byte b : bytes)
    hash = (hash ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3u;
  return hash;
}

Result<std::string> hash_of(const std::string& path) {
  return MappedFile::open(path).map(
      [](const MappedFile& f) { return fmt::format("{:016x}", fnv1a(f.bytes())); });
}

struct Summary {
  double mean_db = 0, worst_db = std::numeric_limits<double>::infinity(), max_abs = 0;
};

Summary summarize(const CheckpointReport& report) {
  Summary s;
  int count = 0;
  for (const TensorReport& t : report.tensors) {
    if (!t.quantized()) continue;
    s.mean_db += t.error.sqnr_db();
    s.worst_db = std::min(s.worst_db, t.error.sqnr_db());
    s.max_abs = std::max(s.max_abs, t.error.max_abs);
    ++count;
  }
  if (count > 0) s.mean_db /= count;
  return s;
}

Result<std::string> make_table(const std::string& folder, const SafetensorsFile& in,
                               const Stream& stream, int threads) {
  using enum Table::Align;
  Table table({{"scheme"},
               {"dtype"},
               {"mean SQNR dB", right},
               {"worst SQNR dB", right},
               {"max abs error", right},
               {"size", right},
               {"ratio", right},
               {"fnv1a"},
               {"file"}});
  const auto original = hash_of(in.path());
  if (!original) return tl::unexpected(original.error());
  table.add({"original", "", "", "", "", size_text(in.file_bytes()), "1.00", *original,
             std::filesystem::path(in.path()).filename().string()});
  for (const Dtype dtype : {Dtype::s8, Dtype::s4})
    for (const char* scheme : {"per_tensor", "per_channel", "per_token", "per_group"}) {
      QuantizeOptions options;
      options.scheme.scheme = scheme;
      options.scheme.dtype = dtype;
      std::string text = scheme;
      std::replace(text.begin(), text.end(), '_', '-');
      const std::string file = fmt::format("{}-{}.safetensors", text, name(dtype));
      const auto report = quantize_checkpoint(in, folder + "/" + file, options, stream, threads);
      if (!report) return tl::unexpected(report.error());
      const auto hash = hash_of(folder + "/" + file);
      if (!hash) return tl::unexpected(hash.error());
      const Summary s = summarize(*report);
      table.add({text, std::string(name(dtype)), decibel_text(s.mean_db), decibel_text(s.worst_db),
                 error_text(s.max_abs), size_text(report->file_bytes_after),
                 fmt::format("{:.2f}", static_cast<double>(report->file_bytes_before) /
                                           static_cast<double>(report->file_bytes_after)),
                 *hash, file});
    }
  return table.text();
}

int compare(const std::string& given, const std::string& folder, const DeviceOption& device) {
  const auto stream = device.stream();
  if (!stream) return bad_input("compare", stream.error());
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    return bad_input("compare", fmt::format("{}: cannot create: {}", folder, failed.message()));
  const std::string path = given.empty() ? folder + "/model.safetensors" : given;
  if (given.empty())
    if (auto ok = write_sample_checkpoint(Stream::cpu(device.threads), path, kSeed); !ok)
      return bad_input("compare", ok.error());
  const auto in = SafetensorsFile::open(path);
  if (!in) return bad_input("compare", in.error());
  const auto table = make_table(folder, *in, *stream, device.threads);
  if (!table) return bad_input("compare", table.error());
  const std::string what = given.empty()
                               ? fmt::format("A transformer's checkpoint from seed {}", kSeed)
                               : printable(given);
  fmt::print(
      "{}, quantized eight ways on {}. The finer the groups, the less is lost;\n"
      "the same bytes on every run, thread count and device: compare fnv1a.\n\n{}\n"
      "The files are in {}. Next:\n"
      "  planck inspect {}/per-group-s4.safetensors\n"
      "  planck dequantize {}/per-group-s4.safetensors -o {}/restored.safetensors\n",
      what, to_string(stream->device()), *table, printable(folder), printable(folder),
      printable(folder), printable(folder));
  return kOk;
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  struct Arguments {
    std::string file, folder = "planck-compare";
    DeviceOption device;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("compare", "Quantize a checkpoint eight ways and compare the errors");
  command->add_option("file", arguments->file,
                      "A safetensors file; left out: a small transformer made from a seed");
  command->add_option("--out", arguments->folder, "Folder for the files; made if it is missing")
      ->capture_default_str();
  arguments->device.add_to(*command);
  command->footer(
      "Examples:\n"
      "  planck compare                                 50 MB: a checkpoint and its eight "
      "versions\n"
      "  planck compare model.safetensors --out /tmp/eight --threads 1");
  command->callback([arguments, &exit_code] {
    exit_code = compare(arguments->file, arguments->folder, arguments->device);
  });
}

}  // namespace planck::cli
