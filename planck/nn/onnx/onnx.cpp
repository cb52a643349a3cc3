#include "planck/nn/onnx/onnx.h"

#include <fmt/format.h>

#include <cstring>

#include "planck/core/exception.h"
#include "planck/io/output_file.h"
#include "planck/nn/onnx/fields.h"

namespace planck::nn {

namespace {

constexpr int kIrVersion = 8;

// A value of the graph: its name and [N, …], where -1 is an extent that is left open.
Message value_info(std::string_view name, const Shape& shape) {
  Message extents, batch;
  batch.bytes(2, "N");
  extents.message(1, batch);
  for (const std::int64_t extent : shape) {
    Message one;
    if (extent >= 0) one.number(1, extent);
    extents.message(1, one);
  }
  Message tensor, type, info;
  tensor.number(1, onnx::kFloat);
  tensor.message(2, extents);
  type.message(1, tensor);
  info.bytes(1, name);
  info.message(2, type);
  return info;
}

}  // namespace

OnnxModel::OnnxModel(OnnxForm form, const Shape& input)
    : form_(form), input_(input), rank_(input.rank()) {}

OnnxModel::Weights OnnxModel::weights_of(const StateDict& layer, std::int64_t rows,
                                         std::int64_t terms) {
  const StateEntry& weight = onnx::entry_of(layer, "weight");
  Weights w;
  w.scale = onnx::floats_of(layer, "weight_scale");
  w.input_scale = onnx::floats_of(layer, "input_scale").at(0);
  if (!(w.input_scale > 0))
    refuse_layer("has never observed its input: calibrate before nn::convert, or load a state");
  w.bias = onnx::bias_of(layer);
  if (w.scale.size() != 1 && w.scale.size() != static_cast<std::size_t>(rows))
    raise(ErrorCode::unsupported,
          fmt::format("onnx: the weight has {} scales, 1 or one for each of {} rows can be written",
                      w.scale.size(), rows));
  // Four-bit rows begin at whole bytes.
  const bool packed = weight.dtype == Dtype::s4;
  const std::int64_t row_bytes = packed ? (terms + 1) / 2 : terms;
  if ((weight.dtype != Dtype::s8 && !packed) ||
      static_cast<std::int64_t>(weight.bytes.size()) != rows * row_bytes)
    raise(ErrorCode::invalid_problem,
          fmt::format("onnx: the weight is {} {}, the options say {} rows of {}",
                      name(weight.dtype), to_string(weight.shape), rows, terms));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < terms; ++i) {
      const auto byte = std::to_integer<int>(
          weight.bytes[static_cast<std::size_t>(r * row_bytes + (packed ? i / 2 : i))]);
      const int nibble = byte >> (i % 2 * 4) & 15;
      w.codes.push_back(
          static_cast<std::int8_t>(packed ? (nibble > 7 ? nibble - 16 : nibble) : byte));
    }
  return w;
}

std::string OnnxModel::constant(int type, const Shape& shape, const void* data, std::size_t bytes) {
  const std::string name = fmt::format("c{}", names_++);
  Message tensor;
  for (const std::int64_t extent : shape) tensor.number(1, extent);
  tensor.number(2, type);
  tensor.bytes(8, name);
  tensor.bytes(9, {static_cast<const char*>(data), bytes});
  graph_.message(5, tensor);
  return name;
}
std::string OnnxModel::floats(const Shape& shape, const std::vector<float>& values) {
  return constant(onnx::kFloat, shape, values.data(), values.size() * 4);
}

std::string OnnxModel::node(const char* op, const std::vector<std::string>& inputs,
                            const std::vector<Message>& attributes) {
  const std::string name = fmt::format("v{}", names_++);
  Message n;
  for (const std::string& input : inputs) n.bytes(1, input);
  n.bytes(2, name);
  n.bytes(3, fmt::format("{}_{}", op, name));
  n.bytes(4, op);
  for (const Message& a : attributes) n.message(5, a);
  graph_.message(1, n);
  return name;
}

// The input as integers (of `integers`, around 128) or rounded to them (of `qdq`).
std::string OnnxModel::quantized_input(const Weights& w, std::int32_t highest) {
  // rint(RN(h s) / s) is h: the clip keeps to [−h, h] exactly.
  const float end = static_cast<float>(highest) * w.input_scale;
  const std::string low = floats({}, {-end}), high = floats({}, {end});
  const std::string clipped = node("Clip", {last_, low, high});
  const std::string scale = floats({}, {w.input_scale});
  const std::uint8_t middle = 128, none = 0;
  const bool shifted = form_ == OnnxForm::integers;
  const std::string zero =
      constant(shifted ? onnx::kUint8 : onnx::kInt8, {}, shifted ? &middle : &none, 1);
  const std::string q = node("QuantizeLinear", {clipped, scale, zero});
  return shifted ? q : node("DequantizeLinear", {q, scale, zero});
}

