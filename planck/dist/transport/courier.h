// A thread that does jobs one after the other, in the order in which they were given. The first
// that throws is the last: wait() throws it again. The thread begins with the first of them.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace planck::dist {

class Courier {
 public:
  // Without a thread each job is done when it is given.
  explicit Courier(bool own_thread);
  ~Courier();
  Courier(const Courier&) = delete;

  void give(std::function<void()> job);
  void wait();

 private:
  void work();

  const bool own_thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false, ends_ = false;
  std::exception_ptr failed_;
  std::thread thread_;
};

}  // namespace planck::dist
