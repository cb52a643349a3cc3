// Matrix products by warpgroups: the kernel of tensor cores (compute capability 9.0a).
//
// A block owns a tile of C, 128 rows by kColumns (64 by 32 where there are few columns). One warp
// brings tiles of A and B, 128 bytes of k at a time, through the copy engine into a ring of stages;
// warpgroups, 64 rows each, multiply what has arrived. Two blocks of a cluster own tiles one above
// the other and share the columns of B: each brings half of them to both. Blocks stay and walk over
// the tiles, so that copies for the next tile run while sums of the last are stored.
//
// k ascends in one accumulator per element; nothing else of the tiling can be seen in the result.
#pragma once

#include <type_traits>

#include "planck/loops/cuda/elected.cuh"
#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/cuda/tensor_map.cuh"
#include "planck/loops/gemm/cuda/epilogue.cuh"
#include "planck/loops/gemm/cuda/wgmma.cuh"
#include "planck/loops/gemm/geometry.h"

namespace planck::gemm_device {

inline constexpr int kTileRows = 128, kStepBytes = 128;

template <class E>
using TensorSum = std::conditional_t<std::is_same_v<E, std::int8_t>, std::int32_t, float>;

// E: bf16, f16, float (as TF32), int8. kMajorK: which operand lies dense along k, else along rows
// or columns.
template <class E, int kColumns_, int kCluster_, bool kMajorKA_, bool kMajorKB_,
          int kRows_ = kTileRows>
struct Warpgroups {
  using Element = E;
  static constexpr int kColumns = kColumns_, kCluster = kCluster_, kRows = kRows_;
  static constexpr int kGroups = kRows / 64;
  static constexpr bool kMajorKA = kMajorKA_, kMajorKB = kMajorKB_;
  static constexpr int kDepth = kStepBytes / int{sizeof(E)};  // k of a stage
  static constexpr int kBytesA = kRows * kStepBytes, kBytesB = kColumns * kStepBytes;
  static constexpr int kStages = kColumns == 256   ? 4
                                 : kColumns == 128 ? 6
                                 : kColumns == 64  ? 8
                                 : kRows == 128    ? 10
                                                   : 16;
  static constexpr int kThreads = (1 + kGroups) * 128;
  // A warp turns 16 rows of its sums in pieces of 128 bytes to rows that it can store whole.
  static constexpr int kPieceRow = 160;
  static constexpr int kShared =
      1024 + kStages * (kBytesA + kBytesB) + kGroups * 4 * 16 * kPieceRow + 2 * 8 * kStages;
};
// Warpgroups of a block that multiply.
template <class W>
constexpr int groups_of() {
  if constexpr (requires { W::kGroups; }) return W::kGroups;
  return 2;
}

struct TileWalk {
  int down, across, batches;  // tiles; down counts clusters
  struct Tile {
    int row, column, batch;
  };
  __device__ int count() const { return down * across * batches; }
  // Tiles that run at the same time form a square, so that they read the same A and B.
  __device__ Tile at(int t) const {
    constexpr int kHigh = 8;
    const int batch = t / (down * across);
    t -= batch * down * across;
    const int first = t / (kHigh * across) * kHigh;
    const int high = min(kHigh, down - first), r = t - first * across;
    return {first + r % high, r / high, batch};
  }
};

template <class Output_>
struct TensorArgs {
  using Output = Output_;
  Output* c;
  std::int64_t c_row, c_column, c_batch;
  int m, n, k;
  int a_batches, b_batches;  // 0: the same for all
  int stage_bytes;           // that the copy engine brings for one stage
  bool c_packs;              // rows of C are whole chunks of 16 bytes at multiples of 16
  TileWalk walk;
};
// With what follows the product.
template <class Output>
struct FollowedArgs : TensorArgs<Output> {
  Following<Output> follows;
};

// A map on its way to where the copy engine looks for it.
__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// The ring: stage and parity of its turn.
template <int kStages>
struct Turn {
  int stage = 0;
  unsigned parity = 0;
  __device__ void next() {
    if (++stage == kStages) stage = 0, parity ^= 1;
  }
};

// Full when one producer's bytes are in, empty when all warpgroups of every block have let go.
template <class W>
__device__ void begin_ring(std::uint64_t* full, std::uint64_t* empty) {
  if (threadIdx.x == 0) {
    for (int s = 0; s < W::kStages; ++s) {
      init_barrier(full + s, 1);
      init_barrier(empty + s, groups_of<W>() * W::kCluster);
    }
    fence_barriers();
  }
  if constexpr (W::kCluster > 1)
    cluster_sync();
  else
    __syncthreads();
}

// One thread: all tiles of A and B, in order.
template <class W, class Args>
__device__ void bring_tiles(const CUtensorMap& map_a, const CUtensorMap& map_b, const Args& p,
                            char* stages, std::uint64_t* full, std::uint64_t* empty) {
  constexpr int kShare = W::kColumns / W::kCluster;  // columns of B that this block brings
  const unsigned rank = W::kCluster == 1 ? 0 : cluster_rank();
  const int steps = (p.k + W::kDepth - 1) / W::kDepth;
  Turn<W::kStages> turn;
  for (int t = blockIdx.x / W::kCluster; t < p.walk.count(); t += gridDim.x / W::kCluster) {
    const auto tile = p.walk.at(t);
    const int row = (tile.row * W::kCluster + static_cast<int>(rank)) * W::kRows;
    const int column = tile.column * W::kColumns + static_cast<int>(rank) * kShare;
    const int batch_a = p.a_batches ? tile.batch : 0, batch_b = p.b_batches ? tile.batch : 0;
    for (int s = 0; s < steps; ++s, turn.next()) {
      await_phase(empty + turn.stage, turn.parity ^ 1);
      std::uint64_t* const barrier = full + turn.stage;
      expect_bytes(barrier, static_cast<unsigned>(p.stage_bytes));
      char* const a = stages + turn.stage * (W::kBytesA + W::kBytesB);
      char* const b = a + W::kBytesA + rank * kShare * kStepBytes;
      const int k = s * W::kDepth;
      const std::uint16_t both = W::kCluster == 1 ? 0 : (1u << W::kCluster) - 1;
      if constexpr (W::kMajorKA) {
        copy_box(map_a, barrier, a, k, row, batch_a);
      } else {
#pragma unroll
        for (int i = 0; i < W::kRows; i += 64)
          copy_box(map_a, barrier, a + i * kStepBytes, row + i, k, batch_a);
      }
      if constexpr (W::kMajorKB) {
        copy_box(map_b, barrier, b, k, column, batch_b, both);
      } else {
#pragma unroll
        for (int i = 0; i < kShare; i += 64)
          copy_box(map_b, barrier, b + i * kStepBytes, column + i, k, batch_b, both);
      }
    }
  }
}

// What a warp has computed, 16 rows, turned to rows that can be stored whole, a piece of at most
// 128 bytes at a time. pair(j, h) gives the two neighbours at row lane / 4 + 8 h and columns
// 8 j + lane % 4 * 2 and the next, as Output's compute type.
template <int kColumns, class Output>
struct Piece {
  static constexpr int kMost = 128 / int{sizeof(Output)};
  static constexpr int kWide = kMost < kColumns ? kMost : kColumns;  // columns
  static constexpr int kChunk = 16 / int{sizeof(Output)}, kChunks = kWide / kChunk;
  static constexpr int kRow = sizeof(Output) == 2 ? 144 : 160;

