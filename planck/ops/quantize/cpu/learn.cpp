// Backward of FakeQuantize with learnable scale and zero point, on the CPU.
//
// dscale and dzero_point are sums over the members of a group, in the canonical order: a binary
// tree over the member index, aligned at powers of two (docs/numerics.md). Rows: portions of 1,024
// members are summed as small trees, and the portions' sums are merged like the digits of a binary
// counter. Columns (few inner elements): the same counter, each digit a vector over channels. Both
// cut long groups at multiples of a power of two, so every cut evaluates the same tree. Dense
// members with ordinary zero points are summed by vectors first (learn_loops.cpp): 4,096 members,
// short groups or eight rows of columns at a time.
//
// f32, 8192 x 8192, two threads, share of the ceiling:   tensor  axis 0  axis 1  groups of 128
//   terms to arrays, then their trees                      0.75    0.70    0.27    0.26
//   terms and trees in registers                           1.1     1.0     0.79    0.91
//   columns: dx stored by cache lines of a row                             0.85
#include "planck/loops/cpu/map.h"
#include "planck/ops/quantize/cpu/groups.h"
#include "planck/ops/quantize/cpu/kernels.h"
#include "planck/ops/quantize/cpu/sum_counter.h"
#include "planck/ops/quantize/quantize.math.h"

