// grid_sample backward on the CPU, cpu:sorted_cells. For a few images at a time:
//   rows     input and dout become channels-last rows of the compute type, unless they are already
//   dgrid    every point, from the rows of its taps (grid_gradient.cpp)
//   sort     points by cell (cell_lists.h)
//   dinput   every element gathers from the points of the cells around it (input_gradient.cpp)
//
// One thread, f32, affine, ms:
//   N8 C32 128 × 128   copy of the input                                1.2
//                      lists of cells by general code and plain loops    36
//                      vectors and squares of 16                         23
//                      two lines of cells as one loop                    17
//                      both axes' trees at once, slopes by the tile      15
//                      streaming stores                                  12.8
//   N8 C3 256 × 256    copy of the input                                 0.45
//                      first version                                     77
//                      now                                               26
#include "planck/ops/grid_sample/cpu/gradients.h"
#include "planck/ops/grid_sample/cpu/kernels.h"

namespace planck {

namespace {

bool fits_int32(const GridSampleProblem& p) {
  const SampleGeometry g = p.geometry();
  std::int64_t cells = 1;
  for (int d = 3 - g.dims; d < 3; ++d) {
    if (g.in[d] > (1 << 29)) return false;
    cells *= 2 * g.in[d] + 3;  // more than any mode has
    if (cells >= INT32_MAX) return false;
  }
  return g.points() < INT32_MAX;
}

// Where everything lies in the workspace.
template <class C, class P>
struct Layout {
  std::int64_t group;
  std::size_t zero = 0, input, dout, hot_list, partial, lists, bytes;

  explicit Layout(const GridSampleProblem& p) {
    const SampleGeometry g = p.geometry();
    const std::int64_t length = row_length(g.channels);
    const auto rows = [&](std::int64_t n) {
      return round(static_cast<std::size_t>(n * length) * sizeof(C));
    };
    group = group_images(g.batch, (static_cast<std::size_t>(g.pixels() + g.points())) *
                                      static_cast<std::size_t>(length) * sizeof(C));
    input = zero + rows(1);
    dout = input + (p.mode == SampleMode::nearest ? 0 : rows(group * g.pixels()));
    hot_list = dout + rows(group * g.points());
    partial = hot_list + round(HotElements<C>::list_bytes(p, group));
    lists = partial + round(HotElements<C>::partial_bytes(p));
    bytes = lists + CellLists<C, P>(p, group, nullptr).bytes();
  }
  static std::size_t round(std::size_t size) { return (size + 63) / 64 * 64; }
};

// The rows of images [n0, n0 + images): where they are, or copied to the workspace.
template <class C>
GroupRows<C> rows_of(const Stream& stream, const Planes& from, const std::int64_t (&extent)[3],
                     std::int64_t n0, std::int64_t images, C* workspace) {
  if (is_rows<C>(from))
    return {static_cast<const C*>(from.base) + n0 * from.batch_stride,
            from.batch_stride,
            {from.stride[0], from.stride[1], from.stride[2]},
            from.channels};
  const std::int64_t length = row_length(from.channels);
  const std::int64_t positions = extent[0] * extent[1] * extent[2];
  stage(stream, from, n0, images, positions, workspace);
  return {workspace,
          positions * length,
          {extent[1] * extent[2] * length, extent[2] * length, length},
          length};
}

template <class C, class P>
void backward(const Stream& stream, std::byte* workspace, const GridSampleProblem& p,
              const Operands& operands) {
  using Role = sample_operand::Backward;
  const SampleGeometry g = p.geometry();
  const View &dinput = operands[Role::dinput], &dgrid = operands[Role::dgrid];
  const Layout<C, P> at(p);
  const auto part = [&](std::size_t offset) { return reinterpret_cast<C*>(workspace + offset); };
  const Planes input = planes_of(operands[Role::input], g.in);
  const Planes dout = planes_of(operands[Role::dout], g.out);
  const PointLocator<C> where(p, operands[Role::grid]);
  const HotElements<C> hot{reinterpret_cast<std::int64_t*>(workspace + at.hot_list),
                           part(at.partial)};
  CellLists<C, P> lists(p, at.group, workspace + at.lists);
  std::fill_n(part(at.zero), row_length(g.channels), C(0));
  const bool needs_dout = dinput.present || p.mode != SampleMode::nearest;

  for (std::int64_t n0 = 0; n0 < g.batch; n0 += at.group) {
    const std::int64_t images = std::min(at.group, g.batch - n0);
    GroupRows<C> dout_rows{}, input_rows{};
    if (needs_dout) dout_rows = rows_of(stream, dout, g.out, n0, images, part(at.dout));
    if (dgrid.present) {
      if (p.mode != SampleMode::nearest)
        input_rows = rows_of(stream, input, g.in, n0, images, part(at.input));
      grid_gradient(stream, p, where, input_rows, dout_rows, part(at.zero), dgrid, n0, images);
    }
    if (dinput.present) {
      lists.sort(stream, where, n0, images);
      input_gradient(stream, p, where, lists, dout_rows, hot, planes_of(dinput, g.in), n0, images);
    }
  }
}

}  // namespace

std::size_t grid_sample_backward_cpu_workspace(const GridSampleProblem& p) {
  const bool narrow = fits_int32(p);
  if (p.dtype == Dtype::f64)
    return narrow ? Layout<double, std::int32_t>(p).bytes : Layout<double, std::int64_t>(p).bytes;
  return narrow ? Layout<float, std::int32_t>(p).bytes : Layout<float, std::int64_t>(p).bytes;
}

Result<void> grid_sample_backward_cpu(const Stream& stream, Workspace workspace,
                                      const GridSampleProblem& p, const Operands& operands) {
  auto* memory = static_cast<std::byte*>(workspace.data);
  const bool narrow = fits_int32(p);
  if (p.dtype == Dtype::f64)
    narrow ? backward<double, std::int32_t>(stream, memory, p, operands)
           : backward<double, std::int64_t>(stream, memory, p, operands);
  else
    narrow ? backward<float, std::int32_t>(stream, memory, p, operands)
           : backward<float, std::int64_t>(stream, memory, p, operands);
  return {};
}

}  // namespace planck
