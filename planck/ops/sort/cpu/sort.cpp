// cpu:radix: rows as pairs of key and position, sorted by digits of the key, lowest first.
//
//   up to kStackRow elements   pairs on a task's stack; up to kCompared by comparisons
//   below kLongRow             several rows at a time, each by one thread
//   from kLongRow on           one row after the other by all threads, in segments
//   topk of few                the k-th pair is found first, each row by one thread
//
// Pairs have a total order, so every way gives the same list.
#include <algorithm>
#include <cstring>

#include "planck/loops/cpu/parts.h"
#include "planck/loops/nest_runs.h"
#include "planck/loops/parallel.h"
#include "planck/ops/sort/cpu/kernels.h"
#include "planck/ops/sort/sort.math.h"

namespace planck {

namespace {

constexpr std::int64_t kStackRow = 2048;  // pairs of a row on the task's stack
constexpr std::int64_t kLongRow = 1 << 17;
constexpr std::int64_t kBatchPairs = 1 << 21, kBatchRows = 64;
constexpr std::int64_t kCompared = 128;  // rows that are sorted by comparisons
constexpr std::int64_t kTaskElements = 1 << 15;
constexpr int kLongDigit = 11, kShortDigit = 8;
constexpr std::int64_t kSegments = 64, kLeastSegment = 1 << 14;

// U: 32 bits where both fit.
template <class U>
struct alignas(2 * sizeof(U)) Pair {
  U key, position;
  friend bool operator<(const Pair& a, const Pair& b) {
    if constexpr (sizeof(U) == 4)
      return (std::uint64_t{a.key} << 32 | a.position) < (std::uint64_t{b.key} << 32 | b.position);
    else
      return a.key < b.key || (a.key == b.key && a.position < b.position);
  }
};

bool narrow(const SortProblem& p) {
  return bits(p.element_dtype) <= 32 && p.length() <= UINT32_MAX;
}

// Where rows are, and how elements become keys.
struct Rows {
  Rows(const SortProblem& problem, const Operands& o)
      : p(problem), order(sort_math::order_of(problem.element_dtype)) {
    const View& x = o[0];
    const View& values = o[static_cast<std::size_t>(p.values() < 0 ? 0 : p.values())];
    const View& indices = o[p.indices()];
    Shape shape = p.x;
    shape[p.axis] = 1;
    nest = nest_over(shape, {x.strides, values.strides, indices.strides});
    collapse(nest);
    from = x.data;
    out = p.values() < 0 ? nullptr : values.data;
    positions = static_cast<std::int64_t*>(indices.data);
    step[0] = x.strides[p.axis];
    step[1] = values.strides[p.axis];
    step[2] = indices.strides[p.axis];
  }

  struct Row {
    std::int64_t x, values, indices;  // offsets
  };
  Row row(std::int64_t r) const {
    Row at{};
    nest_runs(nest, r, 1, [&](const auto& offsets, auto) {
      at = {offsets[0], offsets[1], offsets[2]};
    });
    return at;
  }

  template <class U>
  void load(const Row& row, std::int64_t begin, std::int64_t end, Pair<U>* pairs) const {
    switch (storage_bytes(p.element_dtype)) {
      case 2:
        return load_as<std::uint16_t, U>(row, begin, end, pairs);
      case 4:
        return load_as<std::uint32_t, U>(row, begin, end, pairs);
      default:
        return load_as<std::uint64_t, U>(row, begin, end, pairs);
    }
  }
  template <class U>
  void store(const Row& row, std::int64_t begin, std::int64_t end, const Pair<U>* pairs) const {
    for (std::int64_t i = begin; i < end; ++i)
      positions[row.indices + i * step[2]] = static_cast<std::int64_t>(pairs[i].position);
    if (out == nullptr) return;
    switch (storage_bytes(p.element_dtype)) {
      case 2:
        return store_as<std::uint16_t>(row, begin, end, pairs);
      case 4:
        return store_as<std::uint32_t>(row, begin, end, pairs);
      default:
        return store_as<std::uint64_t>(row, begin, end, pairs);
    }
  }

  const SortProblem& p;
  sort_math::Order order;
  Nest nest;
  const void* from;
  void* out;
  std::int64_t* positions;
  std::int64_t step[3];  // along the row: x, values, indices

