#include "planck/dist/addition.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "planck/core/allocator.h"
#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"
#include "planck/core/refuse.h"

namespace planck::dist {

namespace {

template <class T>
void add_floats(const void* left, const void* right, void* sum, std::int64_t count) {
  const auto* a = static_cast<const T*>(left);
  const auto* b = static_cast<const T*>(right);
  auto* s = static_cast<T*>(sum);
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = a[i] + b[i];
    s[i] = value == value ? value : std::numeric_limits<T>::quiet_NaN();
  }
}

constexpr std::int64_t kChunk = 4096;  // elements: what is added lies in the first caches

}  // namespace

void add_on_host(const Stream&, Dtype dtype, const void* left, const void* right, void* sum,
                 std::int64_t count) {
  if (dtype == Dtype::f32) return add_floats<float>(left, right, sum, count);
  if (dtype == Dtype::f64) return add_floats<double>(left, right, sum, count);
  if (dtype != Dtype::i32) refuse("add: {}, it must be f32, f64 or i32", {dtype});
  const auto* a = static_cast<const std::uint32_t*>(left);
  const auto* b = static_cast<const std::uint32_t*>(right);
  auto* s = static_cast<std::uint32_t*>(sum);
  for (std::int64_t i = 0; i < count; ++i) s[i] = a[i] + b[i];
}

void join(Addition add, const Stream& stream, const Joining& joining,
          std::span<const void* const> values, void* sum, std::int64_t count, Dtype dtype) {
  const std::size_t size = bytes_for(dtype, 1);
  const auto at = [&](const void* p, std::int64_t i) {
    return static_cast<const std::byte*>(p) + static_cast<std::size_t>(i) * size;
  };
  auto* out = static_cast<std::byte*>(sum);
  const bool on_host = stream.device().kind == DeviceKind::cpu;
  if (values.size() == 1) {
    const std::size_t bytes = bytes_for(dtype, count);
    if (!on_host)
      value_or_throw(
          cuda::copy_on_device(stream.device().ordinal, stream.native(), out, values[0], bytes));
    else if (bytes > 0)
      std::memcpy(out, values[0], bytes);
    return;
  }
  // Partial sums wait on a stack; the lowest of them lies where the result goes.
  const std::int64_t chunk = on_host ? std::min(count, kChunk) : count;
  const std::size_t room = (bytes_for(dtype, chunk) + 63) / 64 * 64;
  const Buffer waiting = value_or_throw(
      allocate(stream, std::max<std::size_t>(room * static_cast<std::size_t>(joining.depth), 1)));
  std::vector<const void*> stack(static_cast<std::size_t>(joining.depth));
  for (std::int64_t i = 0; i < count; i += chunk) {
    const std::int64_t n = std::min(chunk, count - i);
    std::size_t height = 0;
    for (std::size_t v = 0; v < values.size(); ++v) {
      stack[height++] = at(values[v], i);
      for (int m = 0; m < joining.merges[v]; ++m) {
        --height;
        void* to = height == 1 ? static_cast<void*>(out + static_cast<std::size_t>(i) * size)
                               : static_cast<std::byte*>(waiting.data()) + height * room;
        add(stream, dtype, stack[height - 1], stack[height], to, n);
        stack[height - 1] = to;
      }
    }
  }
}

}  // namespace planck::dist
