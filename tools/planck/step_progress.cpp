#include "tools/planck/step_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace planck::cli {

StepProgress::StepProgress(std::string_view what)
    : what_(what), visible_(isatty(STDERR_FILENO) == 1) {}

StepProgress::~StepProgress() {
  if (visible_) fmt::print(stderr, "\r\033[K");
}

void StepProgress::show(std::size_t done, std::size_t all, std::string_view step) {
  const auto now = std::chrono::steady_clock::now();
  if (!visible_ || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  fmt::print(stderr, "\r\033[K{} {}/{} {}", what_, done, all, step);
  (void)std::fflush(stderr);
}

}  // namespace planck::cli