 private:
  template <class T, class U>
  void load_as(const Row& row, std::int64_t begin, std::int64_t end, Pair<U>* pairs) const {
    if constexpr (sizeof(T) <= sizeof(U)) {
      const T* x = static_cast<const T*>(from) + row.x;
      for (std::int64_t i = begin; i < end; ++i)
        pairs[i] = {sort_math::key_of<U, 8 * sizeof(T)>(U{x[i * step[0]]}, order, p.descending),
                    static_cast<U>(i)};
    }
  }
  template <class T, class U>
  void store_as(const Row& row, std::int64_t begin, std::int64_t end, const Pair<U>* pairs) const {
    const T* x = static_cast<const T*>(from) + row.x;
    T* to = static_cast<T*>(out) + row.values;
    for (std::int64_t i = begin; i < end; ++i)
      to[i * step[1]] = x[static_cast<std::int64_t>(pairs[i].position) * step[0]];
  }
};

template <class U>
struct Digit {
  int shift, width;
  std::size_t operator()(const Pair<U>& p) const {
    return static_cast<std::size_t>(p.key >> shift & ((U{1} << width) - 1));
  }
};

// Sorts n pairs; the sorted ones are in the array it returns.
template <class U>
Pair<U>* sort_pairs(Pair<U>* pairs, Pair<U>* other, std::int64_t n, int key_bits) {
  if (n <= kCompared) {
    std::sort(pairs, pairs + n);
    return pairs;
  }
  constexpr int kBins = 1 << kShortDigit;
  constexpr int kMostPasses = 8;
  std::int64_t counts[kMostPasses][kBins] = {};
  const int passes = key_bits / kShortDigit;
  for (std::int64_t i = 0; i < n; ++i)
    for (int k = 0; k < passes; ++k) ++counts[k][Digit<U>{k * kShortDigit, kShortDigit}(pairs[i])];
  for (int k = 0; k < passes; ++k) {
    const Digit<U> digit{k * kShortDigit, kShortDigit};
    if (counts[k][digit(pairs[0])] == n) continue;  // all the same
    std::int64_t place = 0;
    for (std::int64_t& c : counts[k]) place += std::exchange(c, place);
    for (std::int64_t i = 0; i < n; ++i) other[counts[k][digit(pairs[i])]++] = pairs[i];
    std::swap(pairs, other);
  }
  return pairs;
}

// The kept pairs of a row, in order.
template <class U>
Pair<U>* order_row(const SortProblem& p, Pair<U>* pairs, Pair<U>* other) {
  const std::int64_t n = p.length(), kept = p.kept();
  if (p.kind == SortKind::topk && kept < n / 4) {
    if (kept == 0) return pairs;
    std::nth_element(pairs, pairs + kept - 1, pairs + n);
    std::sort(pairs, pairs + kept);  // nth_element lost the order that counting digits keeps
    return pairs;
  }
  return sort_pairs(pairs, other, n, bits(p.element_dtype));
}

template <class U>
void sort_row(const Rows& rows, std::int64_t r, Pair<U>* pairs, Pair<U>* other) {
  const typename Rows::Row row = rows.row(r);
  rows.load(row, 0, rows.p.length(), pairs);
  rows.store(row, 0, rows.p.kept(), order_row(rows.p, pairs, other));
}

template <class U>
void sort_short_rows(const Stream& stream, const Rows& rows) {
  const std::int64_t per_task = std::max<std::int64_t>(1, kTaskElements / (rows.p.length() + 1));
  const std::int64_t count = rows.p.rows();
  parallel_for(stream, (count + per_task - 1) / per_task, [&](std::int64_t task) {
    Pair<U> pairs[2][kStackRow];
    for (std::int64_t r = task * per_task; r < std::min(count, (task + 1) * per_task); ++r)
      sort_row(rows, r, pairs[0], pairs[1]);
  });
}

std::int64_t batch_rows(const SortProblem& p) {
  return std::clamp<std::int64_t>(kBatchPairs / p.length(), 1, std::min(kBatchRows, p.rows()));
}

template <class U>
void sort_batches(const Stream& stream, const Rows& rows, Pair<U>* pairs) {
  const std::int64_t n = rows.p.length(), count = rows.p.rows(), batch = batch_rows(rows.p);
  for (std::int64_t first = 0; first < count; first += batch)
    parallel_for(stream, std::min(batch, count - first), [&](std::int64_t r) {
      sort_row(rows, first + r, pairs + 2 * r * n, pairs + (2 * r + 1) * n);
    });
}

// One long row by all threads: segments are counted, then each knows its places.
template <class U>
void sort_long_row(const Stream& stream, const Rows& rows, std::int64_t r, Pair<U>* pairs,
                   Pair<U>* other, std::int64_t* counts) {
  const std::int64_t n = rows.p.length();
  const std::int64_t segments = std::clamp<std::int64_t>(n / kLeastSegment, 1, kSegments);
  const auto begin = [&](std::int64_t s) { return n / segments * s + std::min(s, n % segments); };
  const typename Rows::Row row = rows.row(r);
  parallel_for(stream, segments,
               [&](std::int64_t s) { rows.load(row, begin(s), begin(s + 1), pairs); });
  const int key_bits = bits(rows.p.element_dtype);
  const int passes = (key_bits + kLongDigit - 1) / kLongDigit;
  const int width = (key_bits + passes - 1) / passes;
  const std::int64_t bins = std::int64_t{1} << width;
  for (int k = 0; k < passes; ++k) {
    const Digit<U> digit{k * width, std::min(width, key_bits - k * width)};
    parallel_for(stream, segments, [&](std::int64_t s) {
      std::int64_t* mine = counts + s * bins;
      std::fill_n(mine, bins, 0);
      for (std::int64_t i = begin(s); i < begin(s + 1); ++i) ++mine[digit(pairs[i])];
    });
    std::int64_t place = 0;
    for (std::int64_t b = 0; b < bins; ++b)
      for (std::int64_t s = 0; s < segments; ++s)
        place += std::exchange(counts[s * bins + b], place);
    parallel_for(stream, segments, [&](std::int64_t s) {
      std::int64_t* mine = counts + s * bins;
      for (std::int64_t i = begin(s); i < begin(s + 1); ++i)
        other[mine[digit(pairs[i])]++] = pairs[i];
    });
    std::swap(pairs, other);
  }
  const std::int64_t kept = rows.p.kept();
  parallel_for(stream, segments, [&](std::int64_t s) {
    rows.store(row, std::min(kept, begin(s)), std::min(kept, begin(s + 1)), pairs);
  });
}

// Long rows of which few are kept are searched by one thread each.
bool by_all_threads(const SortProblem& p) {
  return p.length() >= kLongRow && !(p.kind == SortKind::topk && p.k < p.length() / 4);
}

struct Buffers {
  Buffers(const SortProblem& p, void* workspace) {
    Parts parts(workspace);
    if (p.length() > kStackRow) {
      const std::int64_t rows = by_all_threads(p) ? 1 : batch_rows(p);
      pairs = parts.take<std::byte>(2 * rows * p.length() * (narrow(p) ? 8 : 16));
      if (by_all_threads(p)) counts = parts.take<std::int64_t>(kSegments << kLongDigit);
    }
    bytes = parts.bytes();
  }
  std::byte* pairs = nullptr;
  std::int64_t* counts = nullptr;
  std::size_t bytes;
};

template <class U>
void sort_all(const Stream& stream, const Rows& rows, const Buffers& buffers) {
  const SortProblem& p = rows.p;
  if (p.length() <= kStackRow) return sort_short_rows<U>(stream, rows);
  auto* pairs = reinterpret_cast<Pair<U>*>(buffers.pairs);
  if (!by_all_threads(p)) return sort_batches(stream, rows, pairs);
  for (std::int64_t r = 0; r < p.rows(); ++r)
    sort_long_row(stream, rows, r, pairs, pairs + p.length(), buffers.counts);
}

}  // namespace

std::size_t sort_cpu_workspace(const SortProblem& p) {
  return numel(p.x) == 0 ? 0 : Buffers(p, nullptr).bytes;
}

Result<void> sort_cpu(const Stream& stream, Workspace workspace, const SortProblem& p,
                      const Operands& o) {
  if (numel(p.x) == 0 || p.kept() == 0) return {};
  const Rows rows(p, o);
  const Buffers buffers(p, workspace.data);
  if (narrow(p))
    sort_all<std::uint32_t>(stream, rows, buffers);
  else
    sort_all<std::uint64_t>(stream, rows, buffers);
  return {};
}

}  // namespace planck
