// What the exact kernels differ in: how a panel of integers lies, and what multiplies it. Panels
// are packed from up to kStep of k, all those of a task in one call; their sums come out as int64,
// [row][column].
#pragma once

#include <algorithm>
#include <cstddef>

#include "planck/loops/gemm/cpu/amx_tile.h"
#include "planck/loops/gemm/cpu/exact_rows.h"
#include "planck/loops/gemm/cpu/tile.h"
#include "planck/loops/gemm/cpu/vnni_tile.h"

namespace planck::gemm {

inline constexpr std::int64_t kPiece = kMostDepth;          // of k, whose sums are added in int64
inline constexpr int kExactRows = 96, kExactColumns = 128;  // of a task
static_assert(kExactRows <= kMostScales && kExactColumns <= kMostScales);

// `count` rows of k elements as f32, 64 of k at a time: take(k0, n, scales, [panel][n][width]).
template <class Take>
void for_values(Side side, std::int64_t count, std::int64_t k, int width,
                const std::int32_t* exponents, const Take& take) {
  constexpr std::int64_t kDepth = 64;
  alignas(64) float values[(kExactColumns + kMostTileColumns) * kDepth];
  RowScales scales;
  set_scales(exponents, count, scales);
  for (std::int64_t k0 = 0; k0 < k; k0 += kDepth, side = part_of(side, 0, kDepth)) {
    const std::int64_t n = std::min(kDepth, k - k0);
    pack(side, count, n, width, values);
    take(k0, static_cast<int>(n), scales, values);
  }
}

// f64 fused multiply-adds on integers, by the tiles of the chain: [panel][k][width]. Tiles are
// narrow: as many as give kMostColumns are multiplied side by side.
class FloatTiles {
 public:
  static constexpr int kStep = 512, kMostColumns = 32;
  struct Registers {};
  int rows() const { return ops_.rows; }
  static constexpr int columns() { return kMostColumns; }
  static std::int64_t panel_bytes(std::int64_t width, std::int64_t k) { return width * k * 8; }
  void pack_a(const Side& side, std::int64_t count, std::int64_t k, const std::int32_t* exponents,
              std::byte* out) const {
    pack_panels(side, count, k, rows(), exponents, out);
  }
  void pack_b(const Side& side, std::int64_t count, std::int64_t k, const std::int32_t* exponents,
              std::byte* out) const {
    pack_panels(side, count, k, tile_columns(), exponents, out);
    const std::int64_t packed = (count + tile_columns() - 1) / tile_columns() * tile_columns();
    const std::int64_t whole = (count + kMostColumns - 1) / kMostColumns * kMostColumns;
    std::fill_n(reinterpret_cast<double*>(out) + packed * k, (whole - packed) * k, 0.0);
  }
  void multiply(const Registers&, const std::byte* a, std::int64_t row_count, const std::byte* b,
                std::int64_t k, std::int64_t* sums) const;

