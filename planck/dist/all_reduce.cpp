#include "planck/dist/all_reduce.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"
#include "planck/core/refuse.h"

namespace planck::dist {

namespace {

void copy(const Stream& stream, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0 || to == from) return;
  if (stream.device().kind == DeviceKind::cuda)
    value_or_throw(cuda::copy_on_device(stream.device().ordinal, stream.native(), to, from, bytes));
  else
    std::memcpy(to, from, bytes);
}

}  // namespace

Way way_for(const Grains& grains, std::size_t bytes) {
  const auto arrays =
      static_cast<std::size_t>(grains.most_roots()) * static_cast<std::size_t>(grains.workers());
  const bool halves_at_once =
      grains.is_binary() && bytes > kAtOnceBytes && bytes <= 2 * kAtOnceBytes;
  if (bytes * arrays <= kGatherBytes && !halves_at_once) return Way::gather;
  return grains.is_binary() ? Way::halving : Way::direct;
}

struct AllReduce::Job {
  const Grains& grains;
  std::span<const void* const> roots;
  std::byte* sum;
  std::int64_t count;
  Dtype dtype;
  Stream stream;

  std::size_t bytes(std::int64_t n) const { return bytes_for(dtype, n); }
  const std::byte* at(const void* p, std::int64_t i) const {
    return static_cast<const std::byte*>(p) + bytes(i);
  }
  // Where part i of n begins: parts of whole cache lines.
  std::int64_t cut(std::int64_t i, std::int64_t n) const {
    const std::int64_t line = 64 / static_cast<std::int64_t>(bytes(1));
    const std::int64_t lines = (count + line - 1) / line;
    return std::min(count, lines * i / n * line);
  }
};

AllReduce::AllReduce(Communicator& workers, const AllReduceOptions& options)
    : workers_(workers),
      way_(options.way),
      add_(options.add),
      piece_bytes_(options.piece_bytes > 0 ? options.piece_bytes : workers.piece_bytes()) {
  const Device device = workers.stream().device();
  if (device.kind != DeviceKind::cpu && add_ == add_on_host)
    refuse("all_reduce: memory of {} is not added on the host; give it add_by_plan",
           {to_string(device)});
}

std::byte* AllReduce::room(std::size_t bytes) {
  if (room_.bytes() < bytes) room_ = value_or_throw(allocate(workers_.stream(), bytes));
  return static_cast<std::byte*>(room_.data());
}

void AllReduce::operator()(const Grains& grains, std::span<const void* const> roots, void* sum,
                           std::int64_t count, Dtype dtype) {
  if (grains.workers() != workers_.size())
    refuse("all_reduce: grains are cut for {} workers, there are {}",
           {grains.workers(), workers_.size()});
  if (roots.size() != grains.roots(workers_.rank()).size())
    refuse("all_reduce: worker {} brings {} roots, its share has {}",
           {workers_.rank(), static_cast<std::int64_t>(roots.size()),
            static_cast<std::int64_t>(grains.roots(workers_.rank()).size())});
  if (dtype != Dtype::f32 && dtype != Dtype::f64 && dtype != Dtype::i32)
    refuse("all_reduce: {}, it must be f32, f64 or i32", {dtype});
  if (way_ == Way::halving && !grains.is_binary())
    refuse(
        "all_reduce: halving needs 2^k workers with one root each; {} grains on {} workers are not",
        {grains.count(), grains.workers()});
  if (count == 0) return;
  Job job{grains, roots, static_cast<std::byte*>(sum), count, dtype, workers_.stream()};
  if (workers_.size() == 1)
    return join(add_, job.stream, joining_of(grains), roots, sum, count, dtype);
  const Way way = way_ == Way::automatic ? way_for(grains, job.bytes(count)) : way_;
  if (way == Way::gather) return gather(job);
  const auto segment = std::max<std::int64_t>(
      64, static_cast<std::int64_t>(kSegmentPieces * piece_bytes_ / job.bytes(1)));
  std::vector<const void*> here(roots.begin(), roots.end());
  job.roots = here;
  for (std::int64_t first = 0; first < count; first += segment) {
    for (std::size_t r = 0; r < roots.size(); ++r) here[r] = job.at(roots[r], first);
    job.sum = static_cast<std::byte*>(sum) + job.bytes(first);
    job.count = std::min(segment, count - first);
    way == Way::halving ? halving(job) : direct(job);
  }
}

