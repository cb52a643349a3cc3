// The state of a model, an optimizer or a whole training run: a flat map from names to host
// tensors, the same for every backend and device.
//
//   StateDict state = nn::state(model);        // "conv1.weight", "norm.running_mean", …
//   nn::load_state(other_model, state);        // names, dtypes and shapes must fit
//   save_state("model.safetensors", state, {{"architecture", "digits"}});
#pragma once

#include <span>

#include "planck/io/safetensors.h"
#include "planck/nn/module.h"

namespace planck::nn {

// Numbers of the host, as one-dimensional entries.
StateEntry entry_of(std::span<const std::int64_t> values);
// The same for doubles.
StateEntry entry_of(std::span<const double> values);

// The integers of a one-dimensional entry of this length.
std::vector<std::int64_t> find_integers(const StateDict& state, std::string_view name,
                                        std::int64_t count);
// The numbers of a one-dimensional entry of this length.
std::vector<double> find_numbers(const StateDict& state, std::string_view name, std::int64_t count);
// Every name with a prefix before it.
StateDict with_prefix(std::string_view prefix, const StateDict& state);
// Those names that have a prefix, without it.
StateDict without_prefix(std::string_view prefix, const StateDict& state);

// SHA-256 over names, dtypes, shapes and bytes, in the order of names.
std::string sha256_of(const StateDict& state);
// How many bytes the tensors of a state have.
std::uint64_t bytes_of(const StateDict& state);

// One safetensors file; it appears when it is complete. Errors name the path.
[[nodiscard]] Result<void> save_state(const std::string& path, const StateDict& state,
                                      const SafetensorsMetadata& metadata = {});
struct SavedState {
  StateDict state;
  SafetensorsMetadata metadata;
};
// What save_state wrote. Hostile files are refused.
[[nodiscard]] Result<SavedState> read_state(const std::string& path);

StateDict state(const PartList& parts);
void load_state(const PartList& parts, const StateDict& state);

// Every part of a model by path: parameters, buffers, generators.
template <class Module>
StateDict state(Module& module) {
  return state(parts_of(module));
}
// Every part of the model must be in the state, and nothing else.
template <class Module>
void load_state(Module& module, const StateDict& from) {
  load_state(parts_of(module), from);
}

}  // namespace planck::nn
