#include "planck/backend/staging.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <vector>

#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"

namespace planck::backend_detail {

namespace {

constexpr std::size_t kLargest = std::size_t{32} << 20, kAll = std::size_t{128} << 20;

// Pinned blocks, each with a mark behind the copy that reads it.
class Staging {
 public:
  struct Block {
    void* data = nullptr;
    std::size_t capacity = 0;
    void* event = nullptr;
    int ordinal = 0;
  };
  static Staging& shared() {
    static auto& all = *new Staging;  // copies may be under way at exit
    return all;
  }

  // One that nobody reads any more; of no capacity where there is none.
  Block take(int ordinal, std::size_t bytes) {
    std::lock_guard lock(mutex_);
    for (auto at = waiting_.begin(); at != waiting_.end(); ++at)
      if (at->ordinal == ordinal && at->capacity >= bytes && at->capacity <= 4 * least(bytes) &&
          cuda::reached(at->event)) {
        const Block block = *at;
        waiting_.erase(at);
        return block;
      }
    const std::size_t capacity = least(bytes);
    if (all_ + capacity > kAll) return {};
    auto data = cuda::allocate_pinned(capacity);
    if (!data) return {};
    auto event = cuda::create_event(ordinal);
    if (!event) {
      cuda::release_pinned(*data);
      return {};
    }
    all_ += capacity;
    return {*data, capacity, *event, ordinal};
  }
  void put(const Block& block) {
    std::lock_guard lock(mutex_);
    waiting_.push_back(block);
  }

 private:
  static std::size_t least(std::size_t bytes) {
    return std::bit_ceil(std::max<std::size_t>(bytes, 4096));
  }
  std::mutex mutex_;
  std::vector<Block> waiting_;
  std::size_t all_ = 0;
};

}  // namespace

void copy_from_host(const Stream& stream, void* to, const void* from, std::size_t bytes) {
  const int ordinal = stream.device().ordinal;
  Staging::Block block;
  if (bytes <= kLargest) block = Staging::shared().take(ordinal, bytes);
  if (block.data == nullptr) {
    value_or_throw(cuda::copy_to_device(ordinal, stream.native(), to, from, bytes));
    return value_or_throw(stream.synchronize());
  }
  std::memcpy(block.data, from, bytes);
  const auto copied =
      cuda::copy_to_device(ordinal, stream.native(), to, block.data, bytes).and_then([&] {
        return cuda::record(ordinal, stream.native(), block.event);
      });
  if (!copied) (void)stream.synchronize();
  Staging::shared().put(block);
  if (!copied) throw Exception(copied.error());
}

}  // namespace planck::backend_detail
