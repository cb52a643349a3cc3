#include "planck/core/allocator.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "planck/core/cuda/runtime.h"
#include "planck/core/workspace.h"

namespace planck {

namespace {

// Eight size classes to a power of two: at most 12.5 % is lost to rounding.
std::size_t size_class(Device device, std::size_t bytes) {
  const std::size_t smallest = device.kind == DeviceKind::cuda ? 512 : 64;
  if (bytes <= smallest) return smallest;
  const std::size_t step = std::bit_floor(bytes - 1) / 8;
  return (bytes + step - 1) / step * step;
}

// Blocks of one size and stream that wait to be used again. There is room for all that exist:
// freeing one takes no memory.
struct FreeList {
  std::vector<void*> blocks;
  std::size_t exist = 0, lent = 0;  // lent: to arenas, from where they come back

  void make_room() {
    const std::size_t all = exist + lent;
    if (blocks.capacity() <= all) blocks.reserve(std::max<std::size_t>(8, 2 * all));
  }
  // Null where none waits.
  void* take() {
    if (blocks.empty()) return nullptr;
    void* block = blocks.back();
    blocks.pop_back();
    return block;
  }
};

struct Pool {
  std::mutex mutex;
  // By stream, or arena, and capacity; none of blocks that exist is erased.
  std::map<std::pair<void*, std::size_t>, FreeList> free;
  std::set<void*> arenas;  // whose blocks stay theirs
  std::atomic<std::size_t> in_use{0}, cached{0}, peak{0};

  // Of a block that exists, so it is found.
  void put_back(void* stream, std::size_t capacity, void* block) {
    free.find({stream, capacity})->second.blocks.push_back(block);
  }
  void forget(void* stream, std::size_t capacity) {
    std::lock_guard lock(mutex);
    --free.find({stream, capacity})->second.exist;
  }
  // A block of an arena will not come back to its stream.
  void expect_less(void* stream, std::size_t capacity) {
    std::lock_guard lock(mutex);
    --free.find({stream, capacity})->second.lent;
  }
};

// How many allocations are served before one fails; negative: none fails.
std::atomic<std::int64_t> until_failure{-1};
bool fails_now() {
  if (until_failure.load(std::memory_order_relaxed) < 0) return false;
  return until_failure.fetch_sub(1, std::memory_order_relaxed) == 0;
}

// Pools outlive every static Buffer: they are never destroyed.
Pool& cpu_pool() {
  static Pool& pool = *new Pool;
  return pool;
}
Pool& pool(Device device) {
  if (device.kind == DeviceKind::cpu) return cpu_pool();
  static std::mutex mutex;
  static auto& pools = *new std::map<std::pair<DeviceKind, int>, Pool>;
  std::lock_guard lock(mutex);
  return pools[{device.kind, device.ordinal}];
}

// Small blocks of host memory that this thread let go of: taken again without a lock. What is left
// when the thread ends goes to the pool. A free block's first word points to the next one.
class SmallBlocks {
 public:
  static constexpr std::size_t kLargest = 4096, kMostOfAClass = 256;

  ~SmallBlocks() {
    hand_over();
    gone() = true;
  }
  // Null where none is left, or the thread is ending.
  static void* take(std::size_t capacity) {
    if (gone()) return nullptr;
    Class& c = mine().of(capacity);
    void* block = c.first;
    if (block == nullptr) return nullptr;
    std::memcpy(&c.first, block, sizeof(void*));
    --c.count;
    return block;
  }
  static bool keep(std::size_t capacity, void* block) {
    if (gone()) return false;
    Class& c = mine().of(capacity);
    if (c.count == kMostOfAClass) return false;
    std::memcpy(block, &c.first, sizeof(void*));
    c.first = block;
    ++c.count;
    return true;
  }
  // To the pool, from where they can be returned to the system.
  static void give_up() {
    if (!gone()) mine().hand_over();
  }

