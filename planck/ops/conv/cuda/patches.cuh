// Convolutions of steps of 1 whose filters fit into shared memory whole: there they stay, and what
// comes is patches of the image, each pixel once for all taps.
//
// A warpgroup owns tiles of 8 by 8 places, and the patch that its windows cover lies in shared
// memory row after row, 128 bytes of channels per pixel. Windows of one tap are eight runs of eight
// pixels at one distance, which is all that wgmma asks of a tile's rows: a tap is where it begins.
// Several warpgroups take turns, so that one multiplies while another stores. k ascends by tap,
// then channel, as everywhere.
//
// Beside windows that the copy engine brings for each tap (implicit.cuh), a ninth of the bytes from
// the L2 cache at 3 × 3.
#pragma once

#include "planck/ops/conv/cuda/implicit.cuh"

namespace planck::conv_device {

inline constexpr int kPatchSide = 8;  // places

template <class E, int kColumns_>
struct Patches {
  using Element = E;
  static constexpr int kColumns = kColumns_;  // filters
  static constexpr int kGroups = kColumns == 64 ? 4 : 3;
  static constexpr int kThreads = (kGroups + 1) * 128;
  static constexpr int kRegisters = kColumns == 64 ? 112 : 152, kLeft = 24;
  static constexpr int kMostSlots = 8;
  static constexpr int kPieces = kGroups * 4 * 16 * gemm_device::Piece<kColumns, E>::kRow;
  static constexpr int kBarriers = 8 * (2 * kMostSlots + 1);
  static constexpr int kMostShared = 227 * 1024;
};

template <class Output>
struct PatchArgs {
  Output* out;
  std::int64_t image, row, place;  // from one to the next in `out`
  int high, wide, filters;         // places
  int tiles, tiles_down, tiles_across;
  int blocks;                         // of a tap's channels
  int pitch, patch_bytes, box_bytes;  // pixels of a patch's row; of one block
  int slots;

