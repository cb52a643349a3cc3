#include "planck/nn/quantize/quantized_file.h"

#include <fmt/format.h>

#include <filesystem>

#include "planck/io/checkpoint/source.h"
#include "planck/planck.h"

namespace planck::nn {

SafetensorsMetadata quantization_of(const PartList& parts) {
  SafetensorsMetadata metadata;
  for (const auto& [path, layer] : parts.quantizable())
    if (const auto scheme = layer->stored_weight())
      metadata.emplace(fmt::format("planck.quantized:{}", detail::joined(path, "weight")),
                       scheme_text(*scheme));
  if (!metadata.empty()) metadata.emplace("planck.quantized", "2");
  return metadata;
}

namespace {

constexpr std::string_view kVersionKey = "planck.quantized", kPrefix = "planck.quantized:";

// A folder of shards as one state. Files have checksums, folders have not.
Result<SavedState> read_folder(const std::string& path) {
  const auto source = CheckpointSource::open(path);
  if (!source) return tl::unexpected(source.error());
  SavedState saved;
  saved.metadata = source->metadata();
  for (const SourceTensor& t : source->tensors()) {
    const SafetensorsDtype* type = find_safetensors_dtype(t.type->text);
    if (type == nullptr || !type->dtype || t.shape.size() > kMaxRank)
      return fail(ErrorCode::io,
                  fmt::format("{}: tensor {}: is {} of rank {}, which no op computes", path,
                              in_quotes(t.name), t.type->text, t.shape.size()));
    StateEntry e{*type->dtype, Shape{std::span<const std::int64_t>(t.shape)}, {}};
    e.bytes.resize(t.bytes());
    if (auto ok = source->read(t, 0, t.elements(), e.bytes.data()); !ok)
      return tl::unexpected(ok.error());
    saved.state.emplace(t.name, std::move(e));
  }
  return saved;
}

StateEntry as_floats(const StateEntry& e, Dtype dtype) {
  if (e.dtype == dtype) return e;
  return to_entry(to_float(to_tensor<Cpu, FloatKind>(e, Cpu::default_device()), dtype));
}

[[noreturn]] void refuse_tensor(const std::string& path, const std::string& name,
                                const std::string& why) {
  raise(ErrorCode::io, fmt::format("{}: tensor {}: {}", path, in_quotes(name), why));
}

// A quantized tensor of a file, out of its parts, which leave the state.
class Parts {
 public:
  Parts(const std::string& path, SavedState& saved, const std::string& name, StoredScheme scheme)
      : path_(path), name_(name), state_(saved.state), weight_{std::move(scheme), {}, {}, {}} {
    const Shape& shape = weight_.scheme.original_shape;
    const bool four = is_packed(weight_.scheme.dtype);
    const std::int64_t rows = shape.rank() == 0 ? 1 : shape[0];
    const std::int64_t terms = rows == 0 ? 0 : numel(shape) / rows;
    const std::int64_t groups = numel(scheme_of().group_shape(shape));
    weight_.codes = taken("", four ? Dtype::u8 : weight_.scheme.dtype,
                          four ? rows * ((terms + 1) / 2) : numel(shape));
    if (four) {
      weight_.codes.dtype = weight_.scheme.dtype;
      weight_.codes.shape = {rows, terms + terms % 2};
    } else {
      weight_.codes.shape = shape;
    }
    weight_.scale = taken("_scale", weight_.scheme.original_dtype, groups);
    if (!weight_.scheme.symmetric) weight_.zero_point = taken("_zero_point", Dtype::i32, groups);
  }

  // For layers that run on integers.
  StoredWeight weight() const {
    StoredWeight w = weight_;
    w.scale = as_floats(w.scale, Dtype::f32);
    return w;
  }
  // scale (q − z), rounded to the original's dtype.
  StateEntry restored() const {
    return weight_.scheme.original_dtype == Dtype::f64 ? restored_as<double>()
                                                       : restored_as<float>();
  }

