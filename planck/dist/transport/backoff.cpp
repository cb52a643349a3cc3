#include "planck/dist/transport/backoff.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <thread>

namespace planck::dist {

namespace {
constexpr int kLooksAtOnce = 50;  // without a look at the clock
constexpr std::chrono::nanoseconds kAwake = std::chrono::microseconds(100),
                                   kAwakeOnOwnCore = std::chrono::milliseconds(20);
constexpr int kPauses = 32;                     // 0.3 to 1.5 µs
constexpr std::size_t kBytesPerNanosecond = 4;  // from one worker of a machine to another
constexpr std::chrono::nanoseconds kShortest = std::chrono::microseconds(20),
                                   kLongest = std::chrono::milliseconds(1);
// A thread's timers may be late by 50 µs, as Linux starts it: more than twice the shortest sleep.
constexpr unsigned long kSlack = 1000;  // ns

void only_waiting() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether others want this thread's core: by how often it has had to leave it, of late.
bool others_want_the_core() {
  constexpr double kOfLate = 0.02, kOften = 50;  // seconds of the thread's own time; in one of them
  struct Seen {
    double seconds = 0;
    long leaves = 0;
    bool wanted = false;
  };
  thread_local Seen seen;
  rusage now{};
  if (getrusage(RUSAGE_THREAD, &now) != 0) return true;
  const auto seconds_of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  const double seconds = seconds_of(now.ru_utime) + seconds_of(now.ru_stime) - seen.seconds;
  const long leaves = now.ru_nivcsw - seen.leaves;
  if (seconds >= kOfLate)
    seen = {seen.seconds + seconds, now.ru_nivcsw,
            leaves > 1 && static_cast<double>(leaves) > kOften * seconds};
  return seen.wanted;
}
}  // namespace

Backoff::Backoff(std::size_t bytes, bool own_core)
    : own_core_(own_core), awake_(kAwake + std::chrono::nanoseconds(bytes / kBytesPerNanosecond)) {}
Backoff::~Backoff() {
  if (slack_ >= 0) (void)prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_), 0, 0, 0);
}

void Backoff::pause() {
  if (looks_ < kLooksAtOnce) {
    ++looks_;
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (looks_ == kLooksAtOnce) {
    ++looks_, since_ = now;
    own_core_ = own_core_ && !others_want_the_core();
  }
  const std::chrono::nanoseconds waited = now - since_;
  if (waited < awake_) return;
  if (own_core_ && waited < kAwakeOnOwnCore) {
    for (int i = 0; i < kPauses; ++i) only_waiting();
    return;
  }
  if (slack_ < 0) {
    slack_ = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    (void)prctl(PR_SET_TIMERSLACK, kSlack, 0, 0, 0);
  }
  std::this_thread::sleep_for(std::clamp(waited / 64, kShortest, kLongest));
}

}  // namespace planck::dist
