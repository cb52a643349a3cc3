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

// Largest scores of all lanes that share a row; what earlier sums are multiplied with.
__device__ __forceinline__ void meet(Rows2& rows, float (&largest)[2], float (&factor)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    for (int by = 1; by < 4; by *= 2)
      largest[h] = larger_or_nan(largest[h], __shfl_xor_sync(0xffffffffu, largest[h], by));
    factor[h] = element::power(rows.largest[h] - largest[h]);
    rows.largest[h] = largest[h];
    rows.sums[h][0] *= factor[h], rows.sums[h][1] *= factor[h];
  }
}

// Scores of a block of keys become powers, s in place.
template <class W>
__device__ __forceinline__ void take_powers_of_some(const Call& c, const Where& at, Rows2& rows,
                                                    float (&s)[W::kKeys / 2], int start,
                                                    float scale, float (&factor)[2]) {
  const float hidden = -math::infinity_of(0.0f);
  const int column = start + static_cast<int>(threadIdx.x) % 4 * 2;
  float largest[2] = {rows.largest[0], rows.largest[1]};
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; ++x) {
    const int h = row_of(x), j = column + column_of(x);
    const bool sees = rows.first[h] <= j && j < rows.end[h];
    if constexpr (W::kOptions)
      s[x] =
          sees ? score_with_options<typename W::T>(c, s[x], at.n, at.head, rows.i[h], j) : hidden;
    else
      s[x] = sees ? element::score(s[x], scale) : hidden;
    largest[h] = larger_or_nan(largest[h], s[x]);
  }
  meet(rows, largest, factor);
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; ++x) {
    s[x] = element::power(s[x] - largest[row_of(x)]);
    rows.sums[row_of(x)][x % 2] += s[x];
  }
}

// The same of a block that all rows see, with scale > 0 and no score so low that its power is 0: if
// so, two instructions fewer for each. A scale that is a power of two multiplies without rounding,
// which a fused multiply-add does as well. Products with a positive scale keep the order of sums.
template <class W>
__device__ __forceinline__ bool take_powers_of_all(Rows2& rows, float (&s)[W::kKeys / 2],
                                                   float scale, bool rounds, float (&factor)[2]) {
  constexpr int kChains = 4;  // of each row, so that comparisons do not wait for one another
  float most[2][kChains], least[2][kChains], largest[2];
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; ++x) {
    const int h = row_of(x), chain = (x / 4 + x % 2 * 2) % kChains;
    most[h][chain] = x < 8 ? s[x] : fmaxf(most[h][chain], s[x]);
    least[h][chain] = x < 8 ? s[x] : smaller_or_nan(least[h][chain], s[x]);
  }
  bool near = true;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float low = smaller_or_nan(smaller_or_nan(least[h][0], least[h][1]),
                               smaller_or_nan(least[h][2], least[h][3]));
    largest[h] = fmaxf(fmaxf(most[h][0], most[h][1]), fmaxf(most[h][2], most[h][3]));
    for (int by = 1; by < 4; by *= 2)
      largest[h] = fmaxf(largest[h], __shfl_xor_sync(0xffffffffu, largest[h], by));
    largest[h] = larger_or_nan(rows.largest[h], element::score(largest[h], scale));
    near = near && element::score(low, scale) - largest[h] >= -math::kTermNear;
  }
  if (!__all_sync(0xffffffffu, near)) return false;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    factor[h] = element::power(rows.largest[h] - largest[h]);
    rows.largest[h] = largest[h];
    rows.sums[h][0] *= factor[h], rows.sums[h][1] *= factor[h];
  }
  if (rounds) {
#pragma unroll
    for (int x = 0; x < W::kKeys / 2; ++x)
      s[x] = math::exp_term_near(element::score(s[x], scale) - largest[row_of(x)]);
  } else {
#pragma unroll
    for (int x = 0; x < W::kKeys / 2; ++x)
      s[x] = math::exp_term_near(math::fma_of(s[x], scale, -largest[row_of(x)]));
  }
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; ++x) rows.sums[row_of(x)][x % 2] += s[x];
  return true;
}

struct Scale {
  float value;
  bool rounds;  // a product with it

  __device__ explicit Scale(const Call& c)
      : value(static_cast<float>(c.scale)), rounds((math::bits_of(value) & 0x7fffffu) != 0) {}
};
template <class W>
__device__ __forceinline__ void take_powers(const Call& c, const Where& at, Rows2& rows,
                                            float (&s)[W::kKeys / 2], int start, const Scale& scale,
                                            float (&factor)[2]) {
  const bool fast = !W::kOptions && scale.value > 0 && rows.see_all(start, start + W::kKeys) &&
                    take_powers_of_all<W>(rows, s, scale.value, scale.rounds, factor);
  if (!fast) take_powers_of_some<W>(c, at, rows, s, start, scale.value, factor);
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

// The results of a warp's 16 rows, from `row` on, and which of them are to be done again.
template <class W>
__device__ __forceinline__ void finish_rows(const Call& c, const Where& at, const Rows2& rows,
                                            int row, const float (&sums)[W::kWidth / 2],
                                            char* piece, const ChosenRows& again) {
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
  const unsigned nan = store_results<typename W::T, W::kWidth>(
      c.y, at, row, static_cast<int>(c.queries), c.out_width, c.packs, may, piece,
      [&](int x) { return element::result(sums[x], of_row[row_of(x)]); });
  if (lane == 0) again.set(at.n * c.heads + at.head, row, nan);
}

}  // namespace planck::attention_device
