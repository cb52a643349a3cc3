// The state of a model, an optimizer or a whole training run: a flat map from names to host
// tensors, the same for every backend and device.
//
//   StateDict state = nn::state(model);        // "conv1.weight", "norm.running_mean", …
//   nn::load_state(other_model, state);        // load.h: names, dtypes and shapes must fit
//   save_state("model.safetensors", state, {{"architecture", "digits"}});  // state_file.h
#pragma once

#include <span>

#include "planck/nn/module.h"
#include "planck/nn/state_file.h"

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

StateDict state(const PartList& parts);

// Every part of a model by path: parameters, buffers, generators.
template <class Module>
StateDict state(Module& module) {
  return state(parts_of(module));
}

}  // namespace planck::nn
