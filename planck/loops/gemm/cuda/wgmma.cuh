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

// Where a tile begins and how its parts lie, for the instruction.
template <bool kMajorK>
__device__ __forceinline__ std::uint64_t tile_descriptor(const void* tile) {
  const std::uint64_t start = (shared_address(tile) & 0x3ffffu) >> 4;
  const std::uint64_t group = kMajorK ? 1 : 64 * 128 / 16;  // to the next 64 rows or columns
  return start | group << 16 | std::uint64_t{1024 / 16} << 32 | std::uint64_t{1} << 62;
}
// What 32 bytes of k add to a descriptor.
template <bool kMajorK>
inline constexpr std::uint64_t kNextStep = kMajorK ? 32 / 16 : 16 * 128 / 16;

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
// INSTRUCTION adds to d; C is the letter of its registers, REST what follows the predicate.
#define PLANCK_WGMMA_32(INSTRUCTION, C, REST)                                                      \
  asm volatile(                                                                                    \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n" INSTRUCTION                                     \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, "                                 \
      "%16, %17, p" REST ";\n}"                                                                    \
      : C(d[0]), C(d[1]), C(d[2]), C(d[3]), C(d[4]), C(d[5]), C(d[6]), C(d[7]), C(d[8]),           \
        C(d[9]), C(d[10]), C(d[11]), C(d[12]), C(d[13]), C(d[14]), C(d[15])                        \
      : "l"(a), "l"(b), "r"(continues))
#define PLANCK_WGMMA_64(INSTRUCTION, C, REST)                                                      \
  asm volatile(                                                                                    \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n" INSTRUCTION                                     \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"   \
      "%24,%25,%26,%27,%28,%29,%30,%31}, "                                                         \
      "%32, %33, p" REST ";\n}"                                                                    \
      : C(d[0]), C(d[1]), C(d[2]), C(d[3]), C(d[4]), C(d[5]), C(d[6]), C(d[7]), C(d[8]),           \
        C(d[9]), C(d[10]), C(d[11]), C(d[12]), C(d[13]), C(d[14]), C(d[15]), C(d[16]),             \
        C(d[17]), C(d[18]), C(d[19]), C(d[20]), C(d[21]), C(d[22]), C(d[23]), C(d[24]),            \
        C(d[25]), C(d[26]), C(d[27]), C(d[28]), C(d[29]), C(d[30]), C(d[31])                       \
      : "l"(a), "l"(b), "r"(continues))
#define PLANCK_WGMMA_128(INSTRUCTION, C, REST)                                                     \
  asm volatile(                                                                                    \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n" INSTRUCTION                                     \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"   \
      "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,"   \
      "%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "                 \
      "%64, %65, p" REST ";\n}"                                                                    \
      : C(d[0]), C(d[1]), C(d[2]), C(d[3]), C(d[4]), C(d[5]), C(d[6]), C(d[7]), C(d[8]),           \
        C(d[9]), C(d[10]), C(d[11]), C(d[12]), C(d[13]), C(d[14]), C(d[15]), C(d[16]),             \
        C(d[17]), C(d[18]), C(d[19]), C(d[20]), C(d[21]), C(d[22]), C(d[23]), C(d[24]),            \
        C(d[25]), C(d[26]), C(d[27]), C(d[28]), C(d[29]), C(d[30]), C(d[31]), C(d[32]),            \
        C(d[33]), C(d[34]), C(d[35]), C(d[36]), C(d[37]), C(d[38]), C(d[39]), C(d[40]),            \
        C(d[41]), C(d[42]), C(d[43]), C(d[44]), C(d[45]), C(d[46]), C(d[47]), C(d[48]),            \
        C(d[49]), C(d[50]), C(d[51]), C(d[52]), C(d[53]), C(d[54]), C(d[55]), C(d[56]),            \
        C(d[57]), C(d[58]), C(d[59]), C(d[60]), C(d[61]), C(d[62]), C(d[63])                       \
      : "l"(a), "l"(b), "r"(continues))
#define PLANCK_WGMMA_256(INSTRUCTION, C, REST)                                                     \
  asm volatile(                                                                                    \
      "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n" INSTRUCTION                                    \
      " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,"   \
      "%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,"   \
      "%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,"   \
      "%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,"   \
      "%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,"      \
      "%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,"      \
      "%126,%127}, "                                                                               \
      "%128, %129, p" REST ";\n}"                                                                  \
      : C(d[0]), C(d[1]), C(d[2]), C(d[3]), C(d[4]), C(d[5]), C(d[6]), C(d[7]), C(d[8]),           \
        C(d[9]), C(d[10]), C(d[11]), C(d[12]), C(d[13]), C(d[14]), C(d[15]), C(d[16]),             \
        C(d[17]), C(d[18]), C(d[19]), C(d[20]), C(d[21]), C(d[22]), C(d[23]), C(d[24]),            \
        C(d[25]), C(d[26]), C(d[27]), C(d[28]), C(d[29]), C(d[30]), C(d[31]), C(d[32]),            \
        C(d[33]), C(d[34]), C(d[35]), C(d[36]), C(d[37]), C(d[38]), C(d[39]), C(d[40]),            \
        C(d[41]), C(d[42]), C(d[43]), C(d[44]), C(d[45]), C(d[46]), C(d[47]), C(d[48]),            \
        C(d[49]), C(d[50]), C(d[51]), C(d[52]), C(d[53]), C(d[54]), C(d[55]), C(d[56]),            \
        C(d[57]), C(d[58]), C(d[59]), C(d[60]), C(d[61]), C(d[62]), C(d[63]), C(d[64]),            \
        C(d[65]), C(d[66]), C(d[67]), C(d[68]), C(d[69]), C(d[70]), C(d[71]), C(d[72]),            \
        C(d[73]), C(d[74]), C(d[75]), C(d[76]), C(d[77]), C(d[78]), C(d[79]), C(d[80]),            \
        C(d[81]), C(d[82]), C(d[83]), C(d[84]), C(d[85]), C(d[86]), C(d[87]), C(d[88]),            \
        C(d[89]), C(d[90]), C(d[91]), C(d[92]), C(d[93]), C(d[94]), C(d[95]), C(d[96]),            \
        C(d[97]), C(d[98]), C(d[99]), C(d[100]), C(d[101]), C(d[102]), C(d[103]), C(d[104]),       \
        C(d[105]), C(d[106]), C(d[107]), C(d[108]), C(d[109]), C(d[110]), C(d[111]),               \
        C(d[112]), C(d[113]), C(d[114]), C(d[115]), C(d[116]), C(d[117]), C(d[118]),               \
        C(d[119]), C(d[120]), C(d[121]), C(d[122]), C(d[123]), C(d[124]), C(d[125]),               \
        C(d[126]), C(d[127])                                                                       \
      : "l"(a), "l"(b), "r"(continues))
// clang-format on

// One instruction: 32 bytes of k. continues: 0 where the sums begin with these products.
template <class E, int kColumns, bool kMajorKA, bool kMajorKB, class Sum>
__device__ __forceinline__ void wgmma(Sum (&d)[kColumns / 2], std::uint64_t a, std::uint64_t b,
                                      int continues) {
#define PLANCK_FLOAT_SUM(x) "+f"(x)
#define PLANCK_INT_SUM(x) "+r"(x)
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
#undef PLANCK_INT_SUM
#undef PLANCK_FLOAT_SUM
}

}  // namespace planck::gemm_device