 private:
  int tile_columns() const { return ops_.vectors * ops_.lanes; }
  static void pack_panels(const Side& side, std::int64_t count, std::int64_t k, int width,
                          const std::int32_t* exponents, std::byte* out) {
    auto* const to = reinterpret_cast<double*>(out);
    for_values(side, count, k, width, exponents,
               [&](std::int64_t k0, int n, const RowScales& scales, const float* values) {
                 for (int r = 0; r < count; r += width)
                   exact_ops().round_to_f64(values + r * n, n, width, scales, r,
                                            to + r * k + k0 * width);
               });
  }
  const TileOps<double>& ops_ = tile_ops<double>();
};

inline void FloatTiles::multiply(const Registers&, const std::byte* a, std::int64_t row_count,
                                 const std::byte* b, std::int64_t k, std::int64_t* sums) const {
  alignas(64) double tile[kMostTileRows * kMostColumns];
  const auto* const rows_of_a = reinterpret_cast<const double*>(a);
  const auto* const columns_of_b = reinterpret_cast<const double*>(b);
  const int width = tile_columns(), height = rows();
  for (std::int64_t k0 = 0; k0 == 0 || k0 < k; k0 += kPiece)  // once where k is 0
    for (std::int64_t r = 0; r < row_count; r += height) {
      const std::int64_t count = std::min<std::int64_t>(height, row_count - r);
      for (int j = 0; j < kMostColumns; j += width)
        ops_.multiply({rows_of_a + r * k + k0 * height, count, columns_of_b + j * k + k0 * width,
                       width, width, std::min(kPiece, k - k0), tile + j, kMostColumns, false,
                       false});
      exact_ops().from_f64(tile, static_cast<int>(count) * kMostColumns, k0 > 0,
                           sums + r * kMostColumns);
    }
}

// Three products of 16 bits by VNNI: [panel][piece][form][k / 2][width].
class ShortTiles {
 public:
  static constexpr int kStep = 1024, kMostColumns = kVnniColumns;
  struct Registers {};
  static constexpr int rows() { return kVnniRows; }
  static constexpr int columns() { return kVnniColumns; }
  static std::int64_t panel_bytes(std::int64_t width, std::int64_t k) {
    return 3 * 4 * width * words(k);
  }
  static void pack_a(const Side& side, std::int64_t count, std::int64_t k,
                     const std::int32_t* exponents, std::byte* out) {
    pack_panels(side, count, k, kVnniRows, exponents, out);
  }
  static void pack_b(const Side& side, std::int64_t count, std::int64_t k,
                     const std::int32_t* exponents, std::byte* out) {
    pack_panels(side, count, k, kVnniColumns, exponents, out);
  }
  static void multiply(const Registers&, const std::byte* a, std::int64_t row_count,
                       const std::byte* b, std::int64_t k, std::int64_t* sums);

 private:
  static std::int64_t words(std::int64_t k) { return (k + 1) / 2; }
  static void pack_panels(const Side& side, std::int64_t count, std::int64_t k, int width,
                          const std::int32_t* exponents, std::byte* out);
};

inline void ShortTiles::pack_panels(const Side& side, std::int64_t count, std::int64_t k, int width,
                                    const std::int32_t* exponents, std::byte* out) {
  auto* const to = reinterpret_cast<std::int32_t*>(out);
  for_values(side, count, k, width, exponents,
             [&](std::int64_t k0, int n, const RowScales& scales, const float* values) {
               alignas(64) std::int32_t q[kVnniColumns * 64];
               const std::int64_t piece = k0 / kPiece * kPiece;
               const std::int64_t form = words(std::min(kPiece, k - piece)) * width;
               for (int r = 0; r < count; r += width) {
                 exact_ops().round_columns(values + r * n, n, width, scales, r, q);
                 exact_ops().to_shorts(
                     q, n, width,
                     to + 3 * (r * words(k) + piece / 2 * width) + (k0 - piece) / 2 * width, form);
               }
             });
}

inline void ShortTiles::multiply(const Registers&, const std::byte* a, std::int64_t row_count,
                                 const std::byte* b, std::int64_t k, std::int64_t* sums) {
  alignas(64) std::int32_t products[3 * kVnniRows * kVnniColumns];
  const auto* const rows_of_a = reinterpret_cast<const std::int32_t*>(a);
  const auto* const columns_of_b = reinterpret_cast<const std::int32_t*>(b);
  for (std::int64_t k0 = 0; k0 == 0 || k0 < k; k0 += kPiece) {
    const std::int64_t depth = words(std::min(kPiece, k - k0));
    const std::int32_t* const other = columns_of_b + 3 * (k0 / 2 * kVnniColumns);
    for (std::int64_t r = 0; r < row_count; r += kVnniRows) {
      const std::int32_t* const mine = rows_of_a + 3 * (r * words(k) + k0 / 2 * kVnniRows);
      const int n = static_cast<int>(std::min<std::int64_t>(kVnniRows, row_count - r));
      for (int form = 0; form < 3; ++form)
        vnni_shorts({mine + form * depth * kVnniRows, other + form * depth * kVnniColumns, depth, n,
                     nullptr, products + form * n * kVnniColumns});
      exact_ops().from_shorts(products, n * kVnniColumns, k0 > 0, sums + r * kVnniColumns);
    }
  }
}

// Nine products of digits by AMX: [panel][k / 64][digit][1024].
class DigitTiles {
 public:
  static constexpr int kStep = 2048, kMostColumns = kAmxColumns;
  using Registers = AmxTiles;
  static constexpr int rows() { return kAmxRows; }
  static constexpr int columns() { return kAmxColumns; }
  static std::int64_t panel_bytes(std::int64_t, std::int64_t k) { return kBytes * blocks(k); }
  static void pack_a(const Side& side, std::int64_t count, std::int64_t k,
                     const std::int32_t* exponents, std::byte* out);
  static void pack_b(const Side& side, std::int64_t count, std::int64_t k,
                     const std::int32_t* exponents, std::byte* out);
  static void multiply(const Registers&, const std::byte* a, std::int64_t row_count,
                       const std::byte* b, std::int64_t k, std::int64_t* sums);

