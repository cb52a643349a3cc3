#include "planck/dist/transport/nccl.h"

#include <dlfcn.h>
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"

namespace planck::dist {

namespace {

// The functions of libnccl.so.2 that are needed.
struct Library {
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRank) init = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclGetErrorString) text = nullptr;
  std::string missing;

  Library() {
    void* file = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) {
      missing = std::string("nccl: ") + dlerror();
      return;
    }
    find(file, "ncclGetUniqueId", get_unique_id);
    find(file, "ncclCommInitRank", init);
    find(file, "ncclCommDestroy", destroy);
    find(file, "ncclCommAbort", abort);
    find(file, "ncclCommGetAsyncError", async_error);
    find(file, "ncclGroupStart", group_start);
    find(file, "ncclGroupEnd", group_end);
    find(file, "ncclSend", send);
    find(file, "ncclRecv", receive);
    find(file, "ncclBroadcast", broadcast);
    find(file, "ncclGetErrorString", text);
  }
  template <class F>
  void find(void* file, const char* name, F& function) {
    function = reinterpret_cast<F>(dlsym(file, name));
    if (function == nullptr) missing = std::string("nccl: libnccl.so.2 lacks ") + name;
  }
};
const Library& library() {
  static const Library loaded;
  return loaded;
}

Result<void> ok_or(ncclResult_t status, const char* what) {
  if (status == ncclSuccess) return {};
  return fail(ErrorCode::device, std::string(what) + ": " + library().text(status));
}
void check(ncclResult_t status, const char* what) { value_or_throw(ok_or(status, what)); }

cudaStream_t as_stream(const Stream& s) { return static_cast<cudaStream_t>(s.native()); }

}  // namespace

// NCCL's communicator, and a thread that asks it whether a peer or a link is lost: whoever waits
// for the stream would wait forever. Then what the stream has is given up, and the stream goes on.
struct Nccl::Watch {
  explicit Watch(ncclComm_t made) : comm(made), thread([this] { work(); }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex);
      ends = true;
    }
    changed.notify_all();
    thread.join();
  }
  void work() {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, std::chrono::milliseconds(100), [&] { return ends; })) {
      ncclResult_t status = ncclSuccess;
      const ncclResult_t asked = library().async_error(comm, &status);
      if (asked != ncclSuccess) status = asked;
      if (status == ncclSuccess || status == ncclInProgress) continue;
      lost = library().text(status);
      (void)library().abort(std::exchange(comm, nullptr));
      return;
    }
  }
  // Under the mutex, which everyone who gives NCCL work holds.
  void check_lost() const {
    if (comm == nullptr) raise(ErrorCode::device, "nccl: a peer or a link is lost: " + lost);
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false;
  ncclComm_t comm;
  std::string lost;
  std::thread thread;  // the last member: it uses all others
};

bool Nccl::built() { return true; }

Nccl::Nccl(Communicator& host, const Stream& stream, std::unique_ptr<Watch> watch)
    : host_(host), stream_(stream), watch_(std::move(watch)) {}

namespace {

// All workers join or none: one that cannot would leave the others waiting inside NCCL. `mine` is
// what keeps this one from it, or "".
Result<void> agree(Communicator& host, ErrorCode code, const std::string& mine) {
  const auto all = gather_all(host, std::as_bytes(std::span(mine)));
  if (!mine.empty()) return fail(code, mine);
  for (std::size_t w = 0; w < all.size(); ++w)
    if (!all[w].empty())
      return fail(ErrorCode::device,
                  "worker " + std::to_string(w) + " cannot join: " +
                      std::string(reinterpret_cast<const char*>(all[w].data()), all[w].size()));
  return {};
}

}  // namespace

Result<std::unique_ptr<Nccl>> Nccl::join(Communicator& host, const Stream& stream) {
  const bool on_gpu = stream.device().kind == DeviceKind::cuda;
  std::string why =
      !on_gpu ? "nccl: the stream is the CPU's, it must be a GPU's" : library().missing;
  ncclUniqueId id{};
  if (why.empty() && host.rank() == 0)
    if (auto ok = ok_or(library().get_unique_id(&id), "ncclGetUniqueId"); !ok)
      why = ok.error().message;
  if (auto ok = agree(host, on_gpu ? ErrorCode::device : ErrorCode::invalid_problem, why); !ok)
    return tl::unexpected(ok.error());
  host.broadcast(&id, sizeof id, 0);
  auto before = cuda::make_current(stream.device().ordinal);
  if (!before) return tl::unexpected(before.error());
  ncclComm_t handle = nullptr;
  auto ok = ok_or(library().init(&handle, host.size(), id, host.rank()), "ncclCommInitRank");
  (void)cuda::make_current(*before);
  if (!ok) return tl::unexpected(ok.error());
  return std::unique_ptr<Nccl>(new Nccl(host, stream, std::make_unique<Watch>(handle)));
}

Nccl::~Nccl() {
  // While an error is on its way peers may be stuck: what the stream waits for may never arrive.
  const bool fails = std::uncaught_exceptions() > 0;
  if (!fails) (void)stream_.synchronize();
  const std::lock_guard lock(watch_->mutex);
  const ncclComm_t comm = std::exchange(watch_->comm, nullptr);
  watch_->ends = true;
  if (comm != nullptr) (void)(fails ? library().abort(comm) : library().destroy(comm));
}

void Nccl::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                    const Arrived& arrived) {
  if (!outgoing.empty() || !incoming.empty()) {
    const std::lock_guard lock(watch_->mutex);
    watch_->check_lost();
    check(library().group_start(), "ncclGroupStart");
    for (const Outgoing& o : outgoing)
      check(library().send(o.data, o.bytes, ncclUint8, o.to, watch_->comm, as_stream(stream_)),
            "ncclSend");
    for (const Incoming& i : incoming)
      check(library().receive(i.data, i.bytes, ncclUint8, i.from, watch_->comm, as_stream(stream_)),
            "ncclRecv");
    check(library().group_end(), "ncclGroupEnd");
  }
  // What follows on the stream comes after all of them.
  for (std::size_t i = 0; arrived && i < incoming.size(); ++i) arrived(i);
}
void Nccl::broadcast(void* data, std::size_t bytes, int from) {
  const std::lock_guard lock(watch_->mutex);
  watch_->check_lost();
  check(library().broadcast(data, data, bytes, ncclUint8, from, watch_->comm, as_stream(stream_)),
        "ncclBroadcast");
}
void Nccl::wait() {
  value_or_throw(stream_.synchronize());
  const std::lock_guard lock(watch_->mutex);
  watch_->check_lost();
}
void Nccl::barrier() {
  wait();
  host_.barrier();
}
void Nccl::abort(std::string_view line) {
  host_.abort(line);
  std::terminate();  // not reached
}
std::unique_ptr<Communicator> Nccl::duplicate() {
  auto host = host_.duplicate();
  auto made = value_or_throw(join(*host, value_or_throw(Stream::on(stream_.device()))));
  made->own_ = std::move(host);
  return made;
}

}  // namespace planck::dist