  // Columns [first, first + kWide).
  template <class Pair>
  static __device__ __forceinline__ void turn(char* piece, Pair pair, int first) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kWide / 8; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const auto v = pair(first / 8 + j, h);
        char* const at =
            piece + (lane / 4 + 8 * h) * kRow + (8 * j + lane % 4 * 2) * int{sizeof(Output)};
        if constexpr (sizeof(Output) == 2)
          *reinterpret_cast<std::uint32_t*>(at) = rounded_pair<Output>(v.x, v.y);
        else if constexpr (requires { Pair::kNeverNan; })
          *reinterpret_cast<float2*>(at) = v;
        else if constexpr (std::is_same_v<Output, float>)
          *reinterpret_cast<float2*>(at) = {canonical_nan(v.x), canonical_nan(v.y)};
        else
          *reinterpret_cast<int2*>(at) = {v.x, v.y};
      }
    __syncwarp();
  }
  // Chunks of 16 bytes that a lane stores, of rows that lie kApart apart.
  static constexpr int kApart = 32 / kChunks, kTurns = 16 / kApart;

  // Calls store(row, column, chunk of 16 bytes) for what this lane stores of the piece.
  template <class Store>
  static __device__ __forceinline__ void each_chunk(const char* piece, Store store) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int r = lane / kChunks; r < 16; r += kApart)
      store(r, lane % kChunks * kChunk,
            *reinterpret_cast<const uint4*>(piece + r * kRow + lane % kChunks * 16));
  }
};

