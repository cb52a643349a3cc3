// Workers that are threads of one process: for tests, for several GPUs of one machine, and to see
// that a program does the same with any number of workers before it is started on many machines.
//
//   Threads::run(4, [](Communicator& workers) { … });
//
// A worker that throws ends the others: they throw where they next wait for anybody.
#pragma once

#include "planck/dist/transport/communicator.h"

namespace planck::dist {

class Threads final : public Communicator {
 public:
  // Calls `work` on as many threads, and throws what the first of them that failed has thrown.
  static void run(int workers, const std::function<void(Communicator&)>& work);

  ~Threads() override;
  int rank() const override { return rank_; }
  int size() const override;
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                const Arrived& arrived = nullptr) override;
  // Throws the line, here and on every other worker.
  [[noreturn]] void abort(std::string_view line) override;
  std::unique_ptr<Communicator> duplicate() override;

 private:
  class World;
  Threads(std::shared_ptr<World> world, int rank);
  std::shared_ptr<World> world_;
  int rank_, duplicates_ = 0;
};

}  // namespace planck::dist
