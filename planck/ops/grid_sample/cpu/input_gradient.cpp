// dinput on the CPU: every element gathers its contributions from the sorted points, in order, all
// channels at once. Nothing is zeroed first, and no two threads add to the same memory.
//
// An element with up to 64 contributions is one weighted sum of rows; tiles of such elements are
// summed in one call. With more, it is summed chunk by chunk; with more than kHot, by all threads.
#include "planck/math/chunked_sum.h"
#include "planck/ops/grid_sample/cpu/contributions.h"
#include "planck/ops/grid_sample/cpu/gradients.h"

namespace planck {

namespace {

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

namespace {

// Tiles of neighbouring elements, each the sum of its contributions; then those elements that have
// very many, by all threads.
template <class C, class P>
class InputGradient {
 public:
  InputGradient(const GridSampleProblem& p, const PointLocator<C>& where,
                const CellLists<C, P>& lists, const GroupRows<C>& dout, const HotElements<C>& hot,
                const Planes& dinput, std::int64_t n0)
      : p_(p), where_(where), lists_(lists), dout_(dout), hot_(hot), dinput_(dinput), n0_(n0) {}

  void run(const Stream& stream, std::int64_t images) {
    for_positions(
        stream, images, g_.pixels(), task_positions(g_.channels),
        [&](std::int64_t image, std::int64_t first, std::int64_t total) {
          for (std::int64_t begin = first; begin < first + total; begin += kTilePoints)
            sum_tile(image, begin,
                     static_cast<int>(std::min<std::int64_t>(kTilePoints, first + total - begin)));
        });
    for (std::int64_t h = 0; h < hot_count_.load(); ++h)
      sum_hot(stream, hot_.list[h] / g_.pixels(), hot_.list[h] % g_.pixels());
  }

 private:
  // Elements [begin, begin + count) of an image, and their contributions where these are few.
  struct Tile {
    std::int64_t image, begin;
    int count;
    DoutRows<C> from;
    const C* rows[kTilePoints * kSumChunk];
    C weights[kTilePoints * kSumChunk];
    int total = 0;  // of these
    int counts[kTilePoints];
    bool marked[kTilePoints], many[kTilePoints];  // has some, summed here; has more than 64
    alignas(64) C sums[kTileElements];

    void list(P point, C weight) {
      rows[total] = from(point);
      weights[total++] = weight;
    }
  };

  Contributions<C, P> contributions(std::int64_t image, std::int64_t element) const {
    const std::int64_t row = element / g_.in[2];
    return Contributions<C, P>(p_, where_, lists_, image, row / g_.in[1], row % g_.in[1]);
  }
  void store(std::int64_t image, std::int64_t begin, int count, std::int64_t c0, int channels,
             const C* tile, const bool* marked) const {
    if (p_.accumulate)
      add_rows(dinput_, n0_ + image, begin, count, c0, channels, tile, marked);
    else
      store_rows(dinput_, n0_ + image, begin, count, c0, channels, tile);
  }

  void sum_tile(std::int64_t image, std::int64_t begin, int count) {
    Tile t;
    t.image = image;
    t.begin = begin;
    t.count = count;
    t.from = dout_rows(g_, dout_.image(image));
    for (int i = 0; i < count;) {  // row by row
      const std::int64_t x = (begin + i) % g_.in[2];
      const int end = static_cast<int>(std::min<std::int64_t>(count, i + g_.in[2] - x));
      if (few_)
        sum_few(t, i, end);
      else if (p_.mode == SampleMode::bilinear)
        list_cells(t, i, end);
      else
        list_taps(t, i, end);
      i = end;
    }
    finish(t);
  }

  // Counts the contributions of element i; true where they are to be listed now.
  bool begin_element(Tile& t, int i, std::int64_t m) {
    const bool is_hot = m > HotElements<C>::kHot;
    if (is_hot) hot_.list[hot_count_.fetch_add(1)] = t.image * g_.pixels() + t.begin + i;
    t.marked[i] = m > 0 && !is_hot;
    t.many[i] = m > kSumChunk && !is_hot;
    t.counts[i] = m <= kSumChunk ? static_cast<int>(m) : 0;
    return t.counts[i] > 0;
  }
  CellLines<C, P> lines_of(const Tile& t, int i) const {
    const std::int64_t row = (t.begin + i) / g_.in[2];
    return CellLines<C, P>(lists_, g_.dims, t.image, row / g_.in[1], row % g_.in[1]);
  }

