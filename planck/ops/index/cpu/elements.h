// What the CPU kernels of the family share: elements as unsigned integers of their size, indices of
// either dtype, plain copies.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "planck/core/stream.h"
#include "planck/ops/index/host/items.h"

namespace planck::index_detail {

inline constexpr std::int64_t kTaskItems = 1 << 16;
inline std::int64_t task_count(std::int64_t items) { return (items + kTaskItems - 1) / kTaskItems; }

// Calls f with an unsigned integer of the element's size.
template <class F>
auto with_bytes(Dtype t, F&& f) {
  switch (storage_bytes(t)) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}
template <class F>
auto with_index(Dtype t, F&& f) {
  return t == Dtype::i64 ? f(std::int64_t{}) : f(std::int32_t{});
}

inline bool outside(std::int64_t index, std::int64_t extent) {
  return static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(extent);
}

// The counter of bad indices: set to 0, then added to by any thread. The order of integer sums does
// not matter.
class BadIndices {
 public:
  explicit BadIndices(const View& v)
      : counter_(v.present ? static_cast<std::int64_t*>(v.data) : nullptr) {
    if (counter_ != nullptr) *counter_ = 0;
  }
  void add(std::int64_t n) const {
    if (n != 0 && counter_ != nullptr)
      std::atomic_ref(*counter_).fetch_add(n, std::memory_order_relaxed);
  }

 private:
  std::int64_t* counter_;
};

// Counts the entries of a list outside of [0, extent).
void count_bad(const View& index, std::int64_t extent, const BadIndices& bad);

// to = from, or zeros where `from` is absent: bits as they are. Same shapes.
void copy_elements(const Stream& stream, const View& from, const View& to);

}  // namespace planck::index_detail
