// Quantizable<Layer>: a layer that a model may be asked to quantize. It is a float layer, one with
// quantization in the loop, or an integer one; parts keep their names.
//
//   nn::prepare_qat(model, nn::qat_options(Dtype::s8));     // float → observing
//   for (…) model(batch);                                   // calibrate
//   nn::start_quantizing(model);                            // observing → rounding; now train, or
//   not nn::convert(model);                                     // rounding → integers, same
//   results
#pragma once

#include <functional>

#include "planck/nn/quantize/layers.h"

namespace planck::nn {

template <class Layer>
class Quantizable {
 public:
  using B = typename detail::ProductOf<Layer>::Backend;

  Quantizable(Layer layer) : form_(std::move(layer)) {}

  Tensor<B> operator()(const Tensor<B>& x) {
    return std::visit([&](auto& layer) { return layer(x); }, form_);
  }
  void visit(auto&& part) {
    std::visit([&](auto& layer) { part("", layer); }, form_);
  }

  void prepare(const QuantLayerOptions& options) {
    if (auto* layer = std::get_if<Layer>(&form_)) {
      Quant<Layer> quant(*layer, options);
      form_ = std::move(quant);
    }
  }
  void start_quantizing() {
    if (auto* quant = std::get_if<Quant<Layer>>(&form_)) quant->start_quantizing();
  }
  void convert() {
    if (auto* quant = std::get_if<Quant<Layer>>(&form_)) {
      quant->settle();
      Integer<Layer> integer(*quant);
      form_ = std::move(integer);
    }
  }
  bool is_float() const { return std::holds_alternative<Layer>(form_); }

 private:
  std::variant<Layer, Quant<Layer>, Integer<Layer>> form_;
};

namespace detail {
template <class T>
inline constexpr bool kIsQuantizable = false;
template <class Layer>
inline constexpr bool kIsQuantizable<Quantizable<Layer>> = true;

template <class Module, class F>
void for_each_quantizable(Module& module, F f) {
  for_each_part(module, [&]<class T>(const std::string& path, T& part) {
    if constexpr (kIsQuantizable<T>) f(path, part);
  });
}
}  // namespace detail

// Weights of a dtype (s8 or s4) and inputs of as many bits, symmetric.
inline QuantLayerOptions qat_options(Dtype dtype, Granularity weights = Granularity::per_channel,
                                     bool learned = false,
                                     Observe observer = Observe::moving_average) {
  if (dtype != Dtype::s8 && dtype != Dtype::s4)
    refuse(ErrorCode::unsupported, "qat_options: the dtype is {}, it must be s8 or s4", {dtype});
  const std::int32_t highest = int_range(dtype).highest;
  QuantLayerOptions o;
  o.weight = {.scheme = {.granularity = weights,
                         .axis = 0,
                         .dtype = dtype,
                         .range = IntRange{-highest, highest}},
              .observer = {.method = Observe::min_max},
              .learned = learned};
  o.input = {.scheme = {.dtype = Dtype::s8, .range = IntRange{-highest, highest}},
             .observer = {.method = observer},
             .learned = learned};
  return o;
}

// Every quantizable layer observes from now on; those whose path `keep_float` accepts stay as they
// are.
template <class Module>
void prepare_qat(Module& module, const QuantLayerOptions& options,
                 const std::function<bool(const std::string&)>& keep_float = {}) {
  detail::for_each_quantizable(module, [&](const std::string& path, auto& layer) {
    if (!keep_float || !keep_float(path)) layer.prepare(options);
  });
}
template <class Module>
void start_quantizing(Module& module) {
  detail::for_each_quantizable(module,
                               [](const std::string&, auto& layer) { layer.start_quantizing(); });
}
template <class Module>
void convert(Module& module) {
  detail::for_each_quantizable(module, [](const std::string&, auto& layer) { layer.convert(); });
}

}  // namespace planck::nn
