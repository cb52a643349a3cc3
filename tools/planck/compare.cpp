// planck compare: what each way of quantizing costs, on a checkpoint given or made here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "planck/io/mapped_file.h"
#include "tools/planck/checkpoint/checkpoint_quantizer.h"
#include "tools/planck/checkpoint/sample_checkpoint.h"
#include "tools/planck/commands.h"
#include "tools/planck/folder_aside.h"
#include "tools/planck/options/device_option.h"
#include "tools/planck/options/output_option.h"
#include "tools/planck/print/table.h"

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

// The mean is of the tensors that lost something: an exact one has no finite SQNR.
struct Summary {
  double mean_db = std::numeric_limits<double>::infinity(),
         worst_db = std::numeric_limits<double>::infinity(), max_abs = 0;
  int exact = 0;
};

Summary summarize(const CheckpointReport& report) {
  Summary s;
  double sum = 0;
  int count = 0;
  for (const TensorReport& t : report.tensors) {
    if (!t.quantized()) continue;
    const double db = t.error.sqnr_db();
    s.worst_db = std::min(s.worst_db, db);
    s.max_abs = std::max(s.max_abs, t.error.max_abs);
    if (std::isinf(db) && db > 0) {
      ++s.exact;
      continue;
    }
    sum += db;
    ++count;
  }
  if (count > 0) s.mean_db = sum / count;
  return s;
}

// One of the eight ways, and where it goes.
struct Way {
  std::string name, file;  // "per-group", "per-group-s4.safetensors"
  QuantizeOptions options;
  std::string skipped = {};  // why no tensor can be quantized so; "": some can
};

std::vector<Way> eight_ways() {
  std::vector<Way> ways;
  for (const Dtype dtype : {Dtype::s8, Dtype::s4})
    for (const char* scheme : {"per_tensor", "per_channel", "per_token", "per_group"}) {
      Way way{.name = scheme, .file = "", .options = {}};
      std::replace(way.name.begin(), way.name.end(), '_', '-');
      way.file = fmt::format("{}-{}.safetensors", way.name, name(dtype));
      way.options.scheme.scheme = scheme;
      way.options.scheme.dtype = dtype;
      ways.push_back(std::move(way));
    }
  return ways;
}

// From the headers alone, before anything is written. Fails where no way is left.
Result<void> find_skipped(std::vector<Way>& ways, const CheckpointSource& in, const Stream& stream,
                          int threads) {
  std::size_t skipped = 0;
  Error first{};
  for (Way& way : ways) {
    QuantizeOptions options = way.options;
    options.dry_run = true;
    const auto planned = quantize_checkpoint(in, way.file, options, stream, threads);
    if (planned) continue;
    way.skipped = planned.error().message;
    if (skipped++ == 0) first = planned.error();
  }
  if (skipped == ways.size()) return tl::unexpected(first);
  return {};
}

Result<std::string> make_table(const std::string& folder, bool keep, const std::vector<Way>& ways,
                               const CheckpointSource& in, const Stream& stream, int threads) {
  using enum Table::Align;
  Table table({{"scheme"},
               {"dtype"},
               {"mean SQNR dB", right},
               {"worst SQNR dB", right},
               {"max abs error", right, 1},
               {"exact", right, 2},
               {"size", right},
               {"ratio", right},
               {"fnv1a", left, 3},
               {keep ? "file" : "", left, 4}});
  const auto original = hash_of(in.path());
  if (!original) return tl::unexpected(original.error());
  table.add({"original", "", "", "", "", "", size_text(in.file_bytes()), "1.00", *original,
             std::filesystem::path(in.path()).filename().string()});
  std::string left_out;
  for (const Way& way : ways) {
    const std::string dtype(name(way.options.scheme.dtype));
    if (!way.skipped.empty()) {
      table.add({way.name, dtype, "skipped", "", "", "", "", "", "", ""});
      left_out += fmt::format("{} {} is skipped: {}\n", way.name, dtype, printable(way.skipped));
      continue;
    }
    const std::string path = folder + "/" + way.file;
    const auto report = quantize_checkpoint(in, path, way.options, stream, threads);
    if (!report) return tl::unexpected(report.error());
    const auto hash = hash_of(path);
    if (!hash) return tl::unexpected(hash.error());
    std::error_code ignored;
    if (!keep) std::filesystem::remove(path, ignored);
    const Summary s = summarize(*report);
    table.add({way.name, dtype, decibel_text(s.mean_db), decibel_text(s.worst_db),
               error_text(s.max_abs), std::to_string(s.exact), size_text(report->file_bytes_after),
               fmt::format("{:.2f}", static_cast<double>(report->file_bytes_before) /
                                         static_cast<double>(report->file_bytes_after)),
               *hash, keep ? way.file : ""});
  }
  return table.text() + left_out;
}

