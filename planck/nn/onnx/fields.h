// What parts of an ONNX model are made of: types, attributes of nodes, numbers of a layer's state.
#pragma once

#include <vector>

#include "planck/nn/conv.h"
#include "planck/nn/onnx/protobuf.h"
#include "planck/nn/state.h"

namespace planck::nn::onnx {

inline constexpr int kFloat = 1, kUint8 = 2, kInt8 = 3, kInt64 = 7;

Message attribute(std::string_view name, std::int64_t value);
Message attribute(std::string_view name, std::initializer_list<std::int64_t> values);
Message attribute(std::string_view name, std::string_view value);
// Kernel, strides, padding, dilation and groups.
std::vector<Message> conv_attributes(const ConvOptions& options);

// Thrown errors say what a layer lacks, and what is not f32.
const StateEntry& entry_of(const StateDict& layer, std::string_view name);
std::vector<float> floats_of(const StateDict& layer, std::string_view name);
std::vector<float> bias_of(const StateDict& layer);  // empty: none

// [rows, columns] → [columns, rows]
template <class T>
std::vector<T> transposed(const std::vector<T>& values, std::int64_t rows, std::int64_t columns) {
  std::vector<T> turned(values.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      turned[static_cast<std::size_t>(c * rows + r)] =
          values[static_cast<std::size_t>(r * columns + c)];
  return turned;
}

}  // namespace planck::nn::onnx
