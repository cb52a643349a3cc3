#include "planck/ops/conv/runs.cpu.h"

#include <cstring>

#include "planck/loops/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/conv/runs.cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using conv_detail::Run;

// Whole vectors: what a run writes too much is overwritten by the next one, or by the next k.
template <class T>
HWY_INLINE void pack_floats(const T* HWY_RESTRICT image, const std::int64_t* at, std::int64_t k,
                            const Run* runs, int count, int width, T* HWY_RESTRICT out) {
  const hn::ScalableTag<T> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (std::int64_t i = 0; i < k; ++i, out += width) {
    const T* base = image + at[i];
    for (int r = 0; r < count; ++r) {
      const T* from = base + runs[r].from;
      T* to = out + runs[r].lane;
      for (int n = 0; n < runs[r].length; n += lanes) hn::StoreU(hn::LoadU(d, from + n), d, to + n);
    }
  }
}

}  // namespace

void pack_f32(const float* image, const std::int64_t* at, std::int64_t k, const Run* runs,
              int count, int width, float* out) {
  pack_floats(image, at, k, runs, count, width, out);
}
void pack_f64(const double* image, const std::int64_t* at, std::int64_t k, const Run* runs,
              int count, int width, double* out) {
  pack_floats(image, at, k, runs, count, width, out);
}

void pack_s8(const std::int8_t* image, const std::int64_t* at, std::int64_t k, const Run* runs,
             int count, int width, std::int32_t* out) {
  for (std::int64_t i = 0; i < k; i += 2, out += width)
    for (int r = 0; r < count; ++r) {
      const std::int8_t* low = image + at[i] + runs[r].from;
      const std::int8_t* high = i + 1 < k ? image + at[i + 1] + runs[r].from : nullptr;
      std::int32_t* to = out + runs[r].lane;
      for (int n = 0; n < runs[r].length; ++n)
        to[n] = static_cast<std::int32_t>(
            (high == nullptr ? 0u : static_cast<std::uint32_t>(high[n]) << 16) |
            (static_cast<std::uint32_t>(low[n]) & 0xffffu));
    }
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(pack_f32);
HWY_EXPORT(pack_f64);
HWY_EXPORT(pack_s8);

namespace conv_detail {

void pack_runs(const float* image, const std::int64_t* at, std::int64_t k, const Run* runs,
               int count, int width, float* out) {
  HWY_DYNAMIC_DISPATCH(pack_f32)(image, at, k, runs, count, width, out);
}
void pack_runs(const double* image, const std::int64_t* at, std::int64_t k, const Run* runs,
               int count, int width, double* out) {
  HWY_DYNAMIC_DISPATCH(pack_f64)(image, at, k, runs, count, width, out);
}
void pack_runs(const std::int8_t* image, const std::int64_t* at, std::int64_t k, const Run* runs,
               int count, int width, std::int32_t* out) {
  HWY_DYNAMIC_DISPATCH(pack_s8)(image, at, k, runs, count, width, out);
}

}  // namespace conv_detail
}  // namespace planck
#endif
