// What fuzz targets hold their readers to.
#pragma once

#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "planck/core/result.h"

inline void hold(bool condition, const char* promise) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

inline void hold_error(const planck::Error& error) {
  hold(!error.message.empty() && error.message.size() < 1000, "an error is a short text");
  for (const char c : error.message)
    hold(static_cast<unsigned char>(c) >= 0x20, "an error is one line");
}

// The most memory that was held at a time while a reader ran: a small multiple of its file, however
// much the file claims. Fuzz targets have one thread.
class Memory {
 public:
  static constexpr std::size_t kBase = 64 << 10, kTimes = 32;

  // What read() gives.
  template <class Read>
  static auto held(std::size_t file_bytes, Read read) {
    count_allocations();
    live_ = most_ = 0;
    counting_ = true;
    auto result = read();
    counting_ = false;
    hold(most_ <= static_cast<std::ptrdiff_t>(kBase + kTimes * file_bytes),
         "memory is a small multiple of the file");
    return result;
  }

 private:
  static void count_allocations() {  // once, whatever is read
    static const int installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    hold(installed > 0, "allocations can be counted");
  }
  static void on_malloc(const volatile void*, std::size_t size) {
    if (!counting_) return;
    live_ += static_cast<std::ptrdiff_t>(size);
    most_ = std::max(most_, live_);
  }
  static void on_free(const volatile void* p) {
    if (counting_ && p != nullptr)
      live_ -=
          static_cast<std::ptrdiff_t>(__sanitizer_get_allocated_size(const_cast<const void*>(p)));
  }
  static inline bool counting_ = false;
  static inline std::ptrdiff_t live_ = 0, most_ = 0;
};