void AllReduce::gather(const Job& job) {
  const auto most = static_cast<std::size_t>(job.grains.most_roots());
  const std::size_t bytes = job.bytes(job.count), each = most * bytes;
  const auto n = static_cast<std::size_t>(workers_.size());
  std::byte* all = room(each * (n + 1));
  std::byte* mine = all + each * n;
  for (std::size_t r = 0; r < most; ++r) {
    if (r < job.roots.size())
      copy(job.stream, mine + r * bytes, job.roots[r], bytes);
    else if (job.stream.device().kind == DeviceKind::cpu)
      std::memset(mine + r * bytes, 0, bytes);  // sent, never read
  }
  workers_.all_gather(mine, each, all);
  std::vector<const void*> values;
  for (std::size_t w = 0; w < n; ++w)
    for (std::size_t r = 0; r < job.grains.roots(static_cast<int>(w)).size(); ++r)
      values.push_back(all + w * each + r * bytes);
  join(add_, job.stream, joining_of(job.grains), values, job.sum, job.count, job.dtype);
}

void AllReduce::halving(const Job& job) {
  struct Part {
    std::int64_t first, end;
  };
  const int rank = workers_.rank(), n = workers_.size();
  const std::int64_t piece =
      std::max<std::int64_t>(64, static_cast<std::int64_t>(piece_bytes_ / job.bytes(1)) / 64 * 64);
  const auto any = [&](int first) { return job.grains.share(first).count() > 0; };
  std::vector<Part> parts{{0, job.count}};
  const void* from = job.roots.empty() ? job.sum : job.roots[0];
  std::byte* arrived = room(job.bytes(job.count));
  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  std::vector<Part> pieces;

  for (int apart = 1; apart < n; apart *= 2) {
    const int other = rank ^ apart;
    const Part all = parts.back();
    const std::int64_t line = 64 / static_cast<std::int64_t>(job.bytes(1));
    const std::int64_t middle =
        std::min(all.end, all.first + ((all.end - all.first) / 2 + line - 1) / line * line);
    const Part low{all.first, middle}, high{middle, all.end};
    const bool left = rank < other;
    const Part mine = left ? low : high, theirs = left ? high : low;
    const bool i_have = any(rank & ~(apart - 1)), they_have = any(other & ~(apart - 1));
    out.clear(), in.clear(), pieces.clear();
    if (i_have)
      for (std::int64_t i = theirs.first; i < theirs.end; i += piece)
        out.push_back({other, job.at(from, i), job.bytes(std::min(piece, theirs.end - i))});
    if (they_have)
      for (std::int64_t i = mine.first; i < mine.end; i += piece) {
        pieces.push_back({i, std::min(mine.end, i + piece)});
        std::byte* to = (i_have ? arrived : job.sum) + job.bytes(i);
        in.push_back({other, to, job.bytes(pieces.back().end - i)});
      }
    workers_.exchange(out, in, [&](std::size_t p) {
      if (!i_have) return;
      const auto [first, end] = pieces[p];
      const void *have = job.at(from, first), *got = arrived + job.bytes(first);
      add_(job.stream, job.dtype, left ? have : got, left ? got : have, job.sum + job.bytes(first),
           end - first);
    });
    if (i_have && !they_have)
      copy(job.stream, job.sum + job.bytes(mine.first), job.at(from, mine.first),
           job.bytes(mine.end - mine.first));
    from = job.sum;
    parts.push_back(mine);
  }
  for (int apart = n / 2; apart >= 1; apart /= 2) {
    const int other = rank ^ apart;
    const Part mine = parts.back();
    parts.pop_back();
    const Part all = parts.back();
    const Part theirs =
        mine.first == all.first ? Part{mine.end, all.end} : Part{all.first, mine.first};
    const Outgoing o{other, job.sum + job.bytes(mine.first), job.bytes(mine.end - mine.first)};
    const Incoming i{other, job.sum + job.bytes(theirs.first),
                     job.bytes(theirs.end - theirs.first)};
    workers_.exchange({&o, 1}, {&i, 1});
  }
}

