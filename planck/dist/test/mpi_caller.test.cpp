// A program that has started MPI itself: a program for mpirun. With "threads" it lets all threads
// communicate, and joins; else joining is refused. It ends MPI itself, too.
#include <mpi.h>

#include <cstdio>
#include <string_view>

#include "planck/dist/transport/mpi.h"

int main(int count, char** arguments) {
  const bool threads = count > 1 && std::string_view(arguments[1]) == "threads";
  int level = 0;
  MPI_Init_thread(&count, &arguments, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
  {
    const auto joined = planck::dist::Mpi::join();
    if (joined) (*joined)->barrier();
    std::printf("%s\n", joined ? "joined" : joined.error().message.c_str());
  }
  int ended = 0;
  MPI_Finalized(&ended);
  if (ended != 0) return 1;
  MPI_Finalize();
  const auto again = planck::dist::Mpi::join();
  std::printf("%s\n", again ? "joined" : again.error().message.c_str());
  return 0;
}
