#include "planck/ops/embedding/sorted_entries.cpu.h"

#include <bit>

namespace planck {

namespace {

constexpr std::int64_t kSegment = 8192, kMostSegments = 32;
constexpr std::int64_t kBucketEntries = 64, kBucketBytes = 1 << 19, kMostBuckets = 2048;
constexpr int kDigitBits = 10;
constexpr std::int64_t kInsertionEntries = 24;

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
  namespace em = embedding_math;
  const auto valid = [&](std::int64_t position, std::int64_t index) {
    return em::is_valid(index, cut_.rows, padding) && position >= first && position < last;
  };
  parallel_for(stream, cut_.segments, [&](std::int64_t s) {
    std::int64_t* counts = places_ + s * cut_.buckets;
    std::fill_n(counts, cut_.buckets, 0);
    std::int64_t bad = 0;
    indices.each(cut_.segment_begin(s), cut_.segment_begin(s + 1),
                 [&](std::int64_t position, std::int64_t index) {
                   bad += em::is_bad(index, cut_.rows);
                   if (valid(position, index)) ++counts[index >> cut_.row_bits];
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
    std::int64_t* next = places_ + s * cut_.buckets;
    indices.each(cut_.segment_begin(s), cut_.segment_begin(s + 1),
                 [&](std::int64_t position, std::int64_t index) {
                   if (valid(position, index))
                     entries_[0][next[index >> cut_.row_bits]++] = {static_cast<U>(index),
                                                                    static_cast<U>(position)};
                 });
  });
  return bad;
}

// Few entries are inserted in order; many are counted by digits of their row, lowest first.
template <class U>
void EntrySorter<U>::sort_bucket(std::int64_t bucket) const {
  const std::int64_t begin = starts_[bucket], n = starts_[bucket + 1] - begin;
  if (cut_.passes == 0 || n == 0) return;
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
  const int bits = (cut_.row_bits + cut_.passes - 1) / cut_.passes;
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  for (int pass = 0; pass < cut_.passes; ++pass) {
    const Entry<U>* from = entries_[pass % 2] + begin;
    Entry<U>* to = entries_[(pass + 1) % 2] + begin;
    const auto digit = [&](const Entry<U>& e) {
      return (static_cast<std::uint64_t>(e.row) >> (pass * bits)) & mask;
    };
    std::int64_t places[1 << kDigitBits];
    std::fill_n(places, mask + 1, 0);
    for (std::int64_t i = 0; i < n; ++i) ++places[digit(from[i])];
    std::int64_t place = 0;
    for (std::uint64_t d = 0; d <= mask; ++d) {
      const std::int64_t count = places[d];
      places[d] = place;
      place += count;
    }
    for (std::int64_t i = 0; i < n; ++i) to[places[digit(from[i])]++] = from[i];
  }
}

template class EntrySorter<std::uint32_t>;
template class EntrySorter<std::uint64_t>;

}  // namespace planck
