// Forward, in the registers that a product left scores in: they become powers and then weights of
// the next product; what a lane knows of its rows meanwhile; results.
#pragma once

#include "planck/ops/attention/cuda/options.cuh"
#include "planck/ops/attention/cuda/tiles.cuh"

namespace planck::attention_device {

// Blocks of keys that somebody sees, of `rows` queries from i on.
struct Blocks {
  int first, end;

  __device__ static Blocks seen(const Call& c, Index i, int rows) {
    const Range low = keys_of(c, i), high = keys_of(c, min(i + rows, c.queries) - 1);
    return {static_cast<int>(low.first) / element::kBlock,
            (static_cast<int>(high.end) + element::kBlock - 1) / element::kBlock};
  }
};

// What a lane knows of its two rows.
struct Rows2 {
  int i[2];
  int first[2], end[2];  // keys that they see
  float largest[2];
  float sums[2][2];  // of powers: of the keys' eight, the two of this lane

  __device__ Rows2(const Call& c, int row) {
    const float hidden = -math::infinity_of(0.0f);
    for (int h = 0; h < 2; ++h) {
      i[h] = row + 8 * h;
      const Range seen = i[h] < c.queries ? keys_of(c, i[h]) : Range{0, 0};
      first[h] = static_cast<int>(seen.first), end[h] = static_cast<int>(seen.end);
      largest[h] = hidden, sums[h][0] = sums[h][1] = 0;
    }
  }
  __device__ bool see_all(int from, int to) const {
    const bool all = first[0] <= from && to <= end[0] && first[1] <= from && to <= end[1];
    return __all_sync(0xffffffffu, all);
  }
};

// What a new largest score makes of earlier sums: factor is what they are multiplied with.
__device__ __forceinline__ void meet(Rows2& rows, const float (&largest)[2], float (&factor)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    factor[h] = element::power(rows.largest[h] - largest[h]);
    rows.largest[h] = largest[h];
    rows.sums[h][0] *= factor[h], rows.sums[h][1] *= factor[h];
  }
}

// What scores of a block of keys are below the largest that the row has seen, z: may be s itself.
template <class W>
__device__ __forceinline__ void take_depths_of_some(const Call& c, const Where& at, Rows2& rows,
                                                    const float (&s)[W::kKeys / 2],
                                                    float (&z)[W::kKeys / 2], int start,
                                                    float scale, float (&factor)[2]) {
  const float hidden = -math::infinity_of(0.0f);
  const int column = start + static_cast<int>(threadIdx.x) % 4 * 2;
  float largest[2] = {rows.largest[0], rows.largest[1]};
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; ++x) {
    const int h = row_of(x), j = column + column_of(x);
    const bool sees = rows.first[h] <= j && j < rows.end[h];
    if constexpr (W::kOptions)
      z[x] =
          sees ? score_with_options<typename W::T>(c, s[x], at.n, at.head, rows.i[h], j) : hidden;
    else
      z[x] = sees ? element::score(s[x], scale) : hidden;
    largest[h] = larger_or_nan(largest[h], z[x]);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h)
    for (int by = 1; by < 4; by *= 2)
      largest[h] = larger_or_nan(largest[h], __shfl_xor_sync(0xffffffffu, largest[h], by));
  meet(rows, largest, factor);
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; ++x) z[x] -= largest[row_of(x)];
}

// Whether every score of a block that all rows see is near enough to the row's largest to have a
// power: then `largest` is that. Products with a positive scale keep the order of sums.
__device__ __forceinline__ bool are_near(const Rows2& rows, const float (&most)[2],
                                         const float (&least)[2], float scale,
                                         float (&largest)[2]) {
  bool near = true;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    largest[h] = larger_or_nan(rows.largest[h], element::score(most[h], scale));
    near = near && element::score(least[h], scale) - largest[h] >= -math::kTermNear;
  }
  return __all_sync(0xffffffffu, near);
}

// By comparing bits, three numbers at once: of signed integers the largest is the largest number,
// where one is not below 0, and of unsigned ones it is the least number, where one is below 0. A
// row of negative numbers alone is for find_largest. NaN is the largest in one of both ways.
template <class W>
__device__ __forceinline__ bool find_largest_bits(const Rows2& rows, const float (&s)[W::kKeys / 2],
                                                  float scale, float (&largest)[2]) {
  constexpr int kChains = 2;  // of each row
  int high[2][kChains];
  unsigned low[2][kChains];
#pragma unroll
  for (int h = 0; h < 2; ++h)
#pragma unroll
    for (int chain = 0; chain < kChains; ++chain) high[h][chain] = INT32_MIN, low[h][chain] = 0;
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; x += 2) {
    const int h = row_of(x), chain = x / 4 % kChains;
    high[h][chain] = __vimax3_s32(high[h][chain], __float_as_int(s[x]), __float_as_int(s[x + 1]));
    low[h][chain] = __vimax3_u32(low[h][chain], __float_as_uint(s[x]), __float_as_uint(s[x + 1]));
  }
  float most[2], least[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    int m = max(high[h][0], high[h][1]);
    for (int by = 1; by < 4; by *= 2) m = max(m, __shfl_xor_sync(0xffffffffu, m, by));
    most[h] = m < 0 ? math::nan_of(0.0f) : __int_as_float(m);
    least[h] = smaller_or_nan(__uint_as_float(max(low[h][0], low[h][1])), 0.0f);
  }
  return are_near(rows, most, least, scale, largest);
}

