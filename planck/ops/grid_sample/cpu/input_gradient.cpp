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
