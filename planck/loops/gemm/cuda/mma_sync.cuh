// mma.sync: a warp multiplies 16 rows of A by 8 columns of B, 32 bytes of k, and adds to sums in
// its registers (compute capability 8.0 and newer). In bytes of k every type has one pattern, with
// g = lane / 4 and t = lane % 4:
//
//   A  a[0] row g, a[1] row g + 8: bytes 4 t … 4 t + 3;   a[2], a[3]: the same rows, 16 bytes on
//   B  b[0] column g: bytes 4 t … 4 t + 3;                b[1]: 16 bytes on
//   C  c[2 h + i]: row g + 8 h, column 2 t + i
//
// What floats become is the tensor_core rule of planck/math/products/tensor_core.h where a GPU
// follows it (planck/loops/gemm/cuda/follows.h); an instruction is one block of it. Bytes are exact
// everywhere.
#pragma once

#include <cstdint>
#include <type_traits>

#include "planck/core/half.h"
#include "planck/loops/cuda/async_copy.cuh"
#include "planck/loops/gemm/cuda/mma_layout.h"

namespace planck::gemm_device {

template <class E, class Sum>
__device__ __forceinline__ void mma_sync(Sum (&c)[4], const std::uint32_t (&a)[4],
                                         const std::uint32_t (&b)[2]) {
#define PLANCK_MMA(NAME, C)                                                             \
  asm("mma.sync.aligned." NAME " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
      : C(c[0]), C(c[1]), C(c[2]), C(c[3])                                              \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (std::is_same_v<E, bf16>)
    PLANCK_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
  else if constexpr (std::is_same_v<E, f16>)
    PLANCK_MMA("m16n8k16.row.col.f32.f16.f16.f32", "+f");
  else if constexpr (std::is_same_v<E, float>)
    PLANCK_MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "+f");
  else
    PLANCK_MMA("m16n8k32.row.col.s32.s8.s8.s32", "+r");
#undef PLANCK_MMA
}

// Four squares of 8 × 16 bytes: register q of a lane holds 4 bytes of square q, those of its row
// lane / 4 at 4 (lane % 4). Transposed, 16-bit elements: of column lane / 4, rows 2 (lane % 4) and
// the next.
template <bool kTransposed>
__device__ __forceinline__ void load_squares(std::uint32_t (&to)[4], unsigned from) {
  if constexpr (kTransposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

__device__ __forceinline__ void load_word(std::uint32_t& to, unsigned from) {
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(to) : "r"(from) : "memory");
}

// One operand of a slice: 16 rows of A, or 16 columns of B, which are those of two instructions
// (to[0], to[1] and to[2], to[3]). lane_at: as the layout says, in the address space of the part.
template <class E, bool kOfA, class Layout, bool kDeep>
__device__ __forceinline__ void load_operand(std::uint32_t (&to)[4], unsigned part, int lane_at,
                                             int rows, int slice) {
  if constexpr (kDeep || sizeof(E) == 2) {
    load_squares<!kDeep>(to,
                         part + static_cast<unsigned>(Layout::further(lane_at, rows, 2 * slice)));
  } else {  // words that lie along rows, which ldmatrix does not transpose
    static_assert(sizeof(E) == 4);
#pragma unroll
    for (int q = 0; q < 4; ++q)
      load_word(to[q], part + static_cast<unsigned>(Layout::further(
                                  lane_at, rows + Layout::template lower<kOfA>(q) * 8,
                                  2 * slice + Layout::template later<kOfA>(q))));
  }
  // TF32 is f32 without its low 13 bits, whatever the hardware makes of them.
  if constexpr (std::is_same_v<E, float>)
#pragma unroll
    for (std::uint32_t& word : to) word &= 0xffffe000u;
}

}  // namespace planck::gemm_device