  struct Tile {
    int n, i, j;
  };
  __device__ Tile at(int t) const {
    const int line = t / tiles_across, n = line / tiles_down;
    return {n, (line - n * tiles_down) * kPatchSide, (t - line * tiles_across) * kPatchSide};
  }
};

template <class W>
struct PatchRoom {
  char *filters, *slots, *pieces;
  std::uint64_t *full, *empty, *ready;
};

// One thread: all filters, then patches of all tiles of this block.
template <class W, class Output>
__device__ void bring_patches(const CUtensorMap& map_image, const CUtensorMap& map_filters,
                              const PatchArgs<Output>& p, const WindowWalk& walk,
                              const PatchRoom<W>& room) {
  constexpr int kBytesB = W::kColumns * conv_detail::kBlockBytes;
  const int steps = walk.taps * walk.blocks;
  expect_bytes(room.ready, static_cast<unsigned>(steps * kBytesB));
  for (int s = 0; s < steps; ++s)
    copy_box(map_filters, room.ready, room.filters + s * kBytesB, s * walk.block, 0, 0);
  int slot = 0;
  unsigned parity = 1;
  for (int t = static_cast<int>(blockIdx.x); t < p.tiles; t += static_cast<int>(gridDim.x)) {
    const auto tile = p.at(t);
    await_phase(room.empty + slot, parity);
    expect_bytes(room.full + slot, static_cast<unsigned>(p.blocks * p.box_bytes));
    for (int b = 0; b < p.blocks; ++b)
      copy_box4(map_image, room.full + slot, room.slots + (slot * p.blocks + b) * p.patch_bytes,
                b * walk.block, tile.j + walk.at[1], tile.i + walk.at[0], tile.n);
    if (++slot == p.slots) slot = 0, parity ^= 1;
  }
}

// A warpgroup: every kGroups-th tile of its block.
template <class W, class Output>
__device__ void multiply_patches(const PatchArgs<Output>& p, const WindowWalk& walk,
                                 const PatchRoom<W>& room) {
  using E = typename W::Element;
  using Piece = gemm_device::Piece<W::kColumns, Output>;
  constexpr int kBytesB = W::kColumns * conv_detail::kBlockBytes;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  char* const piece = room.pieces + (group * 4 + warp) * 16 * Piece::kRow;
  await_phase(room.ready, 0);
  for (int i = group;; i += W::kGroups) {
    const std::int64_t t = std::int64_t{blockIdx.x} + std::int64_t{i} * gridDim.x;
    if (t >= p.tiles) return;
    const int turn = i / p.slots, slot = i - turn * p.slots;
    const char* const patch = room.slots + slot * p.blocks * p.patch_bytes;
    const char* filters = room.filters;
    float sums[W::kColumns / 2];
    await_phase(room.full + slot, turn & 1);
    gemm_device::wgmma_begin();
    int continues = 0;
    walk.each_block([&](int channel, int move_h, int move_w, int) {
      const char* const from =
          patch + channel / walk.block * p.patch_bytes + (move_h * p.pitch + move_w) * 128;
      const auto at_a = gemm_device::tile_descriptor<true>(from, p.pitch * 128);
      const auto at_b = gemm_device::tile_descriptor<true>(filters);
#pragma unroll
      for (int s = 0; s < conv_detail::kBlockBytes / 32; ++s, continues = 1)
        gemm_device::wgmma<E, W::kColumns, true, true>(
            sums, at_a + s * gemm_device::kNextStep<true>, at_b + s * gemm_device::kNextStep<true>,
            continues);
      filters += kBytesB;
    });
    gemm_device::wgmma_end();
    gemm_device::wgmma_await<0>();
    if (threadIdx.x % 128 == 0) arrive(room.empty + slot);
    const auto tile = p.at(static_cast<int>(t));
    const auto pair = [&](int j, int h) {
      return float2{sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]};
    };
    Output* const out = p.out + tile.n * p.image;
#pragma unroll
    for (int j0 = 0; j0 < W::kColumns; j0 += Piece::kWide) {
      Piece::turn(piece, pair, j0);
      Piece::each_chunk(piece, [&](int r, int column, const uint4& chunk) {
        const int h = tile.i + 2 * warp + r / kPatchSide, w = tile.j + r % kPatchSide;
        if (h < p.high && w < p.wide && j0 + column < p.filters)
          *reinterpret_cast<uint4*>(out + h * p.row + w * p.place + j0 + column) = chunk;
      });
    }
  }
}

template <class W, class Output>
__global__ void __launch_bounds__(W::kThreads, 1)
    multiply_by_patches(const __grid_constant__ CUtensorMap map_image,
                        const __grid_constant__ CUtensorMap map_filters,
                        const __grid_constant__ PatchArgs<Output> p,
                        const __grid_constant__ WindowWalk walk) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ char shared[];
  PatchRoom<W> room;
  room.filters = shared + (1024 - (shared_address(shared) & 1023)) % 1024;
  room.slots = room.filters + walk.taps * walk.blocks * W::kColumns * conv_detail::kBlockBytes;
  room.pieces = room.slots + p.slots * p.blocks * p.patch_bytes;
  room.full = reinterpret_cast<std::uint64_t*>(room.pieces + W::kPieces);
  room.empty = room.full + p.slots, room.ready = room.empty + p.slots;
  if (threadIdx.x == 0) {
    for (int s = 0; s < p.slots; ++s)
      init_barrier(room.full + s, 1), init_barrier(room.empty + s, 1);
    init_barrier(room.ready, 1);
    fence_barriers();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    gemm_device::leave_registers<W::kLeft>();
    if (is_elected_of_block()) bring_patches<W>(map_image, map_filters, p, walk, room);
  } else {
    gemm_device::take_registers<W::kRegisters>();
    multiply_patches<W>(p, walk, room);
  }
#endif
}

