#include "planck/ops/embedding/sorted_entries.cpu.h"

#include <bit>

namespace planck {

namespace {

constexpr std::int64_t kSegment = 8192, kMostSegments = 32;
constexpr std::int64_t kBucketEntries = 64, kBucketBytes = 1 << 19, kMostBuckets = 2048;
constexpr int kDigitBits = 10;
constexpr std::int64_t kInsertionEntries = 24;
constexpr std::int64_t kLargeBucket = 1 << 16;  // several threads sort one bucket

// Turns counts[part][digit] into places: parts of a digit one behind the other, digits ascending.
void count_to_places(std::int64_t* counts, std::int64_t parts, std::int64_t digits) {
  std::int64_t place = 0;
  for (std::int64_t d = 0; d < digits; ++d)
    for (std::int64_t p = 0; p < parts; ++p) {
      const std::int64_t count = counts[p * digits + d];
      counts[p * digits + d] = place;
      place += count;
    }
}

}  // namespace

SortCut::SortCut(std::int64_t table_rows, std::int64_t entries, std::int64_t row_bytes)
    : rows(table_rows), count(entries) {
  const std::int64_t by_entries = count / kBucketEntries;
  const std::int64_t by_bytes = row_bytes > 0 ? rows / (kBucketBytes / row_bytes + 1) : 0;
  const std::int64_t wanted =
      std::clamp<std::int64_t>(std::max(by_entries, by_bytes), 1, kMostBuckets);
  const auto a_bucket = static_cast<std::uint64_t>((rows + wanted - 1) / wanted);
  row_bits = a_bucket <= 1 ? 0 : static_cast<int>(std::bit_width(a_bucket - 1));
  buckets = std::max<std::int64_t>(1, ((rows - 1) >> row_bits) + 1);
  passes = (row_bits + kDigitBits - 1) / kDigitBits;
  segments = std::clamp<std::int64_t>(count / kSegment, 1, kMostSegments);
}

template <class U>
std::int64_t EntrySorter<U>::scatter(const Stream& stream, const IndexReader& indices,
                                     std::int64_t padding, std::int64_t first, std::int64_t last) {
  // Everything the loops look at is a copy on the stack: stores to the workspace cannot change it.
  const auto valid = [rows = cut_.rows, padding, first, last](std::int64_t position,
                                                              std::int64_t index) {
    return embedding_math::is_valid(index, rows, padding) && position >= first && position < last;
  };
  parallel_for(stream, cut_.segments, [&](std::int64_t s) {
    std::int64_t* counts = places_ + s * cut_.buckets;
    std::fill_n(counts, cut_.buckets, 0);
    std::int64_t bad = 0;
    indices.each(cut_.segment_begin(s), cut_.segment_begin(s + 1),
                 [valid, counts, rows = cut_.rows, bits = cut_.row_bits, &bad](
                     std::int64_t position, std::int64_t index) {
                   bad += embedding_math::is_bad(index, rows);
                   if (valid(position, index)) ++counts[index >> bits];
                 });
    bad_[s] = bad;
  });
  std::int64_t place = 0, bad = 0;
  for (std::int64_t b = 0; b < cut_.buckets; ++b) {
    starts_[b] = place;
    for (std::int64_t s = 0; s < cut_.segments; ++s) {
      const std::int64_t n = places_[s * cut_.buckets + b];
      places_[s * cut_.buckets + b] = place;
      place += n;
    }
  }
  starts_[cut_.buckets] = place;
  for (std::int64_t s = 0; s < cut_.segments; ++s) bad += bad_[s];
  parallel_for(stream, cut_.segments, [&](std::int64_t s) {
    indices.each(cut_.segment_begin(s), cut_.segment_begin(s + 1),
                 [valid, next = places_ + s * cut_.buckets, to = entries_[0], bits = cut_.row_bits](
                     std::int64_t position, std::int64_t index) {
                   if (valid(position, index))
                     to[next[index >> bits]++] = {static_cast<U>(index), static_cast<U>(position)};
                 });
  });
  return bad;
}

template <class U>
void EntrySorter<U>::sort(const Stream& stream) const {
  if (cut_.passes == 0) return;
  parallel_for(stream, cut_.buckets, [&](std::int64_t b) {
    if (starts_[b + 1] - starts_[b] < kLargeBucket) sort_bucket(b);
  });
  for (std::int64_t b = 0; b < cut_.buckets; ++b)
    if (starts_[b + 1] - starts_[b] >= kLargeBucket) sort_large_bucket(stream, b);
}

// One pass: entries counted by a digit of their row, then each brought to its place, stably.
template <class U>
struct EntrySorter<U>::Pass {
  Pass(const EntrySorter& sorter, std::int64_t begin, int pass)
      : from(sorter.entries_[pass % 2] + begin),
        to(sorter.entries_[(pass + 1) % 2] + begin),
        bits((sorter.cut_.row_bits + sorter.cut_.passes - 1) / sorter.cut_.passes),
        shift(pass * bits) {}
  std::int64_t digits() const { return std::int64_t{1} << bits; }
  std::uint64_t digit(const Entry<U>& e) const {
    return (static_cast<std::uint64_t>(e.row) >> shift) & ((std::uint64_t{1} << bits) - 1);
  }
  void count(std::int64_t begin, std::int64_t end, std::int64_t* counts) const {
    std::fill_n(counts, digits(), 0);
    for (std::int64_t i = begin; i < end; ++i) ++counts[digit(from[i])];
  }
  void move(std::int64_t begin, std::int64_t end, std::int64_t* places) const {
    for (std::int64_t i = begin; i < end; ++i) to[places[digit(from[i])]++] = from[i];
  }
  const Entry<U>* from;
  Entry<U>* to;
  int bits, shift;
};

// Few entries are inserted in order; many are counted by digits of their row, lowest first.
template <class U>
void EntrySorter<U>::sort_bucket(std::int64_t bucket) const {
  const std::int64_t begin = starts_[bucket], n = starts_[bucket + 1] - begin;
  if (n <= kInsertionEntries) {
    const Entry<U>* from = entries_[0] + begin;
    Entry<U>* to = entries_[cut_.passes % 2] + begin;
    for (std::int64_t i = 0; i < n; ++i) {
      const Entry<U> e = from[i];
      std::int64_t k = i;
      for (; k > 0 && to[k - 1].row > e.row; --k) to[k] = to[k - 1];
      to[k] = e;
    }
    return;
  }
  std::int64_t places[1 << kDigitBits];
  for (int k = 0; k < cut_.passes; ++k) {
    const Pass pass(*this, begin, k);
    pass.count(0, n, places);
    count_to_places(places, 1, pass.digits());
    pass.move(0, n, places);
  }
}

// The same by parts, side by side. Only tables of more than kMostBuckets rows have buckets to sort,
// so the places of scatter(), done with, have room for two parts at least.
template <class U>
void EntrySorter<U>::sort_large_bucket(const Stream& stream, std::int64_t bucket) const {
  const std::int64_t begin = starts_[bucket], n = starts_[bucket + 1] - begin;
  for (int k = 0; k < cut_.passes; ++k) {
    const Pass pass(*this, begin, k);
    const std::int64_t parts =
        std::min(cut_.segments, cut_.buckets * cut_.segments / pass.digits());
    const auto part = [&](std::int64_t p) { return n / parts * p + std::min(p, n % parts); };
    parallel_for(stream, parts, [&](std::int64_t p) {
      pass.count(part(p), part(p + 1), places_ + p * pass.digits());
    });
    count_to_places(places_, parts, pass.digits());
    parallel_for(stream, parts, [&](std::int64_t p) {
      pass.move(part(p), part(p + 1), places_ + p * pass.digits());
    });
  }
}

template class EntrySorter<std::uint32_t>;
template class EntrySorter<std::uint64_t>;

}  // namespace planck
