// planck compare: what each way of quantizing costs, on a checkpoint given or made here.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

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
#include "tools/planck/output_option.h"
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

Result<std::string> make_table(const std::string& folder, bool keep, const CheckpointSource& in,
                               const Stream& stream, int threads) {
  using enum Table::Align;
  Table table({{"scheme"},
               {"dtype"},
               {"mean SQNR dB", right},
               {"worst SQNR dB", right},
               {"max abs error", right},
               {"exact", right},
               {"size", right},
               {"ratio", right},
               {"fnv1a"},
               {keep ? "file" : ""}});
  const auto original = hash_of(in.path());
  if (!original) return tl::unexpected(original.error());
  table.add({"original", "", "", "", "", "", size_text(in.file_bytes()), "1.00", *original,
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
      std::error_code ignored;
      if (!keep) std::filesystem::remove(folder + "/" + file, ignored);
      const Summary s = summarize(*report);
      table.add({text, std::string(name(dtype)), decibel_text(s.mean_db), decibel_text(s.worst_db),
                 error_text(s.max_abs), std::to_string(s.exact),
                 size_text(report->file_bytes_after),
                 fmt::format("{:.2f}", static_cast<double>(report->file_bytes_before) /
                                           static_cast<double>(report->file_bytes_after)),
                 *hash, keep ? file : ""});
    }
  return table.text();
}

struct CompareArguments {
  std::string file, keep;
  bool force = false;
  DeviceOption device;
};

// What is written before it is asked to be kept: a folder of its own, gone with this object.
class FolderAside {
 public:
  static Result<FolderAside> create() {
    std::error_code failed;
    const auto parent = std::filesystem::temp_directory_path(failed);
    if (failed) return fail(ErrorCode::io, "no folder for temporary files: " + failed.message());
    sweep(parent);
    std::string name = (parent / "planck-compare-XXXXXX").string();
    FolderAside folder;
    if (mkdtemp(name.data()) == nullptr)
      return fail(ErrorCode::io, fmt::format("{}: cannot create", name));
    folder.path_ = name;
    folder.lock_ = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)flock(folder.lock_, LOCK_EX | LOCK_NB);
    return folder;
  }
  FolderAside(FolderAside&& other) noexcept
      : path_(std::exchange(other.path_, "")), lock_(std::exchange(other.lock_, -1)) {}
  ~FolderAside() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    if (lock_ >= 0) close(lock_);
  }
  const std::string& path() const { return path_; }

 private:
  FolderAside() = default;
  // Those of processes that were killed: nobody holds their lock.
  static void sweep(const std::filesystem::path& parent) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("planck-compare-") || name.size() != 21) continue;
      const int folder =
          open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
      if (folder < 0) continue;
      if (flock(folder, LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(entry.path(), ignored);
      close(folder);
    }
  }

  std::string path_;
  int lock_ = -1;
};

Result<void> compare_in(const std::string& folder, const CompareArguments& a,
                        const Stream& stream) {
  const bool keep = !a.keep.empty();
  const std::string path = a.file.empty() ? folder + "/model.safetensors" : a.file;
  if (a.file.empty())
    if (auto ok = write_sample_checkpoint(Stream::cpu(a.device.threads), path, kSeed); !ok)
      return ok;
  const auto in = CheckpointSource::open(path);
  if (!in) return tl::unexpected(in.error());
  const auto table = make_table(folder, keep, *in, stream, a.device.threads);
  if (!table) return tl::unexpected(table.error());
  print(
      "{}, quantized eight ways on {}. The finer the groups, the less is lost;\n"
      "the same bytes on every run, thread count and device: compare fnv1a.\n"
      "The mean is of the tensors that are not exact.\n\n{}\n",
      a.file.empty() ? fmt::format("A transformer's checkpoint from seed {}", kSeed)
                     : printable(a.file),
      to_string(stream.device()), *table);
  if (!keep)
    print("Nothing was kept. --keep FOLDER keeps the files.\n");
  else
    print(
        "The files are in {0}. Next:\n"
        "  planck inspect {0}/per-group-s4.safetensors\n"
        "  planck dequantize {0}/per-group-s4.safetensors -o {0}/restored.safetensors\n",
        printable(a.keep));
  return {};
}

Result<void> compare(const CompareArguments& a) {
  const auto stream = a.device.stream();
  if (!stream) return tl::unexpected(stream.error());
  const InterruptHint hint("compare", "nothing is kept of it; the same command starts over");
  if (a.keep.empty()) {
    const auto folder = FolderAside::create();
    if (!folder) return tl::unexpected(folder.error());
    return compare_in(folder->path(), a, *stream);
  }
  std::error_code failed;
  std::filesystem::create_directories(a.keep, failed);
  if (failed)
    return fail(ErrorCode::io,
                fmt::format("--keep {}: cannot create: {}", a.keep, failed.message()));
  if (!a.force && !std::filesystem::is_empty(a.keep, failed))
    return fail(
        ErrorCode::io,
        fmt::format("--keep {}: the folder is not empty; --force replaces its files", a.keep));
  return compare_in(a.keep, a, *stream);
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
