// cpu:lines: all items of a line of out come from one line of the source, so lines are dealt to
// threads, which go through each in ascending order.
//
// scatter: the last item wins. Integers are added in place. Floats are summed in arrays that fit
// the first-level cache: per element of the line, the sum of its present chunk of 64, that of the
// chunks before, and the number of items so far; so both axes are at most kMostLine long. Longer
// ones are sorted (sums.cpp).
#include <algorithm>
#include <cstdlib>

#include "planck/loops/parallel.h"
#include "planck/loops/table/table.math.h"
#include "planck/math/chunked_sum.h"
#include "planck/ops/index/cpu/elements.h"
#include "planck/ops/index/cpu/kernels.h"

namespace planck {

using namespace index_detail;

namespace {

using O = index_operand::Write;

constexpr std::int64_t kMostLine = kSumChunk * kSumChunk;  // two levels of chunks
constexpr std::int64_t kFewItems = 4096;                   // no sort is worth its start

// Lines of the items: operands out, index, source and x, each without the axis.
struct Lines {
  Lines(const IndexProblem& p, const Operands& o) : length(p.items()[p.axis]), extent(p.extent()) {
    const Strides of_index = index_strides(p, o[O::index]);
    const View& x = p.with_x ? o[O::x] : o[O::out];
    Shape shape = p.items();
    shape[p.axis] = 1;
    nest = nest_over(shape, {o[O::out].strides, of_index, o[O::source].strides, x.strides});
    for (std::size_t k = 0; k < 4; ++k) step[k] = nest.stride[k][static_cast<std::size_t>(p.axis)];
    count = nest.total();
    if (count > 0) {
      sort_by(nest, 0);
      collapse(nest);
    }
    for (std::size_t k = 0; k < 4; ++k)
      next[k] = nest.stride[k][static_cast<std::size_t>(std::max(nest.rank - 1, 0))];
  }
  std::int64_t per_task() const {
    return std::max<std::int64_t>(1, kTaskItems / (std::max(length, extent) + 1));
  }

  std::int64_t length, extent;  // of the axis: items, elements of out
  std::int64_t count;           // of lines
  Nest nest;
  std::int64_t step[4], next[4];  // strides along the axis; to the next line of a run
};

template <class T, class I, bool kAdd>
void move_lines(const Stream& stream, const Lines& lines, const Operands& o,
                const BadIndices& bad) {
  parallel_for(stream, (lines.count + lines.per_task() - 1) / lines.per_task(),
               [&](std::int64_t task) {
                 const std::int64_t begin = task * lines.per_task();
                 const std::int64_t many = std::min(lines.per_task(), lines.count - begin);
                 std::int64_t wrong = 0;
                 nest_runs(lines.nest, begin, many, [&](const auto& at, std::int64_t n) {
                   T* out = static_cast<T*>(o[O::out].data) + at[0];
                   const I* index = static_cast<const I*>(o[O::index].data) + at[1];
                   const T* source = static_cast<const T*>(o[O::source].data) + at[2];
                   const auto put = [&](std::int64_t line, std::int64_t k) {
                     const std::int64_t a = index[line * lines.next[1] + k * lines.step[1]];
                     if (outside(a, lines.extent)) return void(++wrong);
                     T& to = out[line * lines.next[0] + a * lines.step[0]];
                     const T value = source[line * lines.next[2] + k * lines.step[2]];
                     to = kAdd ? static_cast<T>(to + value) : value;
                   };
                   // Along whichever of both is nearer in memory; k ascends for every line.
                   if (std::abs(lines.step[2]) <= std::abs(lines.next[2]))
                     for (std::int64_t line = 0; line < n; ++line)
                       for (std::int64_t k = 0; k < lines.length; ++k) put(line, k);
                   else
                     for (std::int64_t k = 0; k < lines.length; ++k)
                       for (std::int64_t line = 0; line < n; ++line) put(line, k);
                 });
                 bad.add(wrong);
               });
}

// The chunked sums of one line, for lines of kMostLine items and elements at most.
template <class C>
class LineSums {
 public:
  void clear(std::int64_t extent) { std::fill_n(counts_, extent, std::uint16_t{0}); }
  void add(std::int64_t a, C value) {
    const unsigned m = counts_[a]++;
    chunk_[a] = m % kSumChunk == 0 ? value : chunk_[a] + value;
    if (m % kSumChunk == kSumChunk - 1)
      whole_[a] = m < kSumChunk ? chunk_[a] : whole_[a] + chunk_[a];
  }
  bool any(std::int64_t a) const { return counts_[a] != 0; }
  C sum(std::int64_t a) const {
    const unsigned m = counts_[a];
    return m < kSumChunk ? chunk_[a] : m % kSumChunk == 0 ? whole_[a] : whole_[a] + chunk_[a];
  }

