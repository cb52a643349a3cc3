#include "planck/dist/grains.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "planck/core/refuse.h"

namespace planck::dist {

namespace {
std::int64_t power_below(std::int64_t n) {  // the largest power of two below n
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n - 1)));
}
std::int64_t power_from(std::int64_t n) {  // the smallest that is not below n
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
}
}  // namespace

bool is_node(Range r, std::int64_t n) {
  if (r.count() < 1) return false;
  const std::int64_t whole = power_from(r.count());
  return r.first % whole == 0 && (r.count() == whole || r.end == n);
}
bool are_siblings(Range left, Range right, std::int64_t n) {
  const Range both{left.first, right.end};
  return left.end == right.first && is_node(both, n) && left.count() == power_below(both.count());
}

Grains::Grains(std::int64_t grains, int workers) : count_(grains) {
  if (grains < 1 || workers < 1)
    refuse("grains: {} grains for {} workers, at least 1 of both is needed", {grains, workers});
  const std::int64_t n = grains, w = workers, even = (n + w - 1) / w;
  const std::int64_t block = power_from(even);
  const bool aligned = block == even;
  for (std::int64_t r = 0; r < w; ++r)
    shares_.push_back(aligned ? Range{std::min(n, r * block), std::min(n, (r + 1) * block)}
                              : Range{n * r / w, n * (r + 1) / w});
  find_roots();
  binary_ = aligned && std::has_single_bit(static_cast<unsigned>(workers));
}

Grains::Grains(std::span<const std::int64_t> each)
    : count_(std::accumulate(each.begin(), each.end(), std::int64_t{0})) {
  if (count_ < 1 || std::ranges::any_of(each, [](std::int64_t n) { return n < 0; }))
    refuse("grains: {} in all, at least 1 is needed, and nobody has less than none", {count_});
  std::int64_t first = 0;
  for (const std::int64_t n : each) {
    shares_.push_back({first, first + n});
    first += n;
  }
  find_roots();
}

void Grains::find_roots() {
  for (Range share : shares_) {
    std::vector<Range> roots;
    while (share.first < share.end) {
      Range root{share.first, share.first + 1};
      for (std::int64_t size = 2; size < 2 * count_; size *= 2) {
        const Range larger{share.first, std::min(count_, share.first + size)};
        if (larger.end > share.end || !is_node(larger, count_)) break;
        root = larger;
      }
      roots.push_back(root);
      share.first = root.end;
    }
    most_roots_ = std::max(most_roots_, static_cast<int>(roots.size()));
    roots_.push_back(std::move(roots));
  }
}

Joining joining_of(std::span<const Range> roots, std::int64_t n) {
  Joining program;
  std::vector<Range> stack;
  for (const Range& root : roots) {
    stack.push_back(root);
    program.depth = std::max(program.depth, static_cast<int>(stack.size()));
    int merges = 0;
    for (std::size_t s = stack.size(); s > 1 && are_siblings(stack[s - 2], stack[s - 1], n); --s) {
      stack[s - 2].end = stack[s - 1].end;
      stack.pop_back();
      ++merges;
    }
    program.merges.push_back(merges);
  }
  return program;
}
Joining joining_of(const Grains& grains) {
  std::vector<Range> all;
  for (int r = 0; r < grains.workers(); ++r)
    all.insert(all.end(), grains.roots(r).begin(), grains.roots(r).end());
  return joining_of(all, grains.count());
}

}  // namespace planck::dist