// What follows a product, on a piece: chunks of those rows and columns that this lane stores.
template <class P, class T>
class PieceFollows {
 public:
  // What is added is on its way while the sums are turned.
  __device__ __forceinline__ PieceFollows(const FollowedArgs<T>& p, int row, int column, int batch)
      : p_(p),
        lane_(static_cast<int>(threadIdx.x % 32)),
        row_(row + lane_ / P::kChunks),
        column_(column + lane_ % P::kChunks * P::kChunk),
        batch_(batch),
        left_(p.n - column_) {
    const Following<T>& f = p.follows;
    if (f.bias.data != nullptr && left_ > 0) bias_ = f.bias.template read<16>(0, 0, column_, left_);
    if (!ahead()) return;
#pragma unroll
    for (int i = 0; i < P::kTurns; ++i) {
      const int row = row_ + i * P::kApart;
      if (row < p.m && left_ > 0)
        residual_[i] = f.residual.template read<16>(batch, row, column_, left_);
    }
  }
  __device__ __forceinline__ void apply(char* piece) const {
    if (p_.follows.activation == Activation::none)
      each_chunk<false>(piece);
    else
      each_chunk<true>(piece);
    __syncwarp();
  }

 private:
  // Activations are long: they are written down once, not for each chunk.
  template <bool kActivates>
  __device__ __forceinline__ void each_chunk(char* piece) const {
    const Following<T>& f = p_.follows;
    if (left_ <= 0) return;
#pragma unroll kActivates ? 1 : P::kTurns
    for (int i = 0; i < P::kTurns; ++i) {
      const int row = row_ + i * P::kApart;
      if (row >= p_.m) return;
      auto* const at = reinterpret_cast<uint4*>(
          piece + (lane_ / P::kChunks + i * P::kApart) * P::kRow + lane_ % P::kChunks * 16);
      Pack<16> v = {{at->x, at->y, at->z, at->w}};
      if (f.bias.data != nullptr)
        v = sum_of<T>(v,
                      f.bias.row == 0 ? bias_ : f.bias.template read<16>(0, row, column_, left_));
      if constexpr (kActivates) v = activated<T>(f.activation, v);
      if (f.residual.data != nullptr)
        v = sum_of<T>(v, kActivates ? f.residual.template read<16>(batch_, row, column_, left_)
                                    : residual_[i]);
      *at = {v.word[0], v.word[1], v.word[2], v.word[3]};
    }
  }
  __device__ __forceinline__ bool ahead() const {
    return p_.follows.residual.data != nullptr && p_.follows.activation == Activation::none;
  }

  const FollowedArgs<T>& p_;
  const int lane_, row_, column_, batch_, left_;
  Pack<16> bias_ = {}, residual_[P::kTurns] = {};
};

// What a warp has computed, 16 rows by kColumns, to C.
template <int kColumns, class Args, class Pair>
__device__ __forceinline__ void store_rows(Pair pair, char* piece, const Args& p, int row,
                                           int column, int batch) {
  using Output = typename Args::Output;
  using P = Piece<kColumns, Output>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  Output* const c = p.c + batch * p.c_batch;
#pragma unroll
  for (int j0 = 0; j0 < kColumns; j0 += P::kWide) {
    if constexpr (requires { p.follows; }) {
      const PieceFollows<P, Output> follows(p, row, column + j0, batch);
      P::turn(piece, pair, j0);
      if (p.follows.any()) follows.apply(piece);
    } else {
      P::turn(piece, pair, j0);
    }
    if (p.c_packs) {
      P::each_chunk(piece, [&](int r, int j, const uint4& chunk) {
        if (row + r < p.m && column + j0 + j < p.n)
          *reinterpret_cast<uint4*>(c + (row + r) * p.c_row + column + j0 + j) = chunk;
      });
    } else {
      const bool down = p.c_row == 1;  // lanes go along what lies side by side
      for (int i = lane; i < 16 * P::kWide; i += 32) {
        const int r = down ? i % 16 : i / P::kWide, j = down ? i / 16 : i % P::kWide;
        if (row + r < p.m && column + j0 + j < p.n)
          c[(row + r) * p.c_row + (column + j0 + j) * p.c_column] =
              *reinterpret_cast<const Output*>(piece + r * P::kRow + j * int{sizeof(Output)});
      }
    }
  }
}

