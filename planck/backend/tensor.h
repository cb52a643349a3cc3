// Tensor<B>: the thing people hold. A value: copies are cheap and share elements that nothing
// changes. Tensor<B> holds floats, Tensor<B, IntKind> integers, Tensor<B, BoolKind> truth values.
//
//   auto y = matmul(x, w) + b;   auto grads = sum(y).backward();   auto dw = w.grad(grads);
//
// Functions on tensors are free functions beside their ops (ops/*/*.functions.h); include
// planck/planck.h for all of them. What a caller does wrong is thrown as planck::Exception.
#pragma once

#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "planck/backend/backend.h"
#include "planck/core/exception.h"
#include "planck/core/refuse.h"
#include "planck/core/stream.h"
#include "planck/core/view.h"
#include "planck/ops/shape/indices.h"

namespace planck {

inline constexpr std::array<Dtype, 4> kFloatDtypes = {Dtype::f32, Dtype::f64, Dtype::f16,
                                                      Dtype::bf16};

template <class T>
using KindOfElement =
    std::conditional_t<Float<T>, FloatKind,
                       std::conditional_t<std::same_as<T, bool>, BoolKind, IntKind>>;

// The dtype of a new tensor of kind K unless another is given: f32, i64 or bool.
template <class B, class K>
inline constexpr Dtype default_dtype = std::same_as<K, FloatKind> ? dtype_of<typename B::FloatElem>
                                       : std::same_as<K, IntKind> ? dtype_of<typename B::IntElem>
                                                                  : Dtype::boolean;

// As NumPy prints arrays: nested brackets, columns aligned, the middle of long axes left out.
std::string format_elements(Dtype dtype, const Shape& shape, const void* row_major_elements);

namespace tensor_detail {
struct NoLiteral {
  NoLiteral() = delete;
};
// Refuse, in words, what does not fit.
void check_count(std::size_t values, const Shape& shape);
void check_element(Dtype tensor, Dtype asked);
void check_single(const Shape& shape);
void check_axis(int axis, const Shape& shape);
void check_kind(std::string_view function, std::string_view kind, Dtype dtype);
void check_aligned(const void* data, Dtype dtype);
[[noreturn]] void refuse_tracked_move();
// Whether work on both is ordered.
bool same_place(const Stream& a, const Stream& b);
template <class Device>
bool same_place(const Device&, const Device&) {
  return false;
}
std::ostream& print(std::ostream& out, const std::string& text);
}  // namespace tensor_detail

// How a backward pass goes.
struct BackwardOptions {
  bool retain_graph = false;  // keep saved values for another backward over the same graph
  // Drop what a node saved as soon as it is done, not when the pass has succeeded: less memory at
  // the peak. A pass that fails then leaves a graph that is released.
  bool free_early = false;
};
// The same for Tensor::backward: y.backward({.cotangent = dy, .retain_graph = true}).
template <class A>
struct BackwardCall {
  std::optional<Tensor<typename A::InnerBackend>> cotangent = {};  // dy; ones where there is none
  bool retain_graph = false;
  bool free_early = false;
};

namespace tensor_detail {
// A is Autodiff of B.
template <class A, class B>
concept Outside = requires {
  requires std::same_as<typename A::InnerBackend, B>;
};
}  // namespace tensor_detail

template <class B, class K>
class TensorPart;  // ops/index/indexing.functions.h

template <class B, class K>
class Tensor {
 public:
  using Backend = B;
  using Kind = K;
  using Primitive = TensorOf<B, K>;
  using Device = typename B::Device;
  // What a number without a type of its own is read as: double, of floats alone.
  using Literal = std::conditional_t<std::same_as<K, FloatKind>, double, tensor_detail::NoLiteral>;

  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  Tensor& operator=(const Tensor&) & = default;  // a temporary that is assigned to is a mistake
  Tensor& operator=(Tensor&&) & = default;
  explicit Tensor(const Primitive& primitive) : primitive_(primitive) {}
  explicit Tensor(Primitive&& primitive) : primitive_(std::move(primitive)) {}
  // The same elements on Autodiff of their backend, without a history: Tensor<Autodiff<Cpu>>(t).
  template <class Inner>
  requires tensor_detail::Outside<B, Inner>
  explicit Tensor(const Tensor<Inner, K>& t) : Tensor(from_inner(t.primitive())) {}
  // And back, as inner() does.
  template <class A>
  requires tensor_detail::Outside<A, B>
  explicit Tensor(const Tensor<A, K>& t) : Tensor(t.inner()) {}

