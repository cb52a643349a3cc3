#include "planck/core/allocator.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "planck/core/cuda_runtime.h"
#include "planck/core/workspace.h"

namespace planck {

namespace {

// Eight size classes to a power of two: at most 12.5 % is lost to rounding.
std::size_t size_class(std::size_t bytes) {
  constexpr std::size_t kSmallest = 512;
  if (bytes <= kSmallest) return kSmallest;
  const std::size_t step = std::bit_floor(bytes - 1) / 8;
  return (bytes + step - 1) / step * step;
}

struct Pool {
  std::mutex mutex;
  std::map<std::pair<void*, std::size_t>, std::vector<void*>> free;  // (stream, capacity) → blocks
  AllocatorStats stats{0, 0};
};

// Pools outlive every static Buffer: they are never destroyed.
Pool& pool(Device device) {
  static std::mutex mutex;
  static auto& pools = *new std::map<std::pair<DeviceKind, int>, Pool>;
  std::lock_guard lock(mutex);
  return pools[{device.kind, device.ordinal}];
}

Result<void*> system_allocate(Device device, std::size_t bytes) {
  if (device.kind == DeviceKind::cuda) return cuda::allocate(device.ordinal, bytes);
  // Pages of 2 MiB make the first touch of large blocks, and walks across their rows, several times
  // cheaper where the system grants them.
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const bool large = bytes >= 2 * kHugePage;
  const std::size_t alignment = large ? kHugePage : kWorkspaceAlignment;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* p = rounded < bytes ? nullptr : std::aligned_alloc(alignment, rounded);
  if (p == nullptr)
    return fail(ErrorCode::out_of_memory, fmt::format("cpu: no memory for {} bytes", bytes));
  if (large) (void)madvise(p, rounded, MADV_HUGEPAGE);
  return p;
}

void system_release(Device device, void* p) {
  if (device.kind == DeviceKind::cuda)
    cuda::release(device.ordinal, p);
  else
    std::free(p);
}

}  // namespace

Result<Buffer> allocate(const Stream& stream, std::size_t bytes) {
  const Device device = stream.device();
  const std::size_t capacity = size_class(bytes);
  if (capacity < bytes) {  // it wrapped
    return fail(ErrorCode::out_of_memory,
                fmt::format("{}: no memory for {} bytes", to_string(device), bytes));
  }
  Pool& p = pool(device);
  Buffer buffer;
  {
    std::lock_guard lock(p.mutex);
    if (auto it = p.free.find({stream.native(), capacity});
        it != p.free.end() && !it->second.empty()) {
      buffer.data_ = it->second.back();
      it->second.pop_back();
      p.stats.cached -= capacity;
    }
  }
  if (buffer.data_ == nullptr) {
    auto fresh = system_allocate(device, capacity);
    if (!fresh && fresh.error().code == ErrorCode::out_of_memory) {
      release_cached(device);
      fresh = system_allocate(device, capacity);
    }
    if (!fresh) return tl::unexpected(fresh.error());
    buffer.data_ = *fresh;
  }
  buffer.bytes_ = bytes;
  buffer.capacity_ = capacity;
  buffer.device_ = device;
  buffer.stream_ = stream.native();
  std::lock_guard lock(p.mutex);
  p.stats.in_use += capacity;
  return buffer;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  Pool& p = pool(device_);
  std::lock_guard lock(p.mutex);
  p.free[{stream_, capacity_}].push_back(data_);
  p.stats.in_use -= capacity_;
  p.stats.cached += capacity_;
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(capacity_, other.capacity_);
  std::swap(device_, other.device_);
  std::swap(stream_, other.stream_);
}

AllocatorStats allocator_stats(Device device) {
  Pool& p = pool(device);
  std::lock_guard lock(p.mutex);
  return p.stats;
}

void release_cached(Device device) {
  Pool& p = pool(device);
  std::lock_guard lock(p.mutex);
  for (auto& [key, blocks] : p.free) {
    for (void* block : blocks) system_release(device, block);
    p.stats.cached -= key.second * blocks.size();
    blocks.clear();
  }
}

}  // namespace planck
