#include "planck/ops/grid_sample/cpu/channels_last.h"

#include <algorithm>

#include "planck/loops/cpu/positions.h"

namespace planck {

namespace {

constexpr int kRun = 1024;        // positions of a line
constexpr int kWidenedRun = 256;  // where they are converted first

// Positions from `offset` on, dense in memory, to rows: sixteen channels (or four) at a time.
template <class C>
void rows_from_lines(const Planes& p, std::int64_t offset, int n, C* rows, std::int64_t step) {
  static constexpr C kZeros[kRun] = {};
  alignas(64) C widened[kLines][kWidenedRun];
  const int width = step == kFewLines ? kFewLines : kLines;
  for (std::int64_t c0 = 0; c0 < p.channels; c0 += width) {
    const C* lines[kLines];
    for (int k = 0; k < width; ++k) {
      const std::int64_t at = offset + (c0 + k) * p.channel_stride;
      if (c0 + k >= p.channels) {
        lines[k] = kZeros;
      } else if (p.dtype == dtype_of<C>) {
        lines[k] = static_cast<const C*>(p.base) + at;
      } else {
        load_portion(portion_ops(), p.dtype, p.base, at, 1, n, widened[k]);
        lines[k] = widened[k];
      }
    }
    sample_loops<C>().interleave(lines, width, n, rows + c0, step);
  }
}

// A tile's rows to positions from `offset` on, dense in memory.
template <class C>
void lines_from_rows(const C* tile, int step, int n, int channels, const Planes& p,
                     std::int64_t offset) {
  alignas(64) C narrow[kLines][kTilePoints];
  const int width = step == kFewLines ? kFewLines : kLines;
  for (int c0 = 0; c0 < channels; c0 += width) {
    C* lines[kLines];
    for (int k = 0; k < width; ++k)
      lines[k] = c0 + k < channels && p.dtype == dtype_of<C>
                     ? static_cast<C*>(p.base) + offset + (c0 + k) * p.channel_stride
                     : narrow[k];
    sample_loops<C>().deinterleave(tile + c0, step, width, n, lines, p.large);
    if (p.dtype == dtype_of<C>) continue;
    for (int k = 0; k < width && c0 + k < channels; ++k)
      store_portion(portion_ops(), p.dtype, p.base, offset + (c0 + k) * p.channel_stride, 1, n,
                    narrow[k]);
  }
}

// One position's channels, any number of them.
template <class C>
void load_row(const Planes& p, std::int64_t offset, C* out) {
  for (std::int64_t c = 0; c < p.channels; c += kPortion)
    load_portion(portion_ops(), p.dtype, p.base, offset + c * p.channel_stride, p.channel_stride,
                 static_cast<int>(std::min<std::int64_t>(kPortion, p.channels - c)), out + c);
}

template <class T, class C>
void add_to(T* to, C sum) {
  *to = T(grid_sample_math::canonical(static_cast<C>(*to) + sum));
}

}  // namespace

Planes planes_of(const View& v, const std::int64_t (&spatial)[3]) {
  Planes p{v.data,
           v.dtype,
           {},
           v.strides[0],
           v.strides[1],
           v.shape[1],
           {0, 0, 0},
           0,
           bytes_for(v.dtype, numel(v.shape)) >= kStreamBytes};
  const int dims = v.shape.rank() - 2;
  NestStrides extent{}, stride{};
  for (int d = 0; d < 3; ++d) {
    if (d >= 3 - dims) p.stride[d] = v.strides[d - 1 + dims];
    if (p.stride[d] < 0) p.lowest += (spatial[d] - 1) * p.stride[d];
    extent[static_cast<std::size_t>(d)] = spatial[d];
    stride[static_cast<std::size_t>(d)] = p.stride[d];
  }
  Nest nest = make_nest(3, extent, {&stride, 1});
  collapse(nest);
  p.walk = walk_of(nest, 0);
  return p;
}

std::int64_t row_length(std::int64_t channels) {
  if (channels <= 1) return channels;
  return channels <= kFewLines ? kFewLines : (channels + kLines - 1) / kLines * kLines;
}

template <class C>
void load_rows(const Planes& from, std::int64_t n, std::int64_t begin, std::int64_t count,
               C* rows) {
  const std::int64_t step = row_length(from.channels);
  C* to = rows;
  from.walk.runs(begin, count, [&](std::int64_t at, std::int64_t stride, std::int64_t length) {
    const std::int64_t first = at + n * from.batch_stride;
    if (from.channels == 1) {
      for (std::int64_t i = 0; i < length; i += kPortion)
        load_portion(portion_ops(), from.dtype, from.base, first + i * stride, stride,
                     static_cast<int>(std::min<std::int64_t>(kPortion, length - i)), to + i);
    } else if (stride == 1) {
      const std::int64_t run = from.dtype == dtype_of<C> ? kRun : kWidenedRun;
      for (std::int64_t i = 0; i < length; i += run)
        rows_from_lines(from, first + i, static_cast<int>(std::min(run, length - i)), to + i * step,
                        step);
    } else {
      for (std::int64_t i = 0; i < length; ++i) {
        load_row(from, first + i * stride, to + i * step);
        std::fill(to + i * step + from.channels, to + (i + 1) * step, C(0));
      }
    }
    to += length * step;
  });
}

template <class C>
void store_rows(const Planes& to, std::int64_t n, std::int64_t begin, int count, std::int64_t c0,
                int channels, const C* tile) {
  const int step = tile_stride(channels);
  const C* row = tile;
  to.walk.runs(begin, count, [&](std::int64_t at, std::int64_t stride, std::int64_t length) {
    const int positions = static_cast<int>(length);
    const std::int64_t first = at + n * to.batch_stride + c0 * to.channel_stride;
    if (stride == 1 && to.channel_stride != 1) {
      lines_from_rows(row, step, positions, channels, to, first);
    } else {
      for (int i = 0; i < positions; ++i)
        store_portion(portion_ops(), to.dtype, to.base, first + i * stride, to.channel_stride,
                      channels, row + i * step);
    }
    row += length * step;
  });
}

template <class C>
void add_rows(const Planes& to, std::int64_t n, std::int64_t begin, int count, std::int64_t c0,
              int channels, const C* tile, const bool* marked) {
  const int step = tile_stride(channels);
  visit_float(to.dtype, [&]<class T>(std::type_identity<T>) {
    int i = 0;
    to.walk.runs(begin, count, [&](std::int64_t at, std::int64_t stride, std::int64_t length) {
      T* first = static_cast<T*>(to.base) + at + n * to.batch_stride + c0 * to.channel_stride;
      const int positions = static_cast<int>(length);
      if (to.channel_stride == 1) {
        for (int k = 0; k < positions; ++k)
          for (int c = 0; marked[i + k] && c < channels; ++c)
            add_to(first + k * stride + c, tile[(i + k) * step + c]);
      } else {
        for (int c = 0; c < channels; ++c)
          for (int k = 0; k < positions; ++k)
            if (marked[i + k])
              add_to(first + c * to.channel_stride + k * stride, tile[(i + k) * step + c]);
      }
      i += positions;
    });
  });
}

template void load_rows(const Planes&, std::int64_t, std::int64_t, std::int64_t, float*);
template void load_rows(const Planes&, std::int64_t, std::int64_t, std::int64_t, double*);
template void store_rows(const Planes&, std::int64_t, std::int64_t, int, std::int64_t, int,
                         const float*);
template void store_rows(const Planes&, std::int64_t, std::int64_t, int, std::int64_t, int,
                         const double*);
template void add_rows(const Planes&, std::int64_t, std::int64_t, int, std::int64_t, int,
                       const float*, const bool*);
template void add_rows(const Planes&, std::int64_t, std::int64_t, int, std::int64_t, int,
                       const double*, const bool*);

}  // namespace planck