template <class W>
__device__ __forceinline__ bool find_largest(const Rows2& rows, const float (&s)[W::kKeys / 2],
                                             float scale, float (&largest)[2]) {
  constexpr int kChains = 4;  // of each row, so that comparisons do not wait for one another
  float high[2][kChains], low[2][kChains], most[2], least[2];
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; ++x) {
    const int h = row_of(x), chain = (x / 4 + x % 2 * 2) % kChains;
    high[h][chain] = x < 8 ? s[x] : fmaxf(high[h][chain], s[x]);
    low[h][chain] = x < 8 ? s[x] : smaller_or_nan(low[h][chain], s[x]);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    least[h] =
        smaller_or_nan(smaller_or_nan(low[h][0], low[h][1]), smaller_or_nan(low[h][2], low[h][3]));
    most[h] = fmaxf(fmaxf(high[h][0], high[h][1]), fmaxf(high[h][2], high[h][3]));
    for (int by = 1; by < 4; by *= 2)
      most[h] = fmaxf(most[h], __shfl_xor_sync(0xffffffffu, most[h], by));
  }
  return are_near(rows, most, least, scale, largest);
}

// The same of a block that all rows see, with scale > 0 and no score so low that its power is 0: if
// so, fewer instructions for each. A scale that is a power of two multiplies without rounding,
// which a fused multiply-add does as well.
template <class W>
__device__ __forceinline__ bool take_depths_of_all(Rows2& rows, const float (&s)[W::kKeys / 2],
                                                   float (&z)[W::kKeys / 2], float scale,
                                                   bool rounds, float (&factor)[2]) {
  float largest[2];
  if (!find_largest_bits<W>(rows, s, scale, largest) && !find_largest<W>(rows, s, scale, largest))
    return false;
  meet(rows, largest, factor);
  if (rounds) {
#pragma unroll
    for (int x = 0; x < W::kKeys / 2; ++x) z[x] = element::score(s[x], scale) - largest[row_of(x)];
  } else {
#pragma unroll
    for (int x = 0; x < W::kKeys / 2; ++x) z[x] = math::fma_of(s[x], scale, -largest[row_of(x)]);
  }
  return true;
}

struct Scale {
  float value;
  bool rounds;  // a product with it

  __device__ explicit Scale(const Call& c)
      : value(static_cast<float>(c.scale)), rounds((math::bits_of(value) & 0x7fffffu) != 0) {}
};
// Scores of a block become powers. What nearly always happens is one branch to the end: its
// instructions follow one another, and are fetched in time.
template <class W>
__device__ __forceinline__ void take_powers(const Call& c, const Where& at, Rows2& rows,
                                            float (&s)[W::kKeys / 2], int start, const Scale& scale,
                                            float (&factor)[2]) {
  if (!W::kOptions && scale.value > 0 && rows.see_all(start, start + W::kKeys) &&
      take_depths_of_all<W>(rows, s, s, scale.value, scale.rounds, factor)) {
#pragma unroll
    for (int x = 0; x < W::kKeys / 2; ++x) s[x] = math::exp_term_near(s[x]);
  } else {
    take_depths_of_some<W>(c, at, rows, s, s, start, scale.value, factor);
#pragma unroll
    for (int x = 0; x < W::kKeys / 2; ++x) s[x] = element::power(s[x]);
  }
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; ++x) rows.sums[row_of(x)][x % 2] += s[x];
  wgmma_hold(s);  // done before anything is awaited
}

template <class W>
__device__ __forceinline__ void take_weights(const Call& c, const Where& at, const Rows2& rows,
                                             std::uint32_t (&weights)[W::kKeys / 4],
                                             float (&s)[W::kKeys / 2], int start) {
  if constexpr (W::kOptions)
    if (c.drops)
#pragma unroll
      for (int x = 0; x < W::kKeys / 2; ++x)
        if (const int j = start + static_cast<int>(threadIdx.x) % 4 * 2 + column_of(x);
            !stays(c, at.n, at.head, rows.i[row_of(x)], j))
          s[x] = 0;
  round_weights<typename W::T>(weights, s);
}

// What a new largest score makes of earlier sums.
template <int kWidth>
__device__ __forceinline__ void rescale(float (&sums)[kWidth / 2], const float (&factor)[2]) {
  if (__any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f))
#pragma unroll
    for (int x = 0; x < kWidth / 2; ++x) sums[x] *= factor[row_of(x)];
}

// The results of a warp's 16 rows, from `row` on. Gives a bit for each that is to be done again.
template <class W>
__device__ __forceinline__ unsigned finish_rows(const Call& c, const Where& at, const Rows2& rows,
                                                int row, const float (&sums)[W::kWidth / 2],
                                                char* piece) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float of_row[2];
  bool may[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float l = rows.sums[h][0] + rows.sums[h][1];
    for (int by = 1; by < 4; by *= 2) l += __shfl_xor_sync(0xffffffffu, l, by);
    const float m = rows.largest[h];
    of_row[h] = element::row_factor(m, l);
    if (W::kOptions && c.drops) of_row[h] *= enlarged<float>(c);
    may[h] = m < math::infinity_of(0.0f);
    if (lane % 4 == 0 && rows.i[h] < c.queries)
      *const_cast<float*>(at_row<float>(c.lse, at.n, at.head, rows.i[h])) =
          element::log_sum_exp(m, l);
  }
  return store_results<typename W::T, W::kWidth>(
      c.y, at, row, static_cast<int>(c.queries), c.out_width, c.packs, may, piece,
      [&](int x) { return element::result(sums[x], of_row[row_of(x)]); });
}

}  // namespace planck::attention_device
