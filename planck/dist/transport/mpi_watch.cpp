#include <errno.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "planck/core/exception.h"
#include "planck/dist/transport/communicator.h"
#include "planck/dist/transport/mpi_watch-inl.h"

namespace planck::dist {

namespace {
constexpr auto kPeriod = std::chrono::seconds(1);
// For others to answer, and for one that speaks to end the job.
constexpr auto kPatience = std::chrono::seconds(3);
// What counts of a longer time between two looks at the clock: this process stood still itself (the
// job was suspended, the machine is crowded), which says nothing of others.
constexpr double kMostBetweenReports = 2, kMostBetweenTests = 0.5;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
}  // namespace

void say_and_end(MPI_Comm comm, std::string line) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) {
    std::this_thread::sleep_for(kPatience);
  } else {
    // A pipe takes so much at once, and mpirun passes on what it has read: lines stay whole.
    constexpr std::size_t kMost = 2000;
    if (line.size() > kMost) line.replace(kMost, line.npos, " …");
    line += '\n';
    [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
    std::fflush(nullptr);
  }
  MPI_Abort(comm, 2);
  std::_Exit(2);
}

MpiWatch::MpiWatch(MPI_Comm comm) {
  if (const char* text = std::getenv("PLANCK_LOST_AFTER"); text != nullptr)
    nothing_ = silent_ = std::max(0.0, std::atof(text));
  // One that does not watch would keep the others waiting for what it tells: all agree.
  double least = silent_;
  if (MPI_Comm_dup(comm, &comm_) != MPI_SUCCESS || MPI_Comm_rank(comm_, &rank_) != MPI_SUCCESS ||
      MPI_Comm_size(comm_, &size_) != MPI_SUCCESS ||
      MPI_Allreduce(&silent_, &least, 1, MPI_DOUBLE, MPI_MIN, comm_) != MPI_SUCCESS)
    raise(ErrorCode::device, "mpi: a connection is lost");
  if (least <= 0) return;
  last_time_ = now();
  thread_ = std::thread([this] { work(); });
}

MpiWatch::~MpiWatch() {
  if (std::uncaught_exceptions() > 0) {
    if (thread_.joinable()) thread_.detach();
    return;
  }
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  MPI_Comm_free(&comm_);
}

MpiWatch::Report MpiWatch::report() {
  const double time = now();
  const std::uint64_t done = done_;
  if (calls_ == 0 || done != last_done_)
    waiting_ = 0;
  else
    waiting_ += std::min(time - last_time_, kMostBetweenReports);
  last_time_ = time, last_done_ = done;
  std::lock_guard lock(mutex_);
  return {waiting_, leaving_ ? 1.0 : 0.0, failed_ ? 1.0 : 0.0};
}

bool MpiWatch::wait_to_speak() {
  if (!thread_.joinable()) return false;
  std::unique_lock lock(mutex_);
  failed_ = true;
  changed_.notify_all();
  if (rank_ == 0 && speaker_ < 0) return true;  // none is lower
  if (!changed_.wait_for(lock, kPatience, [&] { return speaker_ >= 0; })) return false;
  if (speaker_ != rank_) {
    lock.unlock();
    std::this_thread::sleep_for(kPatience);  // and is ended, unless the other is gone
  }
  return true;
}

void MpiWatch::work() {
  std::vector<Report> all(static_cast<std::size_t>(size_));
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kPeriod, [&] { return leaving_ || (failed_ && speaker_ < 0); });
    }
    const Report mine = report();
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Iallgather(&mine, 3, MPI_DOUBLE, all.data(), 3, MPI_DOUBLE, comm_, &request) !=
        MPI_SUCCESS)
      give_up("a connection is lost");
    double silence = 0, last = now();
    for (int done = 0; done == 0;) {
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        give_up("a connection is lost");
      if (done != 0) break;
      if (silence > silent_) give_up("others cannot be heard any more");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      const double time = now();
      silence += std::min(time - last, kMostBetweenTests);
      last = time;
    }
    bool all_leave = true, all_wait = true;  // of those that are still there
    int first = -1, failed = -1;
    for (int i = 0; i < size_; ++i) {
      const Report& r = all[static_cast<std::size_t>(i)];
      if (r.failed > 0 && failed < 0) failed = i;
      if (r.leaving > 0) continue;
      if (first < 0) first = i;
      all_leave = false;
      all_wait &= r.waiting >= nothing_;
    }
    if (failed >= 0) {
      std::lock_guard lock(mutex_);
      if (speaker_ < 0) speaker_ = failed;
      changed_.notify_all();
    }
    if (all_leave) return;
    if (all_wait) give_up("everyone waits and nothing arrives: a message is lost", first);
  }
}

void MpiWatch::give_up(const char* what, int speaker) const {
  if (speaker < 0)
    std::this_thread::sleep_for(turn_to_speak(rank_, size_));
  else if (speaker != rank_)
    std::this_thread::sleep_for(kPatience);
  say_and_end(comm_, fmt::format("{}: worker {} of {}: mpi: {}", program_invocation_short_name,
                                 rank_, size_, what));
}

}  // namespace planck::dist
