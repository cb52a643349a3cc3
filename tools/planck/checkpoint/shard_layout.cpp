#include "tools/planck/checkpoint/shard_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "planck/io/safetensors_json.h"
#include "tools/planck/checkpoint/quantized_checkpoint.h"

namespace planck::cli {

namespace {

std::uint64_t data_bytes(const OutputTensor& t) {
  return encoded_bytes(*t.type, t.shape).value_or(0);
}

// What tells llama.cpp that a file is one of several.
std::vector<GgufField> fields_of(const OutputOptions& options, const Shard& shard,
                                 std::size_t tensors) {
  std::vector<GgufField> fields = options.fields;
  if (shard.count == 1) return fields;
  fields.push_back(GgufField::number16("split.no", static_cast<std::uint16_t>(shard.number)));
  fields.push_back(GgufField::number16("split.count", static_cast<std::uint16_t>(shard.count)));
  fields.push_back(
      GgufField::signed_number("split.tensors.count", static_cast<std::int32_t>(tensors)));
  return fields;
}

// What metadata say of the checkpoint, and of some of its tensors.
SafetensorsMetadata metadata_of(const OutputOptions& options, std::span<const OutputTensor> of) {
  const SafetensorsMetadata& all = options.metadata;
  std::string behind(kQuantizedPrefix);
  ++behind.back();
  SafetensorsMetadata some(all.begin(), all.lower_bound(kQuantizedPrefix));
  some.insert(all.lower_bound(behind), all.end());
  for (const OutputTensor& t : of)
    if (const auto it = all.find(std::string(kQuantizedPrefix) + t.name); it != all.end())
      some.insert(*it);
  return some;
}

std::uint64_t json_bytes(const SafetensorsHeader& header) {
  const auto text = header_json(header);
  return text ? text->size() : 0;
}

// The length of a file, tensor by tensor: exact for GGUF, for safetensors a few bytes more than it
// will be.
class FileLength {
 public:
  struct Parts {
    std::uint64_t header = 0, data = 0;
  };

  explicit FileLength(const OutputOptions& options) : options_(options) {
    GgufHeader none;
    none.fields = options.fields;
    if (options.gguf && layout_gguf(none)) alignment_ = none.alignment;
  }
  Parts empty() const {
    SafetensorsHeader none;
    none.metadata = metadata_of(options_, {});
    if (!options_.gguf) return {8 + json_bytes(none), 0};
    Parts parts{24, 0};
    for (const GgufField& f : fields_of(options_, {.count = 2}, 0))
      parts.header += 8 + f.key.size() + 4 + f.value.size();
    return parts;
  }
  Parts with(const Parts& before, const OutputTensor& t) const {
    const std::uint64_t data = data_bytes(t);
    return {before.header + header_bytes(t), before.data + (options_.gguf ? padded(data) : data)};
  }
  std::uint64_t bytes(const Parts& parts) const { return padded(parts.header) + parts.data; }

 private:
  std::uint64_t padded(std::uint64_t bytes) const {
    return (bytes + alignment_ - 1) / alignment_ * alignment_;
  }
  // Of one entry, with the comma before it, and of what metadata say of its tensor.
  std::uint64_t header_bytes(const OutputTensor& t) const {
    if (options_.gguf)
      return 8 + t.name.size() + 4 + 8 * std::max<std::size_t>(t.shape.size(), 1) + 4 + 8;
    const std::uint64_t end = std::max(options_.shard_bytes, data_bytes(t));
    SafetensorsHeader one;
    one.entries.push_back({t.name, find_safetensors_dtype(t.type->text), t.shape, end, end});
    if (const auto it = options_.metadata.find(std::string(kQuantizedPrefix) + t.name);
        it != options_.metadata.end())
      one.metadata.insert(*it);
    return json_bytes(one);
  }

