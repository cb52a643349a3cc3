// What a backend calls a quantized tensor: integers, and the scale, zero point and scheme that say
// which floats they stand for. The same for every backend, made of its own tensors.
#pragma once

#include "planck/backend/backend.h"
#include "planck/ops/quantize/quantize.scheme.h"

namespace planck {

template <class B>
struct Quantized {
  using Kind = QuantizedKind;

  TensorOf<B, CodeKind> values;
  typename B::FloatTensor scale;     // one for each group, in row-major order
  typename B::IntTensor zero_point;  // as many
  QuantScheme scheme;
};

// Integers as codes, without history, and the integers of codes. Where B is not differentiable
// they are the same tensors.
template <class B>
TensorOf<B, CodeKind> codes_of(const typename B::IntTensor& integers) {
  if constexpr (std::same_as<TensorOf<B, CodeKind>, typename B::IntTensor>)
    return integers;
  else
    return {codes_of<typename B::InnerBackend>(integers), {}};
}
template <class B>
const typename B::IntTensor& integers_of(const TensorOf<B, CodeKind>& codes) {
  if constexpr (std::same_as<TensorOf<B, CodeKind>, typename B::IntTensor>)
    return codes;
  else
    return integers_of<typename B::InnerBackend>(codes.value);
}

}  // namespace planck
