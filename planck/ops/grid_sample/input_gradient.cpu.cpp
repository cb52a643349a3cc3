// dinput on the CPU: every element gathers its contributions from the sorted points, in order, all
// channels at once. Nothing is zeroed first, nothing is added to memory by several threads.
//
// An element with up to 64 contributions is one weighted sum of rows; tiles of such elements are
// summed in one call. With more, it is summed chunk by chunk; with more than kHot, by all threads.
#include "planck/math/chunked_sum.h"
#include "planck/ops/grid_sample/gradients.cpu.h"

namespace planck {

namespace {

template <class C>
C tap_weight(SampleMode mode, C t, int tap) {
  if (mode == SampleMode::nearest) return C(1);
  if (mode == SampleMode::bilinear) return tap == 0 ? C(1) - t : t;
  C w[4];
  grid_sample_math::cubic_weights(t, w);
  return w[tap];
}

// Chunk sums of growing number, each a row: ChunkedSum for rows.
template <class C>
class ChunkedRows {
 public:
  // values is overwritten.
  void add(C* values, int channels) {
    for (int level = 0;; ++level) {
      if (counts_[level] == 0)
        std::copy_n(values, channels, sums_[level]);
      else
        sample_loops<C>().add(values, sums_[level], channels);
      if (++counts_[level] < kSumChunk || level == kLevels - 1) return;
      std::copy_n(sums_[level], channels, values);
      counts_[level] = 0;
    }
  }
  void result(C* out, int channels) const {
    bool any = false;
    for (int level = 0; level < kLevels; ++level) {
      if (counts_[level] == 0) continue;
      if (any)
        sample_loops<C>().add(sums_[level], out, channels);
      else
        std::copy_n(sums_[level], channels, out);
      any = true;
    }
    for (int c = 0; c < channels; ++c) out[c] = grid_sample_math::canonical(any ? out[c] : C(0));
  }

 private:
  static constexpr int kLevels = 5;
  int counts_[kLevels] = {};
  alignas(64) C sums_[kLevels][kChannelBlock];
};

// The contributions to one element of an image.
template <class C, class P>
class Contributions {
 public:
  Contributions(const GridSampleProblem& p, const PointLocator<C>& where,
                const CellLists<C, P>& lists, std::int64_t image, std::int64_t z, std::int64_t y)
      : mode_(p.mode),
        dims_(where.dims()),
        lists_(&lists),
        x_axis_(where.axis(2)),
        ends_(lists.ends(image)),
        entries_(lists.entries(image)) {
    if (dims_ == 3)
      z_ = pairs_of(mode_, where.axis(0), z);
    else
      z_.pair[z_.count++] = {0, 0};
    y_ = pairs_of(mode_, where.axis(1), y);
  }

  void move_to(std::int64_t x) {
    x_ = pairs_of(mode_, x_axis_, x);
    total_ = 0;
    each_cell([&](const P* end, int, int, int) { total_ += end[1] - end[0]; });
  }
  std::int64_t total() const { return total_; }

  // Calls f(point, weight) for contributions [first, last), in order.
  template <class F>
  void each(std::int64_t first, std::int64_t last, F&& f) const {
    std::int64_t at = 0;  // of the cell's first
    each_cell([&](const P* end, int tap_z, int tap_y, int tap_x) {
      const std::int64_t count = end[1] - end[0];
      const std::int64_t from = std::max<std::int64_t>(first - at, 0),
                         to = std::min(last - at, count);
      for (std::int64_t k = from; k < to; ++k) {
        const CellPoint<C, P>& e = entries_[end[0] + k];
        C w = tap_weight(mode_, e.t[2], tap_x);
        if (mode_ != SampleMode::nearest) w = w * tap_weight(mode_, e.t[1], tap_y);
        if (mode_ != SampleMode::nearest && dims_ == 3) w = w * tap_weight(mode_, e.t[0], tap_z);
        f(e.point, w);
      }
      at += count;
    });
  }

