// Bags as CPU kernels see them: where each one starts, whatever the offsets are, and which bag an
// entry is in.
#pragma once

#include "planck/loops/parallel.h"
#include "planck/loops/table/cpu/entries.h"
#include "planck/loops/table/table.h"

namespace planck {

class Bags {
 public:
  Bags(const TableProblem& p, Parts& parts)
      : count_(p.count()),
        bags_(p.bags),
        given_(p.offsets()),
        starts_(parts.take<std::int64_t>(p.bags + 1)) {}

  // Returns how many offsets are not where their bag starts.
  std::int64_t read(const View& offsets);
  std::int64_t count() const { return bags_; }
  std::int64_t begin(std::int64_t bag) const { return starts_[bag]; }
  std::int64_t end(std::int64_t bag) const { return starts_[bag + 1]; }
  // Entries from first() up to last() are in a bag, all others in none.
  std::int64_t first() const { return starts_[0]; }
  std::int64_t last() const { return starts_[bags_]; }
  // The last bag that starts at or before an entry that is in one.
  std::int64_t bag_at(std::int64_t position) const;

  // Bag by entry, for [first(), last()).
  void find_bags(const Stream& stream, std::int64_t* bag_of) const;
  // Valid entries by bag.
  void count_valid(const Stream& stream, const TableProblem& p, const IndexReader& indices,
                   std::int64_t* valid) const;

 private:
  std::int64_t count_, bags_, given_;
  std::int64_t* starts_;  // [bags + 1]
};

// Bags per task, so many that a task is worth its start.
inline std::int64_t bags_a_task(std::int64_t bags, std::int64_t entries) {
  constexpr std::int64_t kTask = 2048;
  const std::int64_t average = bags == 0 ? 0 : entries / bags;
  return kTask / (average + 1) + 1;
}

}  // namespace planck
