#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "tools/planck/checkpoint/checkpoint_output.h"

namespace planck::cli {

namespace fs = std::filesystem;

namespace {

tl::unexpected<Error> refuse(const std::string& path, std::string_view why) {
  return fail(ErrorCode::io, fmt::format("{}: {}", path, why));
}
tl::unexpected<Error> failed(const std::string& path, std::string_view step, int code) {
  return refuse(path, fmt::format("{}: {}", step, std::generic_category().message(code)));
}

std::string prefix_of(const fs::path& target) {
  return fmt::format(".{}.partial-", target.filename().string());
}

int open_folder(const fs::path& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

// A folder, locked by who made it; -1 where a sweeper was faster.
int lock_new(const fs::path& path) {
  const int lock = open_folder(path);
  struct stat locked {
  }, there{};
  if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0 && fstat(lock, &locked) == 0 &&
      stat(path.c_str(), &there) == 0 && locked.st_ino == there.st_ino)
    return lock;
  if (lock >= 0) close(lock);
  return -1;
}

// Folders aside whose makers are gone: nobody holds their lock.
void sweep(const fs::path& target) {
  std::error_code ignored;
  const fs::path parent = target.parent_path();
  for (fs::directory_iterator it(parent, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    if (!it->path().filename().string().starts_with(prefix_of(target))) continue;
    const int lock = open_folder(it->path());
    const bool alive = lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0;
    std::error_code quiet;
    if (lock >= 0 && !alive) fs::remove_all(it->path(), quiet);
    if (lock >= 0) close(lock);
  }
}

}  // namespace

Result<PartialFolder> PartialFolder::create(const std::string& target) {
  std::error_code code;
  fs::path full = fs::absolute(target, code).lexically_normal();
  if (full.filename().empty()) full = full.parent_path();  // "out/"
  const fs::file_status status = fs::status(full, code);
  if (fs::exists(status) && !fs::is_directory(status))
    return refuse(target, "is a file, a folder of shards is written here");
  if (fs::is_directory(status) && !fs::is_empty(full, code))
    return refuse(target, "is a folder with files in it; name a new one, or remove it");
  fs::create_directories(full.parent_path(), code);
  sweep(full);
  PartialFolder aside;
  aside.target_ = full.string();
  std::random_device random;
  for (int attempt = 0; attempt < 8 && aside.path_.empty(); ++attempt) {
    const std::string path =
        (full.parent_path() / fmt::format("{}{:08x}", prefix_of(full), random())).string();
    if (mkdir(path.c_str(), 0777) == 0) {
      aside.lock_ = lock_new(path);
      if (aside.lock_ >= 0) aside.path_ = path;
    } else if (errno != EEXIST) {
      return failed(target, "cannot create", errno);
    }
  }
  if (aside.path_.empty()) return refuse(target, "cannot create a folder aside");
  return aside;
}

Result<void> PartialFolder::rename_to_target() {
  if (rename(path_.c_str(), target_.c_str()) != 0) return failed(target_, "cannot rename", errno);
  path_.clear();
  const int parent =
      ::open(fs::path(target_).parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent >= 0) {
    (void)fsync(parent);
    close(parent);
  }
  return {};
}

PartialFolder::~PartialFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (lock_ >= 0) close(lock_);
}

void PartialFolder::swap(PartialFolder& other) noexcept {
  std::swap(target_, other.target_);
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
}

}  // namespace planck::cli
