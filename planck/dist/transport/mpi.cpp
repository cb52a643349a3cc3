#include "planck/dist/transport/mpi.h"

#include <fmt/format.h>
#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>  // Open MPI's: whether it knows CUDA
#endif

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include "planck/core/exception.h"
#include "planck/core/refuse.h"
#include "planck/dist/transport/backoff.h"
#include "planck/dist/transport/cores.h"
#include "planck/dist/transport/mpi_watch-inl.h"

namespace planck::dist {

namespace {

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<std::size_t>(length)};
}
void check(int code, const char* what) {
  if (code != MPI_SUCCESS) raise(ErrorCode::device, fmt::format("{}: {}", what, text_of(code)));
}

// Messages go in parts: whether a large one is on its way is seen by those of its parts that have
// arrived (MpiWatch), and MPI counts in int.
constexpr std::size_t kMostBytes = 1u << 20;
template <class F>
void in_parts(std::size_t bytes, const F& f) {
  std::size_t at = 0;
  do {
    const std::size_t part = std::min(kMostBytes, bytes - at);
    f(at, static_cast<int>(part));
    at += part;
  } while (at < bytes);
}

// Both sides agree on the bytes of a message, or one of them is wrong.
void check_length(const MPI_Status& status, int failed, int bytes, int from, int rank) {
  int kind = MPI_SUCCESS, count = 0;
  MPI_Error_class(failed, &kind);
  if (kind == MPI_ERR_TRUNCATE)
    refuse("exchange: worker {} sent more than the {} bytes that worker {} expects",
           {from, bytes, rank});
  check(failed, "MPI_Irecv");
  MPI_Get_count(&status, MPI_BYTE, &count);
  if (count != bytes)
    refuse("exchange: worker {} sent {} bytes, worker {} expects {}", {from, count, rank, bytes});
}

// MPI's own waiting keeps a core busy.
void wait_for(MPI_Request& request, const char* what) {
  int done = 0;
  for (Backoff backoff;; backoff.pause()) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), what);
    if (done != 0) return;
  }
}

// Where an exchange throws, nothing may be written any more into memory that its caller frees. What
// was sent is not taken back: few libraries can.
struct CancelUnlessDone {
  std::vector<MPI_Request>& requests;
  const int exceptions = std::uncaught_exceptions();
  ~CancelUnlessDone() {
    if (std::uncaught_exceptions() == exceptions) return;
    for (MPI_Request& r : requests)
      if (r != MPI_REQUEST_NULL) (void)MPI_Cancel(&r);
    int done = 0;
    for (MPI_Request& r : requests) (void)MPI_Test(&r, &done, MPI_STATUS_IGNORE);
  }
};

std::atomic<int> users{0};
bool started_here = false;  // MPI, and not by the program
MpiWatch* watch = nullptr;  // of the process; a program that exits on its way does not wait for it

}  // namespace

struct Mpi::Session {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1, local = 1, local_rank = 0, cores = 1;
  bool own_core = false;

  explicit Session(MPI_Comm parent) {
    ++users;
    const MpiWatch::Call call;
    check(MPI_Comm_dup(parent, &comm), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  }
  ~Session() {
    // While an error is on its way other workers may be stuck: nothing collective is done then.
    if (std::uncaught_exceptions() > 0) return;
    {
      const MpiWatch::Call call;
      MPI_Comm_free(&comm);
    }
    if (--users > 0) return;
    delete std::exchange(watch, nullptr);
    if (started_here) MPI_Finalize();
  }
  Session(const Session&) = delete;
};

Mpi::Mpi(std::unique_ptr<Session> session) : session_(std::move(session)) {}
Mpi::~Mpi() = default;

bool Mpi::built() { return true; }
bool Mpi::launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

Result<std::unique_ptr<Mpi>> Mpi::join() {
  // A connection that is lost is an error of the call that needs it, which names the worker,
  // and not the silent end of this process.
  if (const auto before = std::signal(SIGPIPE, SIG_IGN); before != SIG_DFL)
    (void)std::signal(SIGPIPE, before);
  int begun = 0, ended = 0, level = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  if (ended != 0)
    return fail(ErrorCode::device, "mpi: it has ended in this process, and begins once");
  if (begun != 0) {
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE)
      return fail(ErrorCode::unsupported,
                  fmt::format("mpi: the program started it with thread level {}, it must be "
                              "MPI_THREAD_MULTIPLE ({}): call MPI_Init_thread, or nothing",
                              level, MPI_THREAD_MULTIPLE));
  } else {
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
      return fail(ErrorCode::device, "mpi: MPI_Init_thread failed");
    if (level < MPI_THREAD_MULTIPLE)
      return fail(ErrorCode::unsupported,
                  "mpi: this MPI library lets one thread communicate, several are needed");
    started_here = true;
  }
  auto session = std::make_unique<Session>(MPI_COMM_WORLD);
  MPI_Comm local = MPI_COMM_NULL;
  check(MPI_Comm_split_type(session->comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local),
        "MPI_Comm_split_type");
  MPI_Comm_size(local, &session->local);
  MPI_Comm_rank(local, &session->local_rank);
  const Cores mine = cores_of_this_thread();
  std::vector<Cores> all(static_cast<std::size_t>(session->local));
  check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, local),
        "MPI_Allgather");
  const auto place = static_cast<std::size_t>(session->local_rank);
  const int shared = Stream::cpu().threads() / session->local;
  session->cores = mine == Cores{} ? std::max(1, shared) : cores_for(all, place);
  session->own_core = mine == Cores{} ? shared >= 1 : has_own_core(all, place);
  MPI_Comm_free(&local);
  if (session->size > 1 && watch == nullptr) watch = new MpiWatch(session->comm);
  return std::unique_ptr<Mpi>(new Mpi(std::move(session)));
}

