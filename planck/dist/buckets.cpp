#include "planck/dist/buckets.h"

#include <algorithm>
#include <cstring>

#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"
#include "planck/core/refuse.h"
#include "planck/dist/sparse_rows.h"

namespace planck::dist {

namespace {
Buffer zeros(const Stream& place, std::size_t bytes) {  // what lies between slots is summed, too
  Buffer buffer = value_or_throw(allocate(place, std::max<std::size_t>(bytes, 1)));
  if (place.device().kind == DeviceKind::cpu)
    std::memset(buffer.data(), 0, bytes);
  else
    value_or_throw(cuda::fill(place.device().ordinal, place.native(), buffer.data(), 0, bytes));
  return buffer;
}
}  // namespace

Buckets::Buckets(Communicator& workers, std::size_t bucket_bytes, bool overlap, Addition add)
    : workers_(workers.duplicate()),
      bucket_bytes_(bucket_bytes),
      reduce_(*workers_, {.add = add}),
      reduce_on_host_(workers_->host()),
      courier_(overlap && workers.size() > 1) {}
Buckets::~Buckets() = default;

void Buckets::begin(const Grains& grains, const std::vector<Slot>& slots) {
  const std::size_t roots = grains.roots(workers_->rank()).size();
  courier_.wait();  // for a round that was given up
  if (!grains_ || grains.count() != grains_->count() || slots != slots_) agree(grains, slots);
  grains_ = grains;
  if (slots != slots_) {
    slots_ = slots;
    lay_out();
  }
  for (Bucket& b : buckets_) {
    b.missing = b.slots;
    while (b.roots.size() < roots) b.roots.push_back(zeros(b.place, bytes_for(b.dtype, b.count)));
    value_or_throw(b.place.synchronize());  // others than its stream write there
  }
  next_ = 0;
  told_.assign(2 * slots_.size(), 0);
}

// A message of a length that no other has: where only some of the workers see a change, these and
// the others refuse each other's messages. For that it is an exchange, never a collective of MPI's.
void Buckets::agree(const Grains& grains, const std::vector<Slot>& slots) {
  if (workers_->size() == 1) return;
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto mix = [&](std::int64_t n) {
    for (int bits = 0; bits < 64; bits += 8)
      hash = (hash ^ (static_cast<std::uint64_t>(n) >> bits & 0xff)) * 0x100000001b3;
  };
  mix(static_cast<std::int64_t>(bucket_bytes_));
  for (const Slot& s : slots) {
    for (const std::int64_t n : {static_cast<std::int64_t>(s.dtype), std::int64_t{s.by_rows},
                                 s.kind, static_cast<std::int64_t>(s.shape.rank())})
      mix(n);
    for (int d = 0; d < s.shape.rank(); ++d) mix(s.shape[d]);
  }
  struct Told {
    std::int64_t grains;
    std::uint64_t hash;
    std::int32_t slots;
  };
  constexpr std::size_t kBytes = 20;
  const Told mine{grains.count(), hash, static_cast<std::int32_t>(slots.size())};
  std::vector<std::byte> all(kBytes * static_cast<std::size_t>(workers_->size()));
  workers_->host().Communicator::all_gather(&mine, kBytes, all.data());
  Told first{};
  for (int r = 0; r < workers_->size(); ++r) {
    Told other{};
    std::memcpy(&other, all.data() + kBytes * static_cast<std::size_t>(r), kBytes);
    if (r == 0) first = other;
    if (other.grains != first.grains || other.slots != first.slots)
      refuse("buckets: worker 0 has {} grains and {} arrays, worker {} has {} and {}",
             {first.grains, first.slots, r, other.grains, other.slots});
    if (other.hash != first.hash)
      refuse(
          "buckets: workers 0 and {} have {} arrays of other shapes, dtypes, math or buckets: they "
          "must train one model, with the same options",
          {r, first.slots});
  }
}

void Buckets::lay_out() {
  places_.clear();
  buckets_.clear();
  for (const Slot& s : slots_) {
    const bool fits = !buckets_.empty() && !s.by_rows && !buckets_.back().by_rows &&
                      buckets_.back().dtype == s.dtype &&
                      bytes_for(s.dtype, buckets_.back().count + numel(s.shape)) <= bucket_bytes_;
    if (!fits) {
      buckets_.push_back({.dtype = s.dtype,
                          .by_rows = s.by_rows,
                          .shape = s.shape,
                          .place = s.by_rows ? Stream::cpu(1) : workers_->stream(),
                          .roots = {},
                          .sum = {}});
    }
    Bucket& b = buckets_.back();
    places_.push_back({buckets_.size() - 1, b.count});
    b.count += (numel(s.shape) + 15) / 16 * 16;  // slots begin at cache lines
    ++b.slots;
  }
  for (Bucket& b : buckets_) b.sum = zeros(b.place, bytes_for(b.dtype, b.count));
}

Stream Buckets::place(std::size_t slot) const { return buckets_[places_[slot].bucket].place; }
void* Buckets::root(std::size_t slot, std::size_t r) {
  const Place& p = places_[slot];
  const Bucket& b = buckets_[p.bucket];
  return static_cast<std::byte*>(b.roots[r].data()) + bytes_for(b.dtype, p.offset);
}
const void* Buckets::sum(std::size_t slot) const {
  const Place& p = places_[slot];
  const Bucket& b = buckets_[p.bucket];
  return static_cast<const std::byte*>(b.sum.data()) + bytes_for(b.dtype, p.offset);
}

void Buckets::complete(std::size_t slot, bool present, const Stream& written, bool mark) {
  told_[2 * slot] = present ? 1 : 0, told_[2 * slot + 1] = mark ? 1 : 0;
  Bucket& bucket = buckets_[places_[slot].bucket];
  if (bucket.place.device().kind != DeviceKind::cpu)
    value_or_throw(
        cuda::follow(bucket.place.device().ordinal, bucket.place.native(), written.native()));
  --bucket.missing;
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_)
    if (next_ + 1 < buckets_.size())
      courier_.give([this, bucket = &buckets_[next_]] { reduce(*bucket); });
}

