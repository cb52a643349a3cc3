// wgmma: a warpgroup (four warps) multiplies 64 rows of A by kColumns columns of B, both in shared
// memory, and adds to sums in its registers. One instruction takes 32 bytes of k.
//
// What it computes is the tensor_core rule of planck/math/products/tensor_core.h for floats, the
// exact sum for s8. Tiles lie in shared memory with the copy engine's 128-byte swizzle:
//   k-major   rows of 128 bytes of k, 8 rows to 1,024 bytes
//   mn-major  (16-bit) for each 64 rows or columns, k rows of 128 bytes
// Of a lane's sums, s[4 j + 2 h + i] belongs to row 16 warp + lane / 4 + 8 h and column
// 8 j + lane % 4 * 2 + i.
#pragma once

#include <cstdint>

#include "planck/core/half.h"
#include "planck/loops/cuda/async_copy.cuh"

namespace planck::gemm_device {

// Where a tile begins and how its parts lie, for the instruction. kRows: of k, if it is mn-major.
// eight: bytes from 8 rows, or 8 of k, to the next; tiles begin at any of their rows.
template <bool kMajorK, int kRows = 64>
__device__ __forceinline__ std::uint64_t tile_descriptor(const void* tile, int eight = 1024) {
  const std::uint64_t start = (shared_address(tile) & 0x3ffffu) >> 4;
  const std::uint64_t group = kMajorK ? 1 : kRows * 128 / 16;  // to the next 64 rows or columns
  return start | group << 16 | std::uint64_t{static_cast<unsigned>(eight) / 16} << 32 |
         std::uint64_t{1} << 62;
}
// What 32 bytes of k add to a descriptor.
template <bool kMajorK>
inline constexpr std::uint64_t kNextStep = kMajorK ? 32 / 16 : 16 * 128 / 16;

// Registers of all threads of a warpgroup.
template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

__device__ __forceinline__ void wgmma_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_end() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
__device__ __forceinline__ void wgmma_await() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// clang-format off
// The sums of an instruction of SIZE columns: how they are numbered, and what they are; C is the
// letter of their registers.
#define PLANCK_NUMBERS_32 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}"
#define PLANCK_NUMBERS_64 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23," \
  "%24,%25,%26,%27,%28,%29,%30,%31}"
#define PLANCK_NUMBERS_128 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23," \
  "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45," \
  "%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}"
#define PLANCK_NUMBERS_256 \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23," \
  "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45," \
  "%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67," \
  "%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89," \
  "%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108," \
  "%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125," \
  "%126,%127}"
#define PLANCK_SUMS_32(C, i)                                                                       \
  C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3]), C(d[i + 4]), C(d[i + 5]), C(d[i + 6]),           \
  C(d[i + 7]), C(d[i + 8]), C(d[i + 9]), C(d[i + 10]), C(d[i + 11]), C(d[i + 12]), C(d[i + 13]),   \
  C(d[i + 14]), C(d[i + 15])
#define PLANCK_SUMS_64(C, i) PLANCK_SUMS_32(C, i), PLANCK_SUMS_32(C, i + 16)
#define PLANCK_SUMS_128(C, i) PLANCK_SUMS_64(C, i), PLANCK_SUMS_64(C, i + 32)
#define PLANCK_SUMS_256(C, i) PLANCK_SUMS_128(C, i), PLANCK_SUMS_128(C, i + 64)
// INSTRUCTION adds to d; REST follows the predicate. X, Y, Z, …: the numbers of what comes after d.
#define PLANCK_WGMMA(SIZE, X, Y, Z, INSTRUCTION, C, REST)                                          \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #Z ", 0;\n" INSTRUCTION                        \
               " " PLANCK_NUMBERS_##SIZE ", %" #X ", %" #Y ", p" REST ";\n}"                       \
               : PLANCK_SUMS_##SIZE(C, 0) : "l"(a), "l"(b), "r"(continues))
