#include "tools/planck/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "tools/planck/table.h"

namespace planck::cli {

using namespace std::chrono_literals;

Progress::Progress(std::uint64_t total, Unit unit)
    : unit_(unit),
      visible_(isatty(STDERR_FILENO) != 0),
      total_(total),
      begin_(std::chrono::steady_clock::now()),
      drawn_() {}

Progress::~Progress() {
  if (visible_) std::fputs("\r\033[K", stderr);
}

void Progress::advance(std::uint64_t amount, std::string_view what) {
  reach(done_ + amount, total_, what);
}

void Progress::reach(std::uint64_t done, std::uint64_t total, std::string_view what) {
  done_ = done;
  total_ = total;
  const auto now = std::chrono::steady_clock::now();
  if (!visible_ || (now - drawn_ < 50ms && done_ < total_)) return;
  drawn_ = now;
  const double fraction =
      total_ == 0 ? 1 : static_cast<double>(done_) / static_cast<double>(total_);
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  const std::string amount = unit_ == Unit::bytes
                                 ? size_text(static_cast<std::uint64_t>(rate)) + "/s"
                                 : fmt::format("{}/{}", done_, total_);
  // A line of 79 columns: the bar gets what the words leave, 10 to 30.
  const std::string words =
      fmt::format("{:3.0f} %  {}  {}", 100 * fraction, amount, printable(what.substr(0, 48)));
  const std::size_t width =
      std::clamp<std::size_t>(76 - std::min<std::size_t>(words.size(), 66), 10, 30);
  const auto full =
      std::min(width, static_cast<std::size_t>(fraction * static_cast<double>(width)));
  std::fputs(fmt::format("\r\033[K[{}{}] {}", std::string(full, '#'),
                         std::string(width - full, '.'), words)
                 .c_str(),
             stderr);
  std::fflush(stderr);
}

}  // namespace planck::cli
