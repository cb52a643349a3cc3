#include "planck/io/output_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace planck {

namespace {

constexpr std::string_view kEnd = ".partial";
constexpr int kDigits = 16, kTries = 100;

std::atomic<std::size_t> committed_count{0};

// ".NAME." of the hidden files of a target; long names are cut, so that the rest fits.
std::string aside_prefix(const std::string& target) {
  return fmt::format(".{}.", std::filesystem::path(target).filename().string().substr(0, 200));
}

std::string aside_name(const std::string& directory, const std::string& target) {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number)
    number =
        static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) *
        0x9e3779b97f4a7c15u;
  return fmt::format("{}/{}{:016x}{}", directory, aside_prefix(target), number, kEnd);
}

bool is_aside_of(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(kEnd)) return false;
  const auto digits = name.substr(prefix.size(), name.size() - prefix.size() - kEnd.size());
  return digits.size() == kDigits && digits.find_first_not_of("0123456789abcdef") == digits.npos;
}

}  // namespace

tl::unexpected<Error> OutputFile::io_error(std::string_view step) const {
  return fail(ErrorCode::io,
              fmt::format("{}: {}: {}", path_, step, std::generic_category().message(errno)));
}

Result<OutputFile> OutputFile::create(const std::string& path, Aside aside, unsigned mode) {
  OutputFile out;
  out.path_ = path;
  if (path.empty() || path.back() == '/')
    return fail(ErrorCode::io, fmt::format("{}: names no file", path));
  struct stat link {
  }, status{};
  const bool is_link = lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode);
  const bool exists = stat(path.c_str(), &status) == 0;
  if (is_link && !exists) return out.io_error("is a link that cannot be followed");
  if (exists && !S_ISREG(status.st_mode))
    return fail(ErrorCode::io,
                fmt::format("{}: {}, only a regular file can be replaced", path,
                            S_ISDIR(status.st_mode) ? "is a directory" : "is a device or a pipe"));
  std::error_code failed;
  const auto resolved = std::filesystem::weakly_canonical(path, failed);
  out.target_ = failed || resolved.empty() ? path : resolved.string();
  out.directory_ = std::filesystem::absolute(out.target_, failed).parent_path().string();
  out.sweep();
  if (auto ok = out.open_aside(aside, mode); !ok) return tl::unexpected(ok.error());
  if (exists) out.take_over_mode();
  return out;
}

Result<void> OutputFile::open_aside(Aside aside, unsigned mode) {
  if (aside == Aside::nameless_where_possible)
    file_ = open(directory_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
  for (int i = 0; file_ < 0 && i < kTries; ++i) {
    aside_ = aside_name(directory_, target_);
    file_ = open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file_ < 0 && errno != EEXIST) break;
    // Another process may have swept it before it was locked.
    if (struct stat status{}; file_ >= 0 && flock(file_, LOCK_EX) == 0 &&
                              fstat(file_, &status) == 0 && status.st_nlink == 0)
      close(std::exchange(file_, -1));
  }
  if (file_ < 0) {
    aside_.clear();
    return io_error("cannot create");
  }
  if (aside_.empty()) (void)flock(file_, LOCK_EX);
  return {};
}

// A secret must not become readable by being written again. Bits for a group are given only to the
// group that had them.
void OutputFile::take_over_mode() {
  struct stat old {
  }, fresh{};
  if (stat(target_.c_str(), &old) != 0 || fstat(file_, &fresh) != 0) return;
  mode_t mode = old.st_mode & 07777;
  if ((old.st_uid != fresh.st_uid || old.st_gid != fresh.st_gid) &&
      fchown(file_, old.st_uid, old.st_gid) != 0 && fchown(file_, fresh.st_uid, old.st_gid) != 0)
    mode &= static_cast<mode_t>(~070u);
  (void)fchmod(file_, mode & 0777u);
}

// Hidden files of the same target that no process holds.
void OutputFile::sweep() const {
  DIR* const folder = opendir(directory_.c_str());
  if (folder == nullptr) return;
  const std::string prefix = aside_prefix(target_);
  while (const dirent* entry = readdir(folder)) {
    if (!is_aside_of(entry->d_name, prefix)) continue;
    const std::string name = directory_ + "/" + entry->d_name;
    // Its mode is that of what it was to replace: it may be read, or written, or both.
    int file = open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) file = open(name.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) continue;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) (void)unlink(name.c_str());
    close(file);
  }
  closedir(folder);
}

std::size_t OutputFile::committed() { return committed_count.load(); }
void OutputFile::count_folder() { ++committed_count; }

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
  const std::string self = fmt::format("/proc/self/fd/{}", file_);
  for (int i = 0; aside_.empty(); ++i) {
    const std::string name = aside_name(directory_, target_);
    if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0)
      aside_ = name;
    else if (errno != EEXIST || i == kTries)
      return io_error("cannot name");
  }
  return {};
}

// Once the rename is done the new file is in place, and nothing is an error any more: a folder that
// cannot be opened, or not be made durable, costs what a power failure in this second would take.
Result<void> OutputFile::commit(Counted counted) {
  if (file_ < 0) return fail(ErrorCode::io, fmt::format("{}: committed twice", path_));
  if (fsync(file_) != 0) return io_error("cannot make durable");
  if (auto ok = give_name(); !ok) return ok;
  if (rename(aside_.c_str(), target_.c_str()) != 0) return io_error("cannot rename");
  aside_.clear();
  if (counted == Counted::at_once) ++committed_count;
  close(std::exchange(file_, -1));  // not before: its lock keeps others from sweeping the name
  if (const int directory = open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      directory >= 0) {
    (void)fsync(directory);
    close(directory);
  }
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
