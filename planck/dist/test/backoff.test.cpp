// Waiting that leaves the core to others, and ends in time.
#include "planck/dist/transport/backoff.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace planck::dist {
namespace {

using Clock = std::chrono::steady_clock;
double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }
double of_this_thread() {  // seconds on a core
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

TEST(Backoff, ALongWaitTakesLittleOfACore) {
  const double before = of_this_thread();
  const auto until = Clock::now() + std::chrono::milliseconds(400);
  for (Backoff backoff; Clock::now() < until;) backoff.pause();
  EXPECT_LT(of_this_thread() - before, 0.1);
}

// Of many looks: that the machine had something else to do is no fault of one.
TEST(Backoff, LooksOftenEnough) {
  double least = 1;  // the longest pause of a wait of 20 ms, of the best of ten
  for (int i = 0; i < 10; ++i) {
    double longest = 0;
    const auto began = Clock::now();
    auto last = began;
    for (Backoff backoff; seconds(last - began) < 0.02;) {
      backoff.pause();
      const auto now = Clock::now();
      longest = std::max(longest, seconds(now - last));
      last = now;
    }
    least = std::min(least, longest);
  }
  EXPECT_LT(least, 0.005);
}

long leaves_of_this_thread() {  // its core, for others
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

// It has slept where the timers of the thread are others.
TEST(Backoff, StaysAwakeForAWhileOnACoreOfItsOwn) {
  const int before = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  const long leaves = leaves_of_this_thread();
  bool awake = false, slept = true;
  for (int i = 0; i < 20 && !awake; ++i) {
    Backoff backoff(0, true);
    const auto began = Clock::now();
    while (seconds(Clock::now() - began) < 0.002) backoff.pause();
    awake = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == before;
    while (seconds(Clock::now() - began) < 0.05) backoff.pause();
    slept &= prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) != before;
  }
  EXPECT_TRUE(awake || leaves_of_this_thread() - leaves > 5);
  EXPECT_TRUE(slept) << "and not for long";
}

TEST(Backoff, WhatWasFoundMakesItLookAtOnceAgain) {
  Backoff backoff;
  const auto began = Clock::now();
  while (seconds(Clock::now() - began) < 0.02) backoff.pause();
  double least = 1;
  for (int i = 0; i < 20; ++i) {
    backoff.found();
    const auto before = Clock::now();
    backoff.pause();
    least = std::min(least, seconds(Clock::now() - before));
  }
  EXPECT_LT(least, 10e-6) << "20 µs would be a sleep";
}

TEST(Backoff, TimersOfTheThreadAreAsTheyWere) {
  const int before = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  {
    Backoff backoff;
    const auto began = Clock::now();
    while (seconds(Clock::now() - began) < 0.002) backoff.pause();
    EXPECT_NE(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), before) << "it has slept";
  }
  EXPECT_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), before);
}

}  // namespace
}  // namespace planck::dist