int Mpi::rank() const { return session_->rank; }
int Mpi::size() const { return session_->size; }
int Mpi::local_size() const { return session_->local; }
int Mpi::local_rank() const { return session_->local_rank; }
int Mpi::cores() const { return session_->cores; }

void Mpi::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                   const Arrived& arrived) {
  const MpiWatch::Call call;
  struct Part {  // of an incoming message
    std::size_t message;
    int bytes;
  };
  std::vector<MPI_Request> requests;  // receives, then sends
  const CancelUnlessDone unless_done{requests};
  std::vector<Part> parts;
  std::vector<int> missing(incoming.size(), 0);  // parts of each
  for (std::size_t m = 0; m < incoming.size(); ++m)
    in_parts(incoming[m].bytes, [&](std::size_t at, int count) {
      check(
          MPI_Irecv(static_cast<std::byte*>(incoming[m].data) + at, count, MPI_BYTE,
                    incoming[m].from, 0, session_->comm, &requests.emplace_back(MPI_REQUEST_NULL)),
          "MPI_Irecv");
      parts.push_back({m, count});
      ++missing[m];
    });
  for (const Outgoing& o : outgoing)
    in_parts(o.bytes, [&](std::size_t at, int count) {
      check(MPI_Isend(static_cast<const std::byte*>(o.data) + at, count, MPI_BYTE, o.to, 0,
                      session_->comm, &requests.emplace_back(MPI_REQUEST_NULL)),
            "MPI_Isend");
    });
  std::vector<int> which(requests.size());
  std::vector<MPI_Status> statuses(requests.size());
  std::size_t all_bytes = 0;
  for (const Outgoing& o : outgoing) all_bytes += o.bytes;
  for (const Incoming& i : incoming) all_bytes += i.bytes;
  Backoff backoff(all_bytes, session_->own_core);
  for (std::size_t done = 0; done < requests.size();) {
    int count = 0;
    const int code = MPI_Testsome(static_cast<int>(requests.size()), requests.data(), &count,
                                  which.data(), statuses.data());
    if (code != MPI_ERR_IN_STATUS) check(code, "MPI_Testsome");
    if (count <= 0) {
      backoff.pause();
      continue;
    }
    backoff.found();
    MpiWatch::moved();
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const auto request = static_cast<std::size_t>(which[i]);
      const int failed = code == MPI_ERR_IN_STATUS ? statuses[i].MPI_ERROR : MPI_SUCCESS;
      if (request >= parts.size()) {
        check(failed, "MPI_Isend");
        continue;
      }
      const auto [message, bytes] = parts[request];
      check_length(statuses[i], failed, bytes, incoming[message].from, session_->rank);
      if (--missing[message] == 0 && arrived) arrived(message);
    }
    done += static_cast<std::size_t>(count);
  }
}
void Mpi::broadcast(void* data, std::size_t bytes, int from) {
  const MpiWatch::Call call;
  in_parts(bytes, [&](std::size_t at, int count) {
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(static_cast<std::byte*>(data) + at, count, MPI_BYTE, from, session_->comm,
                     &request),
          "MPI_Ibcast");
    wait_for(request, "MPI_Ibcast");
    MpiWatch::moved();
  });
}
void Mpi::barrier() {
  const MpiWatch::Call call;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(session_->comm, &request), "MPI_Ibarrier");
  wait_for(request, "MPI_Ibarrier");
}

bool Mpi::takes_device_memory() const {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

void Mpi::abort(std::string_view line) { say_and_end(session_->comm, std::string(line)); }
void Mpi::wait_to_speak() {
  if (watch == nullptr || !watch->wait_to_speak()) Communicator::wait_to_speak();
}

std::unique_ptr<Communicator> Mpi::duplicate() {
  auto session = std::make_unique<Session>(session_->comm);
  session->local = session_->local;
  session->local_rank = session_->local_rank;
  session->cores = session_->cores;
  session->own_core = session_->own_core;
  return std::unique_ptr<Communicator>(new Mpi(std::move(session)));
}

void Mpi::unordered_all_reduce(const float* mine, float* sum, std::int64_t count) {
  const MpiWatch::Call call;
  check(MPI_Allreduce(mine, sum, static_cast<int>(count), MPI_FLOAT, MPI_SUM, session_->comm),
        "MPI_Allreduce");
}

}  // namespace planck::dist
