// Buckets: many small arrays that are summed over the grains of all workers as a few large ones,
// each as soon as it is complete, while others are still being computed: by a thread of its own,
// but for the last. Nothing is computed beside that one, and whoever waits for it sends it, so that
// few arrays need no other thread, which would want a core.
//
// A slot is one array, of which a worker has a root for each subtree of its share. Slots are filled
// in any order; buckets are sent in theirs, the same on every worker. How slots are put into
// buckets never changes a bit. They lie where the communicator's memory is; those by rows, on the
// host.
#pragma once

#include <optional>

#include "planck/core/shape.h"
#include "planck/dist/all_reduce.h"
#include "planck/dist/transport/courier.h"

namespace planck::dist {

struct Slot {
  Dtype dtype = Dtype::f32;  // that is summed in: f32 or f64
  Shape shape;
  bool by_rows = false;  // send rows with a bit set only; f32, rank 2
  // Of what is summed: a number that must be the same on all workers, such as its own dtype.
  std::int64_t kind = 0;
  bool operator==(const Slot&) const = default;
};

class Buckets {
 public:
  // Uses a duplicate of `workers`: all of them make theirs at the same time. `add` as AllReduce's.
  Buckets(Communicator& workers, std::size_t bucket_bytes, bool overlap, Addition add);
  ~Buckets();

  // A new round. Slots in the order in which they are expected to be complete. Where grains or
  // slots are others than in the round before, the workers tell each other theirs, and all refuse
  // them where they differ.
  void begin(const Grains& grains, const std::vector<Slot>& slots);
  // Where a slot's roots and sum are: the host, or the stream of the communicator.
  Stream place(std::size_t slot) const;
  // Where root r of a slot is written to: by its place's stream, or one that it follows.
  void* root(std::size_t slot, std::size_t r);
  // All roots of the slot are there; on a GPU, `written` has been given what writes them. Whether
  // there was anything to sum is known for the slot as a whole: present(), where any worker says
  // so. A mark of the caller's travels the same way: marked().
  void complete(std::size_t slot, bool present, const Stream& written, bool mark = false);
  // Returns when all slots, which must be complete, have their sums; with them the sum of one more
  // number of each root, which `numbers` are. `each` has a place for every worker, or none: what
  // this one has at its own, every worker has there afterwards.
  double finish(std::span<const double> numbers, std::span<double> each = {});
  const void* sum(std::size_t slot) const;  // complete; on a GPU too
  bool present(std::size_t slot) const { return told_[2 * slot] > 0; }
  bool marked(std::size_t slot) const { return told_[2 * slot + 1] > 0; }
  std::size_t count() const { return buckets_.size(); }  // of the round

 private:
  struct Bucket {
    Dtype dtype;
    std::int64_t count = 0;  // elements
    std::size_t slots = 0, missing = 0;
    bool by_rows = false;
    Shape shape;  // where by rows
    Stream place;
    std::vector<Buffer> roots;  // [count] each
    Buffer sum;
  };
  struct Place {
    std::size_t bucket;
    std::int64_t offset;  // elements
  };
  void agree(const Grains& grains, const std::vector<Slot>& slots);
  void lay_out();
  void reduce(Bucket& bucket);
  double sum_numbers(std::span<const double> numbers, std::span<double> each);

  std::unique_ptr<Communicator> workers_;
  std::size_t bucket_bytes_;
  AllReduce reduce_, reduce_on_host_;
  std::optional<Grains> grains_;
  std::vector<Slot> slots_;
  std::vector<Place> places_;
  std::vector<Bucket> buckets_;
  std::size_t next_ = 0;  // bucket to be sent
  // Two of each slot, present and marked: how many workers say so; until then, whether this one.
  std::vector<double> told_;
  Courier courier_;  // the last member: its thread uses all others
};

}  // namespace planck::dist
