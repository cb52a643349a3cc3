// Chooses readings and tiles for mma.sync and launches them. The build makes one source for each
// element type (planck/loops/CMakeLists.txt).
#pragma once

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/mma_tiles.cuh"
#include "planck/loops/gemm/cuda/mma_tiles.h"
#include "planck/loops/gemm/cuda/warpgroups.launch.cuh"

namespace planck::gemm_device {

// 128 × 128 by eight warps, two blocks on a multiprocessor; 64 × 64 by four, four blocks.
using LargeMma = MmaTiling<4, 2, 64, 2>;
using SmallMma = MmaTiling<2, 2, 32, 4>;

// How an operand of `count` rows can be copied in chunks of 16 bytes; any where it cannot.
template <class E>
Lies lies(const MmaOperand<E>& x, std::int64_t count, std::int64_t k, const gemm::Batches& batches,
          int operand) {
  constexpr std::int64_t kChunk = 16 / sizeof(E);
  if (reinterpret_cast<std::uintptr_t>(x.data) % 16 != 0) return Lies::any;
  for (int d = 0; d < batches.rank; ++d)
    if (batches.stride[operand][d] % kChunk != 0) return Lies::any;
  if ((x.depth == 1 || k == 1) && (x.along % kChunk == 0 || count == 1)) return Lies::deep;
  if (sizeof(E) > 1 && (x.along == 1 || count == 1) && (x.depth % kChunk == 0 || k == 1))
    return Lies::wide;
  return Lies::any;
}

// Fours of bytes that lie along rows.
inline bool has_squares(const MmaOperand<std::int8_t>& x, std::int64_t count, std::int64_t k,
                        const gemm::Batches& batches, int operand) {
  bool whole = x.along == 1 && count % 4 == 0 && (x.depth % 4 == 0 || k == 1) &&
               reinterpret_cast<std::uintptr_t>(x.data) % 4 == 0;
  for (int d = 0; d < batches.rank; ++d) whole &= batches.stride[operand][d] % 4 == 0;
  return whole;
}

template <class Tiling, Lies kA, Lies kB, class E, class Output>
Result<void> launch_mma(const Stream& stream, MmaArgs<E, Output> p) {
  p.to.walk = {static_cast<int>(ceil_div(p.to.m, Tiling::kRows)),
               static_cast<int>(ceil_div(p.to.n, Tiling::kColumns)),
               static_cast<int>(p.batches.count)};
  return launch(stream, "matmul", multiply_mma<E, Output, Tiling, kA, kB>,
                p.batches.count * p.to.walk.down * p.to.walk.across, Tiling::kThreads, p);
}

// Those tiles that take the least time: rounds of one block for each multiprocessor, times what a
// block costs. Small ones read more for what they multiply.
template <Lies kA, Lies kB, class E, class Output>
Result<void> launch_mma_tiles(const Stream& stream, const MmaArgs<E, Output>& p) {
  const std::int64_t processors = processors_of(stream);
  const auto cost = [&](std::int64_t rows, std::int64_t columns, std::int64_t of_block) {
    const std::int64_t blocks =
        p.batches.count * ceil_div(p.to.m, rows) * ceil_div(p.to.n, columns);
    return ceil_div(blocks, processors) * of_block;
  };
  if (cost(LargeMma::kRows, LargeMma::kColumns, 20) <= cost(SmallMma::kRows, SmallMma::kColumns, 7))
    return launch_mma<LargeMma, kA, kB>(stream, p);
  return launch_mma<SmallMma, kA, kB>(stream, p);
}

template <class E>
MmaOperand<E> operand_a(const gemm::Geometry& g) {
  return {static_cast<const E*>(g.a.data), g.a.row, g.a.column, Brought::elements};
}
template <class E>
MmaOperand<E> operand_b(const gemm::Geometry& g) {
  return {static_cast<const E*>(g.b.data), g.b.column, g.b.row, Brought::elements};
}
template <class E, class Output>
MmaArgs<E, Output> mma_arguments(const gemm::Geometry& g) {
  MmaArgs<E, Output> p{operand_a<E>(g), operand_b<E>(g), {}, g.batches};
  p.to.c = static_cast<Output*>(g.c.data);
  p.to.c_row = g.c.row, p.to.c_column = g.c.column;
  p.to.m = static_cast<int>(g.m), p.to.n = static_cast<int>(g.n), p.to.k = static_cast<int>(g.k);
  p.to.c_packs = packs_rows(p.to);
  for (int d = 0; d < g.batches.rank; ++d)
    p.to.c_packs &= g.batches.stride[2][d] % (16 / std::int64_t{sizeof(Output)}) == 0;
  return p;
}

template <class E>
Result<void> run_mma_tiles(const Stream& stream, const gemm::Geometry& given) {
  gemm::Geometry g = given;
  Lies of_a = lies(operand_a<E>(g), g.m, g.k, g.batches, 0);
  Lies of_b = lies(operand_b<E>(g), g.n, g.k, g.batches, 1);
  // As C^T = B^T A^T where rows of C lie across memory; and where A is wide and B deep, for which
  // there is no kernel, but not the other way round.
  const bool mixed = of_a != Lies::any && of_b != Lies::any && of_a != of_b;
  if (mixed ? of_a == Lies::wide : g.c.row == 1 && g.c.column != 1) {
    g = g.transposed();
    std::swap(of_a, of_b);
  }

  auto p = mma_arguments<E, MmaOutput<E>>(g);
  if constexpr (requires { p.to.follows; }) {
    p.to.follows = following<E>(g, 0, 0);
    for (int d = 0; d < g.batches.rank; ++d)
      p.to.follows.residual.packs &= g.batches.stride[3][d] % (16 / std::int64_t{sizeof(E)}) == 0;
  }
  if (of_a == Lies::deep) p.a.brought = Brought::copied;
  if (of_b == Lies::deep) p.b.brought = Brought::copied;
  if constexpr (sizeof(E) == 1) {
    if (of_a == Lies::any && has_squares(p.a, g.m, g.k, g.batches, 0))
      p.a.brought = Brought::squares;
    if (of_b == Lies::any && has_squares(p.b, g.n, g.k, g.batches, 1))
      p.b.brought = Brought::squares;
  }

  if (of_a == Lies::deep && of_b == Lies::deep)
    return launch_mma_tiles<Lies::deep, Lies::deep>(stream, p);
  if constexpr (sizeof(E) > 1) {
    if (of_a == Lies::deep && of_b == Lies::wide)
      return launch_mma_tiles<Lies::deep, Lies::wide>(stream, p);
    if (of_a == Lies::wide && of_b == Lies::wide)
      return launch_mma_tiles<Lies::wide, Lies::wide>(stream, p);
  }
  return launch_mma_tiles<Lies::any, Lies::any>(stream, p);
}

}  // namespace planck::gemm_device

#define PLANCK_INSTANTIATE(T)                                                   \
  namespace planck::gemm_device {                                               \
  template Result<void> run_mma_tiles<T>(const Stream&, const gemm::Geometry&); \
  }