// Patches for all windows of an image, if these are convolutions that profit.
template <class W, class Output>
std::optional<PatchArgs<Output>> patches_of(const Windows& w, const WindowWalk& walk,
                                            int processors) {
  PatchArgs<Output> p{};
  int side[2];
  for (int d = 0; d < 2; ++d) {
    const int taps = d == 0 ? walk.taps / walk.taps_across : walk.taps_across;
    side[d] = kPatchSide + (taps - 1) * std::abs(walk.move_step[d]);
    if (walk.step[d] != 1 || side[d] > 256) return std::nullopt;
  }
  p.high = walk.high, p.wide = walk.wide;
  p.tiles_down = static_cast<int>(ceil_div(walk.high, kPatchSide));
  p.tiles_across = static_cast<int>(ceil_div(walk.wide, kPatchSide));
  const std::int64_t tiles = w.batch * p.tiles_down * p.tiles_across;
  if (tiles > INT32_MAX) return std::nullopt;
  p.tiles = static_cast<int>(tiles);
  p.blocks = walk.blocks, p.pitch = side[1];
  p.box_bytes = side[0] * side[1] * conv_detail::kBlockBytes;
  p.patch_bytes = static_cast<int>(ceil_div(p.box_bytes, 1024) * 1024);
  const std::int64_t resident =
      std::int64_t{walk.taps} * walk.blocks * W::kColumns * conv_detail::kBlockBytes;
  const std::int64_t left = W::kMostShared - 1024 - resident - W::kPieces - W::kBarriers;
  const std::int64_t slots = left / (p.blocks * p.patch_bytes);
  p.slots = static_cast<int>(std::min<std::int64_t>(slots, W::kMostSlots));
  // Without room for the next patches, or where half of a tile's places are none, or filters come
  // for a few tiles, windows brought one by one are faster.
  const bool pays = slots >= W::kGroups && walk.taps > 1 &&
                    tiles * kPatchSide * kPatchSide * 4 <= w.places() * 5 &&
                    tiles >= std::int64_t{2} * processors * W::kGroups;
  return pays ? std::optional(p) : std::nullopt;
}

// The map of a patch of one block of channels.
template <class T>
Result<CUtensorMap> patch_map(const WindowWalk& walk, const PixelImage& image, int pitch,
                              int rows) {
  const auto encode = tensor_map_encoder();
  if (encode == nullptr) return fail(ErrorCode::device, "conv2d: the driver has no tensor maps");
  const auto count = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t extents[4] = {count(image.channels), count(image.width), count(image.height),
                                 count(image.batch)};
  const cuuint64_t strides[3] = {sizeof(T) * count(image.strides[2]),
                                 sizeof(T) * count(image.strides[1]),
                                 sizeof(T) * count(image.strides[0])};
  const cuuint32_t box[4] = {static_cast<cuuint32_t>(walk.block), static_cast<cuuint32_t>(pitch),
                             static_cast<cuuint32_t>(rows), 1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  CUtensorMap map;
  if (encode(&map,
             sizeof(T) == 4 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_UINT16, 4,
             const_cast<void*>(image.data), extents, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    return fail(ErrorCode::device, "conv2d: the driver refuses a map of patches");
  return map;
}

template <class W, class Output>
Result<void> launch_patches(const Stream& stream, const WindowWalk& walk, const PixelImage& image,
                            const gemm_device::TensorOperand& filters, const PatchArgs<Output>& p) {
  using E = typename W::Element;
  const auto map_image =
      patch_map<E>(walk, image, p.pitch, p.box_bytes / conv_detail::kBlockBytes / p.pitch);
  if (!map_image) return tl::unexpected(map_image.error());
  const auto map_filters = gemm_device::tensor_map<E>(filters, W::kColumns);
  if (!map_filters) return tl::unexpected(map_filters.error());
  const std::int64_t shared =
      1024 + std::int64_t{walk.taps} * walk.blocks * W::kColumns * conv_detail::kBlockBytes +
      std::int64_t{p.slots} * p.blocks * p.patch_bytes + W::kPieces + W::kBarriers;
  const auto kernel = multiply_by_patches<W, Output>;
  if (auto ok = cuda_result(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, W::kMostShared),
          "conv2d");
      !ok)
    return ok;
  const int blocks = std::min(p.tiles, gemm_device::processors_of(stream));
  kernel<<<static_cast<unsigned>(blocks), W::kThreads, static_cast<std::size_t>(shared),
           native(stream)>>>(*map_image, *map_filters, p, walk);
  return cuda_result(cudaGetLastError(), "conv2d");
}

}  // namespace planck::conv_device
