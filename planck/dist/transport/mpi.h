// Workers that are processes started by mpirun (or srun), on one machine or many.
//
//   const auto workers = value_or_throw(Mpi::join());      // in each process, once
//
// Memory of the host, and of GPUs where the library was built for them. Threads may use one
// communicator each (MPI_THREAD_MULTIPLE). Where SIGPIPE would end the process, join() makes it
// ignored. A build without MPI has Mpi too; join() says what is missing.
#pragma once

#include "planck/dist/transport/communicator.h"

namespace planck::dist {

class Mpi final : public Communicator {
 public:
  static bool built();     // whether this build has MPI
  static bool launched();  // whether this process was started by mpirun or the like
  // The communicator of all processes of this job; of one where it was started alone. MPI starts
  // with it and ends with the last of its copies, unless the program has started it, with
  // MPI_THREAD_MULTIPLE, and ends it.
  static Result<std::unique_ptr<Mpi>> join();

  ~Mpi() override;
  int rank() const override;
  int size() const override;
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                const Arrived& arrived = nullptr) override;
  void broadcast(void* data, std::size_t bytes, int from) override;
  void barrier() override;
  bool takes_device_memory() const override;
  // One line on standard error, then MPI_Abort.
  [[noreturn]] void abort(std::string_view line) override;
  std::unique_ptr<Communicator> duplicate() override;
  int local_size() const override;
  int local_rank() const override;
  int cores() const override;
  void wait_to_speak() override;

  // MPI's own all-reduce, in an order of its choice: what ours is timed against.
  void unordered_all_reduce(const float* mine, float* sum, std::int64_t count);

 private:
  struct Session;
  explicit Mpi(std::unique_ptr<Session> session);
  std::unique_ptr<Session> session_;
};

}  // namespace planck::dist
