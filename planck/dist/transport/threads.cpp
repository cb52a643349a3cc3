#include "planck/dist/transport/threads.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "planck/core/exception.h"
#include "planck/core/refuse.h"

namespace planck::dist {

namespace {

// Bytes that wait to be fetched by the receiver, where the sender has them.
struct Message {
  const void* data;
  std::size_t bytes;
  // Of the sender, under its mutex: how many of its messages are not fetched yet.
  int* waiting;
};

struct Failure {  // of all worlds of one run
  std::mutex mutex;
  int rank = -1;
  std::string line;
  std::exception_ptr thrown;
};

}  // namespace

class Threads::World {
 public:
  World(int size, std::shared_ptr<Failure> failure)
      : boxes_(static_cast<std::size_t>(size)), failure_(std::move(failure)) {
    for (Box& box : boxes_) box.from.resize(static_cast<std::size_t>(size));
  }
  int size() const { return static_cast<int>(boxes_.size()); }

  void put(int from, const Outgoing& o, int* waiting) {
    Box& box = at(o.to);
    {
      std::lock_guard lock(box.mutex);
      box.from[static_cast<std::size_t>(from)].push_back({o.data, o.bytes, waiting});
    }
    box.changed.notify_one();
  }
  // Copies the next message of a worker, and tells its sender.
  void take(int rank, const Incoming& i) {
    Box& box = at(rank);
    Message m{};
    {
      std::unique_lock lock(box.mutex);
      auto& queue = box.from[static_cast<std::size_t>(i.from)];
      box.changed.wait(lock, [&] { return failed_ || !queue.empty(); });
      if (queue.empty()) lock.unlock(), raise_failure();
      m = queue.front();
      queue.pop_front();
    }
    const bool fits = m.bytes == i.bytes;
    if (fits && m.bytes > 0) std::memcpy(i.data, m.data, m.bytes);
    Box& sender = at(i.from);
    {
      std::lock_guard lock(sender.mutex);
      --*m.waiting;
    }
    sender.changed.notify_one();
    if (!fits)
      refuse(
          "exchange: worker {} sent {} bytes, worker {} expects {}",
          {i.from, static_cast<std::int64_t>(m.bytes), rank, static_cast<std::int64_t>(i.bytes)});
  }
  void wait_fetched(int rank, int* waiting) {
    Box& box = at(rank);
    std::unique_lock lock(box.mutex);
    box.changed.wait(lock, [&] { return failed_ || *waiting == 0; });
    if (*waiting == 0) return;
    // Receivers may still be looking at them: none of the messages may be left behind.
    lock.unlock();
    const int withdrawn = withdraw(rank, waiting);
    lock.lock();
    *waiting -= withdrawn;
    box.changed.wait(lock, [&] { return *waiting == 0; });
    lock.unlock();
    raise_failure();
  }
  // Takes back messages of a sender that nobody has fetched, and says how many.
  int withdraw(int from, const int* waiting) {
    std::size_t count = 0;
    for (Box& box : boxes_) {
      std::lock_guard lock(box.mutex);
      count += std::erase_if(box.from[static_cast<std::size_t>(from)],
                             [&](const Message& m) { return m.waiting == waiting; });
    }
    return static_cast<int>(count);
  }

  void fail(int rank, std::string line, std::exception_ptr thrown) {
    {
      std::lock_guard lock(failure_->mutex);
      if (failure_->rank < 0)
        failure_->rank = rank, failure_->line = std::move(line), failure_->thrown = thrown;
    }
    wake();
  }
  void wake() {
    for (Box& box : boxes_) {
      std::lock_guard lock(box.mutex);
      failed_ = true;
    }
    for (Box& box : boxes_) box.changed.notify_all();
    std::lock_guard lock(duplicates_mutex_);
    for (auto& d : duplicates_) d->wake();
  }
  [[noreturn]] void raise_failure() {
    std::lock_guard lock(failure_->mutex);
    refuse(ErrorCode::device, "worker {} failed: {}", {failure_->rank, failure_->line});
  }
  const std::shared_ptr<Failure>& failure() const { return failure_; }

  std::shared_ptr<World> duplicate(int which) {
    std::lock_guard lock(duplicates_mutex_);
    while (duplicates_.size() <= static_cast<std::size_t>(which)) {
      duplicates_.push_back(std::make_shared<World>(size(), failure_));
      if (failed_) duplicates_.back()->wake();
    }
    return duplicates_[static_cast<std::size_t>(which)];
  }

 private:
  struct Box {  // of one worker
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::deque<Message>> from;
  };
  Box& at(int rank) { return boxes_[static_cast<std::size_t>(rank)]; }

  std::deque<Box> boxes_;
  std::atomic<bool> failed_{false};
  std::shared_ptr<Failure> failure_;
  std::mutex duplicates_mutex_;
  std::vector<std::shared_ptr<World>> duplicates_;
};

Threads::Threads(std::shared_ptr<World> world, int rank) : world_(std::move(world)), rank_(rank) {}
Threads::~Threads() = default;
int Threads::size() const { return world_->size(); }

void Threads::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                       const Arrived& arrived) {
  int waiting = static_cast<int>(outgoing.size());
  for (const Outgoing& o : outgoing) world_->put(rank_, o, &waiting);
  try {
    for (std::size_t i = 0; i < incoming.size(); ++i) {
      world_->take(rank_, incoming[i]);
      if (arrived) arrived(i);
    }
  } catch (const std::exception& e) {
    world_->fail(rank_, e.what(), std::current_exception());
    try {
      world_->wait_fetched(rank_, &waiting);
    } catch (const Exception&) {  // what failed first is what the caller gets
    }
    throw;
  }
  world_->wait_fetched(rank_, &waiting);
}

void Threads::abort(std::string_view line) {
  const Error error{ErrorCode::device, std::string(line)};
  world_->fail(rank_, error.message, std::make_exception_ptr(Exception(error)));
  throw Exception(error);
}

std::unique_ptr<Communicator> Threads::duplicate() {
  return std::unique_ptr<Communicator>(new Threads(world_->duplicate(duplicates_++), rank_));
}

void Threads::run(int workers, const std::function<void(Communicator&)>& work) {
  if (workers < 1) refuse("threads: {} workers, at least 1 is needed", {workers});
  const auto world = std::make_shared<World>(workers, std::make_shared<Failure>());
  std::vector<std::thread> threads;
  for (int r = 0; r < workers; ++r)
    threads.emplace_back([&, r] {
      Threads mine(world, r);
      try {
        work(mine);
      } catch (const std::exception& e) {
        world->fail(r, e.what(), std::current_exception());
      } catch (...) {
        world->fail(r, "an exception of an unknown type", std::current_exception());
      }
    });
  for (std::thread& t : threads) t.join();
  if (world->failure()->thrown) std::rethrow_exception(world->failure()->thrown);
}

}  // namespace planck::dist