void AllReduce::direct(const Job& job) {
  const int rank = workers_.rank(), n = workers_.size();
  const std::int64_t first = job.cut(rank, n), end = job.cut(rank + 1, n), length = end - first;
  const auto piece_of = [&](std::int64_t i, std::int64_t stop) {
    const auto most = static_cast<std::int64_t>(piece_bytes_ / job.bytes(1));
    return std::min(std::max<std::int64_t>(64, most), stop - i);
  };
  // All roots of this worker's part, in the order of the tree; those of others arrive.
  std::vector<const void*> values;
  std::vector<std::size_t> begin;  // of each worker's, in values
  std::size_t others = 0;
  for (int w = 0; w < n; ++w) {
    begin.push_back(values.size());
    const std::size_t count = job.grains.roots(w).size();
    for (std::size_t r = 0; r < count; ++r)
      values.push_back(w == rank ? job.at(job.roots[r], first) : nullptr);
    if (w != rank) others += count;
  }
  const std::size_t each = (job.bytes(length) + 63) / 64 * 64;
  std::byte* next = room(std::max<std::size_t>(1, each * others));
  for (const void*& v : values)
    if (v == nullptr) v = next, next += each;

  std::vector<Outgoing> out;
  std::vector<Incoming> in;
  std::vector<std::size_t> piece_number;
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;  // first, length, within the part
  for (std::int64_t i = first; i < end; i += piece_of(i, end)) {
    pieces.emplace_back(i - first, piece_of(i, end));
    for (int d = 1; d < n; ++d) {
      const int w = (rank - d + n) % n;
      for (std::size_t r = 0; r < job.grains.roots(w).size(); ++r) {
        auto* to = const_cast<void*>(values[begin[static_cast<std::size_t>(w)] + r]);
        in.push_back({w, static_cast<std::byte*>(to) + job.bytes(i - first),
                      job.bytes(pieces.back().second)});
        piece_number.push_back(pieces.size() - 1);
      }
    }
  }
  std::vector<std::pair<std::int64_t, std::size_t>> order;  // by piece, then by distance
  for (int d = 1; d < n; ++d) {
    const int w = (rank + d) % n;
    const std::int64_t stop = job.cut(w + 1, n);
    std::int64_t number = 0;
    for (std::int64_t i = job.cut(w, n); i < stop; i += piece_of(i, stop), ++number)
      for (const void* root : job.roots) {
        order.emplace_back(number, out.size());
        out.push_back({w, job.at(root, i), job.bytes(piece_of(i, stop))});
      }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Outgoing> sorted;
  for (const auto& [number, which] : order) sorted.push_back(out[which]);

  const Joining joining = joining_of(job.grains);
  std::vector<std::size_t> awaited(pieces.size(), others);
  std::vector<const void*> here(values.size());
  const auto add = [&](std::size_t p) {
    const auto [at, count] = pieces[p];
    for (std::size_t v = 0; v < values.size(); ++v) here[v] = job.at(values[v], at);
    join(add_, job.stream, joining, here, job.sum + job.bytes(first + at), count, job.dtype);
  };
  if (others == 0)
    for (std::size_t p = 0; p < pieces.size(); ++p) add(p);
  workers_.exchange(sorted, in, [&](std::size_t i) {
    if (--awaited[piece_number[i]] == 0) add(piece_number[i]);
  });

  out.clear(), in.clear();
  for (int d = 1; d < n; ++d) {
    const int to = (rank + d) % n, from = (rank - d + n) % n;
    if (length > 0) out.push_back({to, job.sum + job.bytes(first), job.bytes(length)});
    const std::int64_t begins = job.cut(from, n), ends = job.cut(from + 1, n);
    if (ends > begins) in.push_back({from, job.sum + job.bytes(begins), job.bytes(ends - begins)});
  }
  workers_.exchange(out, in);
}

double ordered_sum(Communicator& workers, const Grains& grains, std::span<const double> mine) {
  const Range share = grains.share(workers.rank());
  if (static_cast<std::int64_t>(mine.size()) != share.count())
    refuse("ordered_sum: {} numbers for {} grains",
           {static_cast<std::int64_t>(mine.size()), share.count()});
  std::vector<double> roots;
  for (const Range& root : grains.roots(workers.rank())) {
    std::vector<Range> leaves;
    std::vector<const void*> values;
    for (std::int64_t g = root.first; g < root.end; ++g) {
      leaves.push_back({g, g + 1});
      values.push_back(&mine[static_cast<std::size_t>(g - share.first)]);
    }
    double sum = 0;
    join(add_on_host, Stream::cpu(1), joining_of(leaves, grains.count()), values, &sum, 1,
         Dtype::f64);
    roots.push_back(sum);
  }
  std::vector<const void*> pointers;
  for (const double& r : roots) pointers.push_back(&r);
  double total = 0;
  AllReduce reduce(workers.host());
  reduce(grains, pointers, &total, 1, Dtype::f64);
  return total;
}

}  // namespace planck::dist
