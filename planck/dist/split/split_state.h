// States of models with layers in parts (tensor_parallel.h), under the names and with the shapes
// of the whole model: what is saved is the whole model's checkpoint, which any number of workers
// loads.
//
//   const auto model = dist::whole_state(net), optimizer = dist::whole_state(net, adam);
//   if (workers.rank() == 0) nn::save_state(path, …);
//   …
//   dist::load_whole_state(net, model);                    // on as many workers as there are now
//   dist::load_whole_state(net, adam, optimizer);
//
// The optimizer is any whose step of an element depends on that element's gradient alone (SGD,
// Adam, Adagrad, RMSProp, Lion); LAMB and Muon look at whole matrices, and a clip at whole models.
#pragma once

#include "planck/dist/split/tensor_parallel.h"
#include "planck/nn/load.h"
#include "planck/optim/kept.h"

namespace planck::dist {

struct SplitParameter {
  std::string path;
  const SplitLayer* layer;
  int axis;
};
using SplitParameters = std::vector<SplitParameter>;

// Entries `prefix` + path of these parameters, put together or cut; all others as they are. Joining
// is called by all workers of a layer, and gives all of them the whole.
nn::StateDict joined_parts(const SplitParameters& parameters, nn::StateDict state,
                           std::string_view prefix = "");
nn::StateDict cut_parts(const SplitParameters& parameters, nn::StateDict whole,
                        std::string_view prefix = "");

template <class Module>
SplitParameters split_parameters(Module& module) {
  SplitParameters found;
  nn::for_each_part(module, [&](const std::string& path, const SplitLayer& layer) {
    const std::string outer = path.empty() ? path : path + ".";
    found.push_back({outer + "weight", &layer, layer.weight_axis});
    if (layer.splits_bias) found.push_back({outer + "bias", &layer, 0});
  });
  return found;
}

namespace detail {
// What an optimizer's entries of tensors begin with.
template <class Optimizer>
std::vector<std::string> tensor_prefixes(const Optimizer& optimizer) {
  std::vector<std::string> found{"master."};
  for (const std::string_view slot : kept_names(optimizer.options).slots)
    found.push_back(std::string(slot) + ".");
  return found;
}
}  // namespace detail

template <class Module>
nn::StateDict whole_state(Module& module) {
  return joined_parts(split_parameters(module), nn::state(module));
}
template <class Module, class Optimizer>
nn::StateDict whole_state(Module& module, const Optimizer& optimizer) {
  nn::StateDict state = optimizer.state();
  for (const std::string& prefix : detail::tensor_prefixes(optimizer))
    state = joined_parts(split_parameters(module), std::move(state), prefix);
  return state;
}
template <class Module>
nn::Loaded load_whole_state(Module& module, const nn::StateDict& whole,
                            const nn::LoadOptions& options = {}) {
  return nn::load_state(module, cut_parts(split_parameters(module), whole), options);
}
template <class Module, class Optimizer, class... Device>
void load_whole_state(Module& module, Optimizer& optimizer, nn::StateDict whole,
                      const Device&... device) {
  for (const std::string& prefix : detail::tensor_prefixes(optimizer))
    whole = cut_parts(split_parameters(module), std::move(whole), prefix);
  optimizer.load_state(whole, device...);
}

}  // namespace planck::dist
