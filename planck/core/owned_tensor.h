// An owning tensor: one block of a device's memory with dtype and shape, row-major. Move-only.
#pragma once

#include "planck/core/allocator.h"
#include "planck/core/view.h"

namespace planck {

class OwnedTensor {
 public:
  OwnedTensor() = default;
  // Uninitialized memory.
  static Result<OwnedTensor> empty(const Stream& stream, Dtype dtype, const Shape& shape);

  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::size_t bytes() const { return bytes_for(dtype_, numel(shape_)); }
  void* data() const { return buffer_.data(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(buffer_.data());
  }
  View view() const { return View{buffer_.data(), dtype_, shape_, row_major(shape_), true}; }

  // A copy on another device; the host's side is complete when it returns.
  Result<OwnedTensor> to(const Stream& from, const Stream& destination) const;

 private:
  Buffer buffer_;
  Dtype dtype_ = Dtype::f32;
  Shape shape_;
};

}  // namespace planck
