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

constexpr std::size_t kDigits = 8;  // of a folder aside, hexadecimal

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

bool is_aside_of(const fs::path& target, const std::string& name) {
  const std::string prefix = prefix_of(target);
  return name.size() == prefix.size() + kDigits && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789abcdef", prefix.size()) == name.npos;
}

// Folders aside whose makers are gone: nobody holds their lock.
void sweep(const fs::path& target) {
  std::error_code ignored;
  const fs::path parent = target.parent_path();
  for (fs::directory_iterator it(parent, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    if (!is_aside_of(target, it->path().filename().string())) continue;
    const int lock = open_folder(it->path());
    const bool alive = lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0;
    std::error_code quiet;
    if (lock >= 0 && !alive) fs::remove_all(it->path(), quiet);
    if (lock >= 0) close(lock);
  }
}

// Where the folder will be, links followed; an error where a folder cannot be put there.
Result<fs::path> resolved(const std::string& target) {
  std::error_code code;
  fs::path full = fs::absolute(target, code).lexically_normal();
  if (full.filename().empty()) full = full.parent_path();  // "out/"
  if (fs::is_symlink(fs::symlink_status(full, code))) {
    full = fs::canonical(full, code);
    if (code) return failed(target, "is a link that cannot be followed", code.value());
  }
  struct stat folder {
  }, parent{};
  if (stat(full.c_str(), &folder) != 0) return full;
  if (!S_ISDIR(folder.st_mode))
    return refuse(target, "is a file, a folder of shards is written here");
  const bool empty = fs::is_empty(full, code);
  if (code) return failed(target, "cannot read the folder", code.value());
  if (!empty) return refuse(target, "is a folder with files in it; name a new one, or remove it");
  if (stat(full.parent_path().c_str(), &parent) == 0 && parent.st_dev != folder.st_dev)
    return refuse(target,
                  "is where a file system is mounted, so cannot be replaced; name a folder "
                  "inside it");
  return full;
}

}  // namespace

Result<void> PartialFolder::make_parents(const std::string& target) {
  std::error_code code;
  std::vector<std::string> missing;
  for (fs::path p = fs::path(target_).parent_path(); !p.empty() && !fs::exists(p, code);
       p = p.parent_path())
    missing.push_back(p.string());
  for (; !missing.empty(); missing.pop_back()) {
    if (mkdir(missing.back().c_str(), 0777) == 0)
      parents_.push_back(missing.back());
    else if (errno != EEXIST)
      return failed(target, "cannot create", errno);
  }
  return {};
}

Result<void> PartialFolder::make_aside(const std::string& target, unsigned mode) {
  const fs::path full = target_;
  std::random_device random;
  for (int attempt = 0; attempt < 8 && path_.empty(); ++attempt) {
    const std::string path =
        (full.parent_path() / fmt::format("{}{:0{}x}", prefix_of(full), random(), kDigits))
            .string();
    if (mkdir(path.c_str(), mode) != 0) {
      if (errno != EEXIST) return failed(target, "cannot create", errno);
      continue;
    }
    lock_ = lock_new(path);
    if (lock_ >= 0) path_ = path;
  }
  if (path_.empty()) return refuse(target, "cannot create a folder aside");
  return {};
}

Result<PartialFolder> PartialFolder::create(const std::string& target, unsigned mode) {
  const auto full = resolved(target);
  if (!full) return tl::unexpected(full.error());
  PartialFolder aside;
  aside.target_ = full->string();
  if (auto ok = aside.make_parents(target); !ok) return tl::unexpected(ok.error());
  sweep(*full);
  if (auto ok = aside.make_aside(target, mode); !ok) return tl::unexpected(ok.error());
  struct stat old {
  }, fresh{};
  if (fstat(aside.lock_, &fresh) != 0) return failed(target, "cannot create", errno);
  aside.mode_ = fresh.st_mode & 07777u;
  if (stat(full->c_str(), &old) == 0) {  // bits for a group only to the group that had them
    aside.mode_ = old.st_mode & 07777u;
    if ((old.st_uid != fresh.st_uid || old.st_gid != fresh.st_gid) &&
        fchown(aside.lock_, old.st_uid, old.st_gid) != 0 &&
        fchown(aside.lock_, fresh.st_uid, old.st_gid) != 0)
      aside.mode_ &= ~070u;
  }
  (void)fchmod(aside.lock_, 0700);
  return aside;
}

Result<void> PartialFolder::rename_to_target() {
  if (fchmod(lock_, mode_) != 0) return failed(target_, "cannot set the mode", errno);
  if (rename(path_.c_str(), target_.c_str()) != 0) return failed(target_, "cannot rename", errno);
  OutputFile::count_folder();
  path_.clear();
  parents_.clear();
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
  for (; !parents_.empty(); parents_.pop_back()) (void)rmdir(parents_.back().c_str());
}

void PartialFolder::swap(PartialFolder& other) noexcept {
  std::swap(target_, other.target_);
  std::swap(path_, other.path_);
  std::swap(parents_, other.parents_);
  std::swap(mode_, other.mode_);
  std::swap(lock_, other.lock_);
}

}  // namespace planck::cli
