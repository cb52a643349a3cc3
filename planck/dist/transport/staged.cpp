#include "planck/dist/transport/staged.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"

namespace planck::dist {

namespace {

bool on_host(const Stream& s) { return s.device().kind == DeviceKind::cpu; }

void fetch(const Stream& s, void* to, const void* from, std::size_t bytes) {
  if (on_host(s))
    std::memcpy(to, from, bytes);
  else
    value_or_throw(cuda::copy_to_host(s.device().ordinal, s.native(), to, from, bytes));
}
void bring(const Stream& s, void* to, const void* from, std::size_t bytes) {
  if (on_host(s))
    std::memcpy(to, from, bytes);
  else
    value_or_throw(cuda::copy_to_device(s.device().ordinal, s.native(), to, from, bytes));
}
void give_back(const Stream& s, std::byte* room) {
  if (on_host(s))
    std::free(room);
  else if (room != nullptr)
    cuda::release_pinned(room);
}
constexpr std::size_t in_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Staged::Staged(Communicator& host, const Stream& stream) : host_(host), stream_(stream) {}
Staged::Staged(std::unique_ptr<Communicator> own, const Stream& stream)
    : own_(std::move(own)), host_(*own_), stream_(stream) {}
Staged::~Staged() {
  (void)stream_.synchronize();  // it may still be copying
  give_back(stream_, room_);
}

std::byte* Staged::room(std::size_t bytes) {
  if (room_bytes_ >= bytes) return room_;
  value_or_throw(stream_.synchronize());
  give_back(stream_, std::exchange(room_, nullptr));
  room_bytes_ = 0;
  if (on_host(stream_)) {
    room_ = static_cast<std::byte*>(std::malloc(bytes));
    if (room_ == nullptr) raise(ErrorCode::out_of_memory, "staged: no memory for messages");
  } else {
    room_ = static_cast<std::byte*>(value_or_throw(cuda::allocate_pinned(bytes)));
  }
  room_bytes_ = bytes;
  return room_;
}

void Staged::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                      const Arrived& arrived) {
  if (host_.takes_device_memory()) {
    value_or_throw(stream_.synchronize());
    return host_.exchange(outgoing, incoming, arrived);
  }
  std::size_t bytes = 0;
  for (const Outgoing& o : outgoing) bytes += in_lines(o.bytes);
  for (const Incoming& i : incoming) bytes += in_lines(i.bytes);
  std::byte* next = room(bytes);
  std::vector<Outgoing> out(outgoing.begin(), outgoing.end());
  std::vector<Incoming> in(incoming.begin(), incoming.end());
  for (Outgoing& o : out) {
    if (o.bytes > 0) fetch(stream_, next, o.data, o.bytes);
    o.data = next;
    next += in_lines(o.bytes);
  }
  for (Incoming& i : in) {
    i.data = next;
    next += in_lines(i.bytes);
  }
  // What is sent is there then; and what the last exchange has brought has left the room.
  value_or_throw(stream_.synchronize());
  host_.exchange(out, in, [&](std::size_t i) {
    if (in[i].bytes > 0) bring(stream_, incoming[i].data, in[i].data, in[i].bytes);
    if (arrived) arrived(i);
  });
}

// The host's own collectives, which workers that are not staged call too; through its memory.
void Staged::broadcast(void* data, std::size_t bytes, int from) {
  std::byte* const here = room(bytes);
  if (rank() == from && bytes > 0) fetch(stream_, here, data, bytes);
  value_or_throw(stream_.synchronize());
  host_.broadcast(here, bytes, from);
  if (rank() != from && bytes > 0) bring(stream_, data, here, bytes);
}
void Staged::all_gather(const void* mine, std::size_t bytes, void* all) {
  const std::size_t every = bytes * static_cast<std::size_t>(size());
  std::byte* const here = room(in_lines(every) + bytes);
  std::byte* const own = here + in_lines(every);
  if (bytes > 0) fetch(stream_, own, mine, bytes);
  value_or_throw(stream_.synchronize());
  host_.all_gather(own, bytes, here);
  if (bytes > 0) bring(stream_, all, here, every);
}
void Staged::barrier() {
  value_or_throw(stream_.synchronize());
  host_.barrier();
}
void Staged::abort(std::string_view line) {
  host_.abort(line);
  std::terminate();  // not reached
}
std::unique_ptr<Communicator> Staged::duplicate() {
  const Stream apart = on_host(stream_) ? stream_ : value_or_throw(Stream::on(stream_.device()));
  return std::unique_ptr<Communicator>(new Staged(host_.duplicate(), apart));
}

}  // namespace planck::dist
