#include "planck/dist/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "planck/core/refuse.h"
#include "planck/nn/load.h"

namespace planck::dist {

namespace {

class Writer {
 public:
  void number(std::uint64_t n) { bytes(std::as_bytes(std::span(&n, 1))); }
  void bytes(std::span<const std::byte> b) { out.insert(out.end(), b.begin(), b.end()); }
  std::vector<std::byte> out;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> all) : rest_(all) {}
  std::uint64_t number() {
    std::uint64_t n = 0;
    std::memcpy(&n, bytes(sizeof n).data(), sizeof n);
    return n;
  }
  std::span<const std::byte> bytes(std::uint64_t count) {
    if (count > rest_.size())
      refuse("unpack: {} bytes are wanted, {} are left",
             {static_cast<std::int64_t>(count), static_cast<std::int64_t>(rest_.size())});
    const auto part = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(static_cast<std::size_t>(count));
    return part;
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace

std::vector<std::byte> pack(const nn::StateDict& state) {
  Writer w;
  w.number(state.size());
  for (const auto& [name, e] : state) {
    w.number(name.size());
    w.bytes(std::as_bytes(std::span(name)));
    w.number(static_cast<std::uint64_t>(e.dtype));
    w.number(static_cast<std::uint64_t>(e.shape.rank()));
    for (int d = 0; d < e.shape.rank(); ++d) w.number(static_cast<std::uint64_t>(e.shape[d]));
    w.number(e.bytes.size());
    w.bytes(e.bytes);
  }
  return std::move(w.out);
}

nn::StateDict unpack(std::span<const std::byte> all) {
  Reader r(all);
  nn::StateDict state;
  for (std::uint64_t n = r.number(); n > 0; --n) {
    const auto name = r.bytes(r.number());
    nn::StateEntry e;
    e.dtype = static_cast<Dtype>(r.number());
    const std::uint64_t rank = r.number();
    if (rank > 8) refuse("unpack: a rank of {}, at most 8", {static_cast<std::int64_t>(rank)});
    for (std::uint64_t d = 0; d < rank; ++d)
      e.shape.push_back(static_cast<std::int64_t>(r.number()));
    const auto bytes = r.bytes(r.number());
    e.bytes.assign(bytes.begin(), bytes.end());
    state.emplace(std::string(reinterpret_cast<const char*>(name.data()), name.size()),
                  std::move(e));
  }
  return state;
}

nn::StateDict hashes_of(const nn::StateDict& state) {
  nn::StateDict hashes;
  for (const auto& [name, e] : state) {
    const std::string text = nn::sha256_of({{name, e}});
    const auto bytes = std::as_bytes(std::span(text));
    hashes[name] = {Dtype::u8, {64}, {bytes.begin(), bytes.end()}};
  }
  return hashes;
}

nn::StateDict broadcast(Communicator& workers, const nn::StateDict& state, int from) {
  if (workers.size() == 1) return state;
  std::vector<std::byte> bytes;
  if (workers.rank() == from) bytes = pack(state);
  std::uint64_t length = bytes.size();
  workers.host().broadcast(&length, sizeof length, from);
  bytes.resize(length);
  workers.host().broadcast(bytes.data(), bytes.size(), from);
  return workers.rank() == from ? state : unpack(bytes);
}

void broadcast_state(Communicator& workers, const nn::PartList& parts, int from) {
  if (workers.size() == 1) return;
  const nn::StateDict whole = broadcast(workers, nn::state(parts), from);
  if (workers.rank() != from) nn::load_state(parts, whole, {});
}

std::optional<std::string> difference(Communicator& workers, const nn::StateDict& state) {
  const std::string own = nn::sha256_of(state);
  std::string all(own.size() * static_cast<std::size_t>(workers.size()), ' ');
  workers.host().all_gather(own.data(), own.size(), all.data());
  const auto hash_of = [&](int r) {
    return std::string_view(all).substr(static_cast<std::size_t>(r) * own.size(), own.size());
  };
  bool equal = true;
  for (int r = 1; r < workers.size(); ++r) equal &= hash_of(r) == hash_of(0);
  if (equal) return std::nullopt;

  std::vector<nn::StateDict> of;
  for (const auto& bytes : gather_all(workers, pack(hashes_of(state)))) of.push_back(unpack(bytes));
  nn::StateDict names;
  for (const auto& each : of) names.insert(each.begin(), each.end());
  for (const auto& [name, hash] : names) {
    std::string who;
    const auto first = of[0].find(name);
    for (std::size_t r = 1; r < of.size(); ++r) {
      const auto found = of[r].find(name);
      const bool there = found != of[r].end(), was = first != of[0].end();
      if (there != was || (there && !(found->second == first->second)))
        who += fmt::format("{}{}", who.empty() ? "" : ", ", r);
    }
    if (!who.empty()) return fmt::format("{} differs: worker {} from worker 0", name, who);
  }
  return "the states differ";
}

void check_same(Communicator& workers, const std::string& mine) {
  if (workers.size() == 1) return;
  std::string first;
  std::int64_t rank = 0;
  for (const auto& bytes : gather_all(workers, std::as_bytes(std::span(mine)))) {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (rank == 0) first = text;
    if (text != first)
      refuse("workers must be started alike: worker {} has {}; worker 0 has {}",
             {rank, text, first});
    ++rank;
  }
}

nn::StateDict gather(Communicator& workers, const nn::StateDict& mine) {
  if (workers.size() == 1) return mine;
  nn::StateDict all;
  for (const auto& bytes : gather_all(workers, pack(mine))) all.merge(unpack(bytes));
  return all;
}

}  // namespace planck::dist
