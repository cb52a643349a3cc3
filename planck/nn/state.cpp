#include "planck/nn/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "planck/io/sha256.h"

namespace planck::nn {

namespace {

template <class T>
StateEntry entry(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {dtype_of<T>, {static_cast<std::int64_t>(values.size())}, {bytes.begin(), bytes.end()}};
}

template <class T>
std::vector<T> numbers(const StateDict& state, std::string_view name, std::int64_t count) {
  const Shape shape{count};
  const StateEntry& e = find_entry(state, name, dtype_of<T>, shape);
  std::vector<T> values(static_cast<std::size_t>(count));
  if (count > 0) std::memcpy(values.data(), e.bytes.data(), e.bytes.size());
  return values;
}

}  // namespace

std::string detail::indexed(std::string_view name, std::size_t i) {
  return fmt::format("{}.{}", name, i);
}
std::string detail::joined(const std::string& outer, std::string_view name) {
  if (name.empty()) return outer;
  return outer.empty() ? std::string(name) : fmt::format("{}.{}", outer, name);
}

std::string PartList::enter(std::string_view name) {
  std::string inner = detail::joined(path_, name);
  return std::exchange(path_, std::move(inner));
}
void PartList::leave(std::string&& outer) { path_ = std::move(outer); }
void PartList::add(void* part, const PartType& type) { parts_.push_back({path_, part, &type}); }
void PartList::add(QuantizableLayer& layer) { quantizable_.push_back({path_, &layer}); }

template <>
const PartType& part_type<Rng>() {
  static constexpr PartType type{[](const void* part) {
                                   const auto& rng = *static_cast<const Rng*>(part);
                                   const std::int64_t both[] = {
                                       static_cast<std::int64_t>(rng.seed),
                                       static_cast<std::int64_t>(rng.offset)};
                                   return entry_of(both);
                                 },
                                 [](void* part, const StateDict& state, const std::string& path) {
                                   const auto both = find_integers(state, path, 2);
                                   *static_cast<Rng*>(part) = {static_cast<std::uint64_t>(both[0]),
                                                               static_cast<std::uint64_t>(both[1])};
                                 }};
  return type;
}
template <>
const PartType& part_type<Mode>() {
  static constexpr PartType type{nullptr, nullptr};
  return type;
}

void train(const PartList& parts, bool training) {
  parts.for_each<Mode>([=](const std::string&, Mode& mode) { mode.training = training; });
}

StateDict state(const PartList& parts) {
  StateDict found;
  for (const auto& part : parts.parts())
    if (part.type->entry != nullptr) found[part.path] = part.type->entry(part.object);
  return found;
}
void load_state(const PartList& parts, const StateDict& state) {
  std::vector<std::string_view> paths;
  for (const auto& part : parts.parts()) {
    if (part.type->load == nullptr) continue;
    part.type->load(part.object, state, part.path);
    paths.push_back(part.path);
  }
  if (paths.size() == state.size()) return;
  for (const auto& [name, entry] : state)
    if (std::find(paths.begin(), paths.end(), name) == paths.end())
      refuse("load_state: the state has {}, the model has no such part", {name});
}

StateEntry entry_of(std::span<const std::int64_t> values) { return entry(values); }
StateEntry entry_of(std::span<const double> values) { return entry(values); }

const StateEntry& find_entry(const StateDict& state, std::string_view name, Dtype dtype,
                             const Shape& shape) {
  const auto found = state.find(name);
  if (found == state.end())
    raise(ErrorCode::invalid_problem, fmt::format("load_state: the state lacks {}", name));
  const StateEntry& e = found->second;
  if (e.dtype != dtype || !(e.shape == shape))
    raise(ErrorCode::invalid_problem,
          fmt::format("load_state: {} is {} {} in the state, {} {} in the model", name,
                      planck::name(e.dtype), to_string(e.shape), planck::name(dtype),
                      to_string(shape)));
  return e;
}
std::vector<std::int64_t> find_integers(const StateDict& state, std::string_view name,
                                        std::int64_t count) {
  return numbers<std::int64_t>(state, name, count);
}
std::vector<double> find_numbers(const StateDict& state, std::string_view name,
                                 std::int64_t count) {
  return numbers<double>(state, name, count);
}

StateDict with_prefix(std::string_view prefix, const StateDict& state) {
  StateDict longer;
  for (const auto& [name, e] : state) longer[std::string(prefix) + name] = e;
  return longer;
}
StateDict without_prefix(std::string_view prefix, const StateDict& state) {
  StateDict shorter;
  for (const auto& [name, e] : state)
    if (name.starts_with(prefix)) shorter[name.substr(prefix.size())] = e;
  return shorter;
}

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
  auto writer = SafetensorsWriter::create(path, specs, with_packed);
  if (!writer) return tl::unexpected(writer.error());
  for (const auto& [name, e] : state)
    if (auto ok = writer->write(name, e.bytes); !ok) return ok;
  return writer->commit();
}

Result<SavedState> read_state(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  if (!file) return tl::unexpected(file.error());
  SavedState saved{{}, file->header().metadata};
  for (const SafetensorsEntry& entry : file->entries()) {
    const auto tensor = file->load(Stream::cpu(1), entry);
    if (!tensor) return tl::unexpected(tensor.error());
    StateEntry e{tensor->dtype(), tensor->shape(), {}};
    const auto packed = saved.metadata.find("dtype of " + entry.name);
    if (packed != saved.metadata.end()) {
      const auto dtype = parse_dtype(packed->second);
      if (!dtype || bits(*dtype) != 4 || e.dtype != Dtype::u8 || e.shape.rank() == 0)
        return fail(ErrorCode::io,
                    fmt::format("{}: {} cannot be {}", path, entry.name, packed->second));
      e.dtype = *dtype;
      e.shape[e.shape.rank() - 1] *= 2;
      saved.metadata.erase(packed);
    }
    const auto* first = tensor->as<const std::byte>();
    e.bytes.assign(first, first + tensor->bytes());
    saved.state.emplace(entry.name, std::move(e));
  }
  return saved;
}

}  // namespace planck::nn
