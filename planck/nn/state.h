// The state of a model, an optimizer or a whole training run: a flat map from names to host
// tensors, the same for every backend and device.
//
//   StateDict state = nn::state(model);        // "conv1.weight", "norm.running_mean", …
//   nn::load_state(other_model, state);        // names, dtypes and shapes must fit
//   save_state("model.safetensors", state, {{"architecture", "digits"}});
#pragma once

#include <map>

#include "planck/io/safetensors.h"
#include "planck/nn/module.h"

namespace planck::nn {

struct StateEntry {
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::vector<std::byte> bytes;  // row-major
  bool operator==(const StateEntry&) const = default;
};
using StateDict = std::map<std::string, StateEntry, std::less<>>;

template <class B, class K>
StateEntry to_entry(const Tensor<B, K>& t) {
  StateEntry e{t.dtype(), t.shape(), std::vector<std::byte>(bytes_for(t.dtype(), t.numel()))};
  B::to_host(t.primitive(), e.bytes.data());
  return e;
}
template <class B, class K>
Tensor<B, K> to_tensor(const StateEntry& e, const typename B::Device& device) {
  return Tensor<B, K>(B::template from_host<K>(device, e.dtype, e.shape, e.bytes.data()));
}
// Numbers of the host, as one-dimensional entries.
StateEntry entry_of(std::span<const std::int64_t> values);
StateEntry entry_of(std::span<const double> values);

// The entry of a name with the dtype and shape expected; thrown errors name all of them.
const StateEntry& find_entry(const StateDict& state, std::string_view name, Dtype dtype,
                             const Shape& shape);
std::vector<std::int64_t> find_integers(const StateDict& state, std::string_view name,
                                        std::int64_t count);
std::vector<double> find_numbers(const StateDict& state, std::string_view name, std::int64_t count);
// All names with a prefix, without it; and the other way round.
StateDict with_prefix(std::string_view prefix, const StateDict& state);
StateDict without_prefix(std::string_view prefix, const StateDict& state);

// SHA-256 over names, dtypes, shapes and bytes, in the order of names.
std::string sha256_of(const StateDict& state);
std::uint64_t bytes_of(const StateDict& state);

// One safetensors file; it appears when it is complete. Errors name the path.
[[nodiscard]] Result<void> save_state(const std::string& path, const StateDict& state,
                                      const SafetensorsMetadata& metadata = {});
struct SavedState {
  StateDict state;
  SafetensorsMetadata metadata;
};
[[nodiscard]] Result<SavedState> read_state(const std::string& path);

namespace detail {

// Calls f(path, part) for what belongs to the state, whatever the backend.
template <class Module, class F>
void for_each_state(Module& module, F f) {
  for_each_part(module, [&]<class T>(const std::string& path, T& part) {
    if constexpr (kIsLeaf<T> && !std::same_as<T, Mode>) f(path, part);
  });
}

}  // namespace detail

template <class Module>
StateDict state(Module& module) {
  StateDict found;
  detail::for_each_state(module, [&]<class T>(const std::string& path, T& part) {
    if constexpr (std::same_as<T, Rng>) {
      const std::int64_t both[] = {static_cast<std::int64_t>(part.seed),
                                   static_cast<std::int64_t>(part.offset)};
      found[path] = entry_of(both);
    } else if constexpr (requires { part.set(part.value()); }) {
      found[path] = to_entry(part.value());
    } else {
      found[path] = to_entry(part.value);
    }
  });
  return found;
}

// Every part of the model must be in the state, and nothing else.
template <class Module>
void load_state(Module& module, const StateDict& state) {
  std::size_t used = 0;
  std::vector<std::string> paths;
  detail::for_each_state(module, [&]<class T>(const std::string& path, T& part) {
    ++used;
    paths.push_back(path);
    if constexpr (std::same_as<T, Rng>) {
      const auto both = find_integers(state, path, 2);
      part = {static_cast<std::uint64_t>(both[0]), static_cast<std::uint64_t>(both[1])};
    } else if constexpr (requires { part.set(part.value()); }) {
      const auto old = part.value();
      using Old = std::remove_cvref_t<decltype(old)>;
      part.set(to_tensor<typename Old::Backend, FloatKind>(
          find_entry(state, path, old.dtype(), old.shape()), old.device()));
    } else {
      using Old = std::remove_cvref_t<decltype(part.value)>;
      part.value = to_tensor<typename Old::Backend, typename Old::Kind>(
          find_entry(state, path, part.value.dtype(), part.value.shape()), part.value.device());
    }
  });
  if (used == state.size()) return;
  for (const auto& [name, entry] : state)
    if (std::find(paths.begin(), paths.end(), name) == paths.end())
      refuse("load_state: the state has {}, the model has no such part", {name});
}

}  // namespace planck::nn
