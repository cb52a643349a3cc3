// What the tests of quantized tensors share: values, schemes, and gradients through them.
#pragma once

#include <cmath>
#include <functional>

#include "tests/autodiff/gradcheck.h"
#include "tests/autodiff/tested_backend.h"

namespace planck::test {

using QuantizedValues = std::vector<double>;

template <class X>
Tensor<X, IntKind> zero_points(const std::vector<std::int32_t>& values) {
  return Tensor<X, IntKind>::from(std::span<const std::int32_t>(values),
                                  {static_cast<std::int64_t>(values.size())});
}
inline std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Exception& e) {
    return e.what();
  }
  return "nothing was refused";
}
// Numbers from −2 to 2, a few of them far away.
inline QuantizedValues wave(std::int64_t count) {
  QuantizedValues v;
  for (std::int64_t i = 0; i < count; ++i)
    v.push_back(i % 7 == 3 ? 1e4 * (i % 2 == 0 ? 1 : -1)
                           : 2 * std::sin(1.7 * static_cast<double>(i)));
  return v;
}

struct Way {
  QuantScheme scheme;
  std::int64_t groups;
};
// Every granularity and dtype on a tensor of shape [4, 6].
inline std::vector<Way> all_ways() {
  std::vector<Way> ways;
  for (Dtype t : {Dtype::s8, Dtype::u8, Dtype::s4, Dtype::u4}) {
    ways.push_back({{.dtype = t}, 1});
    ways.push_back({{.granularity = Granularity::per_channel, .axis = 0, .dtype = t}, 4});
    ways.push_back({{.granularity = Granularity::per_channel, .axis = -1, .dtype = t}, 6});
    ways.push_back({{.granularity = Granularity::per_token, .dtype = t}, 4});
    ways.push_back({{.granularity = Granularity::per_group, .group = 2, .dtype = t}, 12});
  }
  return ways;
}
template <class X>
Tensor<X> scales(std::int64_t groups) {
  QuantizedValues v;
  for (std::int64_t i = 0; i < groups; ++i) v.push_back(0.25 + 0.03 * static_cast<double>(i));
  return Tensor<X>::from(std::span<const double>(v), {groups});
}
template <class X>
Tensor<X, IntKind> zeros_of(const Way& way) {
  std::vector<std::int32_t> v;
  for (std::int64_t i = 0; i < way.groups; ++i) v.push_back(static_cast<std::int32_t>(i % 5) + 1);
  return zero_points<X>(v);
}

// The gradient of x where f(quantized x) is dequantized and summed.
template <class X, class F>
QuantizedValues gradient_through(const Way& way, const F& f) {
  const QuantizedValues x = wave(24);
  const auto v = Tensor<X>::from(std::span<const double>(x), {4, 6}).require_grad();
  const auto q = quantize(v * 1.0, scales<X>(way.groups), zeros_of<X>(way), way.scheme);
  return v.grad(sum(dequantize(f(q))).backward())->template to_vector<double>();
}

}  // namespace planck::test
