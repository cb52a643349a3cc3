#include "planck/ops/grid_sample/cpu/cell_lists.h"

#include <utility>

#include "planck/loops/parallel.h"

namespace planck {

namespace {

constexpr std::int64_t kBlockPoints = 1 << 14;
constexpr std::int64_t kManyImages = 8;  // that keep the threads busy without bands
constexpr std::int64_t kBands = 16;

template <class T>
T* take(std::byte* workspace, std::size_t& at, std::int64_t count) {
  T* here = workspace == nullptr ? nullptr : reinterpret_cast<T*>(workspace + at);
  at += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
  return here;
}

}  // namespace

template <class C>
AxisPairs pairs_of(SampleMode mode, const SampleAxis<C>& axis, std::int64_t index) {
  AxisPairs pairs;
  const auto push = [&](std::int64_t cell, int tap) { pairs.pair[pairs.count++] = {cell, tap}; };
  if (mode == SampleMode::nearest) {
    push(index, 0);
  } else if (mode == SampleMode::bilinear) {  // the cell of floor(s) is floor(s) + 1
    push(index, 1);
    push(index + 1, 0);
  } else if (axis.padding == SamplePadding::zeros ||
             (axis.padding == SamplePadding::border && index > 0 && index < axis.size - 1)) {
    for (int j = 0; j < 4; ++j) push(index + j, 3 - j);
  } else {
    std::int64_t near[8];
    int count = 0;
    const auto consider = [&](std::int64_t cell) {  // keeps them ascending
      int at = 0;
      while (at < count && near[at] < cell) ++at;
      if (at < count && near[at] == cell) return;
      for (int k = count++; k > at; --k) near[k] = near[k - 1];
      near[at] = cell;
    };
    if (axis.padding == SamplePadding::reflection) {
      const std::int64_t period = grid_sample_math::reflection_period(axis);
      const std::int64_t mirrored = (axis.align ? period : period - 1) - index;
      for (std::int64_t j = 0; j < 4; ++j) {
        consider(((index + 1 - j) % period + period) % period);
        consider(((mirrored + 1 - j) % period + period) % period);
      }
    } else {
      for (std::int64_t j = 0; j < 4; ++j) consider(index + j);
    }
    for (int k = 0; k < count; ++k)
      for (int j = 0; j < 4; ++j)
        if (grid_sample_math::cubic_index(near[k], j, axis) == index) push(near[k], j);
  }
  return pairs;
}

template <class C, class P>
CellLists<C, P>::CellLists(const GridSampleProblem& p, std::int64_t images, std::byte* workspace) {
  const SampleGeometry g = p.geometry();
  mode_ = p.mode;
  dims_ = g.dims;
  points_ = g.points();
  all_cells_ = 1;
  for (int d = 0; d < 3; ++d) {
    const auto axis = grid_sample_math::make_axis<C>(g.in[d], p.padding, p.align_corners);
    cells_[d] = d < 3 - dims_ ? 1 : cells_of(mode_, axis);
    all_cells_ *= cells_[d];
  }
  blocks_ = (points_ + kBlockPoints - 1) / kBlockPoints;
  band_shift_ = 0;
  if (images < kManyImages)
    while ((all_cells_ >> band_shift_) >= kBands) ++band_shift_;
  else
    band_shift_ = 62;
  bands_ = ((all_cells_ - 1) >> band_shift_) + 1;
  bytes_ = 0;
  counts_ = take<std::int64_t>(workspace, bytes_, images * blocks_ * bands_);
  keys_ = take<P>(workspace, bytes_, images * points_);
  dealt_ = take<P>(workspace, bytes_, bands_ > 1 ? images * points_ : 0);
  fractions_ = take<C>(workspace, bytes_, images * points_ * 3);
  ends_ = take<P>(workspace, bytes_, images * (all_cells_ + 1));
  entries_ = take<Entry>(workspace, bytes_, images * points_);
}

template <class C, class P>
void CellLists<C, P>::locate(const PointLocator<C>& where, std::int64_t n, std::int64_t image,
                             std::int64_t block) {
  PointTile<C> tile;
  std::int64_t* count = counts(image, block);
  std::fill_n(count, bands_, 0);
  const std::int64_t end = std::min(points_, (block + 1) * kBlockPoints);
  const std::int64_t shift = mode_ == SampleMode::bilinear ? 1 : 0;  // from a tap to its cell
  for (std::int64_t begin = block * kBlockPoints; begin < end; begin += kTilePoints) {
    where.locate(n, begin, static_cast<int>(std::min<std::int64_t>(kTilePoints, end - begin)),
                 tile);
    P* keys = keys_ + image * points_ + begin;
    C* fractions = fractions_ + (image * points_ + begin) * 3;
    for (int i = 0; i < tile.count; ++i) {
      std::int64_t key = 0;
      bool none = false;
      fractions[3 * i] = C(0);
      for (int d = 3 - dims_; d < 3; ++d) {
        const std::int64_t cell = tile.axis[d].index[i] + shift;
        none |= cell < 0 || cell >= cells_[d];
        key = key * cells_[d] + cell;
        fractions[3 * i + d] = mode_ == SampleMode::nearest ? C(0) : tile.axis[d].t[i];
      }
      keys[i] = static_cast<P>(none ? -1 : key);
      if (!none) ++count[key >> band_shift_];
    }
  }
}

template <class C, class P>
void CellLists<C, P>::deal(std::int64_t image, std::int64_t block) {
  std::int64_t* to = counts(image, block);
  const P* keys = keys_ + image * points_;
  P* dealt = dealt_ + image * points_;
  const std::int64_t end = std::min(points_, (block + 1) * kBlockPoints);
  for (std::int64_t i = block * kBlockPoints; i < end; ++i)
    if (keys[i] >= 0) dealt[to[std::int64_t{keys[i]} >> band_shift_]++] = static_cast<P>(i);
}

template <class C, class P>
void CellLists<C, P>::sort_band(std::int64_t image, std::int64_t band) {
  const std::int64_t first_cell = band << band_shift_;
  const std::int64_t end_cell =
      bands_ == 1 ? all_cells_ : std::min(all_cells_, (band + 1) << band_shift_);
  const P* keys = keys_ + image * points_;
  const P* dealt = dealt_ + image * points_;
  const C* fractions = fractions_ + image * points_ * 3;
  P* ends = ends_ + image * (all_cells_ + 1);
  Entry* entries = entries_ + image * points_;
  // After deal() the last block's counts are the ends of the bands.
  const std::int64_t* band_ends = counts(image, blocks_ - 1);
  const std::int64_t begin = band == 0 ? 0 : band_ends[band - 1];
  const std::int64_t end = bands_ == 1 ? points_ : band_ends[band];
  const auto each_point = [&](auto&& f) {
    if (bands_ > 1) {
      for (std::int64_t k = begin; k < end; ++k) f(dealt[k]);
    } else {
      for (std::int64_t i = 0; i < points_; ++i)
        if (keys[i] >= 0) f(static_cast<P>(i));
    }
  };
  P* count = ends + 1;
  std::fill(count + first_cell, count + end_cell, P(0));
  each_point([&](P i) { ++count[keys[i]]; });
  P at = static_cast<P>(begin);
  for (std::int64_t c = first_cell; c < end_cell; ++c) {
    const P here = count[c];
    count[c] = at;
    at += here;
  }
  each_point([&](P i) {
    const C* t = fractions + std::int64_t{i} * 3;
    entries[count[keys[i]]++] = {i, {t[0], t[1], t[2]}};
  });
  if (band == 0) ends[0] = 0;
}

template <class C, class P>
void CellLists<C, P>::sort(const Stream& stream, const PointLocator<C>& where, std::int64_t n0,
                           std::int64_t images) {
  if (points_ == 0) {
    std::fill_n(ends_, images * (all_cells_ + 1), P(0));
    return;
  }
  parallel_for(stream, images * blocks_,
               [&](std::int64_t i) { locate(where, n0 + i / blocks_, i / blocks_, i % blocks_); });
  if (bands_ > 1) {
    for (std::int64_t image = 0; image < images; ++image) {
      std::int64_t at = 0;
      for (std::int64_t band = 0; band < bands_; ++band)
        for (std::int64_t block = 0; block < blocks_; ++block) {
          std::int64_t& count = counts(image, block)[band];
          at += std::exchange(count, at);
        }
    }
    parallel_for(stream, images * blocks_, [&](std::int64_t i) { deal(i / blocks_, i % blocks_); });
  }
  parallel_for(stream, images * bands_, [&](std::int64_t i) { sort_band(i / bands_, i % bands_); });
}

template AxisPairs pairs_of(SampleMode, const SampleAxis<float>&, std::int64_t);
template AxisPairs pairs_of(SampleMode, const SampleAxis<double>&, std::int64_t);
template class CellLists<float, std::int32_t>;
template class CellLists<float, std::int64_t>;
template class CellLists<double, std::int32_t>;
template class CellLists<double, std::int64_t>;

}  // namespace planck
