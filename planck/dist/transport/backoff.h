// Waiting for what others send by looking again and again, without taking a core from those who
// compute: on cores that are halves of one, a thread that only looks makes the other half slow.
//
//   for (Backoff backoff; !look();) backoff.pause();
//
// For a tenth of a millisecond, and as long as the bytes take within a machine, it looks at once
// again; then it sleeps between looks, a 64th of what it has waited, so that waiting ends late by
// little.
#pragma once

#include <chrono>
#include <cstddef>

namespace planck::dist {

class Backoff {
 public:
  explicit Backoff(std::size_t bytes = 0);  // that are waited for
  ~Backoff();
  Backoff(const Backoff&) = delete;

  void pause();                 // after a look that has found nothing
  void found() { looks_ = 0; }  // after one that has, where more is to come

 private:
  const std::chrono::nanoseconds awake_;
  int looks_ = 0;
  std::chrono::steady_clock::time_point since_;
  int slack_ = -1;  // of this thread's timers before, ns; < 0: unchanged
};

}  // namespace planck::dist
