// Quantizable<Layer>: a layer that a model may be asked to quantize. It is a float layer, one with
// quantization in the loop, or an integer one; parts keep their names.
//
//   nn::prepare_qat(model, nn::qat_options(Dtype::s8));  // float → observing
//   for (…) model(batch);                                // calibrate
//   nn::start_quantizing(model);                         // observing → rounding; now train, or not
//   nn::convert(model);                                  // rounding → integers, same results
#pragma once

#include <functional>

#include "planck/nn/quantize/layers.h"

namespace planck::nn {

// What a model can be asked to do with such a layer, whatever it is.
class QuantizableLayer {
 public:
  virtual ~QuantizableLayer() = default;
  virtual void prepare(const QuantLayerOptions& options) = 0;
  virtual void start_quantizing() = 0;
  virtual void convert() = 0;

 protected:
  QuantizableLayer() = default;
  QuantizableLayer(const QuantizableLayer&) = default;
  QuantizableLayer(QuantizableLayer&&) = default;
  QuantizableLayer& operator=(const QuantizableLayer&) = default;
  QuantizableLayer& operator=(QuantizableLayer&&) = default;
};

// A float layer that can become a rounded one, then an integer one.
template <class Layer>
class Quantizable final : public QuantizableLayer {
 public:
  using B = typename detail::ProductOf<Layer>::Backend;

  Quantizable(Layer layer);

  Tensor<B> operator()(const Tensor<B>& x);
  void visit(auto&& part) {
    std::visit([&](auto& layer) { part("", layer); }, form_);
  }

  void prepare(const QuantLayerOptions& options) override;
  void start_quantizing() override;
  void convert() override;
  bool is_float() const { return std::holds_alternative<Layer>(form_); }

 private:
  std::variant<Layer, Quant<Layer>, Integer<Layer>> form_;
};

template <class Layer>
Quantizable<Layer>::Quantizable(Layer layer) : form_(std::move(layer)) {}
template <class Layer>
auto Quantizable<Layer>::operator()(const Tensor<B>& x) -> Tensor<B> {
  return std::visit([&](auto& layer) { return layer(x); }, form_);
}
template <class Layer>
void Quantizable<Layer>::prepare(const QuantLayerOptions& options) {
  if (auto* layer = std::get_if<Layer>(&form_)) {
    Quant<Layer> quant(*layer, options);
    form_ = std::move(quant);
  }
}
template <class Layer>
void Quantizable<Layer>::start_quantizing() {
  if (auto* quant = std::get_if<Quant<Layer>>(&form_)) quant->start_quantizing();
}
template <class Layer>
void Quantizable<Layer>::convert() {
  if (auto* quant = std::get_if<Quant<Layer>>(&form_)) {
    quant->settle();
    Integer<Layer> integer(*quant);
    form_ = std::move(integer);
  }
}

// Weights of a dtype (s8 or s4) and inputs of as many bits, symmetric.
QuantLayerOptions qat_options(Dtype dtype, Granularity weights = Granularity::per_channel,
                              bool learned = false, Observe observer = Observe::moving_average);

// Of a path: whether the layer stays as it is.
using KeepFloat = std::function<bool(const std::string&)>;
void prepare_qat(const PartList& parts, const QuantLayerOptions& options,
                 const KeepFloat& keep_float);
void start_quantizing(const PartList& parts);
void convert(const PartList& parts);

// Every quantizable layer observes from now on; those whose path `keep_float` accepts stay as they
// are.
template <class Module>
void prepare_qat(Module& module, const QuantLayerOptions& options,
                 const KeepFloat& keep_float = {}) {
  prepare_qat(parts_of(module), options, keep_float);
}
// Every layer that observed so far rounds from now on.
template <class Module>
void start_quantizing(Module& module) {
  start_quantizing(parts_of(module));
}
// Every layer that rounds becomes an integer one, with the same results.
template <class Module>
void convert(Module& module) {
  convert(parts_of(module));
}

}  // namespace planck::nn
