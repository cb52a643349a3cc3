#include "planck/io/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace planck {

namespace {

auto io_error(const std::string& path, std::string_view step, int code) {
  return fail(ErrorCode::io,
              fmt::format("{}: {}: {}", path, step, std::generic_category().message(code)));
}

// The whole pages a part touches: pages shared with a neighbour cost at most a read from the page
// cache.
void advise(std::span<const std::byte> part, int advice) {
  if (part.empty()) return;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(part.data() + part.size());
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

// What a signal handler may read: slots in a chain that only grows. A slot whose file is mapped no
// more is taken for the next one.
struct Mapping {
  std::atomic<const std::byte*> begin{nullptr};
  std::atomic<std::size_t> size{0};
  std::atomic<bool> taken{false};
  char path[256] = {};
  Mapping* next = nullptr;
};
std::atomic<Mapping*> mappings{nullptr};

Mapping& free_slot() {
  for (Mapping* m = mappings; m != nullptr; m = m->next)
    if (!m->taken.exchange(true)) return *m;
  auto* m = new Mapping;  // for as long as the process lives
  m->taken = true;
  m->next = mappings;
  while (!mappings.compare_exchange_weak(m->next, m)) {
  }
  return *m;
}

void remember(const std::byte* data, std::size_t size, const std::string& path) {
  Mapping& m = free_slot();
  m.path[path.copy(m.path, sizeof m.path - 1)] = 0;
  m.size = size;
  m.begin = data;
}

void forget_mapping(const std::byte* data) {
  for (Mapping* m = mappings; m != nullptr; m = m->next)
    if (m->begin == data) {
      m->begin = nullptr;
      m->taken = false;
      return;
    }
}

}  // namespace

const char* MappedFile::path_of_mapping(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const Mapping* m = mappings; m != nullptr; m = m->next) {
    const auto begin = reinterpret_cast<std::uintptr_t>(m->begin.load());
    if (begin != 0 && at >= begin && at - begin < m->size) return m->path;
  }
  return nullptr;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe nobody writes to must not wait.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return io_error(path, "cannot open", errno);
  struct stat status {};
  if (fstat(file, &status) != 0) {
    const int code = errno;
    close(file);
    return io_error(path, "cannot open", code);
  }
  if (!S_ISREG(status.st_mode)) {
    close(file);
    return fail(ErrorCode::io,
                fmt::format("{}: {}, must be a regular file", path,
                            S_ISDIR(status.st_mode) ? "is a directory" : "is a device or a pipe"));
  }
  MappedFile mapped;
  mapped.size_ = static_cast<std::size_t>(status.st_size);
  if (mapped.size_ > 0) {
    void* data = mmap(nullptr, mapped.size_, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) {
      const int code = errno;
      close(file);
      mapped.size_ = 0;
      return io_error(path, "cannot map", code);
    }
    mapped.data_ = static_cast<const std::byte*>(data);
    remember(mapped.data_, mapped.size_, path);
  }
  close(file);
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  forget_mapping(data_);
  munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::swap(MappedFile& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

// Not MADV_SEQUENTIAL: it would split the mapping at every tensor, and a process may have 65530
// parts.
void MappedFile::expect(std::span<const std::byte> part) const { advise(part, MADV_WILLNEED); }

void MappedFile::forget(std::span<const std::byte> part) const { advise(part, MADV_DONTNEED); }

}  // namespace planck
