// What a worker did, a line of JSON for every so many steps: PREFIX.RANK.jsonl.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "planck/training.h"

namespace gpt {

using namespace planck;

class StepLog {
 public:
  // "": none. Of a run that goes on: after the lines of before, of which the last may be cut off.
  StepLog(const std::string& prefix, int rank, int workers, bool goes_on)
      : rank_(rank), workers_(workers) {
    if (prefix.empty()) return;
    path_ = fmt::format("{}.{}.jsonl", prefix, rank);
    if (goes_on) cut_to_whole_lines();
    file_.open(path_, goes_on ? std::ios::app : std::ios::trunc);
    check();
  }
  // Seconds since the run began, and how many of them this worker waited for others.
  void step(std::int64_t step, double loss, double seconds, double waited) {
    if (path_.empty()) return;
    file_
        << fmt::format(
               R"({{"rank": {}, "workers": {}, "step": {}, "loss": {}, "seconds": {:.6f}, "waited": {:.6f}}})",
               rank_, workers_, step, loss, seconds, waited)
        << std::endl;
    check();
  }

 private:
  void check() const {
    if (!file_) raise(ErrorCode::io, fmt::format("gpt: {}: cannot be written", path_));
  }
  void cut_to_whole_lines() const {
    std::ifstream before(path_, std::ios::binary);
    if (!before) return;
    const std::string text{std::istreambuf_iterator<char>(before), {}};
    std::error_code ignored;  // then a line is damaged, as it was
    if (!text.empty() && text.back() != '\n')
      std::filesystem::resize_file(path_, text.rfind('\n') + 1, ignored);
  }

  int rank_, workers_;
  std::string path_;
  std::ofstream file_;
};

}  // namespace gpt
