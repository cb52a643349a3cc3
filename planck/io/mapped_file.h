// A file mapped into memory, read-only. Move-only.
//
// Pages are read when they are touched. The file must not be made shorter while it is mapped: the
// system answers an access beyond its end with SIGBUS, which ends a program that does not handle
// it. Replacing the file by rename, as OutputFile does, is harmless: the mapping keeps the old
// contents. `planck` says which file it was, in one line; a program of yours can do the same:
//
//   void on_bus_error(int, siginfo_t* info, void*) {
//     if (const char* path = MappedFile::path_of_mapping(info->si_addr))
//       (void)!write(STDERR_FILENO, path, std::strlen(path));  // printf is not safe here
//     _exit(1);
//   }
//   struct sigaction action {};
//   action.sa_sigaction = on_bus_error;
//   action.sa_flags = SA_SIGINFO;
//   sigaction(SIGBUS, &action, nullptr);
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

  // The path of the file that is mapped at an address, as it was opened, up to 255 bytes of it;
  // null where none is. However many are mapped, each is known. Safe in a signal handler.
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
