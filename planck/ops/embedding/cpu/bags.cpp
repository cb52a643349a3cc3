// cpu:bags: the sum, mean or largest of the rows of each bag.
//
// The valid entries are listed first, so that a bag is a run of them and its sum is computed like
// that of a gradient's row: in the canonical order, by several threads where a bag is very long.
#include "planck/loops/table/cpu/bags.h"

#include <type_traits>

#include "planck/loops/cpu/positions.h"
#include "planck/loops/table/cpu/heavy_rows.h"
#include "planck/loops/table/table.math.h"
#include "planck/ops/embedding/cpu/kernels.h"

namespace planck {

namespace {

using O = table_operand::Bag;
namespace em = table_math;

constexpr std::int64_t kSegment = 1 << 14;

template <class C>
class BagRows {
 public:
  using U = std::uint64_t;

  BagRows(const EmbeddingProblem& p, Parts& parts)
      : p_(p),
        segments_((p.count() + kSegment - 1) / kSegment),
        bags_(p, parts),
        entries_(parts.take<Entry<U>>(p.count())),
        starts_(parts.take<std::int64_t>(p.bags + 1)),
        valid_(parts.take<std::int64_t>(segments_)),
        bad_(parts.take<std::int64_t>(segments_)),
        heavy_(p.count(), p.dim, parts) {}

  void run(const Stream& stream, const Operands& o) {
    const std::int64_t bad_offsets = bags_.read(o[O::offsets]);
    if (o[O::bad_offsets].present)
      *static_cast<std::int64_t*>(o[O::bad_offsets].data) = bad_offsets;
    const std::int64_t bad = list_entries(stream, IndexReader(o[O::indices]));
    if (o[O::bad_indices].present) *static_cast<std::int64_t*>(o[O::bad_indices].data) = bad;
    const std::int64_t bytes = p_.bags * p_.dim * bits(p_.element_dtype) / 8;
    const RowWriter<C> writer(o[O::out], false, bytes >= static_cast<std::int64_t>(kStreamBytes));
    typename RowReader<C>::Changes changes;
    if (p_.weighted) changes.weights = &o[O::weights];
    const RowReader<C> reader(o[O::weight], RowOf::row, changes);
    const std::int64_t a_task = bags_a_task(p_.bags, p_.count());
    parallel_for(stream, (p_.bags + a_task - 1) / a_task, [&](std::int64_t task) {
      SumBuffers<C> b;
      for (std::int64_t bag = task * a_task; bag < std::min(p_.bags, (task + 1) * a_task); ++bag) {
        const std::int64_t m = starts_[bag + 1] - starts_[bag];
        if (p_.mode == BagMode::max)
          emit_largest(bag, reader, writer, o[O::argmax], b);
        else if (m == 0)
          writer.zero(bag, bag + 1);
        else if (m <= heavy_.threshold())
          emit_row(reader, writer, entries_ + starts_[bag], m, entries_ + starts_[p_.bags], bag,
                   divisor(m), b);
      }
    });
    if (p_.mode == BagMode::max) return;
    for (std::int64_t bag = 0; bag < p_.bags; ++bag)
      if (const std::int64_t m = starts_[bag + 1] - starts_[bag]; m > heavy_.threshold())
        heavy_.add(entries_ + starts_[bag], m, bag, divisor(m));
    heavy_.run(stream, reader, writer);
  }

 private:
  C divisor(std::int64_t m) const { return p_.mode == BagMode::mean ? static_cast<C>(m) : C(0); }

