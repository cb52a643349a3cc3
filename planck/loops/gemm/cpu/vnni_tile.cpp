#include "planck/loops/gemm/cpu/vnni_tile.h"

#include <array>
#include <utility>

#include "planck/core/cpu/target.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define PLANCK_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))

namespace planck::gemm {

namespace {

bool cpu_has_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c >> 11 & 1) != 0;
}

template <bool kBytes, int kRows>
PLANCK_VNNI void tile(const VnniTile& t) {
  __m512i sums[kRows][2];
  const __m512i zero = _mm512_setzero_si512();
  const __m512i start0 = t.start == nullptr ? zero : _mm512_loadu_si512(t.start);
  const __m512i start1 = t.start == nullptr ? zero : _mm512_loadu_si512(t.start + 16);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) sums[r][0] = start0, sums[r][1] = start1;
  const std::int32_t *a = t.a, *b = t.b;
  for (std::int64_t k = t.words; k > 0; --k, a += kVnniRows, b += kVnniColumns) {
    const __m512i b0 = _mm512_loadu_si512(b), b1 = _mm512_loadu_si512(b + 16);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512i x = _mm512_set1_epi32(a[r]);
      if constexpr (kBytes) {
        sums[r][0] = _mm512_dpbusd_epi32(sums[r][0], x, b0);
        sums[r][1] = _mm512_dpbusd_epi32(sums[r][1], x, b1);
      } else {
        sums[r][0] = _mm512_dpwssd_epi32(sums[r][0], x, b0);
        sums[r][1] = _mm512_dpwssd_epi32(sums[r][1], x, b1);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    _mm512_storeu_si512(t.sums + r * kVnniColumns, sums[r][0]);
    _mm512_storeu_si512(t.sums + r * kVnniColumns + 16, sums[r][1]);
  }
}

template <bool kBytes>
void tile_of(const VnniTile& t) {
  static constexpr auto kTiles = []<int... kBelow>(std::integer_sequence<int, kBelow...>) {
    return std::array<void (*)(const VnniTile&), kVnniRows>{tile<kBytes, kBelow + 1>...};
  }
  (std::make_integer_sequence<int, kVnniRows>());
  kTiles[static_cast<std::size_t>(t.rows - 1)](t);
}

}  // namespace

bool vnni_available() {
  static const bool has = cpu_has_vnni();
  return has && cpu_target_name() == "avx512";
}
void vnni_shorts(const VnniTile& t) { tile_of<false>(t); }
void vnni_bytes(const VnniTile& t) { tile_of<true>(t); }

}  // namespace planck::gemm

#else

namespace planck::gemm {
bool vnni_available() { return false; }
void vnni_shorts(const VnniTile&) {}
void vnni_bytes(const VnniTile&) {}
}  // namespace planck::gemm

#endif
