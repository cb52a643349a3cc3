#include "tools/planck/print/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "tools/planck/print/table.h"

namespace planck::cli {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t kBar = 20;

// "0:07", "12:30", "3:05:00"
std::string time_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 359999.0) + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

Progress::Progress(std::uint64_t total, Unit unit)
    : unit_(unit),
      visible_(isatty(STDERR_FILENO) != 0 && verbosity() != Verbosity::quiet),
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
  const std::string left =
      fraction > 0 && seconds > 0.5 ? time_text(seconds / fraction - seconds) + " left" : "";
  // Fields of fixed widths: what a bar is for is to be compared with itself a moment ago.
  const auto full = std::min(kBar, static_cast<std::size_t>(fraction * static_cast<double>(kBar)));
  std::string line = fmt::format("[{}{}] {:3.0f} %  {:>13}  {:>12}  ", std::string(full, '#'),
                                 std::string(kBar - full, '.'), 100 * fraction, amount, left);
  const std::size_t screen = std::min<std::size_t>(terminal_columns(STDERR_FILENO), 100);
  const std::size_t room = screen > line.size() + 1 ? screen - line.size() - 1 : 0;
  if (room > 0) line += shortened(printable(what.substr(0, 400)), room);
  std::fputs(fmt::format("\r\033[K{}", shortened(line, screen - 1)).c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace planck::cli
