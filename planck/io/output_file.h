// A file that appears under its name complete, or not at all.
//
// Bytes go to a file aside, in the directory of the target: one without a name where the file
// system has such files, so that a process killed while it writes leaves nothing behind, else a
// hidden one, .NAME.16 hex digits.partial, that the destructor removes. What a killed process left
// of that name is removed by the next that writes to the same target; a lock tells it from one that
// is being written. commit() makes the bytes durable and renames the file over the target. Until
// then whatever stood under the name stays as it was; a commit that fails has replaced nothing.
//
// A file that is replaced keeps its mode, and its owner and group where the process may set them. A
// symbolic link is followed and stays; one that leads nowhere or in a circle is refused, and so is
// anything but a regular file.
//
// Every failure is ErrorCode::io with the path and the system's reason. A process that wants a file
// size limit (RLIMIT_FSIZE) reported rather than be killed by it must ignore SIGXFSZ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "planck/core/result.h"

namespace planck {

class OutputFile {
 public:
  enum class Aside : std::uint8_t { nameless_where_possible, named };
  // A file of a folder that is itself aside is in place when the folder is.
  enum class Counted : std::uint8_t { at_once, with_its_folder };

  // `mode` is that of a new file, less the process's umask.
  static Result<OutputFile> create(const std::string& path,
                                   Aside aside = Aside::nameless_where_possible,
                                   unsigned mode = 0666);

  OutputFile(OutputFile&& other) noexcept { swap(other); }
  OutputFile& operator=(OutputFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~OutputFile();

  // Anywhere in the file, in any order; gaps read as zeros.
  [[nodiscard]] Result<void> write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  // Once; nothing can be written after it.
  [[nodiscard]] Result<void> commit(Counted counted = Counted::at_once);
  // How many files, and folders of files, this process has put in place.
  static std::size_t committed();
  static void count_folder();  // for who has put one in place

 private:
  OutputFile() = default;
  void swap(OutputFile& other) noexcept;
  tl::unexpected<Error> io_error(std::string_view step) const;  // with errno's reason
  Result<void> open_aside(Aside aside, unsigned mode);
  void take_over_mode();
  Result<void> give_name();
  void sweep() const;

  std::string path_;       // as the caller wrote it
  std::string target_;     // the same with links followed
  std::string directory_;  // where that lies
  std::string aside_;      // "": the file has no name yet
  int file_ = -1;
};

}  // namespace planck
