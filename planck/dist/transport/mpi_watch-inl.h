// Notices what MPI does not: that a message is lost. A connection that breaks is set up again by
// some libraries, without what was on its way, and then everyone waits forever.
//
// A thread of each process tells all others, once a second, how long its calls have been waiting
// with no part of a message sent or received. Where everyone's have for kNothingSeconds, or
// somebody cannot be heard for kSilentSeconds, the job ends with one line. A worker that computes
// is not waiting, however slow it is; nor is one whose bytes arrive, however slowly. One that has
// left MPI has no calls any more, and does not keep others from being lost. PLANCK_LOST_AFTER=0
// turns it off, for debuggers; other numbers take the place of both.
#pragma once

#include <mpi.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace planck::dist {

// One line on standard error, whole, then MPI_Abort. The first thread of a process that calls it
// speaks; others are ended by that.
[[noreturn]] void say_and_end(MPI_Comm comm, std::string line);

class MpiWatch {
 public:
  static constexpr double kNothingSeconds = 5, kSilentSeconds = 7;

  // Of all processes of `comm`, at the same time; of more than one.
  explicit MpiWatch(MPI_Comm comm);
  // When all processes are here, unless an error is on its way.
  ~MpiWatch();
  MpiWatch(const MpiWatch&) = delete;

  // A call that may wait, as long as it lives.
  class Call {
   public:
    Call() { ++calls_; }
    ~Call() {
      moved();
      --calls_;
    }
    Call(const Call&) = delete;
  };
  // A part of a message has gone, or come.
  static void moved() { done_.fetch_add(1, std::memory_order_relaxed); }

  // This worker has failed. Returns when it is the one to say so, of all that have failed by the
  // time that they tell each other; false where nobody could be asked.
  bool wait_to_speak();

 private:
  struct Report {
    double waiting = 0;  // seconds
    double leaving = 0;  // 1: it has no more calls
    double failed = 0;   // 1: it has, and waits to say so
  };
  void work();
  Report report();
  // The worker that speaks, where all of them know that there is something to say.
  [[noreturn]] void give_up(const char* what, int speaker = -1) const;

  static inline constinit std::atomic<int> calls_{0};
  static inline constinit std::atomic<std::uint64_t> done_{0};

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  double nothing_ = kNothingSeconds, silent_ = kSilentSeconds;
  std::uint64_t last_done_ = 0;
  double waiting_ = 0, last_time_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool leaving_ = false, failed_ = false;
  int speaker_ = -1;  // the first that has failed
  std::thread thread_;
};

}  // namespace planck::dist
