// y and dx of exact, of one block of channels and 64 rows of filters or fewer: these stay in shared
// memory, and what comes is patches of the image's digits, each pixel once for all taps, as in
// cuda/patches.cuh. A warpgroup owns tiles of 8 by 8 places and reads their windows into registers;
// a tap is how far on in the patch they begin. Two warpgroups take turns, so that one multiplies
// while the other stores.
//
// Beside windows that the copy engine brings for each tap (digit_windows.cuh), a seventh of the
// pixels at 3 × 3.
#pragma once

#include "planck/ops/conv/cuda/digits/digit_round.cuh"
#include "planck/ops/conv/cuda/digits/digit_windows.cuh"
#include "planck/ops/conv/cuda/layout.h"

namespace planck::conv_device {

struct DigitPatches {
  static constexpr int kSide = 8, kBlock = 64, kThreads = 3 * 128, kMostSlots = 8;
  static constexpr int kPlane = 64 * kBlock;  // a tap's digit of all filters
  static constexpr int kBarriers = 8 * (2 * kMostSlots + 1), kMostShared = 227 * 1024;

  int tiles, tiles_down, tiles_across;  // of 8 by 8 places
  int pitch, high, digit_bytes;         // pixels of a row of a patch, its rows; a digit's slot
  int slots;

