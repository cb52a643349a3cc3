// Layers of floats between those of integers.
#include "planck/nn/onnx/onnx.h"

#include <fmt/format.h>

#include "planck/core/exception.h"
#include "planck/nn/onnx/fields.h"

namespace planck::nn {

namespace {

std::vector<float> float_weight(const StateDict& layer, std::int64_t elements) {
  auto weight = onnx::floats_of(layer, "weight");
  if (static_cast<std::int64_t>(weight.size()) != elements)
    raise(ErrorCode::invalid_problem,
          fmt::format("onnx: the weight has {} elements, the options say {}", weight.size(),
                      elements));
  return weight;
}

// Centers of `count` elements across [-1, 1].
std::vector<float> centers(std::int64_t count) {
  std::vector<float> at;
  for (std::int64_t i = 0; i < count; ++i)
    at.push_back(static_cast<float>(2 * i - (count - 1)) / static_cast<float>(count));
  return at;
}

}  // namespace

void OnnxModel::write_float(const StateDict& layer, const LinearOptions& o) {
  const auto turned = onnx::transposed(float_weight(layer, o.out * o.in), o.out, o.in);
  last_ = node("MatMul", {last_, floats({o.in, o.out}, turned)});
  if (const auto bias = onnx::bias_of(layer); !bias.empty()) plus({o.out}, bias);
}

void OnnxModel::write_float(const StateDict& layer, const ConvOptions& o) {
  const Shape shape{o.out, o.in / o.shape.groups, o.kernel[0], o.kernel[1]};
  const auto weight = float_weight(layer, numel(shape));
  last_ = node("Conv", {last_, floats(shape, weight)}, onnx::conv_attributes(o));
  if (const auto bias = onnx::bias_of(layer); !bias.empty()) plus({o.out, 1, 1}, bias);
}

void OnnxModel::plus(const Shape& shape, const std::vector<float>& values) {
  if (numel(shape) != static_cast<std::int64_t>(values.size()))
    raise(ErrorCode::invalid_problem,
          fmt::format("onnx: {} values for the shape {}", values.size(), to_string(shape)));
  last_ = node("Add", {last_, floats(shape, values)});
}

// (theta_0 x + theta_1 y) + theta_2 as single products and sums, in the order of affine_grid: its
// bits.
void OnnxModel::seen_through(const std::string& picture, std::array<std::int64_t, 2> size) {
  opset_ = kSamplingOpset;
  plus({6}, {1, 0, 0, 0, 1, 0});
  const std::vector<std::int64_t> rows = {-1, 1, 1, 2, 3};
  const std::string theta =
      node("Reshape", {last_, constant(onnx::kInt64, {5}, rows.data(), rows.size() * 8)});
  const auto column = [&](std::int64_t i) {  // [N, 1, 1, 2]
    return node("Gather", {theta, constant(onnx::kInt64, {}, &i, 8)}, {onnx::attribute("axis", 4)});
  };
  const std::string along_x = node("Mul", {column(0), floats({size[1], 1}, centers(size[1]))});
  const std::string along_y = node("Mul", {column(1), floats({size[0], 1, 1}, centers(size[0]))});
  const std::string turned = node("Add", {along_x, along_y});
  const std::string grid = node("Add", {turned, column(2)});
  last_ = node("GridSample", {picture, grid},
               {onnx::attribute("mode", "bilinear"), onnx::attribute("padding_mode", "zeros"),
                onnx::attribute("align_corners", 0)});
  rank_ = 3;
}

}  // namespace planck::nn
