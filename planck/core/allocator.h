// A caching allocator per device, for owners of tensors.
//
// A released block is kept and given out again for a request of its size class: fresh pages and
// cudaMalloc cost far more than most kernels. On CUDA a block belongs to the stream it was
// requested on and is only reused there, so reuse is ordered behind the work that still reads it.
// When memory runs out, cached blocks go back to the system and the request is tried once more.
// Small host blocks are kept by the thread that released them, and taken again without a lock. Safe
// to call from any thread. Giving a block back never fails and takes no memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "planck/core/stream.h"

namespace planck {

// Owns one block; gives it back when destroyed. Aligned to 64 bytes at least.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer();

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  friend Result<Buffer> allocate(const Stream&, std::size_t);
  void swap(Buffer& other) noexcept;

  void* data_ = nullptr;
  std::size_t bytes_ = 0, capacity_ = 0;
  Device device_;
  void* owner_ = nullptr;  // a stream or an arena
  bool small_ = false;     // of the thread's own cache
};

[[nodiscard]] Result<Buffer> allocate(const Stream& stream, std::size_t bytes);

// Memory for work that is recorded and run again (recording.h). What a thread requests on the
// stream while an Arena is in use comes from it, cached blocks of the stream first; what is let go
// of goes back to it, and nobody else is given it as long as the Arena lives. Then its blocks are
// the stream's.
class Arena {
 public:
  explicit Arena(const Stream& stream);
  Arena(const Arena&) = delete;
  ~Arena();

  // One at a time in a thread.
  class Use {
   public:
    explicit Use(const Arena& arena);
    Use(const Use&) = delete;
    ~Use();
  };
  std::size_t bytes() const;  // of all its blocks

 private:
  friend Result<Buffer> allocate(const Stream&, std::size_t);
  Device device_;
  void* stream_;
  void* owner_;  // stands for it where others have their stream
};

struct AllocatorStats {
  std::size_t in_use, cached;  // bytes
  std::size_t peak;            // the most in use since reset_peak
};
AllocatorStats allocator_stats(Device device);
void reset_peak(Device device);
void release_cached(Device device);
// For tests: of the allocations that follow, on any device, the n-th (from 0) finds no memory. A
// negative number: none.
void fail_allocation(std::int64_t nth);

}  // namespace planck
