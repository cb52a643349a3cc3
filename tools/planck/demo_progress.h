// What the demo says while it trains: a bar for people, lines of JSON for programs.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "tools/planck/digits/training.h"
#include "tools/planck/progress.h"

namespace planck::cli {

// One line of JSON for each epoch of this worker.
class Log {
 public:
  Log(const std::string& prefix, const dist::Communicator& workers) : workers_(workers) {
    if (prefix.empty()) return;
    path_ = fmt::format("{}.{}.jsonl", prefix, workers.rank());
    file_.open(path_, std::ios::trunc);
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
