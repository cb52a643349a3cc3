// cuda:implicit: bf16 and f16 convolutions of tensor_core whose windows the copy engine brings
// itself (implicit.cuh). Images whose channels lie side by side, one group, strides of 8 or less,
// dx of stride 1; everything else goes to cuda:warpgroups.
#include "planck/ops/conv/cuda/chunk_sums.cuh"
#include "planck/ops/conv/cuda/implicit.cuh"
#include "planck/ops/conv/cuda/kernels.h"
#include "planck/ops/conv/cuda/layout.h"

namespace planck {

namespace conv_device {
namespace {

using gemm_device::TensorArgs;
using gemm_device::TensorOperand;
using gemm_device::Warpgroups;

// From one place to the next, where channels lie side by side and places follow one another.
std::optional<std::int64_t> dense_places(const View& v) {
  const Strides& s = v.strides;
  const std::int64_t n = v.shape[0], high = v.shape[2], wide = v.shape[3];
  const std::int64_t step = wide > 1 ? s[3] : high > 1 ? s[2] : s[0];
  if (s[1] != 1 || (high > 1 && wide > 1 && s[2] != wide * step) ||
      (n > 1 && high * wide > 1 && s[0] != high * wide * step))
    return std::nullopt;
  return step;
}

// kMajorK: y and dx, windows by weights; else dweight, dy by windows.
template <class T, bool kMajorK, class Output, class MapOfB>
Result<void> launch_tiles(const Stream& stream, const CUtensorMap& map_a, const MapOfB& map_of_b,
                          const TensorArgs<Output>& p, const WindowWalk& walk) {
  const auto tiles = gemm_device::choose_tiles(p.m, p.n, p.walk.batches,
                                               gemm_device::processors_of(stream), false);
  const auto map_b = map_of_b(kMajorK ? tiles.columns / tiles.cluster : kBlockChannels);
  if (!map_b) return tl::unexpected(map_b.error());
  if (tiles.columns == 256)
    return launch_windows<Warpgroups<T, 256, 2, kMajorK, kMajorK>>(stream, map_a, *map_b, p, walk);
  if (tiles.columns == 128)
    return launch_windows<Warpgroups<T, 128, 2, kMajorK, kMajorK>>(stream, map_a, *map_b, p, walk);
  return launch_windows<Warpgroups<T, 64, 1, kMajorK, kMajorK>>(stream, map_a, *map_b, p, walk);
}

// False in `ran` where the copy engine cannot.
template <class T>
Result<void> run_images(const Stream& stream, char* workspace, const ConvProblem& p,
                        const Operands& operands, bool& ran) {
  const View &image = operands[conv_operand::first], &out = operands[conv_operand::out];
  const Windows w = conv_detail::windows_of(p, 0);
  const auto walk = walk_of(w, image);
  const auto step = dense_places(out);
  if (!walk || !step || conv_detail::phases_of(p) != 1) return {};
  const auto map_a = window_map(w, *walk, image, gemm_device::kTileRows);
  ran = map_a.has_value();
  if (!ran) return {};
  const std::int64_t depth = std::int64_t{walk->taps} * walk->blocks * kBlockChannels;
  Windows laid = w;
  laid.tap_depth = walk->blocks * kBlockChannels;
  const std::int64_t rows = conv_detail::rows_of(p);
  const Plain<std::uint16_t> weights{reinterpret_cast<std::uint16_t*>(workspace), rows, depth};
  const WeightOperand weight{Tensor4(operands[conv_operand::second]), p.filters(),
                             p.kind == ConvKind::conv2d};
  if (auto ok =
          lay(stream, WeightRows<std::uint16_t>{laid, weight, rows, false}, weights, 1, false);
      !ok)
    return ok;
  TensorArgs<T> args{};
  args.c = static_cast<T*>(out.data);
  args.c_row = *step, args.c_column = 1;
  args.m = static_cast<int>(w.places()), args.n = static_cast<int>(rows);
  args.k = static_cast<int>(depth);
  args.c_packs = gemm_device::packs_rows(args);
  args.walk.batches = 1;
  const TensorOperand b{weights.out, rows, depth, depth, 1, 1, 0};
  return launch_tiles<T, true>(
      stream, *map_a, [&](int box) { return gemm_device::tensor_map<T>(b, box); }, args, *walk);
}

template <class T>
Result<void> run_weights(const Stream& stream, char* workspace, const ConvProblem& p,
                         const Operands& operands, bool& ran) {
  const View &x = operands[conv_operand::first], &dy = operands[conv_operand::second];
  const Windows w = conv_detail::windows_of(p, 0);
  auto walk = walk_of(w, x);
  const auto step = dense_places(dy);
  const TensorOperand a{dy.data, p.filters(), w.places(), 1, step.value_or(1), 1, 0};
  if (!walk || !step || *step == 1 || !gemm_device::copyable(a, 2)) return {};
  ran = window_map(w, *walk, x, kBlockChannels).has_value();
  if (!ran) return {};
  const conv_detail::Chunks chunks = conv_detail::chunks_of(p);
  walk->chunk_places = static_cast<int>(chunks.length);
  const auto map_a = gemm_device::tensor_map<T>(a, gemm_device::kTileRows);
  if (!map_a) return tl::unexpected(map_a.error());
  TensorArgs<float> args{};
  args.m = static_cast<int>(p.filters());
  args.n = walk->taps * walk->blocks * kBlockChannels;
  args.k = static_cast<int>(chunks.length);
  args.c = reinterpret_cast<float*>(workspace);
  args.c_row = args.n, args.c_column = 1, args.c_batch = std::int64_t{args.m} * args.n;
  args.c_packs = gemm_device::packs_rows(args);
  args.walk.batches = static_cast<int>(chunks.count);
  if (auto ok = launch_tiles<T, false>(
          stream, *map_a, [&](int pixels) { return window_map(w, *walk, x, pixels); }, args, *walk);
      !ok)
    return ok;
  const std::int64_t columns = p.channels() * p.taps();
  const ChunkSums sums{w,           Tensor4(x),
                       Tensor4(dy), Tensor4(operands[conv_operand::out]),
                       p.filters(), columns,
                       p.filters(), chunks.count,
                       args.n,      std::int64_t{walk->blocks} * kBlockChannels,
                       args.c_batch};
  constexpr int kThreads = 256;
  return launch(stream, "conv2d_weight", add_chunks<T>,
                std::min<std::int64_t>(ceil_div(p.filters() * columns, kThreads), 1 << 16),
                kThreads, sums, static_cast<const float*>(args.c));
}

}  // namespace
}  // namespace conv_device

Result<void> conv_implicit(const Stream& stream, Workspace workspace, const ConvProblem& p,
                           const Operands& operands) {
  const bool slopes = p.kind == ConvKind::conv2d_weight;
  if (numel(operands[conv_operand::out].shape) == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  auto* const data = static_cast<char*>(workspace.data);
  bool ran = false;
  const bool bf = p.element_dtype == Dtype::bf16;
  using namespace conv_device;
  auto ok = slopes ? bf ? run_weights<bf16>(stream, data, p, operands, ran)
                        : run_weights<f16>(stream, data, p, operands, ran)
            : bf ? run_images<bf16>(stream, data, p, operands, ran)
                   : run_images<f16>(stream, data, p, operands, ran);
  if (!ok || ran) return ok;
  return slopes ? conv_weight_warpgroups(stream, workspace, p, operands)
                : conv_warpgroups(stream, workspace, p, operands);
}

}  // namespace planck
