// A bar on standard error while something long runs: how far it is, how fast, and the time left, in
// fields of fixed widths. Silent where standard error is not a terminal, and with --quiet.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace planck::cli {

class Progress {
 public:
  enum class Unit : std::uint8_t { bytes, steps };  // bytes also show the rate per second

  explicit Progress(std::uint64_t total, Unit unit = Unit::bytes);
  Progress(const Progress&) = delete;
  ~Progress();  // wipes the line

  void advance(std::uint64_t amount, std::string_view what);
  void reach(std::uint64_t done, std::uint64_t total, std::string_view what);

 private:
  Unit unit_;
  bool visible_;
  std::uint64_t total_, done_ = 0;
  std::chrono::steady_clock::time_point begin_, drawn_;
};

}  // namespace planck::cli
