#include "planck/loops/table/cpu/bags.h"

#include "planck/loops/table/table.math.h"

namespace planck {

std::int64_t Bags::read(const View& offsets) {
  std::int64_t start = 0, bad = 0;
  starts_[bags_] = count_;
  IndexReader(offsets).each(0, given_, [&](std::int64_t bag, std::int64_t offset) {
    start = table_math::bag_start(offset, start, count_);
    starts_[bag] = start;
    bad += start != offset;
  });
  return bad;
}

std::int64_t Bags::bag_at(std::int64_t position) const {
  return std::upper_bound(starts_, starts_ + bags_, position) - starts_ - 1;
}

void Bags::find_bags(const Stream& stream, std::int64_t* bag_of) const {
  constexpr std::int64_t kTask = 1 << 14;
  const std::int64_t entries = last() - first();
  parallel_for(stream, (entries + kTask - 1) / kTask, [&](std::int64_t task) {
    const std::int64_t from = first() + task * kTask, to = std::min(last(), from + kTask);
    std::int64_t bag = bag_at(from);
    for (std::int64_t n = from; n < to; ++n) {
      while (n >= end(bag)) ++bag;
      bag_of[n] = bag;
    }
  });
}

void Bags::count_valid(const Stream& stream, const TableProblem& p, const IndexReader& indices,
                       std::int64_t* valid) const {
  const std::int64_t a_task = bags_a_task(bags_, count_);
  parallel_for(stream, (bags_ + a_task - 1) / a_task, [&](std::int64_t task) {
    for (std::int64_t b = task * a_task; b < std::min(bags_, (task + 1) * a_task); ++b) {
      valid[b] = 0;
      indices.each(begin(b), end(b), [&](std::int64_t, std::int64_t index) {
        valid[b] += table_math::is_valid(index, p.num_embeddings, p.padding_idx);
      });
    }
  });
}

}  // namespace planck
