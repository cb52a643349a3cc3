// Quantizable<Layer>: a layer that a model may be asked to quantize. It is a float layer, one with
// quantization in the loop, or an integer one; parts keep their names.
//
//   nn::prepare_qat(model, nn::qat_options(Dtype::s8));  // float → observing
//   for (…) model(batch);                                // calibrate
//   nn::start_quantizing(model);                         // observing → rounding; now train, or not
//   nn::convert(model);                                  // rounding → integers, same results
//
// A float one can also become a layer on the integers of a checkpoint (nn::load_quantized).
#pragma once

#include <functional>
#include <memory>

#include "planck/nn/quantize/layers.h"
#include "planck/nn/quantize/stored.h"
#include "planck/ops/quantize/quantize.format.h"

namespace planck::nn {

// What a model can be asked to do with such a layer, whatever it is.
class QuantizableLayer {
 public:
  virtual ~QuantizableLayer() = default;
  virtual void prepare(const QuantLayerOptions& options) = 0;
  virtual void start_quantizing() = 0;
  virtual void convert() = 0;
  // How the integer weight is stored; none where the layer is not converted.
  virtual std::optional<StoredScheme> stored_weight() const = 0;
  // Whether a float layer of this kind and these extents can run on such integers.
  virtual bool takes(const StoredScheme& scheme) const = 0;
  // Does so from now on; takes() has said that it can.
  virtual void run_on(const StoredWeight& weight) = 0;
  // What it is now, and going back to what it was.
  virtual std::shared_ptr<const void> form() const = 0;
  virtual void restore(const std::shared_ptr<const void>& form) = 0;

 protected:
  QuantizableLayer() = default;
  QuantizableLayer(const QuantizableLayer&) = default;
  QuantizableLayer(QuantizableLayer&&) = default;
  QuantizableLayer& operator=(const QuantizableLayer&) = default;
  QuantizableLayer& operator=(QuantizableLayer&&) = default;
};

// What such a layer is at present. A type of its own: naming a Quantizable costs no variant.
template <class Layer>
struct LayerForm {
  std::variant<Layer, Quant<Layer>, Integer<Layer>> is;
};
template <class B>
struct LayerForm<Linear<B>> {
  std::variant<Linear<B>, Quant<Linear<B>>, Integer<Linear<B>>, StoredLinear<B>> is;
};

// A float layer that can become a rounded one, then an integer one.
template <class Layer>
class Quantizable final : public QuantizableLayer {
 public:
  using B = typename detail::ProductOf<Layer>::Backend;

  Quantizable(Layer layer);
  // Compiled with the rest of the class, in the library for its own layers.
  Quantizable(const Quantizable& other);
  Quantizable(Quantizable&& other) noexcept;
  Quantizable& operator=(const Quantizable& other);
  Quantizable& operator=(Quantizable&& other) noexcept;
  ~Quantizable() override;

  Tensor<B> operator()(const Tensor<B>& x);
  void visit(auto&& part) {
    std::visit([&](auto& layer) { part("", layer); }, form_->is);
  }

  void prepare(const QuantLayerOptions& options) override;
  void start_quantizing() override;
  void convert() override;
  std::optional<StoredScheme> stored_weight() const override;
  bool takes(const StoredScheme& scheme) const override;
  void run_on(const StoredWeight& weight) override;
  std::shared_ptr<const void> form() const override;
  void restore(const std::shared_ptr<const void>& form) override;
  bool is_float() const { return std::holds_alternative<Layer>(form_->is); }
  // The integer layer it has become (nn::convert); null where it is anything else.
  const Integer<Layer>* integer() const { return std::get_if<Integer<Layer>>(&form_->is); }

 private:
  static constexpr bool kStored = std::is_same_v<Layer, Linear<B>>;

  std::unique_ptr<LayerForm<Layer>> form_;  // none in one that was moved from
};

template <class Layer>
Quantizable<Layer>::Quantizable(Layer layer) : form_(new LayerForm<Layer>{std::move(layer)}) {}
template <class Layer>
Quantizable<Layer>::Quantizable(const Quantizable& other)
    : QuantizableLayer(other), form_(new LayerForm<Layer>(*other.form_)) {}
template <class Layer>
Quantizable<Layer>::Quantizable(Quantizable&& other) noexcept = default;
template <class Layer>
Quantizable<Layer>& Quantizable<Layer>::operator=(const Quantizable& other) {
  return *this = Quantizable(other);
}
template <class Layer>
Quantizable<Layer>& Quantizable<Layer>::operator=(Quantizable&& other) noexcept = default;
template <class Layer>
Quantizable<Layer>::~Quantizable() = default;
template <class Layer>
auto Quantizable<Layer>::operator()(const Tensor<B>& x) -> Tensor<B> {
  return std::visit([&](auto& layer) { return layer(x); }, form_->is);
}
template <class Layer>
void Quantizable<Layer>::prepare(const QuantLayerOptions& options) {
  if (auto* layer = std::get_if<Layer>(&form_->is)) {
    Quant<Layer> quant(*layer, options);
    form_->is = std::move(quant);
  }
}
template <class Layer>
void Quantizable<Layer>::start_quantizing() {
  if (auto* quant = std::get_if<Quant<Layer>>(&form_->is)) quant->start_quantizing();
}
template <class Layer>
void Quantizable<Layer>::convert() {
  if (auto* quant = std::get_if<Quant<Layer>>(&form_->is)) {
    quant->start_quantizing();  // where that was forgotten
    quant->settle();
    Integer<Layer> integer(*quant);
    form_->is = std::move(integer);
  }
}
template <class Layer>
std::optional<StoredScheme> Quantizable<Layer>::stored_weight() const {
  if constexpr (kStored)
    if (const auto* stored = std::get_if<StoredLinear<B>>(&form_->is)) return stored->scheme();
  const auto* integer = std::get_if<Integer<Layer>>(&form_->is);
  return integer == nullptr ? std::nullopt : std::optional(integer->stored_weight());
}
template <class Layer>
bool Quantizable<Layer>::takes(const StoredScheme& scheme) const {
  if constexpr (kStored)
    if (const auto* layer = std::get_if<Layer>(&form_->is))
      return StoredLinear<B>::takes(layer->options, scheme);
  return false;
}
template <class Layer>
void Quantizable<Layer>::run_on(const StoredWeight& weight) {
  if constexpr (kStored)
    if (const auto* layer = std::get_if<Layer>(&form_->is)) {
      StoredLinear<B> stored(*layer, weight);
      form_->is = std::move(stored);
    }
}
template <class Layer>
std::shared_ptr<const void> Quantizable<Layer>::form() const {
  return std::make_shared<LayerForm<Layer>>(*form_);
}
template <class Layer>
void Quantizable<Layer>::restore(const std::shared_ptr<const void>& form) {
  *form_ = *static_cast<const LayerForm<Layer>*>(form.get());
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
