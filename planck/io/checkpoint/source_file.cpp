#include "planck/io/checkpoint/source_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "planck/io/npy_header.h"
#include "planck/io/torch/torch_file.h"

namespace planck {

namespace {

using namespace std::string_view_literals;

Result<FileContents> read_safetensors(std::span<const std::byte> file) {
  auto header = parse_header(file);
  if (!header) return tl::unexpected(header.error());
  FileContents contents;
  contents.metadata = std::move(header->metadata);
  for (SafetensorsEntry& e : header->entries)
    contents.tensors.push_back({.name = std::move(e.name),
                                .type = find_encoding(e.type->text),
                                .shape = std::move(e.shape),
                                .begin = header->data_begin + e.begin});
  return contents;
}

Result<FileContents> read_gguf(std::span<const std::byte> file) {
  auto header = parse_gguf(file);
  if (!header) return tl::unexpected(header.error());
  FileContents contents;
  contents.is_gguf = true;
  // What says that this was one of several files is true no longer.
  std::erase_if(header->fields, [](const GgufField& f) { return f.key.starts_with("split."); });
  contents.fields = std::move(header->fields);
  for (GgufTensor& t : header->tensors)
    contents.tensors.push_back({.name = std::move(t.name),
                                .type = t.type,
                                .shape = std::move(t.shape),
                                .begin = header->data_begin + t.begin});
  return contents;
}

Result<FileContents> read_npy(const std::string& path, std::span<const std::byte> file) {
  const auto header = parse_npy_header(file);
  if (!header) return tl::unexpected(header.error());
  SourceTensor t{.name = std::filesystem::path(path).stem().string(),
                 .type = &encoding_of(header->dtype),
                 .shape = {header->shape.begin(), header->shape.end()},
                 .begin = header->data_begin};
  if (header->fortran_order && header->shape.rank() > 1) {
    std::int64_t step = 1;
    for (const std::int64_t extent : t.shape) {
      t.strides.push_back(step);
      step *= extent;
    }
  }
  FileContents contents;
  contents.tensors.push_back(std::move(t));
  return contents;
}

Result<FileContents> read_torch(std::span<const std::byte> file) {
  auto checkpoint = parse_torch(file);
  if (!checkpoint) return tl::unexpected(checkpoint.error());
  FileContents contents;
  contents.left_out = std::move(checkpoint->left_out);
  for (TorchTensor& t : checkpoint->tensors)
    contents.tensors.push_back({.name = std::move(t.name),
                                .type = t.type,
                                .shape = std::move(t.shape),
                                .strides = std::move(t.strides),
                                .begin = t.begin});
  return contents;
}

}  // namespace

Result<FileContents> read_contents(const std::string& path, std::span<const std::byte> file) {
  const std::string_view start(reinterpret_cast<const char*>(file.data()),
                               std::min<std::size_t>(file.size(), 6));
  if (start.starts_with("GGUF")) return read_gguf(file);
  if (start == "\x93NUMPY"sv) return read_npy(path, file);
  // A pickle before 1.6 begins with a number of ten bytes, which is no header's length.
  if (start.starts_with("PK\x03\x04"sv) || start.starts_with("\x80\x02\x8a\x0a"sv))
    return read_torch(file);
  return read_safetensors(file);
}

Result<std::unique_ptr<CheckpointSource::File>> CheckpointSource::File::open(
    const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return tl::unexpected(mapped.error());
  std::unique_ptr<File> file(new File);
  file->path_ = path;
  file->mapped_ = std::move(*mapped);
  file->descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file->descriptor_ < 0)
    return fail(ErrorCode::io,
                fmt::format("{}: cannot open: {}", path, std::generic_category().message(errno)));
  return file;
}

CheckpointSource::File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

Result<void> CheckpointSource::File::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return fail(ErrorCode::io, fmt::format("{}: cannot read: {}", path_,
                                             std::generic_category().message(errno)));
    if (n == 0)
      return fail(ErrorCode::io, fmt::format("{}: ends at byte {}, it had {} when it was opened",
                                             path_, offset, mapped_.bytes().size()));
    out = out.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

}  // namespace planck
