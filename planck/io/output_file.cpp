#include "planck/io/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace planck {

namespace {

constexpr mode_t kMode = 0666;  // less the process's umask

std::string aside_name(const std::string& target) {
  static std::atomic<unsigned> count{0};
  const std::filesystem::path path(target);
  return (path.parent_path() / fmt::format(".{}.{}-{}.partial",
                                           path.filename().string().substr(0, 200), getpid(),
                                           count++))
      .string();
}

}  // namespace

tl::unexpected<Error> OutputFile::io_error(std::string_view step) const {
  return fail(ErrorCode::io,
              fmt::format("{}: {}: {}", path_, step, std::generic_category().message(errno)));
}

Result<OutputFile> OutputFile::create(const std::string& path, Aside aside) {
  OutputFile out;
  out.path_ = path;
  std::error_code ignored;
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(path, ignored);
  out.target_ = resolved.empty() ? path : resolved.string();
  if (path.empty() || path.back() == '/')
    return fail(ErrorCode::io, fmt::format("{}: names no file", path));
  out.directory_ = std::filesystem::absolute(out.target_, ignored).parent_path().string();
  struct stat status {};
  if (stat(out.target_.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return fail(ErrorCode::io,
                fmt::format("{}: {}, only a regular file can be replaced", path,
                            S_ISDIR(status.st_mode) ? "is a directory" : "is a device or a pipe"));
  if (aside == Aside::nameless_where_possible)
    out.file_ = open(out.directory_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
  if (out.file_ < 0) {
    out.aside_ = aside_name(out.target_);
    out.file_ = open(out.aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
    if (out.file_ < 0) {
      out.aside_.clear();
      return out.io_error("cannot create");
    }
  }
  return out;
}

Result<void> OutputFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (file_ < 0) return fail(ErrorCode::io, fmt::format("{}: written to after commit", path_));
  while (!bytes.empty()) {
    const ssize_t n = pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error("cannot write");
    if (n == 0) {
      errno = ENOSPC;
      return io_error("cannot write");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

// link() does not replace, so a nameless file takes a name aside first and is renamed from there.
Result<void> OutputFile::give_name() {
  if (!aside_.empty()) return {};
  const std::string name = aside_name(target_);
  if (linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", file_).c_str(), AT_FDCWD, name.c_str(),
             AT_SYMLINK_FOLLOW) != 0)
    return io_error("cannot name");
  aside_ = name;
  return {};
}

Result<void> OutputFile::commit() {
  if (file_ < 0) return fail(ErrorCode::io, fmt::format("{}: committed twice", path_));
  if (fsync(file_) != 0) return io_error("cannot make durable");
  if (auto ok = give_name(); !ok) return ok;
  if (close(std::exchange(file_, -1)) != 0) return io_error("cannot close");
  if (rename(aside_.c_str(), target_.c_str()) != 0) return io_error("cannot rename");
  aside_.clear();
  const int directory = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return io_error("cannot make durable");
  // EINVAL: a file system that has no need of it.
  const bool durable = fsync(directory) == 0 || errno == EINVAL;
  const int code = errno;
  close(directory);
  errno = code;
  if (!durable) return io_error("cannot make durable");
  return {};
}

OutputFile::~OutputFile() {
  if (file_ >= 0) close(file_);
  if (!aside_.empty()) (void)unlink(aside_.c_str());
}

void OutputFile::swap(OutputFile& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(target_, other.target_);
  std::swap(directory_, other.directory_);
  std::swap(aside_, other.aside_);
  std::swap(file_, other.file_);
}

}  // namespace planck
