// "12/340 quantize_per_channel" on standard error while cases run; silent where standard error is
// not a terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

namespace planck::cli {

class StepProgress {
 public:
  explicit StepProgress(std::string_view what);
  StepProgress(const StepProgress&) = delete;
  ~StepProgress();  // wipes the line

  void show(std::size_t done, std::size_t all, std::string_view step);

 private:
  std::string_view what_;
  bool visible_;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace planck::cli
