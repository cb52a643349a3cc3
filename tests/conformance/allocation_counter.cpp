#include "tests/conformance/allocation_counter.h"

#include <cerrno>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

namespace planck::conformance {
AllocationCounter allocation_counter() { return nullptr; }
}  // namespace planck::conformance

#else

namespace {
thread_local std::size_t count = 0;
}

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  ++count;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t items, std::size_t bytes) {
  ++count;
  return __libc_calloc(items, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  ++count;
  return __libc_realloc(old, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  ++count;
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++count;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** to, std::size_t alignment, std::size_t bytes) {
  ++count;
  *to = __libc_memalign(alignment, bytes);
  return *to == nullptr ? ENOMEM : 0;
}
}

namespace planck::conformance {
AllocationCounter allocation_counter() {
  return [] { return count; };
}
}  // namespace planck::conformance

#endif
