#include "planck/ops/grid_sample/cpu/nearest.h"

#include <cstring>

#include "planck/ops/grid_sample/cpu/staging.h"

namespace planck {

namespace {

// Offsets of the elements that points read, −1 outside; U has the size of an element.
template <class U>
void copy_elements(const U* in, std::int64_t in_channel, const std::int64_t* offsets, U* out,
                   std::int64_t out_channel, std::int64_t out_stride, int count,
                   std::int64_t channels) {
  if (in_channel == 1 && out_channel == 1) {
    const auto bytes = static_cast<std::size_t>(channels) * sizeof(U);
    for (int i = 0; i < count; ++i) {
      if (offsets[i] < 0)
        std::memset(out + i * out_stride, 0, bytes);
      else
        std::memcpy(out + i * out_stride, in + offsets[i], bytes);
    }
    return;
  }
  for (std::int64_t c = 0; c < channels; ++c)
    for (int i = 0; i < count; ++i)
      out[c * out_channel + i * out_stride] =
          offsets[i] < 0 ? U(0) : in[c * in_channel + offsets[i]];
}

template <class C, class U>
void copy_nearest(const Stream& stream, const GridSampleProblem& p, const Operands& operands) {
  using Role = sample_operand::Forward;
  const SampleGeometry g = p.geometry();
  const Planes in = planes_of(operands[Role::input], g.in);
  const Planes out = planes_of(operands[Role::output], g.out);
  const PointLocator<C> where(p, operands[Role::grid]);
  for_positions(
      stream, g.batch, g.points(), task_positions(g.channels),
      [&](std::int64_t n, std::int64_t begin, std::int64_t count) {
        PointTile<C> tile;
        std::int64_t offsets[kTilePoints * 64];
        for (std::int64_t done = 0; done < count; done += tile.count) {
          where.locate(n, begin + done,
                       static_cast<int>(std::min<std::int64_t>(kTilePoints, count - done)), tile);
          for (int i = 0; i < tile.count; ++i) {
            std::int64_t offset = 0;
            bool outside = false;
            for (int d = 3 - g.dims; d < 3; ++d) {
              outside |= tile.axis[d].index[i] < 0;
              offset += tile.axis[d].index[i] * in.stride[d];
            }
            // From the lowest element of the image on, so that offsets are not negative.
            offsets[done + i] = outside ? -1 : offset - in.lowest;
          }
        }
        if (out.base == nullptr) return;  // no channels
        const U* image = static_cast<const U*>(in.base);
        if (image != nullptr) image += n * in.batch_stride + in.lowest;  // null: nothing to copy
        const std::int64_t* from = offsets;
        out.walk.runs(begin, count, [&](std::int64_t at, std::int64_t stride, std::int64_t length) {
          copy_elements(image, in.channel_stride, from,
                        static_cast<U*>(out.base) + n * out.batch_stride + at, out.channel_stride,
                        stride, static_cast<int>(length), g.channels);
          from += length;
        });
      });
}

}  // namespace

Result<void> grid_sample_nearest_cpu(const Stream& stream, const GridSampleProblem& p,
                                     const Operands& operands) {
  if (p.dtype == Dtype::f64)
    copy_nearest<double, std::uint64_t>(stream, p, operands);
  else if (p.dtype == Dtype::f32)
    copy_nearest<float, std::uint32_t>(stream, p, operands);
  else
    copy_nearest<float, std::uint16_t>(stream, p, operands);
  return {};
}

}  // namespace planck
