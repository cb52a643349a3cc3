#include "planck/dist/transport/communicator.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <thread>

#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"
#include "planck/core/refuse.h"

namespace planck::dist {

void Communicator::send(int to, const void* data, std::size_t bytes) {
  const Outgoing one{to, data, bytes};
  exchange({&one, 1}, {});
}
void Communicator::receive(int from, void* data, std::size_t bytes) {
  const Incoming one{from, data, bytes};
  exchange({}, {&one, 1});
}

// A binomial tree: log2(size) rounds.
void Communicator::broadcast(void* data, std::size_t bytes, int from) {
  const int n = size(), place = (rank() - from + n) % n;
  int bit = 1;
  while (bit < n && (place & bit) == 0) bit <<= 1;
  if (place != 0) receive((place - bit + from) % n, data, bytes);
  for (bit >>= 1; bit > 0; bit >>= 1)
    if (place + bit < n) send((place + bit + from) % n, data, bytes);
}

void Communicator::all_gather(const void* mine, std::size_t bytes, void* all) {
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  auto* to = static_cast<std::byte*>(all);
  const auto place = [&](int r) { return to + static_cast<std::size_t>(r) * bytes; };
  for (int d = 1; d < size(); ++d) {
    out.push_back({(rank() + d) % size(), mine, bytes});
    const int from = (rank() - d + size()) % size();
    in.push_back({from, place(from), bytes});
  }
  const Stream s = stream();
  if (s.device().kind == DeviceKind::cuda)
    value_or_throw(
        cuda::copy_on_device(s.device().ordinal, s.native(), place(rank()), mine, bytes));
  else if (bytes > 0 && place(rank()) != mine)
    std::memmove(place(rank()), mine, bytes);
  exchange(out, in);
}

void Communicator::wait() { value_or_throw(stream().synchronize()); }
void Communicator::barrier() {
  wait();
  const std::byte mine{};
  std::vector<std::byte> all(static_cast<std::size_t>(size()));
  host().all_gather(&mine, 1, all.data());
}

std::vector<std::vector<std::byte>> gather_all(Communicator& workers,
                                               std::span<const std::byte> mine) {
  const auto n = static_cast<std::size_t>(workers.size()),
             rank = static_cast<std::size_t>(workers.rank());
  Communicator& host = workers.host();
  std::vector<std::uint64_t> lengths(n);
  const std::uint64_t length = mine.size();
  host.all_gather(&length, sizeof length, lengths.data());
  std::vector<std::vector<std::byte>> all(n);
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  for (std::size_t d = 1; d < n; ++d) {
    const std::size_t to = (rank + d) % n, from = (rank + n - d) % n;
    all[from].resize(lengths[from]);
    if (length > 0) out.push_back({static_cast<int>(to), mine.data(), mine.size()});
    if (lengths[from] > 0)
      in.push_back({static_cast<int>(from), all[from].data(), all[from].size()});
  }
  all[rank].assign(mine.begin(), mine.end());
  host.exchange(out, in);
  return all;
}

int Communicator::cores() const { return std::max(1, Stream::cpu().threads() / local_size()); }
void Communicator::wait_to_speak() {
  if (&host() != this) return host().wait_to_speak();
  std::this_thread::sleep_for(turn_to_speak(rank(), size()));
}

std::chrono::milliseconds turn_to_speak(int rank, int size) {
  return std::chrono::milliseconds(std::min(300, 3000 / size) * rank);
}

int or_abort(Communicator& workers, std::string_view name, const std::function<int()>& work) {
  std::string what;
  try {
    return work();
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {
    what = "an exception of an unknown type";
  }
  for (char& c : what)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  workers.wait_to_speak();
  std::string line(name);
  if (workers.size() > 1)
    line += ": worker " + std::to_string(workers.rank()) + " of " + std::to_string(workers.size());
  workers.abort(line + ": " + what);
  std::terminate();  // not reached; a virtual call is not known to stay away
}

void Alone::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                     const Arrived&) {
  if (!outgoing.empty() || !incoming.empty()) refuse("exchange: worker {} is alone", {0});
}
void Alone::abort(std::string_view line) { raise(ErrorCode::device, std::string(line)); }

namespace {
int place_of(const Communicator& whole, const std::vector<int>& members) {
  for (const int m : members)
    if (m < 0 || m >= whole.size())
      refuse("group: worker {} of {} that are numbered from 0", {m, whole.size()});
  const auto at = std::find(members.begin(), members.end(), whole.rank());
  if (at == members.end()) refuse("group: worker {} is not in it", {whole.rank()});
  return static_cast<int>(at - members.begin());
}
}  // namespace

Group::Group(Communicator& whole, std::vector<int> members)
    : whole_(whole), members_(std::move(members)), rank_(place_of(whole, members_)) {}
Group::Group(std::unique_ptr<Communicator> own, std::vector<int> members)
    : own_(std::move(own)),
      whole_(*own_),
      members_(std::move(members)),
      rank_(place_of(whole_, members_)) {}

void Group::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming,
                     const Arrived& arrived) {
  std::vector<Outgoing> out(outgoing.begin(), outgoing.end());
  std::vector<Incoming> in(incoming.begin(), incoming.end());
  for (Outgoing& o : out) o.to = members_[static_cast<std::size_t>(o.to)];
  for (Incoming& i : in) i.from = members_[static_cast<std::size_t>(i.from)];
  whole_.exchange(out, in, arrived);
}
Communicator& Group::host() {
  if (&whole_.host() == &whole_) return *this;
  if (!host_) host_ = std::make_unique<Group>(whole_.host(), members_);
  return *host_;
}
void Group::abort(std::string_view line) {
  whole_.abort(line);
  std::terminate();  // not reached
}
std::unique_ptr<Communicator> Group::duplicate() {
  return std::unique_ptr<Communicator>(new Group(whole_.duplicate(), members_));
}

}  // namespace planck::dist