  PLANCK_HD int slot_bytes() const { return kDigits * digit_bytes; }
  PLANCK_HD int filter_bytes(int taps) const { return taps * kDigits * kPlane; }
  int shared(int taps) const {
    return 1024 + filter_bytes(taps) + slots * slot_bytes() + kBarriers;
  }
  struct Tile {
    int n, i, j;
  };
  __device__ Tile at(int t) const {
    const int line = t / tiles_across, n = line / tiles_down;
    return {n, (line - n * tiles_down) * DigitPatches::kSide,
            (t - line * tiles_across) * DigitPatches::kSide};
  }
};

// Nothing where windows are the better way: where there is no room for a patch for each warpgroup
// and one ahead, or few tiles, or many of their places are none.
inline std::optional<DigitPatches> digit_patches_of(const WindowWalk& walk, std::int64_t rows,
                                                    std::int64_t groups, std::int64_t places,
                                                    int processors) {
  DigitPatches p{};
  if (walk.block != DigitPatches::kBlock || walk.blocks != 1 || groups != 1 || rows > 64 ||
      walk.taps == 1 || walk.step[0] != 1 || walk.step[1] != 1)
    return std::nullopt;
  const int taps_down = walk.taps / walk.taps_across;
  p.high = DigitPatches::kSide + (taps_down - 1) * std::abs(walk.move_step[0]);
  p.pitch = DigitPatches::kSide + (walk.taps_across - 1) * std::abs(walk.move_step[1]);
  if (p.high > 256 || p.pitch > 256) return std::nullopt;
  p.digit_bytes = static_cast<int>(round_up(p.high * p.pitch * DigitPatches::kBlock, 1024));
  p.tiles_down = static_cast<int>(ceil_div(walk.high, DigitPatches::kSide));
  p.tiles_across = static_cast<int>(ceil_div(walk.wide, DigitPatches::kSide));
  const std::int64_t images = places / (std::int64_t{walk.wide} * walk.high),
                     tiles = images * p.tiles_down * p.tiles_across;
  const int left =
      DigitPatches::kMostShared - 1024 - p.filter_bytes(walk.taps) - DigitPatches::kBarriers;
  p.slots = left < 0 ? 0 : std::min(left / p.slot_bytes(), DigitPatches::kMostSlots);
  const bool pays = p.slots >= 3 &&
                    tiles * DigitPatches::kSide * DigitPatches::kSide * 4 <= places * 5 &&
                    tiles >= std::int64_t{4} * processors && tiles <= INT32_MAX;
  p.tiles = static_cast<int>(tiles);
  return pays ? std::optional(p) : std::nullopt;
}

struct DigitPatchRoom {
  char *filters, *slots;
  std::uint64_t *full, *empty, *ready;
};

// One thread: all filters, then the patches of this block's tiles, in order.
__device__ __forceinline__ void bring_digit_patches(const CUtensorMap& map_image,
                                                    const CUtensorMap& map_filters,
                                                    const DigitPatches& p, const WindowWalk& walk,
                                                    const DigitPatchRoom& room) {
  using P = DigitPatches;
  const int planes = walk.taps * kDigits;
  expect_bytes(room.ready, static_cast<unsigned>(planes * P::kPlane));
#pragma unroll 1
  for (int i = 0; i < planes; ++i)
    copy_box(map_filters, room.ready, room.filters + i * P::kPlane, i * P::kBlock, 0, 0);
  const unsigned bytes = static_cast<unsigned>(kDigits * p.high * p.pitch * P::kBlock);
  int slot = 0;
  unsigned parity = 1;
#pragma unroll 1
  for (int t = static_cast<int>(blockIdx.x); t < p.tiles; t += static_cast<int>(gridDim.x)) {
    const auto tile = p.at(t);
    await_phase(room.empty + slot, parity);
    expect_bytes(room.full + slot, bytes);
#pragma unroll
    for (int d = 0; d < kDigits; ++d)
      copy_box4(map_image, room.full + slot, room.slots + slot * p.slot_bytes() + d * p.digit_bytes,
                d * P::kBlock, tile.j + walk.at[1], tile.i + walk.at[0], tile.n);
    if (++slot == p.slots) slot = 0, parity ^= 1;
  }
}

// Columns in shared memory as tensor cores are told of them: where, in the lower half, and how they
// lie. Sums of halves are one instruction.
__device__ __forceinline__ unsigned columns_place(const char* tile) {
  return (shared_address(tile) & 0x3ffffu) >> 4 | 1u << 16;
}
inline constexpr std::uint64_t kColumnsKind =
    std::uint64_t{8 * DigitPatches::kBlock / 16} << 32 | std::uint64_t{2} << 62;

// sums = windows of one tile, whose row of this lane begins at `own` bytes of the patch, by all
// filters.
__device__ __forceinline__ void add_up_patch(DigitSums& sums, unsigned patch, unsigned own,
                                             const DigitPatches& p, const WindowWalk& walk,
                                             const char* filters, bool lets_other_begin) {
  using P = DigitPatches;
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (auto& of_digit : sums)
#pragma unroll
    for (std::int32_t& v : of_digit) v = 0;
  // 16 bytes of a pixel lie at their place, or others' of the same 64: by its place in the patch.
  const auto begin_of = [&](const WindowWalk::Block& moved) {
    const unsigned at =
        own + static_cast<unsigned>((moved.move_h * p.pitch + moved.move_w) * P::kBlock);
    return patch + at + (lane / 16 ^ at / 128 % 4) * 16;
  };
  std::uint32_t a[2][kDigits][4];
  const auto read = [&](int i, unsigned from) {
#pragma unroll
    for (int d = 0; d < kDigits; ++d)
      read_rows(a[i][d], from + static_cast<unsigned>(d * p.digit_bytes));
  };
  conv_detail::WalkedBlocks taps(walk, 0);
  unsigned from = begin_of(taps.at());
  read(0, from);
#pragma unroll 1
  for (int tap = 0; tap < walk.taps; ++tap) {
    const unsigned b = columns_place(filters + tap * kDigits * P::kPlane);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto multiply = [&](int x) {
#pragma unroll
        for (int y = 0; y < kDigits; ++y)
          multiply_bytes(sums[x + y], a[i][x],
                         kColumnsKind | (b + static_cast<unsigned>(2 * i + y * (P::kPlane / 16))));
      };
      gemm_device::wgmma_begin();
      multiply(0);
      gemm_device::wgmma_end();
      gemm_device::wgmma_await<1>();  // so that a[1 - i] is free again
      if (i == 0) {
        read(1, from ^ 32u);
      } else if (tap + 1 < walk.taps) {
        taps.next();
        from = begin_of(taps.at());
        read(0, from);
      }
      gemm_device::wgmma_begin();
      multiply(1), multiply(2);
      gemm_device::wgmma_end();
    }
    if (lets_other_begin && tap == walk.taps / 2) asm volatile("bar.arrive 1, 256;" ::: "memory");
  }
  gemm_device::wgmma_await<0>();
#pragma unroll
  for (auto& of_digit : sums)
#pragma unroll
    for (std::int32_t& v : of_digit) asm volatile("" : "+r"(v)::"memory");
}

// A lane's places of a tile are (i, j) and the one below.
__device__ __forceinline__ void begin_end(TileEnd& end, const WindowDigits& out, int n, int i,
                                          int j) {
  float* const to = out.out + n * out.image + i * out.line + j * out.place +
                    std::int64_t{lane_column(0)} * out.channel;
#pragma unroll
  for (int h = 0; h < 2; ++h)
    end.to[h] = i + h < out.windows.high && j < out.windows.wide ? to + h * out.line : nullptr;
  end.of_rows = out.of_images[n];
}

