// What modules are made of: parameters, which are trained, and buffers, which are not.
//
// A parameter is a value. A copy has the same elements and a leaf of its own, so that gradients of
// a copied model are the copy's; a moved one keeps its leaf. One that is frozen,
// requires_grad(false), is a constant: no gradient is computed for it and no optimizer changes it.
#pragma once

#include "planck/autodiff/autodiff.h"
#include "planck/ops/elementwise/elementwise.functions.h"

namespace planck::nn {

namespace detail {
template <class B>
struct InnerOf {
  using type = B;
};
template <AutodiffBackend B>
struct InnerOf<B> {
  using type = typename B::InnerBackend;
};
}  // namespace detail

// The backend that holds values without gradients: B's inner one, or B itself.
template <class B>
using Inner = typename detail::InnerOf<B>::type;

// A tensor without history, on B and on its inner backend.
template <class B>
Tensor<B> constant(const Tensor<Inner<B>>& t) {
  if constexpr (AutodiffBackend<B>)
    return Tensor<B>(B::from_inner(t.primitive()));
  else
    return t;
}
// The same for integers.
template <class B>
Tensor<B, IntKind> constant(const Tensor<Inner<B>, IntKind>& t) {
  if constexpr (AutodiffBackend<B>)
    return Tensor<B, IntKind>(B::int_from_inner(t.primitive()));
  else
    return t;
}
// A tensor's values on the inner backend.
template <class B, class K>
Tensor<Inner<B>, K> plain(const Tensor<B, K>& t) {
  if constexpr (AutodiffBackend<B>)
    return t.inner();
  else
    return t;
}
// The same values, cut off from how they came about.
template <class B>
Tensor<B> detached(const Tensor<B>& t) {
  if constexpr (AutodiffBackend<B>)
    return t.detach();
  else
    return t;
}

// Where the parameters of a module lie, and in which dtype: f32 unless told otherwise.
//
//   nn::Linear<B> a(rng, {64, 32}, Dtype::bf16), b(rng, {64, 32}, {device, Dtype::f64});
template <class B>
struct Options {
  typename B::Device device;
  Dtype dtype;

  Options(const typename B::Device& at = B::default_device(), Dtype of = Dtype::f32)
      : device(at), dtype(of) {
    if (!is_float(dtype)) refuse("module: its parameters cannot be {}, they are floats", {dtype});
  }
  Options(Dtype of) : Options(B::default_device(), of) {}
  // Of state that 16 bits are too few for: running statistics.
  Dtype wide() const { return dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32; }
};

// x in a dtype; x itself where it has that one.
template <class B>
Tensor<B> as_dtype(const Tensor<B>& x, Dtype dtype) {
  return x.dtype() == dtype ? x : to_float(x, dtype);
}
// x in the dtype that sums of it are kept in: f32 for 16-bit floats.
template <class B>
Tensor<B> widened(const Tensor<B>& x) {
  return as_dtype(x, x.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32);
}

// What is trained. Reads as a tensor; with gradients, as a leaf of the graph.
template <class B>
class Parameter {
 public:
  explicit Parameter(const Tensor<Inner<B>>& value) : value_(made(value, true)) {}
  Parameter(const Parameter& other)
      : trained_(other.trained_), value_(made(other.value(), other.trained_)) {}
  Parameter(Parameter&&) noexcept = default;
  Parameter& operator=(const Parameter& other) { return *this = Parameter(other); }
  Parameter& operator=(Parameter&&) noexcept = default;
  ~Parameter() = default;

  const Tensor<B>& operator*() const { return value_; }
  const Tensor<B>* operator->() const { return &value_; }
  Tensor<Inner<B>> value() const { return plain(value_); }
  // Another value of the same shape, and a new leaf.
  void set(const Tensor<Inner<B>>& value) {
    const Shape shape = value.shape(), own = value_.shape();
    if (shape != own)
      refuse("parameter: it has shape {}, and is set to a value of shape {}", {own, shape});
    value_ = made(value, trained_);
  }
  // The value's own tensor for as long as the loan lives, to be changed where it lies: its only
  // holder, unless a graph that is still alive has kept the value. Then the parameter has it again,
  // as a new leaf.
  class Loan {
   public:
    typename Inner<B>::FloatTensor value;

    // What may fail comes first.
    explicit Loan(Parameter& p) : value(p.value().primitive()), to_(p.value_) {
      if constexpr (AutodiffBackend<B>) {
        next_ = made(p.value(), p.trained_).primitive();
        next_->value = B::inner(std::move(to_).primitive());
        value = std::move(next_->value);
      } else {
        value = std::move(to_).primitive();
      }
    }
    Loan(const Loan&) = delete;
    ~Loan() {
      if constexpr (AutodiffBackend<B>) {
        next_->value = std::move(value);
        to_ = Tensor<B>(std::move(*next_));
      } else {
        to_ = Tensor<B>(std::move(value));
      }
    }

   private:
    Tensor<B>& to_;
    std::optional<typename B::FloatTensor> next_;
  };

  bool requires_grad() const { return trained_; }
  // Frozen, or trained again.
  void requires_grad(bool wanted) {
    if (wanted == trained_) return;
    value_ = made(value(), wanted);
    trained_ = wanted;
  }

 private:
  static Tensor<B> made(const Tensor<Inner<B>>& value, bool trained) {
    if constexpr (AutodiffBackend<B>)
      return trained ? constant<B>(value).require_grad() : constant<B>(value);
    else
      return value;
  }

  bool trained_ = true;
  Tensor<B> value_;
};

// State that is not trained: running statistics, scales found from data.
template <class B>
struct Buffer {
  Tensor<Inner<B>> value;
};
template <class B>
struct IntBuffer {
  Tensor<Inner<B>, IntKind> value;
};

// Whether dropout drops and statistics are gathered.
struct Mode {
  bool training = true;
};

}  // namespace planck::nn
