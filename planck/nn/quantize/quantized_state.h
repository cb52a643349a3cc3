// Quantized tensors as state: in a model, in a state dict, in a safetensors file.
//
// A quantized tensor NAME is three entries, NAME.values, NAME.scale and NAME.zero_point, and one
// line of metadata, "scheme of NAME": "per_channel axis=0 s8 -128..127 divide". Four-bit integers
// are packed in the file as everywhere.
//
//   nn::SavedState saved;
//   nn::put(saved, "weight", q);
//   nn::save_state("w.safetensors", saved.state, saved.metadata);
//   auto same = nn::get_quantized<Cpu>(*nn::read_state("w.safetensors"), "weight");
#pragma once

#include "planck/nn/state.h"
#include "planck/ops/quantize/quantize.functions.h"

namespace planck::nn {

namespace detail {
// The scheme of a quantized tensor of a saved state; errors name it.
QuantScheme saved_scheme(const SavedState& state, const std::string& name);
const StateEntry& saved_part(const SavedState& state, const std::string& name,
                             std::string_view part);
void put_scheme(SavedState& state, const std::string& name, const QuantScheme& scheme);
}  // namespace detail

// Puts a quantized tensor into a state, under a name; what was there is replaced.
template <class B>
void put(SavedState& to, const std::string& name, const Tensor<B, QuantizedKind>& q) {
  to.state[name + ".values"] = to_entry(q.values());
  to.state[name + ".scale"] = to_entry(q.scale());
  to.state[name + ".zero_point"] = to_entry(q.zero_point());
  detail::put_scheme(to, name, q.scheme());
}
// The quantized tensor of this name, on a device. Parts that do not fit each other are refused.
template <class B>
Tensor<B, QuantizedKind> get_quantized(const SavedState& from, const std::string& name,
                                       const typename B::Device& device = B::default_device()) {
  return {to_tensor<B, IntKind>(detail::saved_part(from, name, "values"), device),
          to_tensor<B, FloatKind>(detail::saved_part(from, name, "scale"), device),
          to_tensor<B, IntKind>(detail::saved_part(from, name, "zero_point"), device),
          detail::saved_scheme(from, name)};
}

// A quantized tensor that is part of a module: state that is not trained. A state that is loaded
// has the module's shapes and dtypes; the scheme is the module's own.
template <class B>
class QuantizedBuffer {
 public:
  explicit QuantizedBuffer(const Tensor<Inner<B>, QuantizedKind>& q)
      : values_{q.values()}, scale_{q.scale()}, zero_point_{q.zero_point()}, scheme_(q.scheme()) {}

  Tensor<Inner<B>, QuantizedKind> value() const {
    return {values_.value, scale_.value, zero_point_.value, scheme_};
  }
  void visit(auto&& part) {
    part("values", values_);
    part("scale", scale_);
    part("zero_point", zero_point_);
  }

 private:
  IntBuffer<B> values_;
  Buffer<B> scale_;
  IntBuffer<B> zero_point_;
  QuantScheme scheme_;
};

}  // namespace planck::nn
