#include "planck/loops/table/cpu/sorted_entries.h"

#include <bit>
#include <span>
#include <utility>

namespace planck {

namespace {

constexpr std::int64_t kSegment = 8192, kMostSegments = 32;
constexpr std::int64_t kBucketEntries = 64, kBucketBytes = 1 << 19, kMostBuckets = 512;
constexpr std::int64_t kInsertionEntries = 24;

// Turns counts[part][digit] into places: parts of a digit one behind the other, digits ascending.
// Goes part by part: digit by digit, every step would be to another cache line.
template <class U>
void count_to_places(U* counts, std::int64_t parts, std::int64_t digits) {
  U next[1 << EntrySorter<U>::kDigitBits];
  std::fill_n(next, digits, U(0));
  for (std::int64_t p = 0; p < parts; ++p)
    for (std::int64_t d = 0; d < digits; ++d) next[d] += counts[p * digits + d];
  U place = 0;
  for (std::int64_t d = 0; d < digits; ++d) place += std::exchange(next[d], place);
  for (std::int64_t p = 0; p < parts; ++p)
    for (std::int64_t d = 0; d < digits; ++d) {
      const U count = counts[p * digits + d];
      counts[p * digits + d] = next[d];
      next[d] += count;
    }
}

// Indices outside of the table.
std::int64_t count_bad(const IndexReader& indices, std::int64_t begin, std::int64_t end,
                       std::int64_t rows) {
  std::int64_t bad = 0;
  indices.each(begin, end, [rows, &bad](std::int64_t, std::int64_t index) {
    bad += table_math::is_bad(index, rows);
  });
  return bad;
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
  constexpr int kDigitBits = EntrySorter<std::uint32_t>::kDigitBits;
  passes = std::max(1, (row_bits + kDigitBits - 1) / kDigitBits);
  row_ends = row_bytes > 0 && passes == 1;
  segments = std::clamp<std::int64_t>(count / kSegment, 1, kMostSegments);
}

template <class U>
std::int64_t EntrySorter<U>::scatter(const Stream& stream, const IndexReader& indices,
                                     std::int64_t padding, std::int64_t first, std::int64_t last) {
  // Everything the loops look at is a copy on the stack: stores to the workspace cannot change it.
  const auto valid = [rows = cut_.rows, padding](std::int64_t index) {
    return table_math::is_valid(index, rows, padding);
  };
  parallel_for(stream, cut_.segments, [&](std::int64_t s) {
    const std::int64_t begin = cut_.segment_begin(s), end = cut_.segment_begin(s + 1);
    const std::int64_t from = std::clamp(first, begin, end), to = std::clamp(last, from, end);
    // Two halves: where most entries go to one bucket, each would wait for the one before it.
    const std::int64_t middle = from + (to - from) / 2;
    U next[2][kMostBuckets + 1];
    for (U* half : next) std::fill_n(half, cut_.buckets + 1, U(0));
    const auto count = [&](U* counts) {
      return [valid, counts, bits = cut_.row_bits](std::int64_t, std::int64_t index) {
        if (valid(index)) ++counts[index >> bits];
      };
    };
    indices.each_half(from, middle, to, count(next[0]), count(next[1]));
    U* runs = runs_ + s * (cut_.buckets + 1);
    U place = 0;
    for (std::int64_t b = 0; b <= cut_.buckets; ++b) {
      runs[b] = place;
      for (U* half : next) place += std::exchange(half[b], place);
    }
    const bool all_valid = static_cast<std::int64_t>(place) == end - begin;
    bad_[s] = all_valid ? 0 : count_bad(indices, begin, end, cut_.rows);
    const auto move = [&](U* places) {
      return [valid, places, entries = scattered_ + begin, bits = cut_.row_bits](
                 std::int64_t position, std::int64_t index) {
        if (valid(index))
          entries[places[index >> bits]++] = {static_cast<U>(index), static_cast<U>(position)};
      };
    };
    indices.each_half(from, middle, to, move(next[0]), move(next[1]));
  });
  std::fill_n(starts_, cut_.buckets + 1, 0);
  std::int64_t bad = 0;
  for (std::int64_t s = 0; s < cut_.segments; ++s) {
    const U* at = runs_ + s * (cut_.buckets + 1);
    for (std::int64_t b = 0; b <= cut_.buckets; ++b) starts_[b] += static_cast<std::int64_t>(at[b]);
    bad += bad_[s];
  }
  return bad;
}

// One pass: entries counted by a digit of their row, then each brought to its place, stably.
template <class U>
struct EntrySorter<U>::Pass {
  Pass(const EntrySorter& sorter, std::int64_t begin, int pass)
      : from(sorter.entries_[(pass + 1) % 2] + begin),
        to(sorter.entries_[pass % 2] + begin),
        bits((sorter.cut_.row_bits + sorter.cut_.passes - 1) / sorter.cut_.passes),
        shift(pass * bits) {}
  std::int64_t digits() const { return std::int64_t{1} << bits; }
  std::uint64_t digit(const Entry<U>& e) const {
    return (static_cast<std::uint64_t>(e.row) >> shift) & ((std::uint64_t{1} << bits) - 1);
  }
  void count(const Run& run, U* counts) const {
    for (const Entry<U>* e = run.begin; e != run.end; ++e) ++counts[digit(*e)];
  }
  void move(const Run& run, U* places) const {
    for (const Entry<U>* e = run.begin; e != run.end; ++e) to[places[digit(*e)]++] = *e;
  }
  const Entry<U>* from;  // but for the first pass, which takes runs
  Entry<U>* to;
  int bits, shift;
};

// Few entries are inserted in order; many are counted by digits of their row, lowest first.
template <class U>
void EntrySorter<U>::sort(std::int64_t bucket, U* ends) const {
  const std::int64_t begin = starts_[bucket], n = starts_[bucket + 1] - begin;
  if (n == 0) return;
  if (n <= kInsertionEntries && ends == nullptr) {
    Entry<U>* to = sorted().entries + begin;
    std::int64_t i = 0;
    for (std::int64_t s = 0; s < cut_.segments; ++s)
      for (const Run r = run(bucket, s); const Entry<U>& e : std::span(r.begin, r.end)) {
        std::int64_t k = i++;
        for (; k > 0 && to[k - 1].row > e.row; --k) to[k] = to[k - 1];
        to[k] = e;
      }
    return;
  }
  U own[1 << kDigitBits];
  U* places = ends != nullptr ? ends : own;  // of the only pass: in the end, where rows end
  for (int k = 0; k < cut_.passes; ++k) {
    const Pass pass(*this, begin, k);
    const std::int64_t runs = k == 0 ? cut_.segments : 1;
    const auto run_of = [&](std::int64_t r) {
      return k == 0 ? run(bucket, r) : Run{pass.from, pass.from + n};
    };
    std::fill_n(places, pass.digits(), U(0));
    constexpr std::int64_t kRunsAhead = 4, kLineEntries = 64 / sizeof(Entry<U>);
    for (std::int64_t i = 0; i < n; i += kLineEntries) __builtin_prefetch(pass.to + i, 1);
    for (std::int64_t r = 0; r < runs; ++r) {
      if (r + kRunsAhead < runs) __builtin_prefetch(run_of(r + kRunsAhead).begin);
      pass.count(run_of(r), places);
    }
    U place = 0;
    for (std::int64_t x = 0; x < pass.digits(); ++x) place += std::exchange(places[x], place);
    for (std::int64_t r = 0; r < runs; ++r) pass.move(run_of(r), places);
  }
}

// The same by parts, side by side.
template <class U>
void EntrySorter<U>::sort_large_bucket(const Stream& stream, std::int64_t bucket) const {
  const std::int64_t begin = starts_[bucket], n = starts_[bucket + 1] - begin;
  const std::int64_t parts = cut_.segments;
  for (int k = 0; k < cut_.passes; ++k) {
    const Pass pass(*this, begin, k);
    const auto part = [&](std::int64_t p) {
      const auto cut = [&](std::int64_t q) {
        return pass.from + (n / parts * q + std::min(q, n % parts));
      };
      return k == 0 ? run(bucket, p) : Run{cut(p), cut(p + 1)};
    };
    parallel_for(stream, parts, [&](std::int64_t p) {
      U* counts = places_ + p * pass.digits();
      std::fill_n(counts, pass.digits(), U(0));
      pass.count(part(p), counts);
    });
    count_to_places(places_, parts, pass.digits());
    parallel_for(stream, parts,
                 [&](std::int64_t p) { pass.move(part(p), places_ + p * pass.digits()); });
  }
  if (cut_.row_ends)
    std::copy_n(places_ + ((parts - 1) << cut_.row_bits), std::int64_t{1} << cut_.row_bits,
                ends_ + (large_[bucket] << cut_.row_bits));
}

template <class U>
void EntrySorter<U>::sort_large(const Stream& stream) const {
  std::int64_t found = 0;
  for (std::int64_t b = 0; b < cut_.buckets; ++b) {
    if (!is_large(b)) continue;
    if (cut_.row_ends) large_[b] = found++;
    sort_large_bucket(stream, b);
  }
}

template class EntrySorter<std::uint32_t>;
template class EntrySorter<std::uint64_t>;

}  // namespace planck
