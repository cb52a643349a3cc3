// What the demo says while it trains: a bar for people, lines of JSON for programs.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tools/planck/digits/training.h"
#include "tools/planck/print/progress.h"

namespace planck::cli {

// One line of JSON for each epoch of this worker.
class Log {
 public:
  // Of a run that goes on: after the lines of before, of which the last may be cut off.
  Log(const std::string& prefix, const dist::Communicator& workers, bool goes_on)
      : workers_(workers) {
    if (prefix.empty()) return;
    path_ = fmt::format("{}.{}.jsonl", prefix, workers.rank());
    if (goes_on) cut_to_whole_lines();
    file_.open(path_, goes_on ? std::ios::app : std::ios::trunc);
    if (!file_) raise(ErrorCode::io, fmt::format("{}: cannot be written", path_));
  }
  void epoch(const digits::Step& s, double seconds) {
    if (path_.empty()) return;
    file_
        << fmt::format(
               R"({{"rank": {}, "workers": {}, "stage": "{}", "epoch": {}, "step": {}, "loss": {}, "seconds": {:.6f}, "waited": {:.6f}}})",
               workers_.rank(), workers_.size(), s.stage.name, s.epoch + 1, s.step, s.loss, seconds,
               s.waited)
        << std::endl;
    if (!file_) raise(ErrorCode::io, fmt::format("{}: cannot be written", path_));
  }

 private:
  void cut_to_whole_lines() const {
    std::ifstream before(path_, std::ios::binary);
    if (!before) return;
    const std::string text{std::istreambuf_iterator<char>(before), {}};
    std::error_code ignored;  // then a line is damaged, as it was
    if (!text.empty() && text.back() != '\n')
      std::filesystem::resize_file(path_, text.rfind('\n') + 1, ignored);
  }

  const dist::Communicator& workers_;
  std::string path_;
  std::ofstream file_;
};

// Where a step is among the epochs of all stages, for the bar.
class EpochBar {
 public:
  explicit EpochBar(const digits::RunOptions& options)
      : stages_(digits::stages(options)),
        total_(before("")),
        progress_(total_, Progress::Unit::steps) {}

  void reach(const digits::Step& s) {
    progress_.reach(
        before(s.stage.name) + static_cast<std::uint64_t>(s.epoch), total_,
        fmt::format("{} {}/{} loss {:.3f}, {:.1f} %, {:.0f} images/s", s.stage.name, s.epoch + 1,
                    s.stage.epochs, s.loss, 100 * s.accuracy, s.images_per_second));
  }

 private:
  // Epochs of the stages before this one; of all, where none is called so.
  std::uint64_t before(std::string_view stage) const {
    std::uint64_t epochs = 0;
    for (const digits::Stage& s : stages_) {
      if (s.name == stage) break;
      epochs += static_cast<std::uint64_t>(s.epochs);
    }
    return epochs;
  }

  std::vector<digits::Stage> stages_;
  std::uint64_t total_;
  Progress progress_;
};

}  // namespace planck::cli
