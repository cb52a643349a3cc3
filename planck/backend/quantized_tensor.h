// Tensor<B, QuantizedKind>: integers that stand for floats, scale (values − zero_point), in groups
// that the scheme says. A value, as all tensors are. quantize() and dynamic_quantize() make one, or
// it is put together, QuantizedTensor<B>(values, scale, zero_point, scheme). dequantize() undoes
// it; the functions of shapes and q_matmul take it as it is.
//
// On Autodiff gradients pass straight through: that of the integers is a float tensor of their
// shape, and that of the scale goes where the scale came from.
#pragma once

#include "planck/backend/quantized.h"
#include "planck/backend/tensor.h"
#include "planck/core/exception.h"

namespace planck {

template <class B>
class Tensor<B, QuantizedKind> {
 public:
  using Backend = B;
  using Kind = QuantizedKind;
  using Primitive = typename B::QuantizedTensor;
  using Device = typename B::Device;

  Tensor(const Tensor<B, CodeKind>& codes, const Tensor<B>& scale,
         const Tensor<B, IntKind>& zero_point, const QuantScheme& scheme)
      : Tensor(Primitive{codes.primitive(), scale.primitive(), zero_point.primitive(), scheme}) {}
  // Integers with the scale and zero point of each group; what does not fit the scheme is refused.
  Tensor(const Tensor<B, IntKind>& values, const Tensor<B>& scale,
         const Tensor<B, IntKind>& zero_point, const QuantScheme& scheme)
      : Tensor(Primitive{codes_of<B>(values.primitive()), scale.primitive(), zero_point.primitive(),
                         scheme}) {}

  explicit Tensor(Primitive primitive) : primitive_(std::move(primitive)) { check(); }

  // The integers.
  Tensor<B, IntKind> values() const {
    return Tensor<B, IntKind>(integers_of<B>(primitive_.values));
  }
  // One for each group, in row-major order.
  Tensor<B> scale() const { return Tensor<B>(primitive_.scale); }
  // As many as there are scales; i32.
  Tensor<B, IntKind> zero_point() const { return Tensor<B, IntKind>(primitive_.zero_point); }
  // How it is cut into groups, and what its integers are. A channel axis is counted from the front.
  const QuantScheme& scheme() const { return primitive_.scheme; }
  // The integers as ops on quantized tensors take them.
  Tensor<B, CodeKind> codes() const { return Tensor<B, CodeKind>(primitive_.values); }

  // Extents of the axes.
  Shape shape() const { return B::shape(primitive_.values); }
  // One of them; a negative axis counts from the end.
  std::int64_t extent(int axis) const { return values().extent(axis); }
  // How many axes there are.
  int rank() const { return shape().rank(); }
  // How many elements there are.
  std::int64_t numel() const { return planck::numel(shape()); }
  // What the integers are: s8, u8, s4 or u4.
  Dtype dtype() const { return B::dtype(primitive_.values); }
  // Where they are.
  Device device() const { return B::device(primitive_.values); }
  // As it is printed: what it is, then its three parts.
  std::string to_string_of_elements() const {
    return "quantized " + planck::to_string(shape()) + ", " + planck::to_string(scheme()) +
           "\nvalues\n" + values().to_string_of_elements() + "\nscale\n" +
           scale().to_string_of_elements() + "\nzero_point\n" +
           zero_point().to_string_of_elements();
  }

  // The same on another device of this backend. Goes through the host; gradients do not pass.
  Tensor to(const Device& device) const { return to<B>(device); }
  // The same on another backend: q.to<Cuda>().
  template <class Other>
  Tensor<Other, QuantizedKind> to(
      const typename Other::Device& device = Other::default_device()) const {
    if constexpr (AutodiffBackend<B>)
      if (is_tracked()) tensor_detail::refuse_tracked_move();
    return {values().template to<Other>(device), scale().template to<Other>(device),
            zero_point().template to<Other>(device), scheme()};
  }

  const Primitive& primitive() const& { return primitive_; }
  Primitive&& primitive() && { return std::move(primitive_); }

  // Whether a gradient would reach what it was quantized from, or its scale.
  bool is_tracked() const requires AutodiffBackend<B> {
    return primitive_.values.is_tracked() || B::is_tracked(primitive_.scale);
  }
  // The same without its history.
  Tensor detach() const requires AutodiffBackend<B> {
    return Tensor(B::q_from_inner(B::q_inner(primitive_)));
  }
  // The same on the inner backend.
  auto inner() const requires AutodiffBackend<B> {
    return Tensor<typename B::InnerBackend, QuantizedKind>(B::q_inner(primitive_));
  }

  friend std::ostream& operator<<(std::ostream& out, const Tensor& t) {
    return tensor_detail::print(out, t.to_string_of_elements());
  }

 private:
  void check() {
    primitive_.scheme = with_axis_from_front(primitive_.scheme, shape());
    value_or_throw(check_parts(
        scheme(), {dtype(), B::dtype(primitive_.scale), B::dtype(primitive_.zero_point), shape(),
                   B::shape(primitive_.scale), B::shape(primitive_.zero_point)}));
  }

  Primitive primitive_;
};

// B's quantized tensors as people hold them.
template <class B>
using QuantizedTensor = Tensor<B, QuantizedKind>;

}  // namespace planck
