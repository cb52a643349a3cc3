// A converted model as an ONNX file, layer after layer. Layers say themselves what they are.
//
//   nn::convert(model);
//   nn::OnnxModel onnx(nn::OnnxForm::integers, {1, 16, 16});       // [N, 1, 16, 16], any N
//   onnx.add(model.conv);                                          // Quantizable<Conv2d<B>>
//   onnx.relu();
//   onnx.max_pool2d({.kernel = {2, 2}});
//   onnx.flatten();
//   onnx.add(model.output);                                        // Quantizable<Linear<B>>
//   onnx.write("model.onnx");
//
// A Sequential of such layers, of Relu, MaxPool2d, AvgPool2d and Flatten is added as a whole; so is
// a module that says what it does, part by part:
//
//   void onnx(auto& to) { to.add(conv); to.relu(); to.add(pool); }
//
// Linear and Conv2d of floats and SpatialTransformer can stand between integer layers, and tensors
// can be added (plus). Nothing else can be written: no norm, embedding of indices or attention.
//
// integers   QuantizeLinear, MatMulInteger or ConvInteger, then one product with both scales and
//            the bias: ONNX Runtime without graph optimizations gives the bits of the integer
//            layers. Inputs are u8 around 128, the one form that every ConvInteger takes: the same
//            integers, shifted.
// qdq        QuantizeLinear and DequantizeLinear around MatMul and Conv, what converters and
//            compilers for accelerators look for. The same integers of the weights; sums are in
//            floats, so a value that lies between two integers may be rounded to the other one.
//
// Layers of floats are those of ONNX in both forms: sums in the order of the runtime. So the logits
// behind one are ours, bit for bit, where what it gives is rounded to the same integers.
//
// A range that is narrower than the integers' own is kept to by a Clip before it. Weights of four
// bits are written as s8, a byte each: opset 13, and 16 where pictures are sampled, have no
// narrower type. Refused: weights per group, inputs per token, and floats that are not f32.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "planck/nn/layers.h"
#include "planck/nn/onnx/protobuf.h"
#include "planck/nn/quantize/quantizable.h"
#include "planck/nn/spatial_transformer.h"
#include "planck/nn/state.h"

namespace planck::nn {

enum class OnnxForm : std::uint8_t { integers, qdq };

class OnnxModel {
 public:
  // The shape of one input, without its batch.
  OnnxModel(OnnxForm form, const Shape& input);

  // An integer layer; thrown errors say what is wrong with another.
  template <class Layer>
  void add(Quantizable<Layer>& layer) {
    const Integer<Layer>* integer = layer.integer();
    if (integer == nullptr) refuse_layer("is not one of integers: nn::convert makes them");
    if (!integer->input_range()) refuse_layer("has a scale for each token of its input");
    write_layer(state(layer), integer->options(), integer->input_range()->highest);
  }
  // Layers of floats.
  template <class B>
  void add(Linear<B>& layer) {
    write_float(state(layer), layer.options);
  }
  template <class B>
  void add(Conv2d<B>& layer) {
    write_float(state(layer), layer.options);
  }
  template <class B, class Localizer>
  void add(SpatialTransformer<B, Localizer>& transformer) {
    const std::string picture = last_;
    add(transformer.localizer);
    seen_through(picture, transformer.size);
  }
  // Adds the same numbers to every input, of a shape that broadcasts to its own.
  void plus(const Shape& shape, const std::vector<float>& values);
  // What stands between them, as modules and as functions.
  void add(const Relu&) { relu(); }
  void add(const MaxPool2d& pool) { max_pool2d(pool.options); }
  void add(const AvgPool2d& pool) { avg_pool2d(pool.options); }
  void add(const Flatten&) { flatten(); }
  void relu();
  void max_pool2d(const PoolOptions& options);
  void avg_pool2d(const PoolOptions& options);
  void flatten();  // [N, …] → [N, …]: all but the batch in one axis
  // All of them, one after the other.
  template <class... M>
  void add(Sequential<M...>& modules) {
    modules.visit([&](std::string_view, auto& module) { add(module); });
  }
  // A module that says what it does.
  template <class Module>
  requires requires(Module& module, OnnxModel& to) { module.onnx(to); }
  void add(Module& module) { module.onnx(*this); }

  std::string bytes() const;  // the file
  [[nodiscard]] Result<void> write(const std::string& path) const;

 private:
  struct Weights {
    std::vector<std::int8_t> codes;  // in the shape of the float weight
    std::vector<float> scale;
    float input_scale = 1;
    std::vector<float> bias;  // empty: none
  };
  [[noreturn]] static void refuse_layer(std::string_view why);
  // The state of an integer layer; codes of its input lie in -highest … highest.
  void write_layer(const StateDict& layer, const LinearOptions& options, std::int32_t highest);
  void write_layer(const StateDict& layer, const ConvOptions& options, std::int32_t highest);
  void write_float(const StateDict& layer, const LinearOptions& options);
  void write_float(const StateDict& layer, const ConvOptions& options);
  // The picture at the places that `last_` gives: [N, 6], a SpatialTransformer's.
  void seen_through(const std::string& picture, std::array<std::int64_t, 2> size);
  static Weights weights_of(const StateDict& layer, std::int64_t rows, std::int64_t terms);
  std::string quantized_input(const Weights& w, std::int32_t highest);
  void finish(const Weights& w, const Shape& over);
  void pool(const char* op, const PoolOptions& options);

  std::string node(const char* op, const std::vector<std::string>& inputs,
                   const std::vector<Message>& attributes = {});
  std::string constant(int type, const Shape& shape, const void* data, std::size_t bytes);
  std::string floats(const Shape& shape, const std::vector<float>& values);

  static constexpr int kOpset = 13, kSamplingOpset = 16;

  OnnxForm form_;
  Shape input_;
  int rank_;  // of what flows, without the batch
  std::string last_ = "input";
  int names_ = 0, opset_ = kOpset;
  Message graph_;
};

}  // namespace planck::nn
