// Mpi in a build without MPI: it says so.
#include "planck/dist/transport/mpi.h"

#include <cstdlib>

#include "planck/core/exception.h"

namespace planck::dist {

struct Mpi::Session {};

Mpi::Mpi(std::unique_ptr<Session> session) : session_(std::move(session)) {}
Mpi::~Mpi() = default;
bool Mpi::built() { return false; }
bool Mpi::launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}
Result<std::unique_ptr<Mpi>> Mpi::join() {
  return fail(ErrorCode::unsupported,
              "this build has no MPI: install libopenmpi-dev and openmpi-bin, and build again");
}
int Mpi::rank() const { return 0; }
int Mpi::size() const { return 1; }
int Mpi::local_size() const { return 1; }
int Mpi::local_rank() const { return 0; }
int Mpi::cores() const { return Communicator::cores(); }
void Mpi::wait_to_speak() {}
void Mpi::exchange(std::span<const Outgoing>, std::span<const Incoming>, const Arrived&) {}
void Mpi::broadcast(void*, std::size_t, int) {}
void Mpi::barrier() {}
bool Mpi::takes_device_memory() const { return false; }
void Mpi::abort(std::string_view line) { raise(ErrorCode::device, std::string(line)); }
std::unique_ptr<Communicator> Mpi::duplicate() { return nullptr; }
void Mpi::unordered_all_reduce(const float*, float*, std::int64_t) {}

}  // namespace planck::dist
