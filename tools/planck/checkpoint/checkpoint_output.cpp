#include "tools/planck/checkpoint/checkpoint_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "planck/io/checkpoint/index.h"
#include "planck/io/mapped_file.h"

namespace planck::cli {

namespace fs = std::filesystem;

namespace {

// The tensors of each file: as many as fit, at least one.
std::vector<std::size_t> shard_ends(const std::vector<OutputTensor>& tensors, std::uint64_t limit) {
  std::vector<std::size_t> ends;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto need = encoded_bytes(*tensors[i].type, tensors[i].shape).value_or(0);
    if (limit > 0 && bytes > 0 && bytes + need > limit) {
      ends.push_back(i);
      bytes = 0;
    }
    bytes += need;
  }
  ends.push_back(tensors.size());
  return ends;
}

// Where the tensors of one file lie.
struct FileLayout {
  std::string start;                                                      // header and padding
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> places;  // name → begin, bytes
  std::uint64_t alignment = 1, bytes = 0;
};

Result<FileLayout> layout_of(const OutputOptions& options, const std::vector<OutputTensor>& tensors,
                             std::size_t first, std::size_t last) {
  const auto in_file = [&](const Error& error) {
    return fail(error.code, fmt::format("{}: {}", options.path, error.message));
  };
  FileLayout layout;
  if (options.gguf) {
    GgufHeader header;
    header.fields = options.fields;
    for (std::size_t i = first; i < last; ++i)
      header.tensors.push_back({tensors[i].name, tensors[i].type, tensors[i].shape, 0, 0});
    auto text = layout_gguf(header);
    if (!text) return in_file(text.error());
    layout.start = std::move(*text);
    layout.alignment = header.alignment;
    layout.bytes = gguf_file_bytes(header);
    for (const GgufTensor& t : header.tensors)
      layout.places[t.name] = {header.data_begin + t.begin, t.bytes};
    return layout;
  }
  SafetensorsHeader header;
  header.metadata = options.metadata;
  for (std::size_t i = first; i < last; ++i)
    header.entries.push_back(
        {tensors[i].name, find_safetensors_dtype(tensors[i].type->text), tensors[i].shape, 0, 0});
  auto text = layout_header(header);
  if (!text) return in_file(text.error());
  layout.start = std::move(*text);
  layout.bytes = header.data_begin + (header.entries.empty() ? 0 : header.entries.back().end);
  for (const SafetensorsEntry& e : header.entries)
    layout.places[e.name] = {header.data_begin + e.begin, e.bytes()};
  return layout;
}

}  // namespace

Result<std::uint64_t> output_bytes(const OutputOptions& options,
                                   const std::vector<OutputTensor>& tensors) {
  std::uint64_t sum = 0;
  std::size_t first = 0;
  for (const std::size_t last : shard_ends(tensors, options.shard_bytes)) {
    const auto layout = layout_of(options, tensors, first, last);
    if (!layout) return tl::unexpected(layout.error());
    sum += layout->bytes;
    first = last;
  }
  return sum;
}

Result<void> CheckpointOutput::add_file(const OutputOptions& options, const std::string& name,
                                        const std::vector<OutputTensor>& tensors, std::size_t first,
                                        std::size_t last) {
  const auto layout = layout_of(options, tensors, first, last);
  if (!layout) return tl::unexpected(layout.error());
  file_bytes_ += layout->bytes;
  auto file = OutputFile::create(options.folder ? (fs::path(folder_.path()) / name).string()
                                                : options.path);
  if (!file) return tl::unexpected(file.error());
  if (auto ok = file->write_at(0, std::as_bytes(std::span(layout->start))); !ok) return ok;
  for (std::size_t i = first; i < last; ++i) {
    const auto [at, bytes] = layout->places.at(tensors[i].name);
    places_.push_back({files_.size(), at, bytes});
    missing_ += bytes;
  }
  if (first < last) {  // GGUF pads the last tensor too
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
    auto folder = PartialFolder::create(options.path);
    if (!folder) return tl::unexpected(folder.error());
    out.folder_ = std::move(*folder);
  }
  const auto ends = shard_ends(tensors, options.shard_bytes);
  const std::string_view suffix = options.gguf ? "gguf" : "safetensors";
  std::map<std::string, std::string, std::less<>> index;
  std::size_t first = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::string name =
        ends.size() == 1 ? fmt::format("model.{}", suffix)
                         : fmt::format("model-{:05}-of-{:05}.{}", i + 1, ends.size(), suffix);
    OutputOptions one = options;
    if (options.gguf && ends.size() > 1) {
      one.fields.push_back(GgufField::number16("split.no", static_cast<std::uint16_t>(i)));
      one.fields.push_back(
          GgufField::number16("split.count", static_cast<std::uint16_t>(ends.size())));
      one.fields.push_back(GgufField::signed_number("split.tensors.count",
                                                    static_cast<std::int32_t>(tensors.size())));
    }
    if (auto ok = out.add_file(one, name, tensors, first, ends[i]); !ok)
      return tl::unexpected(ok.error());
    for (; first < ends[i]; ++first) index[tensors[first].name] = name;
  }
  if (!options.folder) return out;
  if (ends.size() > 1 && !options.gguf)
    if (auto ok = out.write_text("model.safetensors.index.json", index_text(index, out.missing_));
        !ok)
      return tl::unexpected(ok.error());
  for (const std::string& path : options.copies) {
    const std::string name = fs::path(path).filename().string();
    if (options.texts.contains(name)) continue;
    const auto file = MappedFile::open(path);
    if (!file) return tl::unexpected(file.error());
    const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                                file->bytes().size());
    if (auto ok = out.write_text(name, text); !ok) return tl::unexpected(ok.error());
  }
  for (const auto& [name, text] : options.texts)
    if (auto ok = out.write_text(name, text); !ok) return tl::unexpected(ok.error());
  return out;
}

Result<void> CheckpointOutput::write_text(const std::string& name, std::string_view text) {
  auto file = OutputFile::create((fs::path(folder_.path()) / name).string());
  if (!file) return tl::unexpected(file.error());
  if (auto ok = file->write_at(0, std::as_bytes(std::span(text))); !ok) return ok;
  return file->commit();
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
  for (OutputFile& file : files_)
    if (auto ok = file.commit(); !ok) return ok;
  return folder_.path().empty() ? Result<void>{} : folder_.rename_to_target();
}

}  // namespace planck::cli