double Buckets::finish(std::span<const double> numbers, std::span<double> each) {
  if (next_ < buckets_.size())
    refuse("buckets: {} of {} are complete",
           {static_cast<std::int64_t>(next_), static_cast<std::int64_t>(buckets_.size())});
  courier_.wait();
  // Few bytes from everyone to everyone come first: those who wait for the last one asleep wake up
  // together, and not one round of the large sum after the other.
  const double sum = sum_numbers(numbers, each);
  if (!buckets_.empty()) reduce(buckets_.back());
  workers_->wait();
  return sum;
}

// One array of each root: its number, and by the first root what is told of slots and what this
// worker tells the others, whose places are zero.
double Buckets::sum_numbers(std::span<const double> numbers, std::span<double> each) {
  const std::size_t length = 1 + told_.size() + each.size();
  std::vector<std::vector<double>> roots(numbers.size(), std::vector<double>(length));
  std::vector<const void*> pointers;
  for (std::size_t r = 0; r < roots.size(); ++r) {
    roots[r][0] = numbers[r];
    if (r == 0) {
      const auto rest = std::copy(told_.begin(), told_.end(), roots[r].begin() + 1);
      const auto mine = static_cast<std::size_t>(workers_->rank());
      if (!each.empty()) rest[static_cast<std::ptrdiff_t>(mine)] = each[mine];
    }
    pointers.push_back(roots[r].data());
  }
  std::vector<double> sum(length);
  reduce_on_host_(*grains_, pointers, sum.data(), static_cast<std::int64_t>(length), Dtype::f64);
  const auto told = sum.begin() + 1;
  const auto rest = told + static_cast<std::ptrdiff_t>(told_.size());
  std::copy(told, rest, told_.begin());
  std::copy(rest, sum.end(), each.begin());
  return sum[0];
}

void Buckets::reduce(Bucket& bucket) {
  const std::size_t count = grains_->roots(workers_->rank()).size();
  if (bucket.by_rows) {
    std::vector<const float*> roots;
    for (std::size_t r = 0; r < count; ++r)
      roots.push_back(static_cast<const float*>(bucket.roots[r].data()));
    all_reduce_rows(*workers_, *grains_, roots, static_cast<float*>(bucket.sum.data()),
                    {bucket.shape[0], bucket.shape[1]});
    return;
  }
  std::vector<const void*> roots;
  for (std::size_t r = 0; r < count; ++r) roots.push_back(bucket.roots[r].data());
  reduce_(*grains_, roots, bucket.sum.data(), bucket.count, bucket.dtype);
}

}  // namespace planck::dist