 private:
  template <class F>
  void each_cell(F&& f) const {
    for (int i = 0; i < z_.count; ++i)
      for (int j = 0; j < y_.count; ++j) {
        const P* line =
            ends_ + (z_.pair[i].cell * lists_->cells(1) + y_.pair[j].cell) * lists_->cells(2);
        for (int k = 0; k < x_.count; ++k)
          f(line + x_.pair[k].cell, z_.pair[i].tap, y_.pair[j].tap, x_.pair[k].tap);
      }
  }

  SampleMode mode_;
  int dims_;
  const CellLists<C, P>* lists_;
  SampleAxis<C> x_axis_;
  const P* ends_;
  const CellPoint<C, P>* entries_;
  AxisPairs z_, y_, x_;
  std::int64_t total_ = 0;
};

// The cells that touch a row of elements, for bilinear and trilinear sampling: two lines of cells a
// dimension beyond x, those first whose upper taps fall on the row.
template <class C, class P>
struct CellLines {
  const P* end[4];
  int count = 0;

  CellLines(const CellLists<C, P>& lists, int dims, std::int64_t image, std::int64_t z,
            std::int64_t y) {
    for (int tz = 1; tz >= (dims == 3 ? 0 : 1); --tz)
      for (int ty = 1; ty >= 0; --ty) {
        const std::int64_t cell_z = dims == 3 ? z + 1 - tz : 0, cell_y = y + 1 - ty;
        end[count++] = lists.ends(image) + (cell_z * lists.cells(1) + cell_y) * lists.cells(2);
      }
  }
  std::int64_t total(std::int64_t x) const {
    std::int64_t m = 0;
    for (int i = 0; i < count; ++i) m += end[i][x + 2] - end[i][x];
    return m;
  }
  // Calls f(point, weight) in order.
  template <int kDims, class F>
  void each(const CellPoint<C, P>* entries, std::int64_t x, F&& f) const {
    // Two lines as one loop: how long each is, nobody can predict.
    for (int i = 0; i < count; i += 2) {
      const P *a = end[i] + x, *b = end[i + 1] + x;
      const P first = a[2] - a[0], total = first + b[2] - b[0];
      for (P k = 0; k < total; ++k) {
        const bool upper_y = k < first;  // the line before: this row is its upper tap
        const P at = (upper_y ? a[0] : b[0] - first) + k;
        const CellPoint<C, P>& e = entries[at];
        C w = (at < (upper_y ? a[1] : b[1]) ? e.t[2] : C(1) - e.t[2]) *
              (upper_y ? e.t[1] : C(1) - e.t[1]);
        if constexpr (kDims == 3) w = w * (i == 0 ? e.t[0] : C(1) - e.t[0]);
        f(e.point, w);
      }
    }
  }
};

// Rows of dout by point.
template <class C>
struct DoutRows {
  ImageRows<C> rows;
  std::int64_t height, width;
  bool dense;  // points follow each other at step[2]

