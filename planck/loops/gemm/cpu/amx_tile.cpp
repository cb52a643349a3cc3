#include "planck/loops/gemm/cpu/amx_tile.h"

#include "planck/core/cpu/target.h"

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLANCK_AMX __attribute__((target("amx-tile,amx-int8")))

namespace planck::gemm {

namespace {

// The layout that LDTILECFG reads: eight tiles of 16 rows of 64 bytes. A constant, since compilers
// believe that the instruction reads 8 bytes of it and leave other stores out.
struct TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes_of_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
alignas(64) constexpr TileConfig kConfig;

bool request_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d >> 24 & 1) == 0 || (d >> 25 & 1) == 0) return false;  // tiles, and s8
  constexpr long kRequestPermission = 0x1023,
                 kTileData = 18;  // of asm/prctl.h, newer than Debian's
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

PLANCK_AMX void configure() { _tile_loadconfig(&kConfig); }
PLANCK_AMX void release() { _tile_release(); }

}  // namespace

bool amx_available() {
  static const bool granted = request_amx();
  return granted && cpu_target_name() == "avx512";
}

AmxTiles::AmxTiles() { configure(); }
AmxTiles::~AmxTiles() { release(); }

// Tiles 0 to 3 are sums, 4 and 5 of A, 6 and 7 of B.
PLANCK_AMX void AmxTiles::multiply(const std::int8_t* a0, const std::int8_t* a1,
                                   const std::int8_t* b0, const std::int8_t* b1,
                                   std::int64_t blocks, std::int32_t* sums,
                                   std::int64_t sums_step) const {
  const std::int64_t row = sums_step * 4;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (a1 != nullptr && b1 != nullptr) {
    for (std::int64_t k = 0; k < blocks * kAmxBlock; k += kAmxBlock) {
      _tile_loadd(4, a0 + k, 64);
      _tile_loadd(6, b0 + k, 64);
      _tile_loadd(7, b1 + k, 64);
      _tile_loadd(5, a1 + k, 64);
      _tile_dpbssd(0, 4, 6);
      _tile_dpbssd(1, 4, 7);
      _tile_dpbssd(2, 5, 6);
      _tile_dpbssd(3, 5, 7);
    }
    _tile_stored(3, sums + 16 * sums_step + 16, row);
  } else {
    for (std::int64_t k = 0; k < blocks * kAmxBlock; k += kAmxBlock) {
      _tile_loadd(4, a0 + k, 64);
      _tile_loadd(6, b0 + k, 64);
      _tile_dpbssd(0, 4, 6);
      if (b1 != nullptr) {
        _tile_loadd(7, b1 + k, 64);
        _tile_dpbssd(1, 4, 7);
      }
      if (a1 != nullptr) {
        _tile_loadd(5, a1 + k, 64);
        _tile_dpbssd(2, 5, 6);
      }
    }
  }
  _tile_stored(0, sums, row);
  if (b1 != nullptr) _tile_stored(1, sums + 16, row);
  if (a1 != nullptr) _tile_stored(2, sums + 16 * sums_step, row);
}

// Tiles 0 to 4 are sums, 5 a digit of A, 6 and 7 digits of B. Nine products for eight loads, in an
// order in which no sum is needed again before three others.
PLANCK_AMX void AmxTiles::multiply_digits(const std::int8_t* a, const std::int8_t* b,
                                          std::int64_t blocks, std::int32_t* sums) const {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  for (std::int64_t k = 0; k < blocks; ++k, a += 3 * kAmxBlock, b += 3 * kAmxBlock) {
    _tile_loadd(6, b, 64);
    _tile_loadd(5, a, 64);
    _tile_dpbssd(0, 5, 6);
    _tile_loadd(7, b + kAmxBlock, 64);
    _tile_dpbssd(1, 5, 7);
    _tile_loadd(5, a + 2 * kAmxBlock, 64);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
    _tile_loadd(5, a + kAmxBlock, 64);
    _tile_dpbssd(1, 5, 6);
    _tile_dpbssd(2, 5, 7);
    _tile_loadd(6, b + 2 * kAmxBlock, 64);
    _tile_dpbssd(3, 5, 6);
    _tile_loadd(5, a + 2 * kAmxBlock, 64);
    _tile_dpbssd(4, 5, 6);
    _tile_loadd(5, a, 64);
    _tile_dpbssd(2, 5, 6);
  }
  _tile_stored(0, sums, 64);
  _tile_stored(1, sums + 256, 64);
  _tile_stored(2, sums + 512, 64);
  _tile_stored(3, sums + 768, 64);
  _tile_stored(4, sums + 1024, 64);
}

}  // namespace planck::gemm

#else

namespace planck::gemm {
bool amx_available() { return false; }
AmxTiles::AmxTiles() = default;
AmxTiles::~AmxTiles() = default;
void AmxTiles::multiply(const std::int8_t*, const std::int8_t*, const std::int8_t*,
                        const std::int8_t*, std::int64_t, std::int32_t*, std::int64_t) const {}
void AmxTiles::multiply_digits(const std::int8_t*, const std::int8_t*, std::int64_t,
                               std::int32_t*) const {}
}  // namespace planck::gemm

#endif
