// Views: a pointer with shape and strides, typed (TensorView<T>) or with its dtype at run time
// (View). They own nothing.
#pragma once

#include <span>
#include <type_traits>

#include "planck/core/dtype.h"
#include "planck/core/shape.h"

namespace planck {

// The dtype is a value. What crosses the plan protocol inside the library, and what generic callers
// use.
struct View {
  void* data = nullptr;
  Dtype dtype = Dtype::f32;
  Shape shape;
  Strides strides;
  bool present = false;  // false: an optional operand that was left out
};

template <class T>
struct TensorView {
  T* data = nullptr;
  Shape shape;
  Strides strides;
  bool present = false;

  TensorView() = default;
  TensorView(T* pointer, const Shape& extents)
      : data(pointer), shape(extents), strides(row_major(extents)), present(true) {}
  TensorView(T* pointer, const Shape& extents, const Strides& steps)
      : data(pointer), shape(extents), strides(steps), present(true) {}
  // What may be written may be read.
  template <class U>
  TensorView(const TensorView<U>& v) requires std::is_same_v<T, const U>
      : data(v.data), shape(v.shape), strides(v.strides), present(v.present) {}

  // Checks that the buffer holds the shape.
  static Result<TensorView> over(std::span<T> buffer, const Shape& extents) {
    const std::int64_t count = numel(extents);
    const std::size_t need = bytes_for(dtype_of<T>, count) / storage_bytes(dtype_of<T>);
    if (buffer.size() < need)
      return fail(ErrorCode::buffer_too_small, "buffer holds " + std::to_string(buffer.size()) +
                                                   " units, shape " + to_string(extents) +
                                                   " needs " + std::to_string(need));
    return TensorView(buffer.data(), extents);
  }

  // The plan protocol knows which operands are inputs and never writes to those.
  operator View() const {
    return View{const_cast<std::remove_const_t<T>*>(data), dtype_of<T>, shape, strides, present};
  }
};

// Whether the elements lie densely in row-major order.
bool is_contiguous(const Shape& shape, const Strides& strides);

// The strides that read `view` as `shape` (same count), or an error where only a copy could.
[[nodiscard]] Result<Strides> reshaped_strides(const View& view, const Shape& shape);

// The lowest and one past the highest byte a view touches; empty for an empty view.
struct ByteRange {
  const std::byte* begin;
  const std::byte* end;
};
ByteRange byte_range(const View& view);

// Whether two index tuples may reach the same element (a sufficient test: true may be a false
// alarm).
bool may_overlap_itself(const Shape& shape, const Strides& strides);

}  // namespace planck
