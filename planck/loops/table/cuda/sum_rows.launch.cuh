// Choosing the width of a warp's work for sum_rows. The build makes one source for each kind of
// source rows (planck/loops/CMakeLists.txt).
#pragma once

#include "planck/loops/table/cuda/sorted_rows.cuh"

namespace planck::table_device {

template <class T, int kBytes, int kVectors, SourceKind kSource>
Result<void> launch_width(const Stream& stream, SumRows<T>& a, std::int64_t count) {
  const std::int64_t lanes = std::int64_t{1} << a.log2_lanes;
  constexpr std::int64_t kElements = kBytes / static_cast<std::int64_t>(sizeof(T));
  constexpr int kHot = kHotVectors<T, kBytes, kVectors>;
  const std::int64_t tiles = ceil_div(a.columns, lanes * kVectors * kElements);
  const std::int64_t hot_tiles = ceil_div(a.columns, lanes * kHot * kElements);
  if (hot_tiles * (count + 4) >= kDivisorLimit)
    return fail(ErrorCode::unsupported, "embedding sums: " + std::to_string(count) +
                                            " entries of " + std::to_string(a.columns) +
                                            " columns are too many");
  a.tiles = static_cast<std::uint32_t>(tiles);
  a.hot_tiles = static_cast<std::uint32_t>(hot_tiles);
  a.by_tiles = Divisor(a.tiles);
  a.by_hot_tiles = Divisor(a.hot_tiles);
  const auto processors = multiprocessors(stream);
  if (!processors) return tl::unexpected(processors.error());
  const std::int64_t sms = *processors;
  // No more warps than items; those that find none end at once.
  const std::int64_t units = count * hot_tiles + a.clear.pieces();
  const std::int64_t blocks = std::min(ceil_div(units * lanes, kSumThreads), 8 * sms);
  return launch_next(stream, "embedding sums", sum_rows<T, kBytes, kVectors, kSource>, blocks,
                     kSumThreads, a);
}

template <class T, SourceKind kSource>
Result<void> launch_sum(const Stream& stream, SumRows<T> a, std::int64_t count) {
  constexpr int kElements = 16 / static_cast<int>(sizeof(T)), kSize = static_cast<int>(sizeof(T));
  const auto fit = [&a](std::int64_t vectors) {
    a.log2_lanes = 2;  // eight teams per warp at most
    while (a.log2_lanes < 5 && (1 << a.log2_lanes) < vectors) ++a.log2_lanes;
  };
  if constexpr (kSource != SourceKind::chosen) {
    std::int64_t common = reinterpret_cast<std::int64_t>(a.source.data) |
                          reinterpret_cast<std::int64_t>(a.out) | a.row_stride * kSize |
                          a.columns * kSize;
    common |= a.source.rows.stride[0] * kSize;
    if (common % 16 == 0 && a.source.rows.rank == 1 && a.column_stride == 1 &&
        a.source.column_stride == 1) {
      const std::int64_t n = a.columns / kElements;
      fit(n);
      if (n <= 32) return launch_width<T, 16, 1, kSource>(stream, a, count);
      if (n % 96 == 0) return launch_width<T, 16, 3, kSource>(stream, a, count);
      return launch_width<T, 16, 2, kSource>(stream, a, count);
    }
  }
  fit(a.columns);
  if (a.columns <= 32) return launch_width<T, kSize, 1, kSource>(stream, a, count);
  return launch_width<T, kSize, 4, kSource>(stream, a, count);
}

}  // namespace planck::table_device

#define PLANCK_INSTANTIATE(kind)                                                             \
  namespace planck::table_device {                                                           \
  template Result<void> launch_sum<float, SourceKind::kind>(const Stream&, SumRows<float>,   \
                                                            std::int64_t);                   \
  template Result<void> launch_sum<double, SourceKind::kind>(const Stream&, SumRows<double>, \
                                                             std::int64_t);                  \
  template Result<void> launch_sum<f16, SourceKind::kind>(const Stream&, SumRows<f16>,       \
                                                          std::int64_t);                     \
  template Result<void> launch_sum<bf16, SourceKind::kind>(const Stream&, SumRows<bf16>,     \
                                                           std::int64_t);                    \
  }
