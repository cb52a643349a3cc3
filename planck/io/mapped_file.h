// A file mapped into memory, read-only. Move-only.
//
// Pages are read when they are touched. The file must not be made shorter while it is mapped: the
// system answers an access beyond its end with SIGBUS, of which a program that handles it learns
// the file from path_of_mapping. Replacing it by rename is harmless, the mapping keeps the old
// contents.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "planck/core/result.h"

namespace planck {

class MappedFile {
 public:
  // Only regular files; ErrorCode::io names the path and the reason.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept { swap(other); }
  MappedFile& operator=(MappedFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // The path of the file that is mapped at an address, as it was opened; null where none is known.
  // Safe in a signal handler. The last 64 mappings are known, and of a path 255 bytes.
  static const char* path_of_mapping(const void* address);

  // Hints. expect: these bytes are read next. forget: they are not needed soon; their pages leave
  // this process's memory, and come back from the file when they are touched again.
  void expect(std::span<const std::byte> part) const;
  void forget(std::span<const std::byte> part) const;

 private:
  void swap(MappedFile& other) noexcept;

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace planck
