// Tensor<B>: the thing people hold. A value: copies are cheap and share elements that nothing
// changes. Tensor<B> holds floats, Tensor<B, IntKind> integers, Tensor<B, BoolKind> truth values.
//
//   auto y = matmul(x, w) + b;   auto grads = sum(y).backward();   auto dw = w.grad(grads);
//
// Functions on tensors are free functions beside their ops (ops/*/*.ops.h); include
// planck/planck.h for all of them. What a caller does wrong is thrown as planck::Exception.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "planck/backend/backend.h"
#include "planck/core/exception.h"
#include "planck/core/refuse.h"

namespace planck {

inline constexpr std::array<Dtype, 4> kFloatDtypes = {Dtype::f32, Dtype::f64, Dtype::f16,
                                                      Dtype::bf16};

template <class T>
using KindOfElement =
    std::conditional_t<Float<T>, FloatKind,
                       std::conditional_t<std::same_as<T, bool>, BoolKind, IntKind>>;

// As NumPy prints arrays: nested brackets, columns aligned, the middle of long axes left out.
std::string format_elements(Dtype dtype, const Shape& shape, const void* row_major_elements);

namespace tensor_detail {
// Refuse, in words, what does not fit.
void check_count(std::size_t values, const Shape& shape);
void check_element(Dtype tensor, Dtype asked);
void check_single(const Shape& shape);
[[noreturn]] void refuse_tracked_move();
std::ostream& print(std::ostream& out, const std::string& text);
}  // namespace tensor_detail

template <class B, class K>
class Tensor {
 public:
  using Backend = B;
  using Kind = K;
  using Primitive = TensorOf<B, K>;
  using Device = typename B::Device;

  explicit Tensor(const Primitive& primitive) : primitive_(primitive) {}
  explicit Tensor(Primitive&& primitive) : primitive_(std::move(primitive)) {}

  // Row-major elements of the host.
  template <class T>
  requires std::same_as<KindOfElement<T>, K>
  static Tensor from(std::span<const T> values, const Shape& shape,
                     const Device& device = B::default_device()) {
    tensor_detail::check_count(values.size(), shape);
    return Tensor(B::template from_host<K>(device, dtype_of<T>, shape, values.data()));
  }
  // The same from a list: from({1.f, 2.f}, {2}).
  template <class T>
  requires std::same_as<KindOfElement<T>, K>
  static Tensor from(std::initializer_list<T> values, const Shape& shape,
                     const Device& device = B::default_device()) {
    return from(std::span<const T>(values.begin(), values.size()), shape, device);
  }
  // One element, of shape {}.
  template <class T>
  requires std::same_as<KindOfElement<T>, K>
  static Tensor scalar(T value, const Device& device = B::default_device()) {
    return from(std::span<const T>(&value, 1), {}, device);
  }

  // Extents of the axes.
  decltype(auto) shape() const { return B::shape(primitive_); }
  // One of them; a negative axis counts from the end.
  std::int64_t extent(int axis) const { return shape()[axis < 0 ? axis + shape().rank() : axis]; }
  // How many axes there are, at most 8.
  int rank() const { return shape().rank(); }
  // How many elements there are.
  std::int64_t numel() const { return planck::numel(shape()); }
  // What the elements are: f32, i64, …
  Dtype dtype() const { return B::dtype(primitive_); }
  // Where they are.
  decltype(auto) device() const { return B::device(primitive_); }

  // Elements on the host, row-major. T must be the tensor's dtype.
  template <class T>
  std::vector<T> to_vector() const {
    static_assert(!std::same_as<T, bool>, "read booleans as std::uint8_t");
    tensor_detail::check_element(dtype(), dtype_of<T>);
    std::vector<T> values(static_cast<std::size_t>(numel()));
    B::to_host(primitive_, values.data());
    return values;
  }
  // The only element of a tensor that has one.
  template <class T>
  T item() const {
    tensor_detail::check_single(shape());
    return to_vector<T>()[0];
  }
  // As it is printed.
  std::string to_string_of_elements() const {
    std::vector<std::byte> bytes(bytes_for(dtype(), numel()));
    B::to_host(primitive_, bytes.data());
    return format_elements(dtype(), shape(), bytes.data());
  }

  // The same elements elsewhere: on another device of this backend, or on another backend. Goes
  // through the host; gradients do not pass.
  Tensor to(const Device& device) const { return to<B>(device); }
  // The same on another backend: x.to<Cuda>().
  template <class Other>
  Tensor<Other, K> to(const typename Other::Device& device = Other::default_device()) const {
    if constexpr (AutodiffBackend<B> && std::same_as<K, FloatKind>)
      if (is_tracked()) tensor_detail::refuse_tracked_move();
    std::vector<std::byte> bytes(bytes_for(dtype(), numel()));
    B::to_host(primitive_, bytes.data());
    return Tensor<Other, K>(Other::template from_host<K>(device, dtype(), shape(), bytes.data()));
  }

  const Primitive& primitive() const& { return primitive_; }
  Primitive&& primitive() && { return std::move(primitive_); }

  // Gradients of this tensor are wanted: a leaf of the graph. More in autodiff/autodiff.h.
  Tensor require_grad() && requires AutodiffBackend<B> {
    return Tensor(B::require_grad(std::move(primitive_)));
  }
  // The same, of a copy.
  Tensor require_grad() const& requires AutodiffBackend<B> {
    return Tensor(B::require_grad(primitive_));
  }
  // The same elements without their history.
  Tensor detach() const requires AutodiffBackend<B> {
    return Tensor(B::from_inner(B::inner(primitive_)));
  }
  // Whether a gradient would reach this tensor.
  bool is_tracked() const requires AutodiffBackend<B> { return B::is_tracked(primitive_); }
  // Gradients of every leaf that this tensor depends on, as a value.
  auto backward() const requires AutodiffBackend<B> { return B::backward(primitive_); }
  // The gradient of this leaf, or none.
  template <class Gradients>
  auto grad(const Gradients& gradients) const requires AutodiffBackend<B> {
    using Inner = Tensor<typename B::InnerBackend>;
    auto g = B::grad(primitive_, gradients);
    return g ? std::optional<Inner>(Inner(std::move(*g))) : std::nullopt;
  }
  // The same elements on the inner backend.
  auto inner() const requires AutodiffBackend<B> {
    if constexpr (std::same_as<K, FloatKind>)
      return Tensor<typename B::InnerBackend, K>(B::inner(primitive_));
    else if constexpr (std::same_as<K, IntKind>)
      return Tensor<typename B::InnerBackend, K>(B::int_inner(primitive_));
    else
      return Tensor<typename B::InnerBackend, K>(B::bool_inner(primitive_));
  }

  friend std::ostream& operator<<(std::ostream& out, const Tensor& t) {
    return tensor_detail::print(out, t.to_string_of_elements());
  }

 private:
  Primitive primitive_;
};

}  // namespace planck