 private:
  static constexpr std::int64_t kBytes = 3 * kAmxBlock;
  static std::int64_t blocks(std::int64_t k) { return (k + kAmxDepth - 1) / kAmxDepth; }
};

// Rows lie along k, so each is brought over on its own.
inline void DigitTiles::pack_a(const Side& side, std::int64_t count, std::int64_t k,
                               const std::int32_t* exponents, std::byte* out) {
  RowScales scales;
  set_scales(exponents, count, scales);
  alignas(64) float values[kAmxDepth];
  for (std::int64_t r = 0; r < (count + kAmxRows - 1) / kAmxRows * kAmxRows; ++r) {
    auto* to = reinterpret_cast<std::int8_t*>(out) + r / kAmxRows * panel_bytes(0, k) +
               r % kAmxRows * kAmxDepth;
    for (std::int64_t k0 = 0; k0 < k; k0 += kAmxDepth, to += kBytes) {
      alignas(64) std::int32_t q[kAmxDepth] = {};
      if (scales.keep[r] != 0) {
        const int n = static_cast<int>(std::min<std::int64_t>(kAmxDepth, k - k0));
        load_row(side, r, k0, n, values);
        exact_ops().round_row(values, n, scales.first[r], scales.second[r], q);
      }
      exact_ops().row_to_bytes(q, kAmxDepth, to);
    }
  }
}

inline void DigitTiles::pack_b(const Side& side, std::int64_t count, std::int64_t k,
                               const std::int32_t* exponents, std::byte* out) {
  for_values(side, count, k, kAmxColumns, exponents,
             [&](std::int64_t k0, int n, const RowScales& scales, const float* values) {
               for (int r = 0; r < count; r += kAmxColumns) {
                 alignas(64) std::int32_t q[kAmxColumns * kAmxDepth] = {};
                 exact_ops().round_columns(values + r * n, n, kAmxColumns, scales, r, q);
                 exact_ops().columns_to_bytes(q, kAmxDepth,
                                              reinterpret_cast<std::int8_t*>(out) +
                                                  r / kAmxColumns * panel_bytes(0, k) +
                                                  k0 / kAmxDepth * kBytes);
               }
             });
}

inline void DigitTiles::multiply(const Registers& registers, const std::byte* a,
                                 std::int64_t row_count, const std::byte* b, std::int64_t k,
                                 std::int64_t* sums) {
  constexpr std::int64_t kShared = 8;  // blocks of B, 24 KiB, that rows find in the cache
  alignas(64) std::int32_t products[5 * kAmxRows * kAmxColumns];
  const auto* const rows_of_a = reinterpret_cast<const std::int8_t*>(a);
  const auto* const columns_of_b = reinterpret_cast<const std::int8_t*>(b);
  for (std::int64_t first = 0; first == 0 || first < blocks(k); first += kShared)
    for (std::int64_t r = 0; r < row_count; r += kAmxRows) {
      registers.multiply_digits(rows_of_a + r / kAmxRows * panel_bytes(0, k) + first * kBytes,
                                columns_of_b + first * kBytes, std::min(kShared, blocks(k) - first),
                                products);
      exact_ops().from_bytes(products, kAmxRows * kAmxColumns, first > 0, sums + r * kAmxColumns);
    }
}

}  // namespace planck::gemm
