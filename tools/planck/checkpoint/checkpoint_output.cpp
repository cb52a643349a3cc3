#include "tools/planck/checkpoint/checkpoint_output.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "planck/io/checkpoint/index.h"
#include "planck/io/mapped_file.h"
#include "tools/planck/checkpoint/shard_layout.h"

namespace planck::cli {

namespace fs = std::filesystem;

namespace {

std::optional<unsigned> mode_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_mode & 0777u;
}

// All files of a folder are open until it is whole; systems allow many, and give few unasked.
void allow_open_files(std::size_t count) {
  rlimit files{};
  constexpr std::size_t kOthers = 128;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= count + kOthers) return;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, files.rlim_cur + count + kOthers);
  (void)setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

void limit_modes(const CheckpointSource& in, OutputOptions& options) {
  for (const std::string& path : in.files()) {
    options.file_mode &= mode_of(path).value_or(0) | 0600u;
    if (!in.is_folder()) continue;
    const fs::path folder = fs::path(path).parent_path();
    options.folder_mode &= mode_of(folder.empty() ? "." : folder.string()).value_or(0) | 0700u;
  }
}

Result<void> CheckpointOutput::add_file(const OutputOptions& options,
                                        const std::vector<OutputTensor>& tensors,
                                        const Shard& shard) {
  const auto layout = layout_of(options, tensors, shard);
  if (!layout) return tl::unexpected(layout.error());
  file_bytes_ += layout->bytes;
  const fs::path in_folder = fs::path(folder_.path()) / shard_name(options, shard);
  auto file = OutputFile::create(options.folder ? in_folder.string() : options.path,
                                 OutputFile::Aside::nameless_where_possible, options.file_mode);
  if (!file) return tl::unexpected(file.error());
  if (auto ok = file->write_at(0, std::as_bytes(std::span(layout->start))); !ok) return ok;
  for (std::size_t i = shard.first; i < shard.last; ++i) {
    const auto [at, bytes] = layout->places.at(tensors[i].name);
    places_.push_back({files_.size(), at, bytes});
    missing_ += bytes;
  }
  if (shard.first < shard.last) {  // GGUF pads the last tensor too
    const std::uint64_t end = places_.back().begin + places_.back().bytes;
    const std::vector<std::byte> zeros((layout->alignment - end % layout->alignment) %
                                       layout->alignment);
    if (auto ok = file->write_at(end, zeros); !ok) return ok;
  }
  files_.push_back(std::move(*file));
  return {};
}

Result<CheckpointOutput> CheckpointOutput::create(const OutputOptions& options,
                                                  const std::vector<OutputTensor>& tensors) {
  CheckpointOutput out;
  out.path_ = options.path;
  out.guard_ = std::make_unique<std::mutex>();
  if (options.folder) {
    auto folder = PartialFolder::create(options.path, options.folder_mode);
    if (!folder) return tl::unexpected(folder.error());
    out.folder_ = std::move(*folder);
  }
  const auto shards = cut_shards(options, tensors);
  if (shards.size() > 1 && !options.gguf && tensors.size() > kMaxSafetensorsEntries)
    return fail(ErrorCode::io,
                fmt::format("{}: would have {} tensors, at most {} of an index are read",
                            options.path, tensors.size(), kMaxSafetensorsEntries));
  allow_open_files(shards.size());
  std::map<std::string, std::string, std::less<>> index;
  for (const Shard& shard : shards) {
    if (auto ok = out.add_file(options, tensors, shard); !ok) return tl::unexpected(ok.error());
    for (std::size_t i = shard.first; i < shard.last; ++i)
      index[tensors[i].name] = shard_name(options, shard);
  }
  if (!options.folder) return out;
  if (shards.size() > 1 && !options.gguf)
    if (auto ok = out.write_text("model.safetensors.index.json", index_text(index, out.missing_),
                                 options.file_mode);
        !ok)
      return tl::unexpected(ok.error());
  if (auto ok = out.write_beside(options); !ok) return tl::unexpected(ok.error());
  return out;
}

// Copies as they are; what is written in the place of one is no more open than that.
Result<void> CheckpointOutput::write_beside(const OutputOptions& options) {
  std::map<std::string, unsigned> modes;
  for (const std::string& path : options.copies) {
    const std::string name = fs::path(path).filename().string();
    const unsigned mode = mode_of(path).value_or(0600);
    modes[name] = mode;
    if (options.texts.contains(name)) continue;
    const auto file = MappedFile::open(path);
    if (!file) return tl::unexpected(file.error());
    const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                                file->bytes().size());
    if (auto ok = write_text(name, text, mode); !ok) return ok;
  }
  for (const auto& [name, text] : options.texts) {
    const auto old = modes.find(name);
    const unsigned mode = options.file_mode & (old == modes.end() ? 0666 : old->second | 0600u);
    if (auto ok = write_text(name, text, mode); !ok) return ok;
  }
  return {};
}

Result<void> CheckpointOutput::write_text(const std::string& name, std::string_view text,
                                          unsigned mode) {
  auto file = OutputFile::create((fs::path(folder_.path()) / name).string(),
                                 OutputFile::Aside::nameless_where_possible, mode);
  if (!file) return tl::unexpected(file.error());
  if (auto ok = file->write_at(0, std::as_bytes(std::span(text))); !ok) return ok;
  return file->commit(OutputFile::Counted::with_its_folder);
}

Result<void> CheckpointOutput::write(std::size_t tensor, std::uint64_t offset,
                                     std::span<const std::byte> bytes) {
  const Place& place = places_[tensor];
  if (offset > place.bytes || bytes.size() > place.bytes - offset)
    return fail(ErrorCode::io, fmt::format("{}: tensor {} is given {} bytes at {}, it has {}",
                                           path_, tensor, bytes.size(), offset, place.bytes));
  if (auto ok = files_[place.file].write_at(place.begin + offset, bytes); !ok) return ok;
  const std::lock_guard lock(*guard_);
  missing_ -= bytes.size();
  return {};
}

Result<void> CheckpointOutput::commit() {
  if (missing_ != 0)
    return fail(ErrorCode::io, fmt::format("{}: {} bytes were never written", path_, missing_));
  const auto counted =
      folder_.path().empty() ? OutputFile::Counted::at_once : OutputFile::Counted::with_its_folder;
  for (OutputFile& file : files_)
    if (auto ok = file.commit(counted); !ok) return ok;
  return folder_.path().empty() ? Result<void>{} : folder_.rename_to_target();
}

}  // namespace planck::cli
