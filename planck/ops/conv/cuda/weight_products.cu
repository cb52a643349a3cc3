// cuda:chunks: dweight. See weight_tiles.cuh.
#include "planck/ops/conv/cuda/kernels.h"
#include "planck/ops/conv/cuda/weight_tiles.cuh"
#include "planck/ops/conv/host/chunks.h"

namespace planck {

namespace conv_device {
namespace {

using gemm_device::Tiling;

template <class T>
WeightArgs<T> arguments(const ConvProblem& p, Workspace workspace, const Operands& operands) {
  const View &x = operands[conv_operand::first], &dy = operands[conv_operand::second];
  const View& out = operands[conv_operand::out];
  const conv_detail::Chunks chunks = conv_detail::chunks_of(p);
  WeightArgs<T> a{};
  a.x = static_cast<const T*>(x.data);
  a.dy = static_cast<const T*>(dy.data);
  a.sums = static_cast<Compute<T>*>(workspace.data);
  a.out = static_cast<T*>(out.data);
  for (int d = 0; d < 4; ++d) {
    a.x_strides.at[d] = x.strides[d];
    a.dy_strides.at[d] = dy.strides[d];
    a.out_strides.at[d] = out.strides[d];
    a.shape.at[d] = out.shape[d];
  }
  a.places = dy.shape[0] * dy.shape[2] * dy.shape[3];
  a.groups = p.groups();
  a.filters = p.filters();
  a.columns = p.channels() * p.taps();
  a.x_height = static_cast<unsigned>(x.shape[2]);
  a.x_width = static_cast<unsigned>(x.shape[3]);
  for (int axis = 0; axis < 2; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    a.stride[axis] = static_cast<int>(p.options.stride[at]);
    a.padding[axis] = static_cast<int>(p.options.padding[at]);
    a.dilation[axis] = static_cast<int>(p.options.dilation[at]);
  }
  a.place = {static_cast<int>(dy.shape[2]), static_cast<int>(dy.shape[3])};
  a.element = {static_cast<int>(p.weight[2]), static_cast<int>(p.weight[3])};
  a.chunks = a.places > 0 ? chunks.count : 0, a.length = chunks.length;
  return a;
}

template <class T, class Tile>
std::int64_t blocks_of(const WeightArgs<T>& a) {
  return a.chunks * a.groups * ceil_div(a.filters, Tile::template kRows<Compute<T>>) *
         ceil_div(a.columns, Tile::template kColumns<Compute<T>>);
}
template <class T, class Tile>
Result<void> launch_tiles(const Stream& stream, WeightArgs<T> a) {
  a.step = a.place.of(Tile::kDepth);
  return launch(stream, "conv2d_weight", weight_tiles<T, Tile>, blocks_of<T, Tile>(a),
                Tile::kThreads, a);
}

template <class T>
Result<void> run(const Stream& stream, Workspace workspace, const ConvProblem& p,
                 const Operands& operands) {
  // For words of 4 bytes, rows × columns: 64 × 128, 16 × 32.
  using Medium = Tiling<2, 2, 2, 2, 8, 3>;
  using Small = Tiling<1, 1, 1, 1, 16, 10>;
  const WeightArgs<T> a = arguments<T>(p, workspace, operands);
  if (a.chunks > 0) {
    const auto tiled = a.filters > 16 && blocks_of<T, Medium>(a) >= 100
                           ? launch_tiles<T, Medium>(stream, a)
                           : launch_tiles<T, Small>(stream, a);
    if (!tiled) return tiled;
  }
  return launch(stream, "conv2d_weight", add_chunks<T>, ceil_div(numel(p.weight), kAddThreads),
                kAddThreads, a);
}

}  // namespace
}  // namespace conv_device

Result<void> conv_weight_cuda(const Stream& stream, Workspace workspace, const ConvProblem& p,
                              const Operands& operands) {
  if (numel(p.weight) == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return visit_float(p.element_dtype, [&](auto type) {
    return conv_device::run<typename decltype(type)::type>(stream, workspace, p, operands);
  });
}

}  // namespace planck
