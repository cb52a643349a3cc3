// What Cpu and Cuda call a tensor: a view of storage that it shares with others. A value: copies
// are cheap and share the elements, and nothing ever writes to elements that someone else can see.
#pragma once

#include "planck/core/allocator.h"
#include "planck/core/shared.h"
#include "planck/core/view.h"
#include "planck/plan/value_op.h"

namespace planck {

namespace backend_detail {
// The stream that tensors of a device use unless told otherwise.
Stream shared_stream(Device device);
}  // namespace backend_detail

// One block of memory and the stream it belongs to.
class Storage final : public Counted {
 public:
  // Uninitialized; throws where there is no memory.
  static Shared<Storage> allocate(const Stream& stream, std::size_t bytes);

  void* data() const { return buffer_.data(); }
  std::size_t bytes() const { return buffer_.bytes(); }
  const Stream& stream() const { return stream_; }
  void release() noexcept {
    if (drop()) delete this;
  }

 private:
  Storage(Buffer buffer, const Stream& stream) : buffer_(std::move(buffer)), stream_(stream) {}
  Buffer buffer_;
  Stream stream_;
};

// Elements of any kind.
struct StoredView {
  Shared<Storage> storage;
  View view;

  Dtype dtype() const { return view.dtype; }
  const Shape& shape() const { return view.shape; }
  const Stream& stream() const { return storage->stream(); }

  // Row-major, uninitialized.
  static StoredView empty(const Stream& stream, Dtype dtype, const Shape& shape);
};

template <class K>
struct Primitive : StoredView {
  using Kind = K;
};

}  // namespace planck