// Of `integers`: f32(sum) · (s_x s_w); then the bias. `over`: how one number per channel
// broadcasts.
void OnnxModel::finish(const Weights& w, const Shape& over) {
  const auto shape_of = [&](std::size_t count) { return count == 1 ? Shape{} : over; };
  if (form_ == OnnxForm::integers) {
    std::vector<float> both;
    for (const float s : w.scale) both.push_back(w.input_scale * s);
    const std::string sum = node("Cast", {last_}, {onnx::attribute("to", onnx::kFloat)});
    last_ = node("Mul", {sum, floats(shape_of(both.size()), both)});
  }
  if (!w.bias.empty()) plus(over, w.bias);
}

void OnnxModel::refuse_layer(std::string_view why) {
  raise(ErrorCode::unsupported, fmt::format("onnx: the layer {}", why));
}

void OnnxModel::write_layer(const StateDict& layer, const LinearOptions& o, std::int32_t highest) {
  const Weights w = weights_of(layer, o.out, o.in);
  const auto turned = onnx::transposed(w.codes, o.out, o.in);
  const std::string x = quantized_input(w, highest);
  const std::string codes = constant(onnx::kInt8, {o.in, o.out}, turned.data(), turned.size());
  if (form_ == OnnxForm::integers) {
    const std::uint8_t middle = 128;
    last_ = node("MatMulInteger", {x, codes, constant(onnx::kUint8, {}, &middle, 1)});
  } else {
    const Shape each = w.scale.size() == 1 ? Shape{} : Shape{o.out};
    const std::vector<std::int8_t> zeros(w.scale.size());
    const std::string weight = node(
        "DequantizeLinear",
        {codes, floats(each, w.scale), constant(onnx::kInt8, each, zeros.data(), zeros.size())},
        {onnx::attribute("axis", 1)});
    last_ = node("MatMul", {x, weight});
  }
  finish(w, {o.out});
}

void OnnxModel::write_layer(const StateDict& layer, const ConvOptions& o, std::int32_t highest) {
  const Shape shape{o.out, o.in / o.shape.groups, o.kernel[0], o.kernel[1]};
  const Weights w = weights_of(layer, o.out, numel(shape) / o.out);
  const std::vector<Message> how = onnx::conv_attributes(o);
  const std::string x = quantized_input(w, highest);
  const std::string codes = constant(onnx::kInt8, shape, w.codes.data(), w.codes.size());
  if (form_ == OnnxForm::integers) {
    const std::uint8_t middle = 128;
    last_ = node("ConvInteger", {x, codes, constant(onnx::kUint8, {}, &middle, 1)}, how);
  } else {
    const Shape each = w.scale.size() == 1 ? Shape{} : Shape{o.out};
    const std::vector<std::int8_t> zeros(w.scale.size());
    const std::string weight = node(
        "DequantizeLinear",
        {codes, floats(each, w.scale), constant(onnx::kInt8, each, zeros.data(), zeros.size())},
        {onnx::attribute("axis", 0)});
    last_ = node("Conv", {x, weight}, how);
  }
  finish(w, {o.out, 1, 1});
}

void OnnxModel::relu() { last_ = node("Relu", {last_}); }
void OnnxModel::max_pool2d(const PoolOptions& options) { pool("MaxPool", options); }
void OnnxModel::avg_pool2d(const PoolOptions& options) { pool("AveragePool", options); }
void OnnxModel::flatten() {
  last_ = node("Flatten", {last_}, {onnx::attribute("axis", 1)});
  rank_ = 1;
}

void OnnxModel::pool(const char* op, const PoolOptions& o) {
  const auto stride = [&](std::size_t d) { return o.stride[d] == 0 ? o.kernel[d] : o.stride[d]; };
  std::vector<Message> how = {
      onnx::attribute("kernel_shape", {o.kernel[0], o.kernel[1]}),
      onnx::attribute("strides", {stride(0), stride(1)}),
      onnx::attribute("pads", {o.padding[0], o.padding[1], o.padding[0], o.padding[1]}),
      onnx::attribute("ceil_mode", o.ceil_mode ? 1 : 0)};
  if (std::string_view(op) == "MaxPool")
    how.push_back(onnx::attribute("dilations", {o.dilation[0], o.dilation[1]}));
  else
    how.push_back(onnx::attribute("count_include_pad", o.count_include_pad ? 1 : 0));
  last_ = node(op, {last_}, how);
}

std::string OnnxModel::bytes() const {
  Message graph = graph_;
  if (last_ == "input") raise(ErrorCode::invalid_problem, "onnx: the model has no layer");
  graph.bytes(2, "planck");
  graph.message(11, value_info("input", input_));
  graph.message(12, value_info(last_, Extents::filled(rank_, -1)));
  Message opset, model;
  opset.bytes(1, "");
  opset.number(2, opset_);
  model.number(1, kIrVersion);
  model.bytes(2, "planck");
  model.message(7, graph);
  model.message(8, opset);
  return model.text();
}

Result<void> OnnxModel::write(const std::string& path) const {
  const std::string text = bytes();
  auto file = OutputFile::create(path);
  if (!file) return tl::unexpected(file.error());
  if (auto ok = file->write_at(0, std::as_bytes(std::span(text))); !ok) return ok;
  return file->commit();
}

}  // namespace planck::nn
