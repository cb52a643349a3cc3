// A communicator: the workers of one job, and how bytes get from one to another.
//
// Nothing here adds or rounds: what arrives are the bytes that were sent, and who adds them, in
// which order, is said elsewhere (all_reduce.h). Implementations: Threads (threads.h, workers are
// threads of one process), Mpi (mpi.h) and Nccl (nccl.h, memory of GPUs).
//
// Every worker calls the same collectives in the same order. A communicator is used by one thread
// at a time; duplicate() gives another one for another thread. A worker that is gone, or a
// connection that is lost, is thrown as planck::Exception with ErrorCode::device.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "planck/core/stream.h"

namespace planck::dist {

struct Outgoing {
  int to;
  const void* data;
  std::size_t bytes;
};
struct Incoming {
  int from;
  void* data;
  std::size_t bytes;
};

class Communicator {
 public:
  using Arrived = std::function<void(std::size_t)>;

  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Whose memory is sent and received: the host's, or that of a GPU's stream.
  virtual Stream stream() const { return Stream::cpu(1); }
  // The same workers, for memory of the host.
  virtual Communicator& host() { return *this; }
  // Whether memory of a GPU may be given to it as well; complete on its stream before, and after.
  virtual bool takes_device_memory() const { return false; }
  // In which large arrays are sent, so that what has arrived is added while the rest is on its way.
  virtual std::size_t piece_bytes() const { return 256 << 10; }

  // Sends and receives all of these at once: workers that exchange with each other never wait in a
  // circle. Messages between two workers arrive in the order in which they were sent, and both
  // sides agree on the bytes of each. `arrived(i)` is called as soon as incoming[i] may be read.
  // Done when it returns; in a GPU's memory, done in the order of its stream.
  virtual void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                        const Arrived& arrived = nullptr) = 0;
  void send(int to, const void* data, std::size_t bytes);
  void receive(int from, void* data, std::size_t bytes);

  // What `from` has, on every worker.
  virtual void broadcast(void* data, std::size_t bytes, int from);
  // The bytes of worker r at all + r * bytes, on every worker.
  virtual void all_gather(const void* mine, std::size_t bytes, void* all);
  // Returns when what the stream was given is done. A connection that is lost meanwhile is thrown.
  virtual void wait();
  // Returns when every worker has called it, and what the stream was given before is done.
  virtual void barrier();

  // Ends the job on every worker, with one line on standard error from this one.
  [[noreturn]] virtual void abort(std::string_view line) = 0;
  // The same workers, apart from the messages of this communicator. Called by all.
  virtual std::unique_ptr<Communicator> duplicate() = 0;
  // Workers on this machine, which share its cores, and this one's place among them.
  virtual int local_size() const { return size(); }
  virtual int local_rank() const { return rank(); }
  // How many cores are for this worker: its part of those that it may run on.
  virtual int cores() const;
  // Of a worker that has failed: returns when it is the one to say why. Of several that fail
  // together that is the one with the lowest rank, which ends the others meanwhile.
  virtual void wait_to_speak();
};

// A job of one worker.
class Alone final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                const Arrived& arrived = nullptr) override;
  [[noreturn]] void abort(std::string_view line) override;  // throws it
  std::unique_ptr<Communicator> duplicate() override { return std::make_unique<Alone>(); }
};

// Every worker's bytes, however many each has: worker r's are result[r]. Memory of the host.
std::vector<std::vector<std::byte>> gather_all(Communicator& workers,
                                               std::span<const std::byte> mine);

// How long a worker that has failed waits before it says so where it cannot ask the others: the
// longer the higher its rank is, and below 3 s.
std::chrono::milliseconds turn_to_speak(int rank, int size);

// What `work` returns. Where it throws on any worker, that worker says so in one line,
// "NAME: worker 2 of 4: …", and the job ends on all of them. The first failure speaks: what the
// others see of it comes later.
int or_abort(Communicator& workers, std::string_view name, const std::function<int()>& work);

// Some of the workers of a communicator, numbered by their place in `members`, which is the same
// list on each of them. The rows and columns of a grid of workers, say. Messages go through the
// communicator it is a part of, which must outlive it.
class Group final : public Communicator {
 public:
  Group(Communicator& whole, std::vector<int> members);
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  Stream stream() const override { return whole_.stream(); }
  bool takes_device_memory() const override { return whole_.takes_device_memory(); }
  std::size_t piece_bytes() const override { return whole_.piece_bytes(); }
  int cores() const override { return whole_.cores(); }
  void wait_to_speak() override { whole_.wait_to_speak(); }
  Communicator& host() override;
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                const Arrived& arrived = nullptr) override;
  [[noreturn]] void abort(std::string_view line) override;
  std::unique_ptr<Communicator> duplicate() override;  // called by all workers of the whole

 private:
  Group(std::unique_ptr<Communicator> own, std::vector<int> members);
  std::unique_ptr<Communicator> own_;  // where it was duplicated
  Communicator& whole_;
  std::vector<int> members_;
  int rank_;
  std::unique_ptr<Group> host_;  // where the whole one's is another
};

}  // namespace planck::dist
