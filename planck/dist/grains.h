// Grains: the parts that a global batch is cut into, and the tree over them.
//
// How many grains there are is the user's choice and no function of the number of workers. What is
// summed over a batch (gradients, losses, norms, statistics) is the canonical sum over its grains,
// docs/numerics.md:
//
//   sum(a[0 … n)) = sum(a[0 … p)) + sum(a[p … n))     p = the largest power of two below n
//
// A worker has consecutive grains. What it can add of them by itself are whole subtrees; their
// roots are all that others need. So any number of workers evaluates one tree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace planck::dist {

// Grains first … end − 1.
struct Range {
  std::int64_t first, end;
  std::int64_t count() const { return end - first; }
  bool operator==(const Range&) const = default;
};

// Whether a range of n grains is a node of their tree.
bool is_node(Range r, std::int64_t n);
// Whether two neighbours are the two children of one node.
bool are_siblings(Range left, Range right, std::int64_t n);

// The grains of one batch, and who computes which.
class Grains {
 public:
  // Aligned blocks where these keep the busiest worker as busy as an even cut does, else the even
  // cut. With more workers than grains some have none.
  Grains(std::int64_t grains, int workers);
  // So many for each worker.
  explicit Grains(std::span<const std::int64_t> each);

  std::int64_t count() const { return count_; }
  int workers() const { return static_cast<int>(shares_.size()); }
  Range share(int worker) const { return shares_[static_cast<std::size_t>(worker)]; }
  // The largest subtrees within a worker's share, in order.
  const std::vector<Range>& roots(int worker) const {
    return roots_[static_cast<std::size_t>(worker)];
  }
  // Whether the workers are the leaves of a complete tree: 2^k of them, each with one subtree of
  // the same size (the last ones may have less, or nothing). Then neighbours add first.
  bool is_binary() const { return binary_; }
  int most_roots() const { return most_roots_; }

 private:
  void find_roots();

  std::int64_t count_;
  std::vector<Range> shares_;
  std::vector<std::vector<Range>> roots_;
  bool binary_ = false;
  int most_roots_ = 0;
};

// The additions that make one sum of the roots of all workers, in order: a stack machine. Value i
// is pushed, then `merges[i]` times the upper of the two topmost is added to the one below it.
struct Joining {
  std::vector<int> merges;
  int depth = 0;  // of the stack, at most
};
Joining joining_of(std::span<const Range> roots, std::int64_t n);
// Of all workers' roots.
Joining joining_of(const Grains& grains);

}  // namespace planck::dist
