// A converted model as an ONNX file: layer after layer, from their states.
//
//   nn::OnnxModel onnx(nn::OnnxForm::integers, {1, 16, 16});       // [N, 1, 16, 16], any N
//   onnx.conv2d(nn::state(model.conv), conv_options, Dtype::s8);
//   onnx.relu();
//   onnx.max_pool2d({.kernel = {2, 2}});
//   onnx.flatten();
//   onnx.linear(nn::state(model.output), {.in = 512, .out = 10}, Dtype::s8);
//   onnx.write("model.onnx");
//
// integers   QuantizeLinear, MatMulInteger or ConvInteger, then one product with both scales and
//            the bias: ONNX Runtime without graph optimizations gives the bits of the integer
//            layers. Inputs are u8 around 128, the one form that every ConvInteger takes: the same
//            integers, shifted.
// qdq        QuantizeLinear and DequantizeLinear around MatMul and Conv, what converters and
//            compilers for accelerators look for. The same integers; sums are in floats.
//
// A range that is narrower than the integers' own is kept to by a Clip before it. Weights of four
// bits are written as s8. Refused: weights per group and inputs per token. Opset 13.
#pragma once

#include <string>
#include <vector>

#include "planck/nn/conv.h"
#include "planck/nn/linear.h"
#include "planck/nn/onnx/protobuf.h"
#include "planck/nn/state_dict.h"
#include "planck/ops/pool/pool.problem.h"

namespace planck::nn {

enum class OnnxForm : std::uint8_t { integers, qdq };

class OnnxModel {
 public:
  // The shape of one input, without its batch.
  OnnxModel(OnnxForm form, const Shape& input);

  // State of an integer layer (nn::convert); `dtype` is that of its quantization, s8 or s4.
  void linear(const StateDict& layer, const LinearOptions& options, Dtype dtype);
  void conv2d(const StateDict& layer, const ConvOptions& options, Dtype dtype);
  // What stands between them.
  void relu();
  void max_pool2d(const PoolOptions& options);
  void avg_pool2d(const PoolOptions& options);
  void flatten();  // [N, …] → [N, …]: all but the batch in one axis

  std::string bytes() const;  // the file
  [[nodiscard]] Result<void> write(const std::string& path) const;

 private:
  struct Weights {
    std::vector<std::int8_t> codes;  // in the shape of the float weight
    std::vector<float> scale;
    float input_scale = 1;
    std::vector<float> bias;  // empty: none
  };
  static Weights weights_of(const StateDict& layer, std::int64_t rows, std::int64_t terms);
  std::string quantized_input(const Weights& w, Dtype dtype);
  void finish(const Weights& w, const Shape& over);
  void pool(const char* op, const PoolOptions& options);

  std::string node(const char* op, const std::vector<std::string>& inputs,
                   const std::vector<Message>& attributes = {});
  std::string constant(int type, const Shape& shape, const void* data, std::size_t bytes);
  std::string floats(const Shape& shape, const std::vector<float>& values);

  OnnxForm form_;
  Shape input_;
  int rank_;  // of what flows, without the batch
  std::string last_ = "input";
  int names_ = 0;
  Message graph_;
};

}  // namespace planck::nn
