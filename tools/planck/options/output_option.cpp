#include "tools/planck/options/output_option.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace planck::cli {

void add_force(CLI::App& command, bool& force) {
  command.add_flag("-f,--force", force, "Replace an output that exists");
}

Result<void> check_output(const std::string& in, const std::string& out, bool force) {
  struct stat from {
  }, to{};
  if (stat(out.c_str(), &to) != 0) return {};  // writing says what is wrong with it, if anything
  if (!in.empty() && stat(in.c_str(), &from) == 0 && from.st_dev == to.st_dev &&
      from.st_ino == to.st_ino)
    return fail(ErrorCode::io, fmt::format("{}: is the input, {}; choose another output", out, in));
  if (S_ISREG(to.st_mode) && !force)
    return fail(ErrorCode::io, fmt::format("{}: exists; --force replaces it", out));
  return {};
}

}  // namespace planck::cli