// A warpgroup: every second tile of its block.
__device__ __forceinline__ void multiply_digit_patches(const DigitPatches& p,
                                                       const WindowDigits& out,
                                                       const DigitPatchRoom& room) {
  const int group = static_cast<int>(threadIdx.x) / 128 - 1, lane = threadIdx.x % 32,
            warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int row = warp * 16 + lane % 16;
  const auto own = static_cast<unsigned>(
      (row / DigitPatches::kSide * p.pitch + row % DigitPatches::kSide) * DigitPatches::kBlock);
  TileEnd end(out.of_filters, out.rows);
  await_phase(room.ready, 0);
  // The second begins when the first has half a tile, and has one: there are four for each block.
  if (group == 1) asm volatile("bar.sync 1, 256;" ::: "memory");
#pragma unroll 1
  for (int i = group;; i += 2) {
    const std::int64_t t = std::int64_t{blockIdx.x} + std::int64_t{i} * gridDim.x;
    if (t >= p.tiles) return;
    const int turn = i / p.slots, slot = i - turn * p.slots;
    await_phase(room.full + slot, turn & 1);
    const auto tile = p.at(static_cast<int>(t));
    begin_end(end, out, tile.n, tile.i + warp * 2, tile.j + lane / 4);
    DigitSums sums;
    add_up_patch(sums, shared_address(room.slots) + static_cast<unsigned>(slot * p.slot_bytes()),
                 own, p, out.windows, room.filters, i == 0);
    __syncwarp();
    if (lane == 0) arrive(room.empty + slot);  // each of four warps
    store_rounded([&](int k) { return joined(sums, k); }, end, out.channel);
  }
}

inline __global__ void __launch_bounds__(DigitPatches::kThreads, 1)
    multiply_by_digit_patches(const __grid_constant__ CUtensorMap map_image,
                              const __grid_constant__ CUtensorMap map_filters,
                              const __grid_constant__ DigitPatches p,
                              const __grid_constant__ WindowDigits out) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  let_next_begin();
  extern __shared__ char shared[];
  DigitPatchRoom room;
  room.filters = shared + (1024 - (shared_address(shared) & 1023)) % 1024;
  room.slots = room.filters + p.filter_bytes(out.windows.taps);
  room.full = reinterpret_cast<std::uint64_t*>(room.slots + p.slots * p.slot_bytes());
  room.empty = room.full + p.slots, room.ready = room.empty + p.slots;
  if (threadIdx.x == 0) {
    for (int s = 0; s < p.slots; ++s)
      init_barrier(room.full + s, 1), init_barrier(room.empty + s, 4);
    init_barrier(room.ready, 1);
    fence_barriers();
  }
  __syncthreads();
  await_last();  // what follows reads memory
  if (threadIdx.x < 128) {
    gemm_device::leave_registers<40>();
    if (is_elected_of_block()) bring_digit_patches(map_image, map_filters, p, out.windows, room);
  } else {
    gemm_device::take_registers<232>();
    multiply_digit_patches(p, out, room);
  }
#endif
}

// The map of a patch of one digit: boxes of 64 channels.
inline Result<CUtensorMap> digit_patch_map(const DigitPatches& p, const PixelImage& image) {
  const auto encode = tensor_map_encoder();
  if (encode == nullptr) return fail(ErrorCode::device, "conv2d: the driver has no tensor maps");
  const auto count = [](std::int64_t n) { return static_cast<cuuint64_t>(n); };
  const cuuint64_t extents[4] = {count(image.channels), count(image.width), count(image.height),
                                 count(image.batch)};
  const cuuint64_t strides[3] = {count(image.strides[2]), count(image.strides[1]),
                                 count(image.strides[0])};
  const cuuint32_t box[4] = {DigitPatches::kBlock, static_cast<cuuint32_t>(p.pitch),
                             static_cast<cuuint32_t>(p.high), 1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  CUtensorMap map;
  if (encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, const_cast<void*>(image.data), extents,
             strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_64B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    return fail(ErrorCode::device, "conv2d: the driver refuses a map of patches");
  return map;
}

// The next of a chain.
inline Result<void> launch_digit_patches(const Stream& stream, const PixelImage& image,
                                         const CUtensorMap& map_filters, const DigitPatches& p,
                                         const WindowDigits& out) {
  const auto map_image = digit_patch_map(p, image);
  if (!map_image) return tl::unexpected(map_image.error());
  const auto kernel = multiply_by_digit_patches;
  if (auto ok =
          cuda_result(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           DigitPatches::kMostShared),
                      "conv2d");
      !ok)
    return ok;
  const int blocks = std::min(p.tiles, gemm_device::processors_of(stream));
  return launch_next_with(stream, "conv2d", static_cast<std::size_t>(p.shared(out.windows.taps)),
                          kernel, blocks, DigitPatches::kThreads, *map_image, map_filters, p, out);
}

}  // namespace planck::conv_device
