// What an all-reduce is made of, measured piece by piece, and what that makes of the whole: the
// cost model of docs/distributed.md.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "planck/dist/all_reduce.h"

namespace planck::cli {

// Seconds of one call of each, the slowest worker's, the best of several rounds. They take turns:
// what else the machine does meets all of them.
std::vector<double> seconds_of(dist::Communicator& workers, double min_seconds,
                               const std::vector<std::function<void()>>& calls);

// Called by all workers, in the same order.
class CostModel {
 public:
  CostModel(dist::Communicator& workers, double min_seconds);

  // Of two workers: seconds of a message of 4 bytes, seconds for each further byte of a
  // piece, both ways at once; and of one, for each byte added. In a cache.
  double latency() const { return latency_; }
  double per_byte() const { return per_byte_; }
  double add_per_byte() const { return add_per_byte_; }

  // Seconds of an ordered all-reduce of so many bytes.
  double predicted(const dist::Grains& grains, dist::Way way, std::int64_t bytes);

 private:
  // Seconds in which two workers exchange this many bytes of an array, both ways at once.
  double exchange(std::int64_t bytes, std::int64_t array);
  // Seconds for each byte that is added to one of an array.
  double addition(std::int64_t array);
  double measured(const std::function<void()>& call);

  dist::Communicator& workers_;
  double min_seconds_;
  std::int64_t piece_, segment_;  // bytes of a message; bytes that are summed at once
  std::map<std::pair<std::int64_t, std::int64_t>, double> exchanges_;
  double latency_, per_byte_, add_per_byte_;
};

}  // namespace planck::cli
