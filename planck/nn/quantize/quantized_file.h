// Converted models as checkpoints in the planck format (docs/checkpoint_format.md): what `planck
// inspect` shows, `planck dequantize` restores and any reader of the format understands.
//
//   nn::convert(model);
//   nn::save_quantized("model.safetensors", model);
//
// The tensors are those of nn::state, so that read_state and load_state take the file as well; the
// metadata say how each integer weight is to be read.
//
// And checkpoints of `planck quantize`, run as they are:
//
//   Net<Cpu> model(rng, …);                            // the float model, its layers Quantizable
//   nn::load_quantized(model, "small.safetensors");    // or a folder of shards
//   y = model(x);                                      // linear layers multiply its integers
#pragma once

#include "planck/nn/load.h"
#include "planck/nn/quantize/quantizable.h"
#include "planck/nn/state.h"

namespace planck::nn {

// The metadata of every integer layer; empty where nothing is converted.
SafetensorsMetadata quantization_of(const PartList& parts);
// The same of a module.
template <class Module>
SafetensorsMetadata quantization_of(Module& module) {
  return quantization_of(parts_of(module));
}

// A file of the format; it appears when it is complete. Errors name the path.
template <class Module>
[[nodiscard]] Result<void> save_quantized(const std::string& path, Module& module,
                                          SafetensorsMetadata metadata = {}) {
  metadata.merge(quantization_of(module));
  return save_state(path, state(module), metadata);
}

namespace detail {
// The parts are asked for again once layers have become others.
Loaded load_quantized(const std::function<PartList()>& parts, const std::string& path,
                      const LoadOptions& options);
}  // namespace detail
// A quantized checkpoint into a float model. Quantizable linear layers whose weight the file holds
// as integers run on them (stored.h); what else is quantized, weights of convolutions and tables,
// is restored to floats. The rest is loaded as by nn::load; a load that is refused leaves the model
// as it was.
template <class Module>
Loaded load_quantized(Module& module, const std::string& path, const LoadOptions& options = {}) {
  return detail::load_quantized([&] { return parts_of(module); }, path, options);
}

}  // namespace planck::nn
