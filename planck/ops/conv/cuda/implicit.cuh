// Convolutions on tensor cores without laid windows: the copy engine walks over an image whose
// channels lie side by side and brings, for each tap, 64 channels of as many places as a tile has;
// what lies in the border becomes zeros on the way. The rest is the kernel of loops/gemm
// (warpgroups.cuh): same ring, same order of k, same bits. 16-bit floats, one group.
#pragma once

#include "planck/loops/gemm/cuda/warpgroups.instance.cuh"
#include "planck/ops/conv/cuda/lay_rows.cuh"

namespace planck::conv_device {

inline constexpr int kBlockChannels = 64;

// How the copy engine walks: along each axis a place reads `at + place step`, and a tap is
// `move + tap move_step` further on, which is 0 to 255.
struct WindowWalk {
  int wide, high;  // places
  int at[2], step[2], move[2], move_step[2];
  int taps_across, taps, blocks, channels;  // blocks of 64 channels in a tap
  int chunk_places;                         // k of a batch, for dweight

  struct Start {
    int n, h, w;
  };
  __device__ Start start(int place) const {
    const int line = place / wide, n = line / high;
    return {n, at[0] + (line - n * high) * step[0], at[1] + (place - line * wide) * step[1]};
  }
  // Block b of k, or of columns: 64 channels of a tap. Past the last tap: channels that are none.
  struct Block {
    int channel;
    std::uint16_t move_h, move_w;
  };
  __device__ Block block(int b) const {
    const int tap = b / blocks;
    if (tap >= taps) return {blocks * kBlockChannels, 0, 0};
    const int u = tap / taps_across, v = tap - u * taps_across;
    return {(b - tap * blocks) * kBlockChannels,
            static_cast<std::uint16_t>(move[0] + u * move_step[0]),
            static_cast<std::uint16_t>(move[1] + v * move_step[1])};
  }
};

// Whether the copy engine can walk over windows of this image, and how.
inline std::optional<WindowWalk> walk_of(const Windows& w, const View& image) {
  const Strides& s = image.strides;
  const auto whole = [&](int axis) {
    return image.shape[axis] == 1 ||
           (s[axis] > 0 && s[axis] % 8 == 0 && s[axis] < std::int64_t{1} << 38);
  };
  if (reinterpret_cast<std::uintptr_t>(image.data) % 16 != 0 || s[1] != 1 || w.channels < 16 ||
      w.channels % 8 != 0 || !whole(0) || !whole(2) || !whole(3) || w.taps() == 0 ||
      w.places() == 0 || w.places() + 512 > INT32_MAX)
    return std::nullopt;
  WindowWalk walk{};
  walk.wide = static_cast<int>(w.across.places), walk.high = static_cast<int>(w.down.places);
  const conv_detail::WindowAxis* axes[2] = {&w.down, &w.across};
  for (int d = 0; d < 2; ++d) {
    const conv_detail::WindowAxis& a = *axes[d];
    const std::int64_t reach = (a.taps - 1) * a.per_tap,
                       low = a.at + std::min<std::int64_t>(0, reach);
    const std::int64_t high = low + (a.places - 1) * a.per_place + 1 - a.extent;
    if (a.place_step != 1 || a.per_place > 8 || low < -128 || low > 127 || high < -128 ||
        high > 127 || std::abs(reach) > 255 || a.extent > INT32_MAX)
      return std::nullopt;
    walk.at[d] = static_cast<int>(low), walk.step[d] = static_cast<int>(a.per_place);
    walk.move[d] = static_cast<int>(reach < 0 ? -reach : 0);
    walk.move_step[d] = static_cast<int>(a.per_tap);
  }
  walk.taps_across = static_cast<int>(w.across.taps), walk.taps = static_cast<int>(w.taps());
  walk.channels = static_cast<int>(w.channels);
  walk.blocks = static_cast<int>(ceil_div(w.channels, kBlockChannels));
  return walk;
}

// The map of `pixels` places and 64 channels at a time.
inline Result<CUtensorMap> window_map(const Windows& w, const WindowWalk& walk, const View& image,
                                      int pixels) {
  const auto encode = window_map_encoder();
  if (encode == nullptr) return fail(ErrorCode::device, "conv2d: the driver has no window maps");
  const auto extent = [&](int axis) { return static_cast<cuuint64_t>(image.shape[axis]); };
  const auto stride = [&](int axis) {
    return image.shape[axis] == 1 ? cuuint64_t{16}
                                  : static_cast<cuuint64_t>(image.strides[axis]) * 2;
  };
  const cuuint64_t extents[4] = {extent(1), extent(3), extent(2), extent(0)};
  const cuuint64_t strides[3] = {stride(3), stride(2), stride(0)};
  const auto high = [&](const conv_detail::WindowAxis& a, int d) {
    return static_cast<int>(walk.at[d] + (a.places - 1) * a.per_place + 1 - a.extent);
  };
  const int lower[2] = {walk.at[1], walk.at[0]}, upper[2] = {high(w.across, 1), high(w.down, 0)};
  const cuuint32_t steps[4] = {1, static_cast<cuuint32_t>(walk.step[1]),
                               static_cast<cuuint32_t>(walk.step[0]), 1};
  CUtensorMap map;
  if (encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 4, image.data, extents, strides, lower, upper,
             kBlockChannels, static_cast<cuuint32_t>(pixels), steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    return fail(ErrorCode::device, "conv2d: the driver refuses a window map");
  return map;
}

// One thread: for every tile of places by filters, all blocks of k in order. A is windows, B laid
// weights.
template <class W, class Output>
__device__ void bring_windows(const CUtensorMap& map_a, const CUtensorMap& map_b,
                              const gemm_device::TensorArgs<Output>& p, const WindowWalk& walk,
                              char* stages, std::uint64_t* full, std::uint64_t* empty) {
  using gemm_device::kStepBytes;
  using gemm_device::kTileRows;
  constexpr int kShare = W::kColumns / W::kCluster;
  const unsigned rank = W::kCluster == 1 ? 0 : gemm_device::cluster_rank();
  const std::uint16_t both = W::kCluster == 1 ? 0 : (1u << W::kCluster) - 1;
  const int steps = p.k / kBlockChannels;
  gemm_device::Turn<W::kStages> turn;
  for (int t = blockIdx.x / W::kCluster; t < p.walk.count(); t += gridDim.x / W::kCluster) {
    const auto tile = p.walk.at(t);
    const int row = (tile.row * W::kCluster + static_cast<int>(rank)) * kTileRows;
    const int column = tile.column * W::kColumns + static_cast<int>(rank) * kShare;
    const auto start = walk.start(row);
    for (int s = 0; s < steps; ++s, turn.next()) {
      await_phase(empty + turn.stage, turn.parity ^ 1);
      std::uint64_t* const barrier = full + turn.stage;
      expect_bytes(barrier, static_cast<unsigned>(p.stage_bytes));
      char* const a = stages + turn.stage * (W::kBytesA + W::kBytesB);
      char* const b = a + W::kBytesA + rank * kShare * kStepBytes;
      const auto block = walk.block(s);
      copy_pixels(map_a, barrier, a, block.channel, start.w, start.h, start.n, block.move_w,
                  block.move_h);
      copy_box(map_b, barrier, b, s * kBlockChannels, column, 0, both);
    }
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
  gemm_device::Turn<W::kStages> turn;
  for (int t = blockIdx.x / W::kCluster; t < p.walk.count(); t += gridDim.x / W::kCluster) {
    const auto tile = p.walk.at(t);
    const int row = (tile.row * W::kCluster + static_cast<int>(rank)) * kTileRows;
    const int column = tile.column * W::kColumns + static_cast<int>(rank) * kShare;
    for (int s = 0; s < steps; ++s, turn.next()) {
      await_phase(empty + turn.stage, turn.parity ^ 1);
      std::uint64_t* const barrier = full + turn.stage;
      expect_bytes(barrier, static_cast<unsigned>(p.stage_bytes));
      char* const a = stages + turn.stage * (W::kBytesA + W::kBytesB);
      char* const b = a + W::kBytesA + rank * kShare * kStepBytes;
      const int place = tile.batch * walk.chunk_places + s * W::kDepth;
#pragma unroll
      for (int i = 0; i < kTileRows; i += 64)
        copy_box(map_a, barrier, a + i * kStepBytes, row + i, place, 0);
      const auto start = walk.start(place);
#pragma unroll
      for (int i = 0; i < kShare; i += 64) {
        const auto block = walk.block((column + i) / kBlockChannels);
        copy_pixels(map_b, barrier, b + i * kStepBytes, block.channel, start.w, start.h, start.n,
                    block.move_w, block.move_h, both);
      }
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
    gemm_device::leave_registers<24>();
    if (threadIdx.x == 0) {
      if constexpr (W::kMajorKA)
        bring_windows<W>(map_a, map_b, p, walk, stages, full, empty);
      else
        bring_slopes<W>(map_a, map_b, p, walk, stages, full, empty);
    }
  } else {
    gemm_device::take_registers<240>();
    gemm_device::multiply_arrived<W>(p, stages, pieces, full, empty);
  }
  if constexpr (W::kCluster > 1) gemm_device::cluster_sync();
#endif
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