  // Row-major elements of the host.
  template <class T>
  requires std::same_as<KindOfElement<T>, K>
  static Tensor from(std::span<const T> values, const Shape& shape,
                     const Device& device = B::default_device()) {
    tensor_detail::check_count(values.size(), shape);
    return Tensor(B::template from_host<K>(device, dtype_of<T>, shape, values.data()));
  }
  // The same of a vector.
  template <class T>
  requires std::same_as<KindOfElement<T>, K>
  static Tensor from(const std::vector<T>& values, const Shape& shape,
                     const Device& device = B::default_device()) {
    if constexpr (std::same_as<T, bool>) {  // a vector of bits
      const std::vector<std::uint8_t> bytes(values.begin(), values.end());
      tensor_detail::check_count(bytes.size(), shape);
      return Tensor(B::template from_host<K>(device, Dtype::boolean, shape, bytes.data()));
    } else {
      return from(std::span<const T>(values), shape, device);
    }
  }
  // The same in one axis.
  template <class T>
  requires std::same_as<KindOfElement<T>, K>
  static Tensor from(const std::vector<T>& values) {
    return from(values, Shape{static_cast<std::int64_t>(values.size())});
  }
  // The same from a list: from({1, 2.5}, {2}). Literals of type double become f32, the backend's
  // float; from<double>({1, 2.5}, {2}) keeps them.
  static Tensor from(std::initializer_list<Literal> values, const Shape& shape,
                     const Device& device = B::default_device()) {
    std::vector<typename B::FloatElem> elements;
    for (Literal v : values) elements.push_back(static_cast<typename B::FloatElem>(v));
    return from(elements, shape, device);
  }
  // A list of elements of a type, which they keep.
  template <class T>
  requires std::same_as<KindOfElement<T>, K>
  static Tensor from(std::initializer_list<T> values, const Shape& shape,
                     const Device& device = B::default_device()) {
    return from(std::span<const T>(values.begin(), values.size()), shape, device);
  }
  // One element, of shape {}; a double becomes f32, the backend's float, unless scalar<double> is
  // asked for.
  static Tensor scalar(Literal value, const Device& device = B::default_device()) {
    return from({value}, {}, device);
  }
  // One element of a type, which it keeps.
  template <class T>
  requires std::same_as<KindOfElement<T>, K>
  static Tensor scalar(T value, const Device& device = B::default_device()) {
    return from(std::span<const T>(&value, 1), {}, device);
  }

  // Memory of someone else as it is, row-major and on the backend's device: nothing is copied, and
  // nothing is ever written to it. Its elements must not change while a tensor sees them. `owner`,
  // where given, is kept until the last tensor is gone.
  template <class T>
  requires std::same_as<KindOfElement<T>, K>
  static Tensor from_blob(const T* data, const Shape& shape,
                          std::shared_ptr<const void> owner = nullptr,
                          const Device& device = B::default_device()) {
    value_or_throw(check_shape(shape, "from_blob"));
    tensor_detail::check_aligned(data, dtype_of<T>);
    const View view = TensorView<const T>(data, shape);
    return borrowed(view, std::move(owner), device);
  }
  // The same of any strides.
  static Tensor borrowed(const View& view, std::shared_ptr<const void> owner,
                         const Device& device) {
    if constexpr (AutodiffBackend<B>) {
      using Inner = Tensor<typename B::InnerBackend, K>;
      return from_inner(Inner::borrowed(view, std::move(owner), device));
    } else {
      static_assert(
          requires { B::template borrow<K>(device, view, owner); },
          "this backend has memory of its own alone: from() copies");
      return Tensor(B::template borrow<K>(device, view, std::move(owner)));
    }
  }