  const OutputOptions& options_;
  std::uint64_t alignment_ = 8;
};

Result<FileLayout> gguf_layout(const OutputOptions& options,
                               const std::vector<OutputTensor>& tensors, const Shard& shard) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint16_t>::max();
  if (shard.count > kMost)
    return fail(ErrorCode::io, fmt::format("would be {} files, GGUF has at most {}; a larger "
                                           "--shard-size makes fewer",
                                           shard.count, kMost));
  GgufHeader header;
  header.fields = fields_of(options, shard, tensors.size());
  for (std::size_t i = shard.first; i < shard.last; ++i)
    header.tensors.push_back({tensors[i].name, tensors[i].type, tensors[i].shape, 0, 0});
  auto text = layout_gguf(header);
  if (!text) return tl::unexpected(text.error());
  FileLayout layout{std::move(*text), {}, header.alignment, gguf_file_bytes(header)};
  for (const GgufTensor& t : header.tensors)
    layout.places[t.name] = {header.data_begin + t.begin, t.bytes};
  return layout;
}

Result<FileLayout> safetensors_layout(const OutputOptions& options,
                                      const std::vector<OutputTensor>& tensors,
                                      const Shard& shard) {
  SafetensorsHeader header;
  header.metadata =
      shard.count == 1
          ? options.metadata
          : metadata_of(options, std::span(tensors).subspan(shard.first, shard.last - shard.first));
  for (std::size_t i = shard.first; i < shard.last; ++i)
    header.entries.push_back(
        {tensors[i].name, find_safetensors_dtype(tensors[i].type->text), tensors[i].shape, 0, 0});
  auto text = layout_header(header);
  if (!text) return tl::unexpected(text.error());
  FileLayout layout{std::move(*text), {}, 1, header.data_begin};
  if (!header.entries.empty()) layout.bytes += header.entries.back().end;
  for (const SafetensorsEntry& e : header.entries)
    layout.places[e.name] = {header.data_begin + e.begin, e.bytes()};
  return layout;
}

}  // namespace

std::vector<Shard> cut_shards(const OutputOptions& options,
                              const std::vector<OutputTensor>& tensors) {
  std::vector<Shard> shards(1);
  if (options.shard_bytes > 0) {
    const FileLength length(options);
    FileLength::Parts parts = length.empty();
    for (std::size_t i = 0; i < tensors.size();) {
      FileLength::Parts longer = length.with(parts, tensors[i]);
      std::size_t end = i + 1;
      for (; end < tensors.size() && tensors[end].with_the_one_before; ++end)
        longer = length.with(longer, tensors[end]);
      if (length.bytes(longer) > options.shard_bytes && shards.back().first < i) {
        shards.back().last = i;
        shards.push_back({.first = i});
        parts = length.empty();
        continue;
      }
      parts = longer;
      i = end;
    }
  }
  shards.back().last = tensors.size();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].number = i;
    shards[i].count = shards.size();
  }
  return shards;
}

std::string shard_name(const OutputOptions& options, const Shard& shard) {
  const std::string_view suffix = options.gguf ? "gguf" : "safetensors";
  return shard.count == 1
             ? fmt::format("model.{}", suffix)
             : fmt::format("model-{:05}-of-{:05}.{}", shard.number + 1, shard.count, suffix);
}

Result<FileLayout> layout_of(const OutputOptions& options, const std::vector<OutputTensor>& tensors,
                             const Shard& shard) {
  auto layout = options.gguf ? gguf_layout(options, tensors, shard)
                             : safetensors_layout(options, tensors, shard);
  if (!layout)
    return fail(layout.error().code, fmt::format("{}: {}", options.path, layout.error().message));
  return layout;
}

Result<std::uint64_t> output_bytes(const OutputOptions& options,
                                   const std::vector<OutputTensor>& tensors) {
  std::uint64_t sum = 0;
  for (const Shard& shard : cut_shards(options, tensors)) {
    const auto layout = layout_of(options, tensors, shard);
    if (!layout) return tl::unexpected(layout.error());
    sum += layout->bytes;
  }
  return sum;
}

}  // namespace planck::cli