namespace planck {

namespace {

using Map3 = QuantProblem::Map;

constexpr std::int64_t kRowInner = 32;                    // inner extents from here on are rows
constexpr std::int64_t kRowSpan = std::int64_t{1} << 16;  // members per row task
constexpr std::int64_t kColumnSpan = std::int64_t{1} << 12;
constexpr int kColumnWidth = 1024;  // positions per column task
constexpr int kPortionsLevel = 2;   // levels of the tree from kPortion to kLearnElements members
constexpr int kRowsLevel = 3;       // those of kLearnRows
static_assert(kPortion << kPortionsLevel == kLearnElements && 1 << kRowsLevel == kLearnRows);

bool by_rows(const Map3& m) { return m.inner >= kRowInner || m.outer == 1; }
std::int64_t span_of(const Map3& m) {
  if (by_rows(m)) return kRowSpan;
  return m.inner == 1 ? kColumnSpan : std::max<std::int64_t>(1, m.members());
}
std::int64_t spans(const Map3& m) {
  return std::max<std::int64_t>(1, (m.members() + span_of(m) - 1) / span_of(m));
}

template <class C>
struct Job {
  const QuantProblem& p;
  MapOperand dy, x, dx, scale, zero_point;  // in logical order
  C* scale_sums;                            // [channels, spans], in the workspace
  C* zero_point_sums;
  Map3 m;
  bool stream;
  bool dense;  // dy, x and dx, all of them
};

template <class C>
struct Buffers {
  explicit Buffers(const Job<C>& job) : groups(job.scale, &job.zero_point, group_needs(job.p)) {}
  GroupLoader<C> groups;
  alignas(64) C dy[kPortion], x[kPortion], dx[kPortion], scale_terms[kPortion],
      zero_point_terms[kPortion];
};

// Terms of positions [begin, begin + n) into the buffers, from index `at` on; dx is stored.
template <class C>
void terms(const Job<C>& job, Buffers<C>& b, std::int64_t begin, int n, int at,
           std::int64_t key = -1) {
  const PortionGroups<C>& g = b.groups.load(begin, n, key);
  with_sink(job.dx, begin, n, job.stream, b.dx, [&](Sink to) {
    quant_sums<C>().learn(g, n, source_of(job.dy, begin, n, b.dy), source_of(job.x, begin, n, b.x),
                          to, b.scale_terms + at, b.zero_point_terms + at);
  });
}

// The vector loops, if they take these groups; else null.
const LearnLoops* loops_for(const PortionGroups<float>& g) {
  return g.path == GridPath::divide || g.path == GridPath::reciprocal ? learn_loops() : nullptr;
}

// Sums `count` runs of `run` members from position `begin` on, in one piece and by vectors; returns
// whether that was possible.
bool run_sums(const Job<float>& job, Buffers<float>& b, std::int64_t begin, int count, int run,
              float* scale_sums, float* zero_point_sums) {
  const int n = count * run;
  const void* dy = dense_at(job.dy, begin, n);
  const void* x = dense_at(job.x, begin, n);
  void* dx = dense_at(job.dx, begin, n);
  if (learn_loops() == nullptr || dy == nullptr || x == nullptr || dx == nullptr) return false;
  if (!b.groups.in_runs(begin, n)) return false;
  const PortionGroups<float>& g = b.groups.load(begin, n);
  const LearnLoops* loops = loops_for(g);
  if (loops == nullptr) return false;
  loops->runs(g, count, run, Source{dy, job.dy.dtype}, Source{x, job.x.dtype},
              Sink{dx, job.dx.dtype, job.stream}, scale_sums, zero_point_sums);
  return true;
}
bool run_sums(const Job<double>&, Buffers<double>&, std::int64_t, int, int, double*, double*) {
  return false;
}

// The same of channels [c0, c0 + width) over kLearnRows rows from row o on.
bool row_sums(const Job<float>& job, Buffers<float>& b, std::int64_t o, std::int64_t c0, int width,
              float* scale_sums, float* zero_point_sums) {
  if (!job.dense || learn_loops() == nullptr) return false;
  const std::int64_t begin = o * job.m.channels + c0;
  const PortionGroups<float>& g = b.groups.load(begin, width, c0);
  const LearnLoops* loops = loops_for(g);
  if (loops == nullptr || g.layout != GroupLayout::each) return false;
  const std::int64_t row = job.m.channels * bits(job.x.dtype) / 8, ahead = kLearnRows / 2 * row;
  loops->columns(g, width, Source{dense_at(job.dy, begin, width), job.dy.dtype, ahead, row},
                 Source{dense_at(job.x, begin, width), job.x.dtype, ahead, row},
                 Sink{dense_at(job.dx, begin, width), job.dx.dtype, job.stream, row}, scale_sums,
                 zero_point_sums);
  return true;
}
bool row_sums(const Job<double>&, Buffers<double>&, std::int64_t, std::int64_t, int, double*,
              double*) {
  return false;
}

// Members [j0, j1) of one channel; j0 is a multiple of kRowSpan.
template <class C>
void row(const Job<C>& job, Buffers<C>& b, std::int64_t channel, std::int64_t j0, std::int64_t j1,
         C* scale_sum, C* zero_point_sum) {
  const Map3& m = job.m;
  SumCounter<C, 1> scale_counter, zero_point_counter;
  for (std::int64_t j = j0; j < j1;) {
    const std::int64_t piece = std::min(j1 - j, m.inner - j % m.inner);
    if (piece >= kPortion) {
      const int length =
          piece >= kLearnElements && j % kLearnElements == 0 ? kLearnElements : kPortion;
      const std::int64_t begin = (j / m.inner * m.channels + channel) * m.inner + j % m.inner;
      C sums[2];
      if (run_sums(job, b, begin, 1, length, &sums[0], &sums[1])) {
        const int level = length == kPortion ? 0 : kPortionsLevel;
        scale_counter.push(1, &sums[0], level);
        zero_point_counter.push(1, &sums[1], level);
        j += length;
        continue;
      }
    }
    const int n = static_cast<int>(std::min<std::int64_t>(kPortion, j1 - j));
    for (int done = 0; done < n;) {
      const std::int64_t o = (j + done) / m.inner, i = (j + done) % m.inner;
      const int length = static_cast<int>(std::min<std::int64_t>(n - done, m.inner - i));
      terms(job, b, (o * m.channels + channel) * m.inner + i, length, done);
      done += length;
    }
    C scale_portion = quant_sums<C>().tree_sum(b.scale_terms, n);
    C zero_point_portion = quant_sums<C>().tree_sum(b.zero_point_terms, n);
    scale_counter.push(1, &scale_portion);
    zero_point_counter.push(1, &zero_point_portion);
    j += kPortion;
  }
  scale_counter.total(1, scale_sum);
  zero_point_counter.total(1, zero_point_sum);
}

// Channels [c0, c1) in rows of their own: several at once where they are short.
template <class C>
void rows(const Job<C>& job, Buffers<C>& b, std::int64_t c0, std::int64_t c1) {
  const std::int64_t members = job.m.members();
  const bool together = job.m.outer == 1 && members >= 32 && members < kPortion &&
                        std::has_single_bit(static_cast<std::uint64_t>(members));
  for (std::int64_t c = c0; c < c1;) {
    if (together) {
      const std::int64_t unit = std::max<std::int64_t>(1, kLearnUnit / members);
      const std::int64_t count = std::min(kLearnElements / members, (c1 - c) / unit * unit);
      if (count > 0 &&
          run_sums(job, b, c * members, static_cast<int>(count), static_cast<int>(members),
                   job.scale_sums + c, job.zero_point_sums + c)) {
        c += count;
        continue;
      }
    }
    row(job, b, c, 0, members, job.scale_sums + c, job.zero_point_sums + c);
    ++c;
  }
}

// Members [j0, j1) of channels [c0, c1), whole rows of `inner` members.
template <class C>
void columns(const Job<C>& job, Buffers<C>& b, std::int64_t c0, std::int64_t c1, std::int64_t j0,
             std::int64_t j1, C* scale_sums, C* zero_point_sums) {
  const Map3& m = job.m;
  const int width = static_cast<int>(c1 - c0), inner = static_cast<int>(m.inner);
  SumCounter<C, kColumnWidth> scale_counter, zero_point_counter;
  C column[kColumnWidth], column2[kColumnWidth];
  for (std::int64_t o = j0 / m.inner; o < j1 / m.inner; ++o) {
    if (inner == 1 && width % 16 == 0 && j1 - o >= kLearnRows) {
      if (row_sums(job, b, o, c0, width, column, column2)) {
        scale_counter.push(width, column, kRowsLevel);
        zero_point_counter.push(width, column2, kRowsLevel);
        o += kLearnRows - 1;
        continue;
      }
    }
    terms(job, b, (o * m.channels + c0) * m.inner, width * inner, 0, c0);
    for (int i = 0; i < inner; ++i) {
      for (int c = 0; c < width; ++c) column[c] = b.scale_terms[c * inner + i];
      scale_counter.push(width, column);
      for (int c = 0; c < width; ++c) column[c] = b.zero_point_terms[c * inner + i];
      zero_point_counter.push(width, column);
    }
  }
  scale_counter.total(width, scale_sums);
  zero_point_counter.total(width, zero_point_sums);
}

// The tree over the spans of each channel, rounded once to the tensor's dtype.
template <class C>
void store_sums(const Stream& stream, const QuantProblem& p, C* sums, std::int64_t count,
                const View& out) {
  if (!out.present) return;
  const MapOperand target{out.data, out.dtype, group_walk(p, out)};
  const std::int64_t channels = p.map().channels;
  parallel_for(stream, (channels + kPortion - 1) / kPortion, [&](std::int64_t t) {
    const std::int64_t c0 = t * kPortion;
    const int n = static_cast<int>(std::min<std::int64_t>(kPortion, channels - c0));
    C values[kPortion];
    for (int k = 0; k < n; ++k) {
      values[k] = quantize_math::canonical(
          quant_sums<C>().tree_sum(sums + (c0 + k) * count, static_cast<int>(count)));
    }
    C buffer[kPortion];
    with_sink(target, c0, n, false, buffer,
              [&](Sink to) { store_portion(portion_ops(), to.dtype, to.data, 0, 1, n, values); });
  });
}

template <class C>
Result<void> learn(const Stream& stream, Workspace workspace, const QuantProblem& p,
                   const Operands& operands) {
  using Operand = quant_operand::FakeQuantizeBackward;
  const QuantNest logical =
      quant_nest(p, {&operands[Operand::dy], &operands[Operand::x], &operands[Operand::dx]},
                 {&operands[Operand::scale], &operands[Operand::zero_point]});
  const Map3 m = p.map();
  const auto operand = [&](int k) {
    const View& v = logical.views[static_cast<std::size_t>(k)];
    MapOperand o{v.data, v.dtype, walk_of(logical.nest, k)};
    if (!by_rows(m)) o.ahead = m.channels * m.inner * bits(v.dtype) / 8;  // the next row
    return o;
  };
  const std::int64_t count = spans(m), span = span_of(m);
  C* sums = static_cast<C*>(workspace.data);
  Job<C> job{p,          operand(0),
             operand(1), operand(2),
             operand(3), operand(4),
             sums,       sums + m.channels * count,
             m,          bytes_for(p.element_dtype, m.channels * m.members()) >= kStreamBytes,
             false};
  job.dense = job.dy.walk.dense() && job.x.walk.dense() && job.dx.walk.dense();
  if (by_rows(m)) {
    const std::int64_t batch =
        count > 1
            ? 1
            : std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, m.members()));
    const std::int64_t tiles = (m.channels + batch - 1) / batch;
    parallel_for(stream, tiles * count, [&](std::int64_t t) {
      Buffers<C> b(job);
      const std::int64_t s = t % count, c0 = t / count * batch;
      if (count == 1) return rows(job, b, c0, std::min(m.channels, c0 + batch));
      row(job, b, c0, s * span, std::min(m.members(), (s + 1) * span),
          job.scale_sums + c0 * count + s, job.zero_point_sums + c0 * count + s);
    });
  } else {
    const std::int64_t width = std::max<std::int64_t>(1, kColumnWidth / m.inner);
    const std::int64_t tiles = (m.channels + width - 1) / width;
    parallel_for(stream, tiles * count, [&](std::int64_t t) {
      Buffers<C> b(job);
      const std::int64_t s = t / tiles, c0 = t % tiles * width,
                         c1 = std::min(m.channels, c0 + width);
      C scale_sums[kColumnWidth], zero_point_sums[kColumnWidth];
      columns(job, b, c0, c1, s * span, std::min(m.members(), (s + 1) * span), scale_sums,
              zero_point_sums);
      for (std::int64_t c = c0; c < c1; ++c) {
        job.scale_sums[c * count + s] = scale_sums[c - c0];
        job.zero_point_sums[c * count + s] = zero_point_sums[c - c0];
      }
    });
  }
  store_sums(stream, p, job.scale_sums, count, operands[Operand::dscale]);
  store_sums(stream, p, job.zero_point_sums, count, operands[Operand::dzero_point]);
  return {};
}

}  // namespace

Result<void> quantize_learned_cpu(const Stream& stream, Workspace workspace, const QuantProblem& p,
                                  const Operands& operands) {
  return p.element_dtype == Dtype::f64 ? learn<double>(stream, workspace, p, operands)
                                       : learn<float>(stream, workspace, p, operands);
}

std::size_t quantize_learned_cpu_workspace(const QuantProblem& p) {
  const Map3 m = p.map();
  return 2 * static_cast<std::size_t>(m.channels * spans(m)) *
         storage_bytes(compute_dtype(p.element_dtype));
}

}  // namespace planck
