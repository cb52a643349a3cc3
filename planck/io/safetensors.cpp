#include "planck/io/safetensors.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "planck/core/cuda/runtime.h"

namespace planck {

namespace {

tl::unexpected<Error> in_file(const std::string& path, const Error& error) {
  return fail(error.code, fmt::format("{}: {}", path, error.message));
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return tl::unexpected(mapped.error());
  auto header = parse_header(mapped->bytes());
  if (!header) return in_file(path, header.error());
  SafetensorsFile file;
  file.path_ = path;
  file.file_ = std::move(*mapped);
  file.header_ = std::move(*header);
  return file;
}

Result<const SafetensorsEntry*> SafetensorsFile::find(std::string_view name) const {
  if (const SafetensorsEntry* entry = header_.find(name)) return entry;
  return fail(ErrorCode::io, fmt::format("{}: no tensor is called {}; the file has {}", path_,
                                         in_quotes(name), header_.entries.size()));
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return file_.bytes().subspan(header_.data_begin + entry.begin, entry.bytes());
}

Result<Shape> SafetensorsFile::computable_shape(const SafetensorsEntry& entry) const {
  const auto refuse = [&](std::string why) {
    return fail(ErrorCode::io, fmt::format("{}: tensor {}: {}", path_, in_quotes(entry.name), why));
  };
  if (!entry.type->dtype)
    return refuse(fmt::format("has dtype {}, which no op computes with", entry.type->text));
  if (entry.shape.size() > kMaxRank)
    return refuse(
        fmt::format("has rank {}, at most {} is supported", entry.shape.size(), kMaxRank));
  const Shape shape{std::span<const std::int64_t>(entry.shape)};
  if (auto ok = check_shape(shape, "shape"); !ok) return refuse(ok.error().message);
  return shape;
}

Result<View> SafetensorsFile::view(const SafetensorsEntry& entry) const {
  const auto shape = computable_shape(entry);
  if (!shape) return tl::unexpected(shape.error());
  const std::byte* data = bytes(entry).data();
  const std::size_t size = storage_bytes(*entry.type->dtype);
  if (entry.bytes() > 0 && reinterpret_cast<std::uintptr_t>(data) % size != 0)
    return fail(ErrorCode::io,
                fmt::format("{}: tensor {}: lies at byte {}, {} needs a multiple of {}", path_,
                            in_quotes(entry.name), header_.data_begin + entry.begin,
                            entry.type->text, size));
  return View{const_cast<std::byte*>(data), *entry.type->dtype, *shape, row_major(*shape), true};
}

Result<OwnedTensor> SafetensorsFile::load(const Stream& stream,
                                          const SafetensorsEntry& entry) const {
  const auto shape = computable_shape(entry);
  if (!shape) return tl::unexpected(shape.error());
  auto tensor = OwnedTensor::empty(stream, *entry.type->dtype, *shape);
  if (!tensor || entry.bytes() == 0) return tensor;
  const auto source = bytes(entry);
  if (stream.device().kind == DeviceKind::cpu) {
    std::memcpy(tensor->data(), source.data(), source.size());
    return tensor;
  }
  auto done = cuda::copy_to_device(stream.device().ordinal, stream.native(), tensor->data(),
                                   source.data(), source.size());
  if (done) done = stream.synchronize();
  if (!done) return in_file(path_, done.error());
  return tensor;
}

Result<SafetensorsSpec> SafetensorsSpec::of(std::string name, Dtype dtype, const Shape& shape) {
  SafetensorsSpec spec{std::move(name), safetensors_dtype(dtype), {shape.begin(), shape.end()}};
  if (!is_packed(dtype)) return spec;
  if (shape.rank() == 0 || shape[shape.rank() - 1] % 2 != 0)
    return fail(ErrorCode::io,
                fmt::format("tensor {}: {} is packed in pairs, shape {} has no even last extent",
                            in_quotes(spec.name), planck::name(dtype), to_string(shape)));
  spec.shape.back() /= 2;
  return spec;
}

Result<SafetensorsWriter> SafetensorsWriter::create(const std::string& path,
                                                    std::span<const SafetensorsSpec> tensors,
                                                    SafetensorsMetadata metadata) {
  SafetensorsHeader header;
  header.metadata = std::move(metadata);
  for (const SafetensorsSpec& t : tensors) {
    const SafetensorsDtype* type = find_safetensors_dtype(t.dtype);
    if (type == nullptr)
      return fail(ErrorCode::io,
                  fmt::format("{}: tensor {}: dtype is {}, not a dtype of the format", path,
                              in_quotes(t.name), in_quotes(t.dtype)));
    header.entries.push_back({t.name, type, t.shape, 0, 0});
  }
  const auto start = layout_header(header);
  if (!start) return in_file(path, start.error());
  auto file = OutputFile::create(path);
  if (!file) return tl::unexpected(file.error());
  if (auto ok = file->write_at(0, std::as_bytes(std::span(*start))); !ok)
    return tl::unexpected(ok.error());
  SafetensorsWriter writer(path, std::move(*file));
  writer.header_ = std::move(header);
  writer.written_.resize(writer.header_.entries.size());
  for (std::size_t i = 0; i < writer.header_.entries.size(); ++i)
    writer.index_[writer.header_.entries[i].name] = i;
  return writer;
}

Result<void> SafetensorsWriter::write(std::string_view name, std::span<const std::byte> bytes) {
  const auto it = index_.find(name);
  if (it == index_.end())
    return fail(ErrorCode::io,
                fmt::format("{}: tensor {}: was not announced", path_, in_quotes(name)));
  const SafetensorsEntry& entry = header_.entries[it->second];
  std::uint64_t& written = written_[it->second];
  if (bytes.size() > entry.bytes() - written)
    return fail(ErrorCode::io,
                fmt::format("{}: tensor {}: given {} bytes, {} of shape {} has {}", path_,
                            in_quotes(name), written + bytes.size(), entry.type->text,
                            shape_text(entry.shape), entry.bytes()));
  if (auto ok = file_.write_at(header_.data_begin + entry.begin + written, bytes); !ok) return ok;
  written += bytes.size();
  return {};
}

Result<void> SafetensorsWriter::commit() {
  for (std::size_t i = 0; i < written_.size(); ++i)
    if (const SafetensorsEntry& e = header_.entries[i]; written_[i] != e.bytes())
      return fail(ErrorCode::io, fmt::format("{}: tensor {}: given {} bytes, {} of shape {} has {}",
                                             path_, in_quotes(e.name), written_[i], e.type->text,
                                             shape_text(e.shape), e.bytes()));
  return file_.commit();
}

std::uint64_t SafetensorsWriter::file_bytes() const {
  return header_.data_begin + (header_.entries.empty() ? 0 : header_.entries.back().end);
}

}  // namespace planck
