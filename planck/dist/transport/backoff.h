// Waiting for what others send by looking again and again, without taking a core from those who
// compute: on cores that are halves of one, a thread that only looks makes the other half slow.
//
//   for (Backoff backoff; !look();) backoff.pause();
//
// At first it looks at once, for what takes microseconds; then whoever else wants the core has it;
// then it sleeps between looks, a 64th of what it has waited, so that waiting ends late by little.
#pragma once

#include <chrono>

namespace planck::dist {

class Backoff {
 public:
  Backoff() = default;
  ~Backoff();
  Backoff(const Backoff&) = delete;

  void pause();                 // after a look that has found nothing
  void found() { looks_ = 0; }  // after one that has, where more is to come

 private:
  int looks_ = 0;
  std::chrono::steady_clock::time_point since_;
  int slack_ = -1;  // of this thread's timers before, ns; < 0: unchanged
};

}  // namespace planck::dist
