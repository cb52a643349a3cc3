// Loading a state into a model: all of it, or what fits by name, renamed and cast where asked.
//
//   nn::save(model, "model.safetensors");
//   nn::load(model, "model.safetensors");
//   nn::load(model, "pretrained.safetensors", {.partial = true, .cast = true, .rename = …});
//
// Everything is checked and every tensor is made before the first part changes: a load that is
// refused leaves the model as it was.
//
// Checkpoints of PyTorch load as they are. Names that PyTorch has and the model has not:
//   num_batches_tracked                  of a batch norm: counts what nothing here needs
//   in_proj_weight, in_proj_bias         of an attention: query, key and value, one below the other
//   q_proj_weight, k_proj_weight, v_proj_weight, out_proj.*
// and generators of dropout stay as they are where the state has none.
#pragma once

#include <functional>

#include "planck/nn/state.h"

namespace planck::nn {

// The model's name for a name of the state; an empty one leaves the entry out.
using Rename = std::function<std::string(const std::string&)>;

struct LoadOptions {
  bool partial = false;  // parts and names that the other side lacks are left as they are
  bool cast = false;     // floats of another dtype become that of the part
  Rename rename = {};    // names of the state become the model's
};

// What a load left as it was.
struct Loaded {
  std::vector<std::string> missing;  // parts that the state does not have
  std::vector<std::string> unused;   // names of the state that the model does not have
};

Loaded load_state(const PartList& parts, const StateDict& state, const LoadOptions& options);
// Every part of the model must be in the state, and nothing else, unless the options say otherwise.
template <class Module>
Loaded load_state(Module& module, const StateDict& from, const LoadOptions& options = {}) {
  return load_state(parts_of(module), from, options);
}

// One safetensors file of a model's state.
template <class Module>
void save(Module& module, const std::string& path, const SafetensorsMetadata& metadata = {}) {
  value_or_throw(save_state(path, state(parts_of(module)), metadata));
}
// A model's state out of such a file, written by Planck or by PyTorch.
template <class Module>
Loaded load(Module& module, const std::string& path, const LoadOptions& options = {}) {
  return load_state(parts_of(module), value_or_throw(read_state(path)).state, options);
}

}  // namespace planck::nn