 private:
  QuantScheme scheme_of() const {
    const StoredScheme& s = weight_.scheme;
    return {.granularity = s.scheme == "per_tensor"    ? Granularity::per_tensor
                           : s.scheme == "per_channel" ? Granularity::per_channel
                           : s.scheme == "per_token"   ? Granularity::per_token
                                                       : Granularity::per_group,
            .axis = s.axis,
            .group = s.group,
            .dtype = s.dtype};
  }
  StateEntry taken(const char* suffix, Dtype dtype, std::int64_t elements) {
    const auto found = state_.find(name_ + suffix);
    if (found == state_.end())
      refuse_tensor(path_, name_, fmt::format("its {} is missing", in_quotes(name_ + suffix)));
    StateEntry e = std::move(found->second);
    const bool packed = is_packed(e.dtype);  // a file of save_state says so itself
    if (packed) e.shape[e.shape.rank() - 1] /= 2;
    if ((packed ? Dtype::u8 : e.dtype) != dtype || numel(e.shape) != elements)
      refuse_tensor(
          path_, name_ + suffix,
          fmt::format("is {} {}, the scheme says {} elements of {}", planck::name(e.dtype),
                      to_string(e.shape), elements, planck::name(dtype)));
    state_.erase(found);
    return e;
  }
  std::int32_t code(std::int64_t row, std::int64_t column, std::int64_t terms) const {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(weight_.codes.bytes.data());
    const Dtype dtype = weight_.scheme.dtype;
    if (!is_packed(dtype)) {
      const std::uint8_t byte = bytes[row * terms + column];
      return dtype == Dtype::s8 ? static_cast<std::int8_t>(byte) : byte;
    }
    const int nibble = bytes[row * ((terms + 1) / 2) + column / 2] >> (column % 2 * 4) & 15;
    return dtype == Dtype::s4 && nibble > 7 ? nibble - 16 : nibble;
  }
  template <class C>
  StateEntry restored_as() const {
    const StoredScheme& s = weight_.scheme;
    const Shape& shape = s.original_shape;
    constexpr Dtype kWide = dtype_of<C>;
    const StateEntry scales = as_floats(weight_.scale, kWide);
    const auto* scale = reinterpret_cast<const C*>(scales.bytes.data());
    const auto* zero = weight_.zero_point
                           ? reinterpret_cast<const std::int32_t*>(weight_.zero_point->bytes.data())
                           : nullptr;
    const std::int64_t n = numel(shape), groups = numel(scheme_of().group_shape(shape));
    std::int64_t inner = groups == 0 ? 1 : n / groups;  // elements of a group that lie together
    if (s.scheme == "per_channel") {
      inner = 1;
      for (int d = s.axis + 1; d < shape.rank(); ++d) inner *= shape[d];
    }
    std::vector<C> values(static_cast<std::size_t>(n));
    const std::int64_t terms = n == 0 || shape.rank() == 0 ? 1 : n / shape[0];
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t g = i / inner % groups;
      const std::int64_t z = zero != nullptr ? zero[g] : s.common_zero_point();
      values[static_cast<std::size_t>(i)] =
          scale[g] * static_cast<C>(code(i / terms, i % terms, terms) - z);
    }
    const auto bytes = std::as_bytes(std::span(values));
    return as_floats({kWide, shape, {bytes.begin(), bytes.end()}}, s.original_dtype);
  }

  const std::string& path_;
  std::string name_;
  StateDict& state_;
  StoredWeight weight_;
};

// The schemes of a file by the names of their tensors.
std::map<std::string, StoredScheme> schemes_of(const std::string& path,
                                               const SafetensorsMetadata& metadata) {
  std::map<std::string, StoredScheme> schemes;
  const auto version = metadata.find(kVersionKey);
  if (version == metadata.end())
    raise(ErrorCode::io, fmt::format("{}: is not a quantized checkpoint: its metadata lack {}",
                                     path, in_quotes(kVersionKey)));
  if (version->second != "2")
    raise(ErrorCode::io,
          fmt::format("{}: is a quantized checkpoint of version {}, 2 is read; `planck dequantize` "
                      "reads 1 too",
                      path, in_quotes(version->second)));
  for (const auto& [key, text] : metadata) {
    if (!key.starts_with(kPrefix)) continue;
    const std::string name = key.substr(kPrefix.size());
    auto scheme = parse_stored_scheme(text);
    if (!scheme) refuse_tensor(path, name, "its metadata: " + scheme.error().message);
    schemes.emplace(name, std::move(*scheme));
  }
  return schemes;
}

}  // namespace

Loaded detail::load_quantized(const std::function<PartList()>& parts, const std::string& path,
                              const LoadOptions& options) {
  std::error_code ignored;
  SavedState saved = value_or_throw(
      std::filesystem::is_regular_file(path, ignored) ? read_state(path) : read_folder(path));
  const auto schemes = schemes_of(path, saved.metadata);
  const auto renamed = [&](const std::string& name) {
    return options.rename ? options.rename(name) : name;
  };
  const PartList floats = parts();
  std::map<std::string, QuantizableLayer*, std::less<>> layers;
  for (const auto& [at, layer] : floats.quantizable()) layers[detail::joined(at, "weight")] = layer;

  std::vector<std::pair<QuantizableLayer*, StoredWeight>> integers;
  StateDict made;  // by the model's names
  const auto add = [&](const std::string& name, StateEntry e) {
    if (!name.empty() && !made.emplace(name, std::move(e)).second)
      refuse("load_state: two entries of the state become {}", {name});
  };
  for (const auto& [name, scheme] : schemes) {
    const Parts tensor(path, saved, name, scheme);
    const std::string to = renamed(name);
    const auto layer = layers.find(to);
    if (layer == layers.end() || !layer->second->takes(scheme)) {
      add(to, tensor.restored());
      continue;
    }
    StoredWeight weight = tensor.weight();
    add(to, weight.codes);
    add(to + "_scale", weight.scale);
    if (weight.zero_point) add(to + "_zero_point", *weight.zero_point);
    integers.emplace_back(layer->second, std::move(weight));
  }
  for (auto& [name, e] : saved.state) add(renamed(name), std::move(e));

  std::vector<std::pair<QuantizableLayer*, std::shared_ptr<const void>>> before;
  LoadOptions rest = options;
  rest.rename = {};
  try {
    for (const auto& [layer, weight] : integers) {
      before.emplace_back(layer, layer->form());
      layer->run_on(weight);
    }
    return load_state(parts(), made, rest);
  } catch (...) {
    for (const auto& [layer, form] : before) layer->restore(form);
    throw;
  }
}

}  // namespace planck::nn
