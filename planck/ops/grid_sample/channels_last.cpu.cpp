#include "planck/ops/grid_sample/channels_last.cpu.h"

#include <algorithm>

#include "planck/loops/blocks.h"

namespace planck {

namespace {

void load_tile(const Planes& p, std::int64_t offset, int rows, int columns, float* out, int step) {
  block_ops().load_tile_f32(p.dtype, p.base, offset, p.channel_stride, rows, columns, out, step);
}
void load_tile(const Planes& p, std::int64_t offset, int rows, int columns, double* out, int step) {
  block_ops().load_tile_f64(p.dtype, p.base, offset, p.channel_stride, rows, columns, out, step);
}

// tile[position][channel] to out[channel][position].
void transpose(const float* tile, int step, int channels, int positions, float* out) {
  block_ops().load_tile_f32(Dtype::f32, tile, 0, step, channels, positions, out, kTilePoints);
}
void transpose(const double* tile, int step, int channels, int positions, double* out) {
  block_ops().load_tile_f64(Dtype::f64, tile, 0, step, channels, positions, out, kTilePoints);
}

// One position's channels, any number of them.
template <class C>
void load_row(const Planes& p, std::int64_t offset, C* out) {
  for (std::int64_t c = 0; c < p.channels; c += kBlock)
    load_block(block_ops(), p.dtype, p.base, offset + c * p.channel_stride, p.channel_stride,
               static_cast<int>(std::min<std::int64_t>(kBlock, p.channels - c)), out + c);
}

template <class T, class C>
void add_to(T* to, C sum) {
  *to = T(grid_sample_math::canonical(static_cast<C>(*to) + sum));
}

}  // namespace

Planes planes_of(const View& v, const std::int64_t (&spatial)[3]) {
  Planes p{v.data, v.dtype, {}, v.strides[0], v.strides[1], v.shape[1], {0, 0, 0}, 0};
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
  if (channels <= 2) return channels;
  const std::int64_t unit = channels <= 12 ? 4 : 16;
  return (channels + unit - 1) / unit * unit;
}

template <class C>
void load_rows(const Planes& from, std::int64_t n, std::int64_t begin, std::int64_t count,
               C* rows) {
  const std::int64_t step = row_length(from.channels);
  C* to = rows;
  from.walk.runs(begin, count, [&](std::int64_t at, std::int64_t stride, std::int64_t length) {
    const std::int64_t first = at + n * from.batch_stride;
    if (stride == 1 && from.channel_stride != 1 && from.channels > 1) {
      constexpr std::int64_t kRows = 256;
      for (std::int64_t i = 0; i < length; i += kRows)
        load_tile(from, first + i, static_cast<int>(std::min(kRows, length - i)),
                  static_cast<int>(from.channels), to + i * step, static_cast<int>(step));
    } else if (from.channels == 1) {
      for (std::int64_t i = 0; i < length; i += kBlock)
        load_block(block_ops(), from.dtype, from.base, first + i * stride, stride,
                   static_cast<int>(std::min<std::int64_t>(kBlock, length - i)), to + i);
    } else {
      for (std::int64_t i = 0; i < length; ++i) load_row(from, first + i * stride, to + i * step);
    }
    to += length * step;
  });
  if (step == from.channels) return;
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t c = from.channels; c < step; ++c) rows[i * step + c] = C(0);
}

template <class C>
void store_rows(const Planes& to, std::int64_t n, std::int64_t begin, int count, std::int64_t c0,
                int channels, const C* tile) {
  const auto store = [&](std::int64_t offset, std::int64_t stride, int length, const C* values) {
    store_block(block_ops(), to.dtype, to.base, offset, stride, length, values);
  };
  alignas(64) C lines[kChannelBlock * kTilePoints];
  const int step = tile_stride(channels);
  const C* row = tile;
  to.walk.runs(begin, count, [&](std::int64_t at, std::int64_t stride, std::int64_t length) {
    const int positions = static_cast<int>(length);
    const std::int64_t first = at + n * to.batch_stride + c0 * to.channel_stride;
    if (to.channel_stride == 1 || positions == 1) {
      for (int i = 0; i < positions; ++i)
        store(first + i * stride, to.channel_stride, channels, row + i * step);
    } else {
      transpose(row, step, channels, positions, lines);
      for (int c = 0; c < channels; ++c)
        store(first + c * to.channel_stride, stride, positions, lines + c * kTilePoints);
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