 private:
  struct Class {
    std::size_t capacity = 0, count = 0;
    void* first = nullptr;
  };
  void hand_over() {
    Pool& p = cpu_pool();
    std::lock_guard lock(p.mutex);
    for (Class& c : classes_) {
      while (c.first != nullptr) {
        void* block = c.first;
        std::memcpy(&c.first, block, sizeof(void*));
        p.put_back(nullptr, c.capacity, block);
      }
      c.count = 0;
    }
  }
  static SmallBlocks& mine() {
    thread_local SmallBlocks blocks;
    return blocks;
  }
  static bool& gone() {
    thread_local bool gone = false;
    return gone;
  }
  // Eight classes to a power of two, from 64 bytes on.
  Class& of(std::size_t capacity) {
    const auto power = static_cast<std::size_t>(std::bit_width(capacity - 1));
    const std::size_t eighth = (capacity - 1) >> (power - 4) & 7;
    Class& c = classes_[(power - 6) * 8 + eighth];
    c.capacity = capacity;
    return c;
  }
  std::array<Class, (13 - 6) * 8> classes_;
};

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

constinit thread_local const Arena* used_arena = nullptr;

void system_release(Device device, void* p) {
  if (device.kind == DeviceKind::cuda)
    cuda::release(device.ordinal, p);
  else
    std::free(p);
}

}  // namespace

Result<Buffer> allocate(const Stream& stream, std::size_t bytes) {
  const Device device = stream.device();
  const std::size_t capacity = size_class(device, bytes);
  if (capacity < bytes || fails_now()) {  // it wrapped, or a test wants to see it fail
    return fail(ErrorCode::out_of_memory,
                fmt::format("{}: no memory for {} bytes", to_string(device), bytes));
  }
  Pool& p = pool(device);
  Buffer buffer;
  const Arena* arena = used_arena;
  if (arena != nullptr && (arena->device_ != device || arena->stream_ != stream.native()))
    arena = nullptr;
  void* const owner = arena == nullptr ? stream.native() : arena->owner_;
  if (device.kind == DeviceKind::cpu && capacity <= SmallBlocks::kLargest && arena == nullptr)
    buffer.data_ = SmallBlocks::take(capacity);
  if (buffer.data_ == nullptr) {
    std::lock_guard lock(p.mutex);
    FreeList& list = p.free[{owner, capacity}];
    buffer.data_ = list.take();
    if (buffer.data_ == nullptr && arena != nullptr) {
      FreeList& home = p.free[{stream.native(), capacity}];
      list.make_room();
      ++home.lent;
      home.make_room();
      buffer.data_ = home.take();
      if (buffer.data_ != nullptr) --home.exist;
      ++list.exist;
    } else if (buffer.data_ == nullptr) {
      list.make_room();  // for the block that is asked of the system now
      ++list.exist;
    }
  }
  if (buffer.data_ != nullptr) {
    p.cached.fetch_sub(capacity, std::memory_order_relaxed);
  } else {
    auto fresh = system_allocate(device, capacity);
    if (!fresh && fresh.error().code == ErrorCode::out_of_memory) {
      release_cached(device);
      fresh = system_allocate(device, capacity);
    }
    if (!fresh) {
      if (arena != nullptr) p.expect_less(stream.native(), capacity);
      p.forget(owner, capacity);
      return tl::unexpected(fresh.error());
    }
    buffer.data_ = *fresh;
  }
  buffer.bytes_ = bytes;
  buffer.capacity_ = capacity;
  buffer.device_ = device;
  buffer.owner_ = owner;
  buffer.small_ =
      device.kind == DeviceKind::cpu && capacity <= SmallBlocks::kLargest && arena == nullptr;
  const std::size_t now = p.in_use.fetch_add(capacity, std::memory_order_relaxed) + capacity;
  for (std::size_t peak = p.peak.load(std::memory_order_relaxed);
       now > peak && !p.peak.compare_exchange_weak(peak, now, std::memory_order_relaxed);) {
  }
  return buffer;
}

Buffer::~Buffer() {
  if (data_ == nullptr) return;
  Pool& p = pool(device_);
  p.in_use.fetch_sub(capacity_, std::memory_order_relaxed);
  p.cached.fetch_add(capacity_, std::memory_order_relaxed);
  if (small_ && SmallBlocks::keep(capacity_, data_)) return;
  std::lock_guard lock(p.mutex);
  p.put_back(owner_, capacity_, data_);
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(capacity_, other.capacity_);
  std::swap(device_, other.device_);
  std::swap(owner_, other.owner_);
  std::swap(small_, other.small_);
}

namespace {
// No address: those are even.
void* next_owner() {
  static std::atomic<std::uintptr_t> count{0};
  return reinterpret_cast<void*>(2 * count.fetch_add(1, std::memory_order_relaxed) + 1);
}
}  // namespace

Arena::Arena(const Stream& stream)
    : device_(stream.device()), stream_(stream.native()), owner_(next_owner()) {
  Pool& p = pool(device_);
  std::lock_guard lock(p.mutex);
  p.arenas.insert(owner_);
}
Arena::~Arena() {
  Pool& p = pool(device_);
  std::lock_guard lock(p.mutex);
  p.arenas.erase(owner_);
  for (auto at = p.free.lower_bound({owner_, 0});
       at != p.free.end() && at->first.first == owner_;) {
    FreeList &list = at->second, &home = p.free.find({stream_, at->first.second})->second;
    home.exist += list.blocks.size();
    home.lent -= list.exist;  // what somebody still holds stays here
    list.exist -= list.blocks.size();
    home.blocks.insert(home.blocks.end(), list.blocks.begin(), list.blocks.end());
    list.blocks.clear();
    at = list.exist == 0 ? p.free.erase(at) : std::next(at);
  }
}
std::size_t Arena::bytes() const {
  Pool& p = pool(device_);
  std::lock_guard lock(p.mutex);
  std::size_t all = 0;
  for (auto at = p.free.lower_bound({owner_, 0}); at != p.free.end() && at->first.first == owner_;
       ++at)
    all += at->first.second * at->second.exist;
  return all;
}
Arena::Use::Use(const Arena& arena) { used_arena = &arena; }
Arena::Use::~Use() { used_arena = nullptr; }

AllocatorStats allocator_stats(Device device) {
  const Pool& p = pool(device);
  return {p.in_use.load(std::memory_order_relaxed), p.cached.load(std::memory_order_relaxed),
          p.peak.load(std::memory_order_relaxed)};
}

void reset_peak(Device device) {
  Pool& p = pool(device);
  p.peak.store(p.in_use.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void release_cached(Device device) {
  if (device.kind == DeviceKind::cpu) SmallBlocks::give_up();
  Pool& p = pool(device);
  std::lock_guard lock(p.mutex);
  for (auto& [key, list] : p.free) {
    if (p.arenas.contains(key.first)) continue;  // work that is recorded uses them
    for (void* block : list.blocks) system_release(device, block);
    p.cached.fetch_sub(key.second * list.blocks.size(), std::memory_order_relaxed);
    list.exist -= list.blocks.size();
    list.blocks.clear();
  }
}

void fail_allocation(std::int64_t nth) { until_failure.store(nth, std::memory_order_relaxed); }

}  // namespace planck
