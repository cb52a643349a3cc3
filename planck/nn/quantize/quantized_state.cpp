#include "planck/nn/quantize/quantized_state.h"

namespace planck::nn::detail {

namespace {

std::string key_of(const std::string& name) { return "scheme of " + name; }

}  // namespace

void put_scheme(SavedState& state, const std::string& name, const QuantScheme& scheme) {
  state.metadata[key_of(name)] = to_string(scheme);
}

QuantScheme saved_scheme(const SavedState& state, const std::string& name) {
  const auto found = state.metadata.find(key_of(name));
  if (found == state.metadata.end())
    refuse("load_state: the metadata lack \"scheme of {}\"", {name});
  auto scheme = parse_scheme(found->second);
  if (!scheme) refuse("load_state: the scheme of {} is \"{}\"", {name, found->second});
  return *scheme;
}

const StateEntry& saved_part(const SavedState& state, const std::string& name,
                             std::string_view part) {
  const std::string path = name + "." + std::string(part);
  const auto found = state.state.find(path);
  if (found == state.state.end()) refuse("load_state: the state lacks {}", {path});
  const StateEntry& e = found->second;
  if (is_float(e.dtype) != (part == "scale") || e.dtype == Dtype::boolean)
    refuse("load_state: {} is {}, {} must be {}",
           {path, e.dtype, part, part == "scale" ? "floats" : "integers"});
  return e;
}

}  // namespace planck::nn::detail
