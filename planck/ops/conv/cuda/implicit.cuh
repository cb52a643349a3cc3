// Convolutions on tensor cores without laid windows: the copy engine walks over an image whose
// channels lie side by side (host/walk.h). The rest is the kernel of loops/gemm (warpgroups.cuh):
// same ring, same order of k, same bits.
#pragma once

#include "planck/loops/cuda/elected.cuh"
#include "planck/loops/gemm/cuda/warpgroups.instance.cuh"
#include "planck/ops/conv/host/walk.h"

namespace planck::conv_device {

using conv_detail::WindowWalk;

// Channels that the copy engine brings at a time: 128 bytes of them.
template <class T>
inline constexpr int kBlockChannels = conv_detail::kBlockBytes / int{sizeof(T)};
static_assert(conv_detail::kBlockBytes == gemm_device::kStepBytes);

// An image whose channels lie side by side: strides from image to image, row to row, pixel to
// pixel, in elements.
struct PixelImage {
  const void* data;
  std::int64_t batch, channels, height, width;
  std::int64_t strides[3];
};

// The view as it lies, if the copy engine can read it there.
inline std::optional<PixelImage> pixels_of(const View& v) {
  const auto size = static_cast<std::int64_t>(bytes_for(v.dtype, 1));
  PixelImage p{v.data, v.shape[0], v.shape[1], v.shape[2], v.shape[3], {}};
  if (reinterpret_cast<std::uintptr_t>(v.data) % 16 != 0 || (v.strides[1] != 1 && p.channels != 1))
    return std::nullopt;
  for (const int d : {0, 2, 3}) {
    const std::int64_t stride = v.shape[d] == 1 ? 16 : v.strides[d];
    if (stride <= 0 || stride * size % 16 != 0 || stride >= std::int64_t{1} << 36)
      return std::nullopt;
    p.strides[d == 0 ? 0 : d - 1] = stride;
  }
  return p;
}

// Tiles of so many bytes of k have the swizzle of that width.
inline CUtensorMapSwizzle swizzle_of(int bytes) {
  return bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B;
}

// The map of `pixels` places and a block of channels at a time.
template <class T>
Result<CUtensorMap> window_map(const WindowWalk& walk, const PixelImage& image, int pixels) {
  const auto encode = window_map_encoder();
  if (encode == nullptr) return fail(ErrorCode::device, "conv2d: the driver has no window maps");
  const auto count = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t extents[4] = {count(image.channels), count(image.width), count(image.height),
                                 count(image.batch)};
  const cuuint64_t strides[3] = {sizeof(T) * count(image.strides[2]),
                                 sizeof(T) * count(image.strides[1]),
                                 sizeof(T) * count(image.strides[0])};
  const int lower[2] = {walk.at[1], walk.at[0]}, upper[2] = {walk.last[1], walk.last[0]};
  const cuuint32_t steps[4] = {1, static_cast<cuuint32_t>(walk.step[1]),
                               static_cast<cuuint32_t>(walk.step[0]), 1};
  constexpr CUtensorMapDataType kType = sizeof(T) == 4   ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                                        : sizeof(T) == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                                         : CU_TENSOR_MAP_DATA_TYPE_UINT8;
  CUtensorMap map;
  if (encode(&map, kType, 4, const_cast<void*>(image.data), extents, strides, lower, upper,
             static_cast<cuuint32_t>(walk.block), static_cast<cuuint32_t>(pixels), steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(walk.block * int{sizeof(T)}),
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    return fail(ErrorCode::device, "conv2d: the driver refuses a window map");
  return map;
}

// One thread: for every tile of places by filters, all blocks of k in order. A is windows, B
// weights, along k or as they lie beside one another: [tap][channel of A][channel of the sums].
template <class W, class Output>
__device__ void bring_windows(const CUtensorMap& map_a, const CUtensorMap& map_b,
                              const gemm_device::TensorArgs<Output>& p, const WindowWalk& walk,
                              char* stages, std::uint64_t* full, std::uint64_t* empty) {
  using gemm_device::kStepBytes;
  using gemm_device::kTileRows;
  constexpr int kShare = W::kColumns / W::kCluster;
  const unsigned rank = W::kCluster == 1 ? 0 : gemm_device::cluster_rank();
  const std::uint16_t both = W::kCluster == 1 ? 0 : (1u << W::kCluster) - 1;
  gemm_device::Turn<W::kStages> turn;
  for (int t = blockIdx.x / W::kCluster; t < p.walk.count(); t += gridDim.x / W::kCluster) {
    const auto tile = p.walk.at(t);
    const int row = (tile.row * W::kCluster + static_cast<int>(rank)) * kTileRows;
    const int column = tile.column * W::kColumns + static_cast<int>(rank) * kShare;
    const auto start = walk.start(row);
    int k = 0;
    walk.each_block([&](int channel, std::uint16_t move_h, std::uint16_t move_w, int tap) {
      await_phase(empty + turn.stage, turn.parity ^ 1);
      std::uint64_t* const barrier = full + turn.stage;
      expect_bytes(barrier, static_cast<unsigned>(p.stage_bytes));
      char* const a = stages + turn.stage * (W::kBytesA + W::kBytesB);
      char* const b = a + W::kBytesA + rank * kShare * kStepBytes;
      copy_pixels(map_a, barrier, a, channel, start.w, start.h, start.n, move_w, move_h);
      if constexpr (W::kMajorKB) {
        copy_box(map_b, barrier, b, k, column, 0, both);
      } else {
#pragma unroll
        for (int i = 0; i < kShare; i += 64)
          copy_box(map_b, barrier, b + i * kStepBytes, column + i, channel, tap, both);
      }
      k += W::kDepth;
      turn.next();
    });
  }
}

// Of filters by (tap, channel): A is dy, [place][filter], B windows; a batch is a chunk of places.
template <class W, class Output>
__device__ void bring_slopes(const CUtensorMap& map_a, const CUtensorMap& map_b,
                             const gemm_device::TensorArgs<Output>& p, const WindowWalk& walk,
                             char* stages, std::uint64_t* full, std::uint64_t* empty) {
  using gemm_device::kStepBytes;
  using gemm_device::kTileRows;
  constexpr int kShare = W::kColumns / W::kCluster;
  const unsigned rank = W::kCluster == 1 ? 0 : gemm_device::cluster_rank();
  const std::uint16_t both = W::kCluster == 1 ? 0 : (1u << W::kCluster) - 1;
  const int steps = p.k / W::kDepth;
  conv_detail::WalkedPlaces places(walk, W::kDepth);
  gemm_device::Turn<W::kStages> turn;
  for (int t = blockIdx.x / W::kCluster; t < p.walk.count(); t += gridDim.x / W::kCluster) {
    const auto tile = p.walk.at(t);
    const int row = (tile.row * W::kCluster + static_cast<int>(rank)) * kTileRows;
    const int column = tile.column * W::kColumns + static_cast<int>(rank) * kShare;
    WindowWalk::Block blocks[kShare / 64];
#pragma unroll
    for (int i = 0; i < kShare / 64; ++i) blocks[i] = walk.of(column / 64 + i);
    int place = tile.batch * walk.chunk_places;
    places.begin(place);
#pragma unroll 1
    for (int s = 0; s < steps; ++s, place += W::kDepth, places.next(), turn.next()) {
      await_phase(empty + turn.stage, turn.parity ^ 1);
      std::uint64_t* const barrier = full + turn.stage;
      expect_bytes(barrier, static_cast<unsigned>(p.stage_bytes));
      char* const a = stages + turn.stage * (W::kBytesA + W::kBytesB);
      char* const b = a + W::kBytesA + rank * kShare * kStepBytes;
#pragma unroll
      for (int i = 0; i < kTileRows; i += 64)
        copy_box(map_a, barrier, a + i * kStepBytes, row + i, place, 0);
      const auto start = places.at();
#pragma unroll
      for (int i = 0; i < kShare / 64; ++i)
        copy_pixels(map_b, barrier, b + i * 64 * kStepBytes, blocks[i].channel, start.w, start.h,
                    start.n, blocks[i].move_w, blocks[i].move_h, both);
    }
  }
}

template <class W, class Output>
__global__ void __launch_bounds__(W::kThreads, 1)
    multiply_windows(const __grid_constant__ CUtensorMap map_a,
                     const __grid_constant__ CUtensorMap map_b,
                     const __grid_constant__ gemm_device::TensorArgs<Output> p,
                     const __grid_constant__ WindowWalk walk) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ char shared[];
  char* const stages = shared + (1024 - (shared_address(shared) & 1023)) % 1024;
  char* const pieces = stages + W::kStages * (W::kBytesA + W::kBytesB);
  auto* const full = reinterpret_cast<std::uint64_t*>(pieces + 8 * 16 * W::kPieceRow);
  auto* const empty = full + W::kStages;
  gemm_device::begin_ring<W>(full, empty);
  if (threadIdx.x < 128) {
    gemm_device::leave_registers<40>();
    if (is_elected_of_block()) {
      if constexpr (W::kMajorKA)  // not of dweight
        bring_windows<W>(map_a, map_b, p, walk, stages, full, empty);
      else
        bring_slopes<W>(map_a, map_b, p, walk, stages, full, empty);
    }
  } else {
    gemm_device::take_registers<232>();
    gemm_device::multiply_arrived<W>(p, stages, pieces, full, empty);
  }
  if constexpr (W::kCluster > 1) gemm_device::cluster_sync();
#endif
}

// The tiles that take the least time by this count: per 128 bytes of k a tile multiplies for 4
// clocks per column or waits for its bytes, of which the L2 cache gives 60 per clock to one
// processor and 3,100 to all; then it stores. pairs: whether two blocks may share 64 columns.
inline gemm_device::TileChoice choose_windows(std::int64_t m, std::int64_t n, std::int64_t batches,
                                              std::int64_t steps, int processors, bool pairs) {
  constexpr gemm_device::TileChoice kTiles[] = {{256, 2}, {128, 2}, {64, 2}, {64, 1}};
  gemm_device::TileChoice best = kTiles[0];
  double least = 0;
  for (const auto& t : kTiles) {
    if (t.columns == 64 && t.cluster == 2 && !pairs) continue;
    const std::int64_t clusters =
        batches * ceil_div(n, t.columns) * ceil_div(m, gemm_device::kTileRows * t.cluster);
    const std::int64_t at_once = std::min<std::int64_t>(clusters, processors / t.cluster);
    const double bytes = (gemm_device::kTileRows + t.columns / t.cluster) * 128.0;
    const double rate = std::min(60.0, 3100.0 / static_cast<double>(at_once * t.cluster));
    const double step = std::max(4.0 * t.columns, bytes / rate);
    const double cost = static_cast<double>(ceil_div(clusters, at_once)) *
                        (static_cast<double>(steps) * step + 1500 + 8 * t.columns);
    if (least == 0 || cost < least) least = cost, best = t;
  }
  return best;
}

template <class W, class Output>
Result<void> launch_windows(const Stream& stream, const CUtensorMap& map_a,
                            const CUtensorMap& map_b, gemm_device::TensorArgs<Output> p,
                            const WindowWalk& walk) {
  using gemm_device::kTileRows;
  p.stage_bytes = (kTileRows + W::kColumns) * gemm_device::kStepBytes;
  p.walk.down = static_cast<int>(ceil_div(p.m, kTileRows * W::kCluster));
  p.walk.across = static_cast<int>(ceil_div(p.n, W::kColumns));
  const std::int64_t tiles = std::int64_t{p.walk.down} * p.walk.across * p.walk.batches;
  const std::int64_t clusters = gemm_device::processors_of(stream) / W::kCluster;
  return gemm_device::launch_clusters<W>(native(stream), multiply_windows<W, Output>,
                                         std::min(tiles, clusters), map_a, map_b, p, walk);
}

}  // namespace planck::conv_device
