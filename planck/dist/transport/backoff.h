// Waiting for what others send by looking again and again, without taking a core from those who
// compute: on cores that are halves of one, a thread that only looks makes the other half slow.
//
//   for (Backoff backoff; !look();) backoff.pause();
//
// For a tenth of a millisecond, and as long as the bytes take within a machine, it looks at once
// again; then it sleeps between looks, a 64th of what it has waited, so that waiting ends late by
// little.
//
// A core that sleeps takes its time to wake up, and under a hypervisor may come back as the other
// half of a busy one. So a core that no other worker wants stays awake for 20 milliseconds, which
// is how much workers differ in a step; between looks it is told that it only waits, which leaves
// the other half what there is. Not where other programs want it: where this thread has had to
// leave its core more than 50 times in a second of its own time, it sleeps.
#pragma once

#include <chrono>
#include <cstddef>

namespace planck::dist {

class Backoff {
 public:
  // Bytes that are waited for, on a core of one's own or one that other workers want.
  explicit Backoff(std::size_t bytes = 0, bool own_core = false);
  ~Backoff();
  Backoff(const Backoff&) = delete;

  void pause();                 // after a look that has found nothing
  void found() { looks_ = 0; }  // after one that has, where more is to come

 private:
  bool own_core_;
  const std::chrono::nanoseconds awake_;
  int looks_ = 0;
  std::chrono::steady_clock::time_point since_;
  int slack_ = -1;  // of this thread's timers before, ns; < 0: unchanged
};

}  // namespace planck::dist