 private:
  C chunk_[kMostLine], whole_[kMostLine];
  std::uint16_t counts_[kMostLine];
};

template <class S, class I>
void sum_lines(const Stream& stream, const IndexProblem& p, const Lines& lines, const Operands& o,
               const BadIndices& bad) {
  using C = std::conditional_t<std::is_same_v<S, double>, double, float>;
  const View& start = o[p.with_x ? O::x : O::out];
  parallel_for(
      stream, (lines.count + lines.per_task() - 1) / lines.per_task(), [&](std::int64_t task) {
        LineSums<C> sums;
        const std::int64_t begin = task * lines.per_task();
        const std::int64_t many = std::min(lines.per_task(), lines.count - begin);
        std::int64_t wrong = 0;
        nest_runs(lines.nest, begin, many, [&](const auto& at, std::int64_t n) {
          for (std::int64_t line = 0; line < n; ++line) {
            S* out = static_cast<S*>(o[O::out].data) + at[0] + line * lines.next[0];
            const I* index = static_cast<const I*>(o[O::index].data) + at[1] + line * lines.next[1];
            const S* source =
                static_cast<const S*>(o[O::source].data) + at[2] + line * lines.next[2];
            const S* x = static_cast<const S*>(start.data) + at[3] + line * lines.next[3];
            sums.clear(lines.extent);
            for (std::int64_t k = 0; k < lines.length; ++k) {
              const std::int64_t a = index[k * lines.step[1]];
              if (outside(a, lines.extent))
                ++wrong;
              else
                sums.add(a, static_cast<C>(source[k * lines.step[2]]));
            }
            for (std::int64_t a = 0; a < lines.extent; ++a) {
              S& to = out[a * lines.step[0]];
              if (!sums.any(a))
                to = p.with_x ? x[a * lines.step[3]] : S(0.0f);
              else if (p.with_x)
                to = S(table_math::canonical(static_cast<C>(x[a * lines.step[3]]) + sums.sum(a)));
              else
                to = S(table_math::canonical(sums.sum(a)));
            }
          }
        });
        bad.add(wrong);
      });
}

// Lines of out that no line of the items reaches.
bool leaves_lines_out(const IndexProblem& p) {
  for (int d = 0; d < p.x.rank(); ++d)
    if (d != p.axis && p.items()[d] != p.x[d]) return true;
  return false;
}

}  // namespace

std::string index_lines_cpu_refusal(const IndexProblem& p) {
  if (!p.adds() || !is_float(p.element_dtype)) return "";
  const std::int64_t length = p.items()[p.axis];
  if (length > kMostLine || p.extent() > kMostLine)
    return "sums floats along axes of up to " + std::to_string(kMostLine) + ", items have " +
           std::to_string(length) + ", x " + std::to_string(p.extent());
  if (p.by_slice() && p.inner() > 1 && numel(p.items()) > kFewItems)
    return "rows of " + std::to_string(p.inner()) + " elements are added by cpu:sorted_rows";
  return "";
}

Result<void> index_lines_cpu(const Stream& stream, Workspace, const IndexProblem& p,
                             const Operands& o) {
  const BadIndices bad(o[O::bad_indices]);
  const BadIndices unasked{View{}};
  const View& index = o[O::index];
  if (p.by_slice() && o[O::bad_indices].present) count_bad(index, p.extent(), bad);
  const BadIndices& counted = p.by_slice() ? unasked : bad;
  const bool sums = p.adds() && is_float(p.element_dtype);
  if (!sums || leaves_lines_out(p)) copy_elements(stream, p.with_x ? o[O::x] : View{}, o[O::out]);
  const Lines lines(p, o);
  if (lines.count == 0) return {};
  with_index(index.dtype, [&](auto kind) {
    using I = decltype(kind);
    if (sums)
      return visit_float(p.element_dtype, [&](auto type) {
        sum_lines<typename decltype(type)::type, I>(stream, p, lines, o, counted);
      });
    with_bytes(p.element_dtype, [&](auto word) {
      using T = decltype(word);
      p.adds() ? move_lines<T, I, true>(stream, lines, o, counted)
               : move_lines<T, I, false>(stream, lines, o, counted);
    });
  });
  return {};
}

}  // namespace planck