  const C* operator()(std::int64_t point) const {
    if (dense) return rows.base + point * rows.step[2];
    return rows(point / (height * width), point / width % height, point % width);
  }
};

template <class C>
DoutRows<C> dout_rows(const SampleGeometry& g, const ImageRows<C>& rows) {
  const bool dense = rows.step[1] == rows.step[2] * g.out[2] &&
                     (g.dims == 2 || rows.step[0] == rows.step[1] * g.out[1]);
  return {rows, g.out[1], g.out[2], dense};
}

// Contributions [first, last) of an element, first a multiple of 64, channels [c0, c0 + channels).
template <class C, class P>
void sum_chunks_of(const Contributions<C, P>& all, const DoutRows<C>& dout, std::int64_t first,
                   std::int64_t last, std::int64_t c0, int channels, C* out) {
  ChunkedRows<C> total;
  const C* rows[kSumChunk];
  C weights[kSumChunk];
  int count = 0;
  const auto flush = [&] {
    alignas(64) C chunk[kChannelBlock];
    sample_loops<C>().weighted_sums(rows, weights, nullptr, count, 1, channels, chunk, 0);
    total.add(chunk, channels);
    count = 0;
  };
  all.each(first, last, [&](P point, C weight) {
    rows[count] = dout(point) + c0;
    weights[count++] = weight;
    if (count == kSumChunk) flush();
  });
  if (count > 0) flush();
  total.result(out, channels);
}

}  // namespace

template <class C>
std::size_t HotElements<C>::list_bytes(const GridSampleProblem& p, std::int64_t images) {
  return static_cast<std::size_t>(images * (p.geometry().points() * p.taps() / kHot) + 8) *
         sizeof(std::int64_t);
}

template <class C>
std::size_t HotElements<C>::partial_bytes(const GridSampleProblem& p) {
  const SampleGeometry g = p.geometry();
  const std::int64_t most = g.points() * (p.mode == SampleMode::bicubic ? 16 : 1);
  return static_cast<std::size_t>((most + kSpan - 1) / kSpan * row_length(g.channels)) * sizeof(C);
}

template <class C, class P>
void input_gradient(const Stream& stream, const GridSampleProblem& p, const PointLocator<C>& where,
                    const CellLists<C, P>& lists, const GroupRows<C>& dout,
                    const HotElements<C>& hot, const Planes& dinput, std::int64_t n0,
                    std::int64_t images) {
  const SampleGeometry g = p.geometry();
  const std::int64_t width = g.in[2], height = g.in[1];
  std::atomic<std::int64_t> hot_count{0};
  const auto store = [&](std::int64_t image, std::int64_t begin, int count, std::int64_t c0,
                         int channels, const C* tile, const bool* marked) {
    if (p.accumulate)
      add_rows(dinput, n0 + image, begin, count, c0, channels, tile, marked);
    else
      store_rows(dinput, n0 + image, begin, count, c0, channels, tile);
  };

  // A row of four channels is summed where it is found: a list would cost more than it.
  const bool few =
      p.mode == SampleMode::bilinear && g.dims == 2 && dout.length == kFewLines && g.channels > 1;
  const auto tile_gradient = [&](std::int64_t image, std::int64_t begin, int count) {
    const C* rows[kTilePoints * kSumChunk];
    C weights[kTilePoints * kSumChunk];
    int counts[kTilePoints];
    bool marked[kTilePoints], many[kTilePoints];
    const DoutRows<C> from = dout_rows(g, dout.image(image));
    const auto contributions = [&](std::int64_t element) {
      return Contributions<C, P>(p, where, lists, image, element / width / height,
                                 element / width % height);
    };
    alignas(64) C tile[kTileElements];
    int total = 0;
    // Counts the contributions of element i; true where they are to be listed now.
    const auto begin_element = [&](int i, std::int64_t m) {
      const bool is_hot = m > HotElements<C>::kHot;
      if (is_hot) hot.list[hot_count.fetch_add(1)] = image * g.pixels() + begin + i;
      marked[i] = m > 0 && !is_hot;
      many[i] = m > kSumChunk && !is_hot;
      counts[i] = m <= kSumChunk ? static_cast<int>(m) : 0;
      return counts[i] > 0;
    };
    const auto list = [&](P point, C weight) {
      rows[total] = from(point);
      weights[total++] = weight;
    };
    for (int i = 0; i < count;) {  // row by row
      const std::int64_t first = begin + i, x = first % width;
      const int end = static_cast<int>(std::min<std::int64_t>(count, i + width - x));
      if (p.mode == SampleMode::bilinear) {
        const CellLines<C, P> lines(lists, g.dims, image, first / width / height,
                                    first / width % height);
        const CellPoint<C, P>* entries = lists.entries(image);
        for (std::int64_t at = x; i < end; ++i, ++at) {
          const bool now = begin_element(i, lines.total(at));
          if (few) {
            const C start = now ? C(-0.0) : C(0);  // −0 + v is v, whatever v is
            C sum[kFewLines] = {start, start, start, start};
            const auto add = [&](P point, C w) {
              const C* row = from(point);
              for (int k = 0; k < kFewLines; ++k) sum[k] += w * row[k];
            };
            if (now) lines.template each<2>(entries, at, add);
            for (int k = 0; k < kFewLines; ++k)
              tile[i * kFewLines + k] = grid_sample_math::canonical(sum[k]);
            continue;
          }
          if (!now) continue;
          if (g.dims == 3)
            lines.template each<3>(entries, at, list);
          else
            lines.template each<2>(entries, at, list);
        }
      } else {
        Contributions<C, P> all = contributions(first);
        for (std::int64_t at = x; i < end; ++i, ++at) {
          all.move_to(at);
          if (begin_element(i, all.total())) all.each(0, all.total(), list);
        }
      }
    }
    for (std::int64_t c0 = 0; c0 < g.channels; c0 += kChannelBlock) {
      const int channels = static_cast<int>(std::min<std::int64_t>(kChannelBlock, g.channels - c0));
      const int step = tile_stride(channels);
      if (c0 > 0)
        for (int k = 0; k < total; ++k) rows[k] += kChannelBlock;
      if (!few)
        sample_loops<C>().weighted_sums(rows, weights, counts, 0, count,
                                        std::min<std::int64_t>(kChannelBlock, dout.length - c0),
                                        tile, step);
      for (int i = 0; i < count; ++i) {
        if (!many[i]) continue;
        Contributions<C, P> these = contributions(begin + i);
        these.move_to((begin + i) % width);
        sum_chunks_of(these, from, 0, these.total(), c0, channels, tile + i * step);
      }
      store(image, begin, count, c0, channels, tile, marked);
    }
  };
  for_positions(stream, images, g.pixels(), task_positions(g.channels),
                [&](std::int64_t image, std::int64_t first, std::int64_t total) {
                  for (std::int64_t begin = first; begin < first + total; begin += kTilePoints)
                    tile_gradient(image, begin,
                                  static_cast<int>(
                                      std::min<std::int64_t>(kTilePoints, first + total - begin)));
                });

  constexpr std::int64_t kSpan = HotElements<C>::kSpan;
  for (std::int64_t h = 0; h < hot_count.load(); ++h) {
    const std::int64_t image = hot.list[h] / g.pixels(), element = hot.list[h] % g.pixels();
    const DoutRows<C> from = dout_rows(g, dout.image(image));
    Contributions<C, P> all(p, where, lists, image, element / width / height,
                            element / width % height);
    all.move_to(element % width);
    const std::int64_t spans = (all.total() + kSpan - 1) / kSpan;
    for (std::int64_t c0 = 0; c0 < g.channels; c0 += kChannelBlock) {
      const int channels = static_cast<int>(std::min<std::int64_t>(kChannelBlock, g.channels - c0));
      parallel_for(stream, spans, [&](std::int64_t s) {
        sum_chunks_of(all, from, s * kSpan, (s + 1) * kSpan, c0, channels,
                      hot.partial + s * channels);
      });
      ChunkedRows<C> total;  // of sums of 64 chunks each
      for (std::int64_t s = 0; s < spans; ++s) total.add(hot.partial + s * channels, channels);
      alignas(64) C sum[tile_stride(kChannelBlock)];
      total.result(sum, channels);
      const bool marked = true;
      store(image, element, 1, c0, channels, sum, &marked);
    }
  }
}

template struct HotElements<float>;
template struct HotElements<double>;
#define PLANCK_INSTANTIATE(C, P)                                                                   \
  template void input_gradient(const Stream&, const GridSampleProblem&, const PointLocator<C>&,    \
                               const CellLists<C, P>&, const GroupRows<C>&, const HotElements<C>&, \
                               const Planes&, std::int64_t, std::int64_t)
PLANCK_INSTANTIATE(float, std::int32_t);
PLANCK_INSTANTIATE(float, std::int64_t);
PLANCK_INSTANTIATE(double, std::int32_t);
PLANCK_INSTANTIATE(double, std::int64_t);
#undef PLANCK_INSTANTIATE

}  // namespace planck
