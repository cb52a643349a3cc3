#include "planck/nn/state_file.h"

#include <fmt/format.h>

#include "planck/io/safetensors.h"
#include "planck/io/sha256.h"

namespace planck::nn {

SavedState::SavedState() = default;
SavedState::SavedState(const SavedState&) = default;
SavedState::SavedState(SavedState&&) noexcept = default;
SavedState& SavedState::operator=(SavedState other) noexcept {
  state.swap(other.state);
  metadata.swap(other.metadata);
  return *this;
}
SavedState::~SavedState() = default;

std::string sha256_of(const StateDict& state) {
  Sha256 hash;
  for (const auto& [name, e] : state) {
    const std::string head =
        fmt::format("{} {} {}\n", name, planck::name(e.dtype), to_string(e.shape));
    hash.update(std::as_bytes(std::span(head)));
    hash.update(e.bytes);
  }
  return hash.hex();
}
std::uint64_t bytes_of(const StateDict& state) {
  std::uint64_t sum = 0;
  for (const auto& [name, e] : state) sum += e.bytes.size();
  return sum;
}

namespace {

// Of all that a file of save_state says: its metadata, names, dtypes, shapes and elements.
std::string checksum(const StateDict& state, const SafetensorsMetadata& metadata) {
  Sha256 hash;
  for (const auto& [key, value] : metadata) {
    const std::string line = fmt::format("{} {} {} {}\n", key.size(), key, value.size(), value);
    hash.update(std::as_bytes(std::span(line)));
  }
  const std::string elements = sha256_of(state);
  hash.update(std::as_bytes(std::span(elements)));
  return hash.hex();
}

// Two keys, so that one fault cannot make a file look like one that never had a checksum.
constexpr std::string_view kVersionKey = "planck.state", kChecksumKey = "planck.state.sha256";

Result<void> verify(const std::string& path, SavedState& saved) {
  const auto version = saved.metadata.find(kVersionKey), sum = saved.metadata.find(kChecksumKey);
  const bool versioned = version != saved.metadata.end(), summed = sum != saved.metadata.end();
  if (!versioned && !summed) return {};  // somebody else's
  if (!versioned || !summed || version->second != "1")
    return fail(ErrorCode::io, fmt::format("{}: is damaged: its metadata {}", path,
                                           !summed      ? "lost its checksum"
                                           : !versioned ? "has a checksum but no version"
                                                        : "has a version other than 1"));
  const std::string written = sum->second;
  saved.metadata.erase(version);
  saved.metadata.erase(sum);
  const std::string found = checksum(saved.state, saved.metadata);
  if (found == written) return {};
  return fail(ErrorCode::io,
              fmt::format("{}: is damaged: its checksum is {}, that of what it holds {}", path,
                          in_quotes(written), in_quotes(found)));
}

}  // namespace

SafetensorsMetadata without_checksum(SafetensorsMetadata metadata) {
  for (const std::string_view key : {kVersionKey, kChecksumKey})
    if (const auto found = metadata.find(key); found != metadata.end()) metadata.erase(found);
  return metadata;
}

// Four-bit integers are U8 in the file, two in a byte; the metadata remembers their names.
Result<void> save_state(const std::string& path, const StateDict& state,
                        const SafetensorsMetadata& metadata) {
  std::vector<SafetensorsSpec> specs;
  SafetensorsMetadata with_packed = metadata;
  for (const auto& [name, e] : state) {
    auto spec = SafetensorsSpec::of(name, e.dtype, e.shape);
    if (!spec) return tl::unexpected(spec.error());
    specs.push_back(std::move(*spec));
    if (bits(e.dtype) == 4) with_packed["dtype of " + name] = planck::name(e.dtype);
  }
  with_packed.emplace(kVersionKey, "1");
  with_packed.emplace(kChecksumKey, checksum(state, metadata));
  auto writer = SafetensorsWriter::create(path, specs, with_packed);
  if (!writer) return tl::unexpected(writer.error());
  for (const auto& [name, e] : state)
    if (auto ok = writer->write(name, e.bytes); !ok) return ok;
  return writer->commit();
}

Result<SavedState> read_state(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  if (!file) return tl::unexpected(file.error());
  SavedState saved;
  saved.metadata = file->header().metadata;
  for (const SafetensorsEntry& entry : file->entries()) {
    const auto shape = file->computable_shape(entry);
    if (!shape) return tl::unexpected(shape.error());
    StateEntry e{*entry.type->dtype, *shape, {}};
    const auto packed = saved.metadata.find("dtype of " + entry.name);
    if (packed != saved.metadata.end()) {
      const auto dtype = parse_dtype(packed->second);
      const int last = e.shape.rank() - 1;
      if (!dtype || bits(*dtype) != 4 || e.dtype != Dtype::u8 || last < 0 ||
          e.shape[last] > INT64_MAX / 2)
        return fail(ErrorCode::io, fmt::format("{}: {} cannot be {}", path, in_quotes(entry.name),
                                               in_quotes(packed->second)));
      e.dtype = *dtype;
      e.shape[last] *= 2;
      saved.metadata.erase(packed);
    }
    const auto bytes = file->bytes(entry);
    e.bytes.assign(bytes.begin(), bytes.end());
    saved.state.emplace(entry.name, std::move(e));
  }
  if (auto ok = verify(path, saved); !ok) return tl::unexpected(ok.error());
  return saved;
}

}  // namespace planck::nn
