#include "planck/nn/state.h"

#include <cstring>

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

StateDict state(const PartList& parts) {
  StateDict found;
  for (const auto& part : parts.parts())
    if (part.type->entry != nullptr) found[part.path] = part.type->entry(part.object);
  return found;
}

StateEntry entry_of(std::span<const std::int64_t> values) { return entry(values); }
StateEntry entry_of(std::span<const double> values) { return entry(values); }

void check_entry(std::string_view name, const StateEntry& e, Dtype dtype, const Shape& shape) {
  if (e.dtype != dtype || !(e.shape == shape))
    refuse("load_state: {} is {} {} in the state, {} {} in the model",
           {name, e.dtype, e.shape, dtype, shape});
}
const StateEntry& find_entry(const StateDict& state, std::string_view name, Dtype dtype,
                             const Shape& shape) {
  const auto found = state.find(name);
  if (found == state.end()) refuse("load_state: the state lacks {}", {name});
  check_entry(name, found->second, dtype, shape);
  return found->second;
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

}  // namespace planck::nn
