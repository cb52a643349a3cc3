// What Cpu and Cuda call a tensor: a view of storage that it shares with others. A value: copies
// are cheap and share the elements, and nothing ever writes to elements that someone else can see.
#pragma once

#include <memory>

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
  // Memory of someone else, which `owner` keeps alive. It is read alone.
  static Shared<Storage> borrow(const Stream& stream, void* data, std::size_t bytes,
                                std::shared_ptr<const void> owner);

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  const Stream& stream() const { return stream_; }
  // Whether the one who holds it may write to it: nobody else does, and it is not borrowed.
  bool writable() const noexcept { return unique() && !borrowed_; }
  bool borrowed() const noexcept { return borrowed_; }
  void release() noexcept {
    if (!drop()) return;
    if (borrowed_) wait();
    delete this;
  }

 private:
  Storage(Buffer buffer, const Stream& stream)
      : buffer_(std::move(buffer)),
        data_(buffer_.data()),
        bytes_(buffer_.bytes()),
        stream_(stream) {}
  Storage(const Stream& stream, void* data, std::size_t bytes, std::shared_ptr<const void> owner)
      : data_(data), bytes_(bytes), stream_(stream), owner_(std::move(owner)), borrowed_(true) {}
  void wait() noexcept;  // for work on a device that may still read

  Buffer buffer_;
  void* data_;
  std::size_t bytes_;
  Stream stream_;
  std::shared_ptr<const void> owner_;
  bool borrowed_ = false;
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
