#include "planck/dist/transport/courier.h"

#include <utility>

namespace planck::dist {

Courier::Courier(bool own_thread) : own_thread_(own_thread) {}
Courier::~Courier() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
    jobs_.clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Courier::give(std::function<void()> job) {
  if (!own_thread_) return job();
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  {
    std::lock_guard lock(mutex_);
    if (!failed_) jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void Courier::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.empty() && !busy_; });
  if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
}

void Courier::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !jobs_.empty(); });
    if (ends_) return;
    const auto job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      job();
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    if (thrown) {
      failed_ = thrown;
      jobs_.clear();
    }
    changed_.notify_all();
  }
}

}  // namespace planck::dist
