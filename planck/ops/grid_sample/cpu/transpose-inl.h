// Lines of channels to rows of positions and back, for use inside a per-target namespace (include
// after hwy/highway.h, within foreach_target's passes).
//
// Squares of 16 in registers where there are 32 of 512 bits: 0.25 shuffles per element (through
// 128-bit squares of 4: 0.5, and twice the loads and stores).
#if defined(PLANCK_GRID_SAMPLE_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_GRID_SAMPLE_TRANSPOSE_INL_H_
#undef PLANCK_GRID_SAMPLE_TRANSPOSE_INL_H_
#else
#define PLANCK_GRID_SAMPLE_TRANSPOSE_INL_H_
#endif

#include <cstdint>

#include "planck/ops/grid_sample/cpu/sample_loops.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3
// v[r] holds row r of a square of 16; afterwards column r.
HWY_INLINE void transpose_square(__m512 (&v)[16]) {
  __m512 a[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
    a[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
  }
  // Groups of four rows, one column in each 128 bits: columns 4 b + j in group b.
  for (int i = 0; i < 16; i += 4) {
    const __m512d p = _mm512_castps_pd(a[i]), q = _mm512_castps_pd(a[i + 1]);
    const __m512d r = _mm512_castps_pd(a[i + 2]), s = _mm512_castps_pd(a[i + 3]);
    v[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(p, r));
    v[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(p, r));
    v[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(q, s));
    v[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(q, s));
  }
  for (int j = 0; j < 4; ++j) {
    const __m512 x = _mm512_shuffle_f32x4(v[j], v[4 + j], 0x88);
    const __m512 y = _mm512_shuffle_f32x4(v[j], v[4 + j], 0xdd);
    const __m512 z = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0x88);
    const __m512 w = _mm512_shuffle_f32x4(v[8 + j], v[12 + j], 0xdd);
    a[j] = _mm512_shuffle_f32x4(x, z, 0x88);
    a[8 + j] = _mm512_shuffle_f32x4(x, z, 0xdd);
    a[4 + j] = _mm512_shuffle_f32x4(y, w, 0x88);
    a[12 + j] = _mm512_shuffle_f32x4(y, w, 0xdd);
  }
  for (int i = 0; i < 16; ++i) v[i] = a[i];
}
HWY_INLINE int interleave_squares(const float* const* lines, int n, float* rows,
                                  std::int64_t stride) {
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    __m512 v[16];
    for (int k = 0; k < 16; ++k) v[k] = _mm512_loadu_ps(lines[k] + i);
    transpose_square(v);
    for (int k = 0; k < 16; ++k) _mm512_storeu_ps(rows + (i + k) * stride, v[k]);
  }
  return i;
}
HWY_INLINE int deinterleave_squares(const float* rows, std::int64_t stride, int n,
                                    float* const* lines, bool stream) {
  for (int k = 0; k < 16; ++k) stream &= reinterpret_cast<std::uintptr_t>(lines[k]) % 64 == 0;
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    __m512 v[16];
    for (int k = 0; k < 16; ++k) v[k] = _mm512_loadu_ps(rows + (i + k) * stride);
    transpose_square(v);
    if (stream)  // whole cache lines, past the caches
      for (int k = 0; k < 16; ++k) _mm512_stream_ps(lines[k] + i, v[k]);
    else
      for (int k = 0; k < 16; ++k) _mm512_storeu_ps(lines[k] + i, v[k]);
  }
  return i;
}
#elif HWY_TARGET != HWY_SCALAR
// Four lines of four to four rows; the same the other way.
HWY_INLINE void transpose_four(const float* const (&from)[4], float* const (&to)[4]) {
  const hn::FixedTag<float, 4> d;
  const auto a = hn::LoadU(d, from[0]), b = hn::LoadU(d, from[1]);
  const auto e = hn::LoadU(d, from[2]), f = hn::LoadU(d, from[3]);
  const auto ab = hn::InterleaveLower(d, a, b), ab2 = hn::InterleaveUpper(d, a, b);
  const auto ef = hn::InterleaveLower(d, e, f), ef2 = hn::InterleaveUpper(d, e, f);
  hn::StoreU(hn::ConcatLowerLower(d, ef, ab), d, to[0]);
  hn::StoreU(hn::ConcatUpperUpper(d, ef, ab), d, to[1]);
  hn::StoreU(hn::ConcatLowerLower(d, ef2, ab2), d, to[2]);
  hn::StoreU(hn::ConcatUpperUpper(d, ef2, ab2), d, to[3]);
}
HWY_INLINE int interleave_squares(const float* const* lines, int n, float* rows,
                                  std::int64_t stride) {
  int i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < kLines; k += 4) {
      float* to = rows + i * stride + k;
      transpose_four({lines[k] + i, lines[k + 1] + i, lines[k + 2] + i, lines[k + 3] + i},
                     {to, to + stride, to + 2 * stride, to + 3 * stride});
    }
  return i;
}
HWY_INLINE int deinterleave_squares(const float* rows, std::int64_t stride, int n,
                                    float* const* lines, bool) {
  int i = 0;
  for (; i + 4 <= n; i += 4)
    for (int k = 0; k < kLines; k += 4) {
      const float* from = rows + i * stride + k;
      transpose_four({from, from + stride, from + 2 * stride, from + 3 * stride},
                     {lines[k] + i, lines[k + 1] + i, lines[k + 2] + i, lines[k + 3] + i});
    }
  return i;
}
#endif
template <class C>
int interleave_squares(const C* const*, int, C*, std::int64_t) {
  return 0;
}
template <class C>
int deinterleave_squares(const C*, std::int64_t, int, C* const*, bool) {
  return 0;
}

template <class C>
void interleave(const C* const* lines, int count, int n, C* rows, std::int64_t stride) {
  if (count == kFewLines && stride == kFewLines) {
    const C *HWY_RESTRICT a = lines[0], *HWY_RESTRICT b = lines[1];
    const C *HWY_RESTRICT c = lines[2], *HWY_RESTRICT d = lines[3];
    C* HWY_RESTRICT to = rows;
    for (int i = 0; i < n; ++i) {
      to[4 * i] = a[i];
      to[4 * i + 1] = b[i];
      to[4 * i + 2] = c[i];
      to[4 * i + 3] = d[i];
    }
    return;
  }
  int i = count == kLines ? interleave_squares(lines, n, rows, stride) : 0;
  for (; i < n; ++i)
    for (int k = 0; k < count; ++k) rows[i * stride + k] = lines[k][i];
}

template <class C>
void deinterleave(const C* rows, std::int64_t stride, int count, int n, C* const* lines,
                  bool stream) {
  if (count == kFewLines && stride == kFewLines) {
    C *HWY_RESTRICT a = lines[0], *HWY_RESTRICT b = lines[1];
    C *HWY_RESTRICT c = lines[2], *HWY_RESTRICT d = lines[3];
    const C* HWY_RESTRICT from = rows;
    for (int i = 0; i < n; ++i) {
      a[i] = from[4 * i];
      b[i] = from[4 * i + 1];
      c[i] = from[4 * i + 2];
      d[i] = from[4 * i + 3];
    }
    return;
  }
  int i = count == kLines ? deinterleave_squares(rows, stride, n, lines, stream) : 0;
  for (; i < n; ++i)
    for (int k = 0; k < count; ++k) lines[k][i] = rows[i * stride + k];
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