  // Extents of the axes.
  decltype(auto) shape() const { return B::shape(primitive_); }
  // One of them; a negative axis counts from the end.
  std::int64_t extent(int axis) const {
    tensor_detail::check_axis(axis, shape());
    return shape()[axis < 0 ? axis + shape().rank() : axis];
  }
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
  // through the host; gradients do not pass. Where they are there already: x itself.
  Tensor to(const Device& device) const { return to<B>(device); }
  // The same on another backend: x.to<Cuda>().
  template <class Other>
  Tensor<Other, K> to(const typename Other::Device& device = Other::default_device()) const {
    if constexpr (std::same_as<B, Other>)
      if (tensor_detail::same_place(device, this->device())) return *this;
    if constexpr (AutodiffBackend<B> && std::same_as<K, FloatKind>)
      if (is_tracked()) tensor_detail::refuse_tracked_move();
    std::vector<std::byte> bytes(bytes_for(dtype(), numel()));
    B::to_host(primitive_, bytes.data());
    return Tensor<Other, K>(Other::template from_host<K>(device, dtype(), shape(), bytes.data()));
  }

  // The same elements in another dtype of the same kind: x.to(Dtype::f16). Gradients pass.
  Tensor to(Dtype dtype) const;
  // The same in another dtype and elsewhere.
  Tensor to(Dtype dtype, const Device& device) const;

  // Elements by position: x[0], x[-1], x[Range{1, 3}], x[{0, kAll, Range{.step = 2}}]; indices.h
  // says what each means. A view; gradients pass.
  Tensor operator[](const Indices& where) const&;
  // The same of a variable, which may be assigned to: x[0] = y, x[{kAll, 1}] += 2. Gradients pass.
  TensorPart<B, K> operator[](const Indices& where) &;
  // The elements where mask, as a vector: x[x > 0].
  Tensor operator[](const Tensor<B, BoolKind>& mask) const;
  // Slices of the first axis, by their numbers.
  Tensor operator[](const Tensor<B, IntKind>& positions) const;

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
  // The same with a cotangent, or over a graph that is kept: backward({.retain_graph = true}).
  auto backward(const BackwardCall<B>& how) const requires AutodiffBackend<B> {
    const BackwardOptions options{how.retain_graph, how.free_early};
    return how.cotangent ? B::backward(primitive_, how.cotangent->primitive(), options)
                         : B::backward(primitive_, options);
  }
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

  // A tensor of the inner backend, untracked.
  template <class Inner>
  requires std::same_as<Inner, Tensor<typename B::InnerBackend, K>>
  static Tensor from_inner(const Inner& inner) {
    if constexpr (std::same_as<K, FloatKind>)
      return Tensor(B::from_inner(inner.primitive()));
    else if constexpr (std::same_as<K, IntKind>)
      return Tensor(B::int_from_inner(inner.primitive()));
    else
      return Tensor(B::bool_from_inner(inner.primitive()));
  }

  friend std::ostream& operator<<(std::ostream& out, const Tensor& t) {
    return tensor_detail::print(out, t.to_string_of_elements());
  }

 private:
  template <class P>
  static Primitive from_inner(const P& t) {
    if constexpr (std::same_as<K, FloatKind>)
      return B::from_inner(t);
    else if constexpr (std::same_as<K, IntKind>)
      return B::int_from_inner(t);
    else
      return B::bool_from_inner(t);
  }

  Primitive primitive_;
};

// What a tensor holds, and what each of several does.
template <class B, class K>
TensorOf<B, K> primitives_of(const Tensor<B, K>& tensor) {
  return tensor.primitive();
}
template <class... T>
auto primitives_of(const std::tuple<T...>& tensors) {
  return std::apply([](const auto&... t) { return std::tuple{t.primitive()...}; }, tensors);
}

}  // namespace planck
