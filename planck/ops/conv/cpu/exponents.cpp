#include "planck/ops/conv/cpu/exponents.h"

#include <algorithm>
#include <array>

#include "planck/loops/parallel.h"

namespace planck::conv_detail {

void find_magnitudes(const Stream& stream, const View& v, Magnitude* out) {
  const auto [b, h, w] = std::array{v.shape[1], v.shape[2], v.shape[3]};
  const Strides& s = v.strides;
  const auto* const data = static_cast<const float*>(v.data);
  const std::int64_t planes = v.shape[0] * b;
  std::fill_n(out, planes, Magnitude{});
  if (s[1] == 1 && s[3] != 1) {  // channels lie side by side
    parallel_for(stream, v.shape[0], [&](std::int64_t n) {
      for (std::int64_t i = 0; i < h; ++i)
        for (std::int64_t j = 0; j < w; ++j) {
          const float* const from = data + n * s[0] + i * s[2] + j * s[3];
          for (std::int64_t c = 0; c < b; ++c) out[n * b + c].add(from[c]);
        }
    });
    return;
  }
  const std::int64_t together =
      std::max<std::int64_t>(1, (1 << 14) / std::max<std::int64_t>(1, h * w));
  parallel_for(stream, (planes + together - 1) / together, [&](std::int64_t task) {
    const std::int64_t end = std::min(planes, (task + 1) * together);
    for (std::int64_t t = task * together; t < end; ++t) {
      const float* const from = data + t / b * s[0] + t % b * s[1];
      Magnitude most;
      for (std::int64_t i = 0; i < h; ++i)
        for (std::int64_t j = 0; j < w; ++j) most.add(from[i * s[2] + j * s[3]]);
      out[t] = most;
    }
  });
}

}  // namespace planck::conv_detail