  // Elements [i, end) of one row, bilinear: contributions lie in lists of cells.
  void list_cells(Tile& t, int i, int end) {
    const CellLines<C, P> lines = lines_of(t, i);
    const CellPoint<C, P>* entries = lists_.entries(t.image);
    const auto list = [&](P point, C weight) { t.list(point, weight); };
    for (std::int64_t at = (t.begin + i) % g_.in[2]; i < end; ++i, ++at) {
      if (!begin_element(t, i, lines.total(at))) continue;
      if (g_.dims == 3)
        lines.template each<3>(entries, at, list);
      else
        lines.template each<2>(entries, at, list);
    }
  }
  // The same with a few channels, summed where they are found: a list would cost more than that.
  void sum_few(Tile& t, int i, int end) {
    const CellLines<C, P> lines = lines_of(t, i);
    const CellPoint<C, P>* entries = lists_.entries(t.image);
    for (std::int64_t at = (t.begin + i) % g_.in[2]; i < end; ++i, ++at) {
      const bool now = begin_element(t, i, lines.total(at));
      const C start = now ? C(-0.0) : C(0);  // −0 + v is v, whatever v is
      C sum[kFewLines] = {start, start, start, start};
      const auto add = [&](P point, C w) {
        const C* row = t.from(point);
        for (int k = 0; k < kFewLines; ++k) sum[k] += w * row[k];
      };
      if (now) lines.template each<2>(entries, at, add);
      for (int k = 0; k < kFewLines; ++k)
        t.sums[i * kFewLines + k] = grid_sample_math::canonical(sum[k]);
    }
  }
  // The same, any other mode.
  void list_taps(Tile& t, int i, int end) {
    Contributions<C, P> all = contributions(t.image, t.begin + i);
    const auto list = [&](P point, C weight) { t.list(point, weight); };
    for (std::int64_t at = (t.begin + i) % g_.in[2]; i < end; ++i, ++at) {
      all.move_to(at);
      if (begin_element(t, i, all.total())) all.each(0, all.total(), list);
    }
  }

  // Sums what was listed, and elements of more than 64 contributions chunk by chunk; stores all.
  void finish(Tile& t) const {
    for (std::int64_t c0 = 0; c0 < g_.channels; c0 += kChannelBlock) {
      const int channels =
          static_cast<int>(std::min<std::int64_t>(kChannelBlock, g_.channels - c0));
      const int step = tile_stride(channels);
      if (c0 > 0)
        for (int k = 0; k < t.total; ++k) t.rows[k] += kChannelBlock;
      if (!few_)
        sample_loops<C>().weighted_sums(t.rows, t.weights, t.counts, 0, t.count,
                                        std::min<std::int64_t>(kChannelBlock, dout_.length - c0),
                                        t.sums, step);
      for (int i = 0; i < t.count; ++i) {
        if (!t.many[i]) continue;
        Contributions<C, P> these = contributions(t.image, t.begin + i);
        these.move_to((t.begin + i) % g_.in[2]);
        sum_chunks_of(these, t.from, 0, these.total(), c0, channels, t.sums + i * step);
      }
      store(t.image, t.begin, t.count, c0, channels, t.sums, t.marked);
    }
  }

  // One element, by all threads.
  void sum_hot(const Stream& stream, std::int64_t image, std::int64_t element) const {
    constexpr std::int64_t kSpan = HotElements<C>::kSpan;
    const DoutRows<C> from = dout_rows(g_, dout_.image(image));
    Contributions<C, P> all = contributions(image, element);
    all.move_to(element % g_.in[2]);
    const std::int64_t spans = (all.total() + kSpan - 1) / kSpan;
    for (std::int64_t c0 = 0; c0 < g_.channels; c0 += kChannelBlock) {
      const int channels =
          static_cast<int>(std::min<std::int64_t>(kChannelBlock, g_.channels - c0));
      parallel_for(stream, spans, [&](std::int64_t s) {
        sum_chunks_of(all, from, s * kSpan, (s + 1) * kSpan, c0, channels,
                      hot_.partial + s * channels);
      });
      ChunkedRows<C> total;  // of sums of 64 chunks each
      for (std::int64_t s = 0; s < spans; ++s) total.add(hot_.partial + s * channels, channels);
      alignas(64) C sum[tile_stride(kChannelBlock)];
      total.result(sum, channels);
      const bool marked = true;
      store(image, element, 1, c0, channels, sum, &marked);
    }
  }

  const GridSampleProblem& p_;
  const SampleGeometry g_ = p_.geometry();
  const PointLocator<C>& where_;
  const CellLists<C, P>& lists_;
  const GroupRows<C>& dout_;
  const HotElements<C>& hot_;
  const Planes& dinput_;
  const std::int64_t n0_;
  const bool few_ = p_.mode == SampleMode::bilinear && g_.dims == 2 && dout_.length == kFewLines &&
                    g_.channels > 1;
  std::atomic<std::int64_t> hot_count_{0};
};

}  // namespace

template <class C, class P>
void input_gradient(const Stream& stream, const GridSampleProblem& p, const PointLocator<C>& where,
                    const CellLists<C, P>& lists, const GroupRows<C>& dout,
                    const HotElements<C>& hot, const Planes& dinput, std::int64_t n0,
                    std::int64_t images) {
  InputGradient<C, P>(p, where, lists, dout, hot, dinput, n0).run(stream, images);
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
