// The ordered all-reduce: every worker gets the canonical sum over the grains of all workers.
//
// A worker brings the roots of its share (grains.h), arrays of one length. Elements are cut into
// parts, parts are summed by one worker each and gathered again; how they are cut, which way bytes
// go and how many workers there are never changes a bit. Ways, for n bytes on w workers:
//
//   halving   w = 2^k with one root each: neighbours exchange halves, those two apart quarters,
//             … : log2(w) rounds, and as many back. 2 n (w − 1) / w bytes are sent by each
//   direct    else: each worker sends each other one that one's part of its roots, and is sent its
//             own. n (roots + 1) (w − 1) / w bytes, two rounds of w − 1 messages
//   gather    few bytes, all roots of all workers within kGatherBytes: everyone gets them all, by
//             the communicator's all-gather, and adds by itself
#pragma once

#include "planck/core/allocator.h"
#include "planck/dist/addition.h"
#include "planck/dist/transport/communicator.h"

namespace planck::dist {

enum class Way : std::uint8_t { automatic, halving, direct, gather };
constexpr std::string_view name(Way way) {
  constexpr std::string_view kNames[] = {"automatic", "halving", "direct", "gather"};
  return kNames[static_cast<int>(way)];
}
inline constexpr std::size_t kGatherBytes = 32 << 10;
// What Open MPI sends without asking first, which costs 2 µs: halves of that length are sooner
// there than a whole array that is longer.
inline constexpr std::size_t kAtOnceBytes = 4000;
// Large arrays are summed in segments of so many pieces, one after the other: what has arrived is
// added, sent on and read by others while it lies in a cache.
inline constexpr std::size_t kSegmentPieces = 16;
// What automatic is, for a sum of so many bytes.
Way way_for(const Grains& grains, std::size_t bytes);

struct AllReduceOptions {
  Way way = Way::automatic;
  Addition add = add_on_host;   // add_by_plan for memory of a GPU
  std::size_t piece_bytes = 0;  // 0: as the communicator says
};

class AllReduce {
 public:
  explicit AllReduce(Communicator& workers, const AllReduceOptions& options = {});

  // `roots` are those of this worker, in order; `sum` overlaps none of them. f32, f64 or i32.
  void operator()(const Grains& grains, std::span<const void* const> roots, void* sum,
                  std::int64_t count, Dtype dtype);

 private:
  struct Job;
  void halving(const Job& job);
  void direct(const Job& job);
  void gather(const Job& job);
  std::byte* room(std::size_t bytes);

  Communicator& workers_;
  Way way_;
  Addition add_;
  std::size_t piece_bytes_;
  Buffer room_;  // for what arrives
};

// The canonical sum of one number per grain: `mine` are those of this worker's share, in order.
double ordered_sum(Communicator& workers, const Grains& grains, std::span<const double> mine);

}  // namespace planck::dist
