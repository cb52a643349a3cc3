#include "tools/planck/checkpoint/quantization_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "planck/loops/parallel.h"

namespace planck::cli {

namespace {

constexpr std::int64_t kBlock = 1 << 16;
constexpr std::int64_t kLanes = 8;

template <class T>
QuantizationError block_error(const T* x, const T* y, std::int64_t n) {
  QuantizationError lane[kLanes];
  const auto add = [&](std::int64_t i, std::int64_t l) {
    const double v = static_cast<double>(x[i]);
    const bool finite = v - v == 0;
    const double kept = finite ? v : 0, off = finite ? v - static_cast<double>(y[i]) : 0;
    lane[l].signal += kept * kept;
    lane[l].noise += off * off;
    // Not std::max: a NaN in y must come through.
    lane[l].max_abs = std::abs(off) <= lane[l].max_abs ? lane[l].max_abs : std::abs(off);
    lane[l].non_finite += finite ? 0 : 1;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l) add(i + l, l);
  for (; i < n; ++i) add(i, i % kLanes);
  QuantizationError sum;
  for (const QuantizationError& e : lane) {
    sum.signal += e.signal;
    sum.noise += e.noise;
    sum.max_abs = e.max_abs <= sum.max_abs ? sum.max_abs : e.max_abs;
    sum.non_finite += e.non_finite;
  }
  return sum;
}

}  // namespace

double QuantizationError::sqnr_db() const {
  return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

QuantizationError quantization_error(const Stream& stream, const View& x, const View& y) {
  const std::int64_t n = numel(x.shape), blocks = (n + kBlock - 1) / kBlock;
  std::vector<QuantizationError> parts(static_cast<std::size_t>(blocks));
  visit_float(x.dtype, [&]<class T>(std::type_identity<T>) {
    parallel_for(stream, blocks, [&](std::int64_t b) {
      const std::int64_t begin = b * kBlock;
      parts[static_cast<std::size_t>(b)] =
          block_error(static_cast<const T*>(x.data) + begin, static_cast<const T*>(y.data) + begin,
                      std::min(kBlock, n - begin));
    });
  });
  QuantizationError sum;
  for (const QuantizationError& e : parts) {
    sum.signal += e.signal;
    sum.noise += e.noise;
    sum.max_abs = e.max_abs <= sum.max_abs ? sum.max_abs : e.max_abs;
    sum.non_finite += e.non_finite;
  }
  return sum;
}

}  // namespace planck::cli