  // Lists the valid entries and where each bag begins among them; returns how many indices are
  // outside of the table.
  std::int64_t list_entries(const Stream& stream, const IndexReader& indices) {
    const auto end_of = [&](std::int64_t s) { return std::min(p_.count(), (s + 1) * kSegment); };
    parallel_for(stream, segments_, [&](std::int64_t s) {
      std::int64_t outside = 0, valid = 0;
      indices.each(s * kSegment, end_of(s), [&](std::int64_t, std::int64_t index) {
        outside += em::is_bad(index, p_.num_embeddings);
        valid += em::is_valid(index, p_.num_embeddings, p_.padding_idx);
      });
      bad_[s] = outside;
      valid_[s] = valid;
    });
    std::int64_t total = 0, bad = 0;
    for (std::int64_t s = 0; s < segments_; ++s) {
      const std::int64_t n = valid_[s];
      valid_[s] = total;
      total += n;
      bad += bad_[s];
    }
    parallel_for(stream, segments_, [&](std::int64_t s) {
      std::int64_t place = valid_[s];
      std::int64_t bag = s == 0 ? 0 : first_bag_from(s * kSegment);
      indices.each(s * kSegment, end_of(s), [&](std::int64_t n, std::int64_t index) {
        for (; bag <= p_.bags && bags_.begin(bag) == n; ++bag) starts_[bag] = place;
        if (em::is_valid(index, p_.num_embeddings, p_.padding_idx))
          entries_[place++] = {static_cast<U>(index), static_cast<U>(n)};
      });
    });
    for (std::int64_t bag = p_.bags; bag >= 0 && bags_.begin(bag) == p_.count(); --bag)
      starts_[bag] = total;
    return bad;
  }
  // The first bag, or the end of the last, that begins at or behind an entry.
  std::int64_t first_bag_from(std::int64_t position) const {
    std::int64_t low = 0, high = p_.bags + 1;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      bags_.begin(middle) < position ? low = middle + 1 : high = middle;
    }
    return low;
  }

  void emit_largest(std::int64_t bag, const RowReader<C>& reader, const RowWriter<C>& writer,
                    const View& argmax, SumBuffers<C>& b) const {
    const std::int64_t begin = starts_[bag], end = starts_[bag + 1];
    alignas(64) std::int64_t winners[kPortion];
    for (std::int64_t column = 0; column < p_.dim; column += kPortion) {
      const int n = static_cast<int>(std::min<std::int64_t>(kPortion, p_.dim - column));
      std::fill_n(winners, n,
                  begin == end ? -1 : static_cast<std::int64_t>(entries_[begin].position));
      std::fill_n(b.sum, n, C(0));
      for (std::int64_t i = begin; i < end; ++i) {
        const void* row = reader.read(entries_[i], column, n, b.rows[0]);
        row_ops<C>().add_rows(reader.row_dtype(), &row, 1, n, true, i == begin ? b.sum : b.chunk);
        if (i > begin)
          row_ops<C>().take_largest(b.chunk, static_cast<std::int64_t>(entries_[i].position), n,
                                    b.sum, winners);
      }
      writer.write(bag, column, n, b);
      if (!argmax.present) continue;
      auto* to = static_cast<std::int64_t*>(argmax.data) + bag * argmax.strides[0] +
                 column * argmax.strides[1];
      for (int i = 0; i < n; ++i) to[i * argmax.strides[1]] = winners[i];
    }
  }

  const EmbeddingProblem& p_;
  std::int64_t segments_;
  Bags bags_;
  Entry<U>* entries_;
  std::int64_t* starts_;  // [bags + 1] into entries_
  std::int64_t* valid_;   // by segment
  std::int64_t* bad_;
  HeavyRows<C, U> heavy_;
};

template <class F>
auto with_compute(const EmbeddingProblem& p, F&& f) {
  return p.element_dtype == Dtype::f64 ? f(std::type_identity<double>{})
                                       : f(std::type_identity<float>{});
}

}  // namespace

std::size_t embedding_bag_cpu_workspace(const EmbeddingProblem& p) {
  return with_compute(p, [&](auto compute) {
    Parts parts;
    BagRows<typename decltype(compute)::type> size(p, parts);
    return parts.bytes();
  });
}

Result<void> embedding_bag_cpu(const Stream& stream, Workspace workspace, const EmbeddingProblem& p,
                               const Operands& operands) {
  with_compute(p, [&](auto compute) {
    Parts parts(workspace.data);
    BagRows<typename decltype(compute)::type>(p, parts).run(stream, operands);
  });
  return {};
}

}  // namespace planck
