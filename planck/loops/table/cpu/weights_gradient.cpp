#include "planck/loops/table/cpu/weights_gradient.h"

#include <bit>

#include "planck/loops/table/cpu/row_loops.h"
#include "planck/loops/table/table.math.h"

namespace planck {

namespace {

// Each kPortion columns are a subtree of the pairwise sum; the subtrees' sums are added up like the
// digits of a binary counter.
template <class C>
C dot_rows(const View& a, std::int64_t a_row, const View& b, std::int64_t b_row,
           std::int64_t width) {
  alignas(64) C left[kPortion];
  alignas(64) C right[kPortion];
  C sums[64];
  std::uint64_t portions = 0;  // bit k: sums[k] holds 2^k subtrees
  for (std::int64_t column = 0; column < width; column += kPortion) {
    const int n = static_cast<int>(std::min<std::int64_t>(kPortion, width - column));
    load_portion(portion_ops(), a.dtype, a.data, a_row * a.strides[0] + column * a.strides[1],
                 a.strides[1], n, left);
    load_portion(portion_ops(), b.dtype, b.data, b_row * b.strides[0] + column * b.strides[1],
                 b.strides[1], n, right);
    C sum = row_ops<C>().dot(n, left, right);
    int level = 0;
    for (; (portions >> level) & 1; ++level) sum = sums[level] + sum;
    sums[level] = sum;
    ++portions;
  }
  if (portions == 0) return 0;
  int level = std::countr_zero(portions);
  C sum = sums[level];
  for (++level; portions >> level != 0; ++level)
    if ((portions >> level) & 1) sum = sums[level] + sum;
  return sum;
}

}  // namespace

template <class C>
void weights_gradient_cpu(const Stream& stream, const TableProblem& p, const Bags& bags,
                          const std::int64_t* bag_of, const Operands& operands) {
  using O = table_operand::BagBackward;
  const IndexReader indices(operands[O::indices]);
  const View& to = operands[O::dweights];
  constexpr std::int64_t kTask = 128;
  parallel_for(stream, (p.count() + kTask - 1) / kTask, [&](std::int64_t task) {
    const std::int64_t begin = task * kTask, end = std::min(p.count(), begin + kTask);
    C results[kTask];
    indices.each(begin, end, [&](std::int64_t n, std::int64_t index) {
      const bool counts = n >= bags.first() && n < bags.last() &&
                          table_math::is_valid(index, p.num_embeddings, p.padding_idx);
      results[n - begin] =
          counts ? table_math::canonical(
                       dot_rows<C>(operands[O::dout], bag_of[n], operands[O::weight], index, p.dim))
                 : C(0);
    });
    store_portion(portion_ops(), to.dtype, to.data, begin * to.strides[0], to.strides[0],
                  static_cast<int>(end - begin), results);
  });
}

template void weights_gradient_cpu<float>(const Stream&, const TableProblem&, const Bags&,
                                          const std::int64_t*, const Operands&);
template void weights_gradient_cpu<double>(const Stream&, const TableProblem&, const Bags&,
                                           const std::int64_t*, const Operands&);

}  // namespace planck