#define PLANCK_WGMMA_32(...) PLANCK_WGMMA(32, 16, 17, 18, __VA_ARGS__)
#define PLANCK_WGMMA_64(...) PLANCK_WGMMA(64, 32, 33, 34, __VA_ARGS__)
#define PLANCK_WGMMA_128(...) PLANCK_WGMMA(128, 64, 65, 66, __VA_ARGS__)
#define PLANCK_WGMMA_256(...) PLANCK_WGMMA(256, 128, 129, 130, __VA_ARGS__)
// The same of an A in registers.
#define PLANCK_WGMMA_OWN(SIZE, X0, X1, X2, X3, Y, INSTRUCTION, REST)                               \
  asm volatile(INSTRUCTION " " PLANCK_NUMBERS_##SIZE                                               \
               ", {%" #X0 ", %" #X1 ", %" #X2 ", %" #X3 "}, %" #Y ", 1" REST ";"                   \
               : PLANCK_SUMS_##SIZE(PLANCK_FLOAT_SUM, 0)                                           \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define PLANCK_WGMMA_OWN_64(...) PLANCK_WGMMA_OWN(64, 32, 33, 34, 35, 36, __VA_ARGS__)
#define PLANCK_WGMMA_OWN_128(...) PLANCK_WGMMA_OWN(128, 64, 65, 66, 67, 68, __VA_ARGS__)
#define PLANCK_WGMMA_OWN_256(...) PLANCK_WGMMA_OWN(256, 128, 129, 130, 131, 132, __VA_ARGS__)
#define PLANCK_FLOAT_SUM(x) "+f"(x)
#define PLANCK_INT_SUM(x) "+r"(x)
// clang-format on

// One instruction: 32 bytes of k. continues: 0 where the sums begin with these products.
template <class E, int kColumns, bool kMajorKA, bool kMajorKB, class Sum>
__device__ __forceinline__ void wgmma(Sum (&d)[kColumns / 2], std::uint64_t a, std::uint64_t b,
                                      int continues) {
#define PLANCK_MAJORS(SIZE, NAME)                                \
  if constexpr (kMajorKA && kMajorKB)                            \
    PLANCK_WGMMA_##SIZE(NAME, PLANCK_FLOAT_SUM, ", 1, 1, 0, 0"); \
  else if constexpr (kMajorKA)                                   \
    PLANCK_WGMMA_##SIZE(NAME, PLANCK_FLOAT_SUM, ", 1, 1, 0, 1"); \
  else if constexpr (kMajorKB)                                   \
    PLANCK_WGMMA_##SIZE(NAME, PLANCK_FLOAT_SUM, ", 1, 1, 1, 0"); \
  else                                                           \
    PLANCK_WGMMA_##SIZE(NAME, PLANCK_FLOAT_SUM, ", 1, 1, 1, 1")
#define PLANCK_SIZE(SIZE)                                                                 \
  if constexpr (kColumns == SIZE) {                                                       \
    if constexpr (std::is_same_v<E, bf16>) {                                              \
      PLANCK_MAJORS(SIZE, "wgmma.mma_async.sync.aligned.m64n" #SIZE "k16.f32.bf16.bf16"); \
    } else if constexpr (std::is_same_v<E, f16>) {                                        \
      PLANCK_MAJORS(SIZE, "wgmma.mma_async.sync.aligned.m64n" #SIZE "k16.f32.f16.f16");   \
    } else if constexpr (std::is_same_v<E, float>) {                                      \
      PLANCK_WGMMA_##SIZE("wgmma.mma_async.sync.aligned.m64n" #SIZE "k8.f32.tf32.tf32",   \
                          PLANCK_FLOAT_SUM, ", 1, 1");                                    \
    } else {                                                                              \
      PLANCK_WGMMA_##SIZE("wgmma.mma_async.sync.aligned.m64n" #SIZE "k32.s32.s8.s8",      \
                          PLANCK_INT_SUM, "");                                            \
    }                                                                                     \
  }
  static_assert(sizeof(E) == 2 || (kMajorKA && kMajorKB), "only 16-bit tiles may be mn-major");
  PLANCK_SIZE(32)
  PLANCK_SIZE(64)
  PLANCK_SIZE(128)
  PLANCK_SIZE(256)
#undef PLANCK_SIZE
#undef PLANCK_MAJORS
}

// The same of 16-bit floats, 16 of k: rows of A in registers. Lane l has of row l / 4 and of that
// plus 8 what two chunks of 8 sums have, rounded to pairs: a[0] and a[1] of the first chunk, a[2]
// and a[3] of the second, so that sums of one product are factors of the next.
template <class E, int kColumns, bool kMajorKB>
__device__ __forceinline__ void wgmma(float (&d)[kColumns / 2], const std::uint32_t* a,
                                      std::uint64_t b) {
#define PLANCK_SIZE(SIZE)                                                                    \
  if constexpr (kColumns == SIZE) {                                                          \
    if constexpr (std::is_same_v<E, bf16> && kMajorKB)                                       \
      PLANCK_WGMMA_OWN_##SIZE("wgmma.mma_async.sync.aligned.m64n" #SIZE "k16.f32.bf16.bf16", \
                              ", 1, 1, 0");                                                  \
    else if constexpr (std::is_same_v<E, bf16>)                                              \
      PLANCK_WGMMA_OWN_##SIZE("wgmma.mma_async.sync.aligned.m64n" #SIZE "k16.f32.bf16.bf16", \
                              ", 1, 1, 1");                                                  \
    else if constexpr (kMajorKB)                                                             \
      PLANCK_WGMMA_OWN_##SIZE("wgmma.mma_async.sync.aligned.m64n" #SIZE "k16.f32.f16.f16",   \
                              ", 1, 1, 0");                                                  \
    else                                                                                     \
      PLANCK_WGMMA_OWN_##SIZE("wgmma.mma_async.sync.aligned.m64n" #SIZE "k16.f32.f16.f16",   \
                              ", 1, 1, 1");                                                  \
  }
  static_assert(sizeof(E) == 2 && kColumns >= 64);
  PLANCK_SIZE(64)
  PLANCK_SIZE(128)
  PLANCK_SIZE(256)
#undef PLANCK_SIZE
}

// Sums are read and written from here on, not before: what an instruction works at in the meantime
// is nothing that the compiler sees.
template <int kCount>
__device__ __forceinline__ void wgmma_hold(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

}  // namespace planck::gemm_device
