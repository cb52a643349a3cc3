// A folder for files that nobody asked to keep: in the place for temporary files, gone with its
// object. One that a killed process left is removed by the next; a lock tells it from one in use.
// For commands that write nowhere else: their files are nobody's outputs.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "planck/core/result.h"
#include "tools/planck/print/console.h"

namespace planck::cli {

class FolderAside {
 public:
  static Result<FolderAside> create() {
    std::error_code failed;
    const auto parent = std::filesystem::temp_directory_path(failed);
    if (failed) return fail(ErrorCode::io, "no folder for temporary files: " + failed.message());
    sweep(parent);
    std::string name = (parent / "planck-compare-XXXXXX").string();
    FolderAside folder;
    if (mkdtemp(name.data()) == nullptr)
      return fail(ErrorCode::io, fmt::format("{}: cannot create", name));
    folder.path_ = name;
    folder.lock_ = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)flock(folder.lock_, LOCK_EX | LOCK_NB);
    count_no_outputs();
    return folder;
  }
  FolderAside(FolderAside&& other) noexcept
      : path_(std::exchange(other.path_, "")), lock_(std::exchange(other.lock_, -1)) {}
  ~FolderAside() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    if (lock_ >= 0) close(lock_);
  }
  const std::string& path() const { return path_; }

 private:
  FolderAside() = default;
  // Those of processes that were killed: nobody holds their lock.
  static void sweep(const std::filesystem::path& parent) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("planck-compare-") || name.size() != 21) continue;
      const int folder =
          open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
      if (folder < 0) continue;
      if (flock(folder, LOCK_EX | LOCK_NB) == 0) std::filesystem::remove_all(entry.path(), ignored);
      close(folder);
    }
  }

  std::string path_;
  int lock_ = -1;
};

}  // namespace planck::cli
