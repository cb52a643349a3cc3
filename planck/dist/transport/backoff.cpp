#include "planck/dist/transport/backoff.h"

#include <sys/prctl.h>

#include <algorithm>
#include <thread>

namespace planck::dist {

namespace {
constexpr int kLooksAtOnce = 50;  // without a look at the clock
constexpr std::chrono::nanoseconds kAwake = std::chrono::microseconds(100);
constexpr std::size_t kBytesPerNanosecond = 4;  // from one worker of a machine to another
constexpr std::chrono::nanoseconds kShortest = std::chrono::microseconds(20),
                                   kLongest = std::chrono::milliseconds(1);
// A thread's timers may be late by 50 µs, as Linux starts it: more than twice the shortest sleep.
constexpr unsigned long kSlack = 1000;  // ns
}  // namespace

Backoff::Backoff(std::size_t bytes)
    : awake_(kAwake + std::chrono::nanoseconds(bytes / kBytesPerNanosecond)) {}
Backoff::~Backoff() {
  if (slack_ >= 0) (void)prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack_), 0, 0, 0);
}

void Backoff::pause() {
  if (looks_ < kLooksAtOnce) {
    ++looks_;
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (looks_ == kLooksAtOnce) ++looks_, since_ = now;
  const std::chrono::nanoseconds waited = now - since_;
  if (waited < awake_) return;
  if (slack_ < 0) {
    slack_ = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
    (void)prctl(PR_SET_TIMERSLACK, kSlack, 0, 0, 0);
  }
  std::this_thread::sleep_for(std::clamp(waited / 64, kShortest, kLongest));
}

}  // namespace planck::dist