struct CompareArguments {
  std::string file, keep;
  bool force = false;
  DeviceOption device;
};

// Before anything is written: the input stays, and what exists needs --force.
Result<void> check_outputs(const CompareArguments& a, const std::vector<Way>& ways,
                           const std::vector<std::string>& inputs) {
  std::error_code failed;
  const bool exists = std::filesystem::exists(a.keep, failed);
  if (exists && !std::filesystem::is_directory(a.keep, failed))
    return fail(ErrorCode::io, fmt::format("--keep {}: is not a folder", a.keep));
  for (const std::string& input : inputs)
    for (const Way& way : ways)
      if (auto ok = check_output(input, a.keep + "/" + way.file, true); !ok) return ok;
  if (exists && !a.force && !std::filesystem::is_empty(a.keep, failed))
    return fail(
        ErrorCode::io,
        fmt::format("--keep {}: the folder is not empty; --force replaces its files", a.keep));
  return {};
}

Result<void> compare_in(const std::string& folder, const CompareArguments& a,
                        const std::vector<Way>& ways, const Stream& stream) {
  const bool keep = !a.keep.empty();
  const std::string path = a.file.empty() ? folder + "/model.safetensors" : a.file;
  if (a.file.empty())
    if (auto ok = write_sample_checkpoint(Stream::cpu(a.device.threads), path, kSeed); !ok)
      return ok;
  const auto in = CheckpointSource::open(path);
  if (!in) return tl::unexpected(in.error());
  const auto table = make_table(folder, keep, ways, *in, stream, a.device.threads);
  if (!table) return tl::unexpected(table.error());
  const auto done =
      std::count_if(ways.begin(), ways.end(), [](const Way& way) { return way.skipped.empty(); });
  print(
      "{}, quantized {} ways on {}. The finer the groups, the less is lost;\n"
      "the same bytes on every run, thread count and device: compare fnv1a.\n"
      "The mean is of the tensors that are not exact.\n\n{}\n",
      a.file.empty() ? fmt::format("A transformer's checkpoint from seed {}", kSeed)
                     : printable(a.file),
      done == 8 ? "eight" : std::to_string(done), to_string(stream.device()), *table);
  if (!keep) {
    print("Nothing was kept. --keep FOLDER keeps the files.\n");
    return {};
  }
  const auto last =
      std::find_if(ways.rbegin(), ways.rend(), [](const Way& way) { return way.skipped.empty(); });
  print(
      "The files are in {0}. Next:\n"
      "  planck inspect {0}/{1}\n"
      "  planck dequantize {0}/{1} -o {0}/restored.safetensors\n",
      printable(a.keep), last->file);
  return {};
}

Result<void> compare(const CompareArguments& a) {
  const auto stream = a.device.stream();
  if (!stream) return tl::unexpected(stream.error());
  std::vector<Way> ways = eight_ways();
  std::vector<std::string> inputs;
  if (!a.file.empty()) {
    const auto in = CheckpointSource::open(a.file);
    if (!in) return tl::unexpected(in.error());
    if (auto ok = find_skipped(ways, *in, *stream, a.device.threads); !ok) return ok;
    inputs = in->files();
  }
  if (a.keep.empty()) {
    const InterruptHint hint("compare", "nothing is kept of it; the same command starts over");
    const auto folder = FolderAside::create();
    if (!folder) return tl::unexpected(folder.error());
    return compare_in(folder->path(), a, ways, *stream);
  }
  if (auto ok = check_outputs(a, ways, inputs); !ok) return ok;
  std::error_code failed;
  std::filesystem::create_directories(a.keep, failed);
  if (failed)
    return fail(ErrorCode::io,
                fmt::format("--keep {}: cannot create: {}", a.keep, failed.message()));
  const InterruptHint hint(
      "compare", fmt::format("files in {} are whole, others are missing; the same command with "
                             "--force makes all of them",
                             a.keep));
  return compare_in(a.keep, a, ways, *stream);
}

}  // namespace

void add_compare(CLI::App& app, int& exit_code) {
  const auto a = std::make_shared<CompareArguments>();
  CLI::App* command =
      app.add_subcommand("compare", "Quantize a checkpoint eight ways and compare the errors");
  command->add_option("file", a->file,
                      "A safetensors file; left out: a small transformer made from a seed");
  command->add_option("--keep", a->keep,
                      "Folder to keep the files in, made if it is missing; left out: none is kept");
  add_force(*command, a->force);
  a->device.add_to(*command);
  command->footer(
      "Examples:\n"
      "  planck compare                                 a checkpoint and its eight versions\n"
      "  planck compare model.safetensors --threads 1\n"
      "  planck compare model.safetensors --keep /tmp/eight");
  command->callback([a, &exit_code] {
    const auto done = compare(*a);
    exit_code = done ? kOk : bad_input("compare", done.error());
  });
}

}  // namespace planck::cli