// The residual of 64 rows of a tile, a line of the cache for each thread: on its way while the tile
// is multiplied.
template <int kColumns, class T>
__device__ __forceinline__ void fetch_residual(const TensorArgs<T>& p, const Following<T>& follows,
                                               int row, int column, int batch) {
  const Beside<T>& residual = follows.residual;
  if (residual.data == nullptr || residual.column != 1) return;
  constexpr int kLine = 128 / int{sizeof(T)}, kLines = (kColumns + kLine - 1) / kLine;
  for (int i = static_cast<int>(threadIdx.x % 128); i < 64 * kLines; i += 128) {
    const int r = row + i / kLines, c = column + i % kLines * kLine;
    if (r < p.m && c < p.n)
      asm volatile("prefetch.global.L2 [%0];" ::"l"(residual.at(batch, r, c)));
  }
}

// A warpgroup: sums of 64 rows of every tile.
template <class W, class Args>
__device__ void multiply_arrived(const Args& p, char* stages, char* pieces, std::uint64_t* full,
                                 std::uint64_t* empty) {
  using E = typename W::Element;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const unsigned in_group = threadIdx.x % 128;
  const unsigned rank = W::kCluster == 1 ? 0 : cluster_rank();
  const int steps = (p.k + W::kDepth - 1) / W::kDepth;
  char* const piece = pieces + (group * 4 + warp) * 16 * W::kPieceRow;
  const auto release = [&](int stage) {
    if (in_group < W::kCluster) arrive_at(empty + stage, in_group);
  };
  Turn<W::kStages> turn;
  for (int t = blockIdx.x / W::kCluster; t < p.walk.count(); t += gridDim.x / W::kCluster) {
    const auto tile = p.walk.at(t);
    const int row = (tile.row * W::kCluster + static_cast<int>(rank)) * W::kRows + group * 64;
    if constexpr (requires { p.follows; })
      fetch_residual<W::kColumns>(p, p.follows, row, tile.column * W::kColumns, tile.batch);
    TensorSum<E> sums[W::kColumns / 2];
    const auto multiply = [&](int continues) {
      await_phase(full + turn.stage, turn.parity);
      const char* const a = stages + turn.stage * (W::kBytesA + W::kBytesB);
      const std::uint64_t at_a = tile_descriptor<W::kMajorKA>(a + group * 64 * kStepBytes);
      const std::uint64_t at_b = tile_descriptor<W::kMajorKB>(a + W::kBytesA);
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < kStepBytes / 32; ++i)
        wgmma<E, W::kColumns, W::kMajorKA, W::kMajorKB>(sums, at_a + i * kNextStep<W::kMajorKA>,
                                                        at_b + i * kNextStep<W::kMajorKB>,
                                                        i == 0 ? continues : 1);
      wgmma_end();
    };
    multiply(0);
    int last = turn.stage;
    turn.next();
    for (int s = 1; s < steps; ++s, turn.next()) {  // one stage waits while the next is multiplied
      multiply(1);
      wgmma_await<1>();
      release(last);
      last = turn.stage;
    }
    wgmma_await<0>();
    release(last);
    const auto pair = [&](int j, int h) {
      if constexpr (std::is_same_v<E, std::int8_t>)
        return int2{sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]};
      else
        return float2{sums[4 * j + 2 * h], sums[4 * j + 2 * h + 1]};
    };
    store_rows<W::kColumns>(pair, piece, p, row + warp * 16, tile.column * W::kColumns, tile.batch);
  }
}

template <class W, class Args>
__global__ void __launch_bounds__(W::kThreads, 1)
    multiply_warpgroups(const __grid_constant__ CUtensorMap map_a,
                        const __grid_constant__ CUtensorMap map_b, const __grid_constant__ Args p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ char shared[];
  char* const stages = shared + (1024 - (shared_address(shared) & 1023)) % 1024;
  char* const pieces = stages + W::kStages * (W::kBytesA + W::kBytesB);
  auto* const full = reinterpret_cast<std::uint64_t*>(pieces + W::kGroups * 4 * 16 * W::kPieceRow);
  auto* const empty = full + W::kStages;
  if (threadIdx.x == 0) prefetch_map(map_a), prefetch_map(map_b);
  begin_ring<W>(full, empty);
  if constexpr (requires { W::kFollows; }) W::follow(map_b, p);
  constexpr bool kTakes = W::kGroups == 2;  // all registers there are: small tiles need few
  if (threadIdx.x < 128) {
    if constexpr (kTakes) leave_registers<24>();
    if (is_elected_of_block()) bring_tiles<W>(map_a, map_b, p, stages, full, empty);
  } else {
    if constexpr (kTakes) take_registers<240>();
    multiply_arrived<W>(p, stages, pieces, full, empty);
  }
  if constexpr (W::kCluster > 1)
    cluster_sync();  // nobody leaves while others arrive at its barriers
#endif
}

}  // namespace planck::gemm_device
