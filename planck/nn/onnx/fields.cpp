#include "planck/nn/onnx/fields.h"

#include <fmt/format.h>

#include <cstring>

#include "planck/core/exception.h"

namespace planck::nn::onnx {

namespace {
constexpr int kNumber = 2, kText = 3, kNumbers = 7;  // of AttributeProto
}

Message attribute(std::string_view name, std::int64_t value) {
  Message a;
  a.bytes(1, name);
  a.number(3, value);
  a.number(20, kNumber);
  return a;
}
Message attribute(std::string_view name, std::initializer_list<std::int64_t> values) {
  Message a;
  a.bytes(1, name);
  for (const std::int64_t v : values) a.number(8, v);
  a.number(20, kNumbers);
  return a;
}
Message attribute(std::string_view name, std::string_view value) {
  Message a;
  a.bytes(1, name);
  a.bytes(4, value);
  a.number(20, kText);
  return a;
}

std::vector<Message> conv_attributes(const ConvOptions& o) {
  const auto& s = o.shape;
  return {attribute("kernel_shape", {o.kernel[0], o.kernel[1]}),
          attribute("strides", {s.stride[0], s.stride[1]}),
          attribute("pads", {s.padding[0], s.padding[1], s.padding[0], s.padding[1]}),
          attribute("dilations", {s.dilation[0], s.dilation[1]}), attribute("group", s.groups)};
}

const StateEntry& entry_of(const StateDict& layer, std::string_view name) {
  const auto found = layer.find(name);
  if (found == layer.end())
    raise(ErrorCode::invalid_problem, fmt::format("onnx: the layer has no {}", name));
  return found->second;
}

std::vector<float> floats_of(const StateDict& layer, std::string_view name) {
  const StateEntry& e = entry_of(layer, name);
  if (e.dtype != Dtype::f32)
    raise(ErrorCode::unsupported,
          fmt::format("onnx: {} is {}, it must be f32", name, planck::name(e.dtype)));
  std::vector<float> values(e.bytes.size() / 4);
  std::memcpy(values.data(), e.bytes.data(), e.bytes.size());
  return values;
}

std::vector<float> bias_of(const StateDict& layer) {
  return layer.contains("bias") ? floats_of(layer, "bias") : std::vector<float>();
}

}  // namespace planck::nn::onnx
