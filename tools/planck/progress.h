// A bar on standard error while something long runs; silent where standard error is not a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace planck::cli {

class Progress {
 public:
  explicit Progress(std::uint64_t total_bytes);
  Progress(const Progress&) = delete;
  ~Progress();  // wipes the line

  void advance(std::uint64_t bytes, std::string_view what);

 private:
  bool visible_;
  std::uint64_t total_, done_ = 0;
  std::chrono::steady_clock::time_point begin_, drawn_;
};

}  // namespace planck::cli
