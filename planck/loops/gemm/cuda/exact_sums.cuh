// The sums of digits that a lane of an exact product has, from registers to C or to integers.
#pragma once

#include "planck/loops/gemm/cuda/exact_round.cuh"

namespace planck::gemm_device {

// What d = 4, 3, 2 add up to, s2 2^16 + s3 2^8 + s4: its three lowest bytes are settled, and what
// is above is where the sum of d = 1 begins.
template <int kCount>
struct SettledBytes {
  std::uint32_t low[kCount / 2], third[kCount / 4];  // two bytes of two elements, one of four

  __device__ __forceinline__ void carry(const std::int32_t (&s4)[kCount],
                                        const std::int32_t (&s3)[kCount],
                                        const std::int32_t (&s2)[kCount],
                                        std::int32_t (&s1)[kCount]) {
#pragma unroll
    for (int g = 0; g < kCount; g += 4) {
      std::uint32_t two[4], high[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int32_t m = s3[g + i] + (s4[g + i] >> 8), h = s2[g + i] + (m >> 8);
        two[i] = __byte_perm(static_cast<std::uint32_t>(s4[g + i]), static_cast<std::uint32_t>(m),
                             0x0040);
        high[i] = static_cast<std::uint32_t>(h);
        s1[g + i] = h >> 8;
      }
      low[g / 2] = __byte_perm(two[0], two[1], 0x5410);
      low[g / 2 + 1] = __byte_perm(two[2], two[3], 0x5410);
      third[g / 4] = __byte_perm(__byte_perm(high[0], high[1], 0x0040),
                                 __byte_perm(high[2], high[3], 0x0040), 0x5410);
    }
  }
  // Element i of the whole sum.
  __device__ __forceinline__ std::int64_t joined(int i, std::int32_t s1, std::int32_t s0) const {
    const std::uint32_t above = __byte_perm(third[i / 4], static_cast<std::uint32_t>(s1),
                                            static_cast<unsigned>(i % 4) | 4 << 4);
    return static_cast<std::int64_t>(
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(s0 + (s1 >> 8))) << 32 |
        __byte_perm(low[i / 2], above, i % 2 == 0 ? 0x5410 : 0x5432));
  }
};

// A lane's sums rounded to C, two neighbours at a time, where powers of two do it.
template <int kCount>
struct RoundedPairs {
  static constexpr bool kNeverNan = true;
  const SettledBytes<kCount>& settled;
  const std::int32_t (&s1)[kCount], (&s0)[kCount];
  const ExactScales& scales;
  const float* of_columns;

  // Columns 8 j + lane % 4 * 2 and the next, of row lane / 4 + 8 h.
  __device__ __forceinline__ float2 operator()(int j, int h) const {
    return rounded(j, h, of_pair(j));
  }
  __device__ __forceinline__ float2 of_pair(int j) const {
    return *reinterpret_cast<const float2*>(of_columns + 8 * j + threadIdx.x % 4 * 2);
  }
  __device__ __forceinline__ float2 rounded(int j, int h, float2 by) const {
    const int i = 4 * j + 2 * h;
    const auto rounded = [&](int at, float of_column) {
      return __ll2float_rn(settled.joined(at, s1[at], s0[at])) * scales.of_row[h] * of_column;
    };
    return {rounded(i, by.x), rounded(i + 1, by.y)};
  }
};

// Whether all that a warp has goes to C from where it is: whole tiles of dense rows, and a bias and
// a residual at most, which lie likewise.
template <int kColumns>
__device__ __forceinline__ bool stores_pairs(const FollowedArgs<float>& p, int row, int column) {
  const Following<float>& f = p.follows;
  return p.c_packs && row + 16 <= p.m && column + kColumns <= p.n &&
         f.activation == Activation::none &&
         (f.bias.data == nullptr || (f.bias.packs && f.bias.row == 0)) &&
         (f.residual.data == nullptr || f.residual.packs);
}
// Arithmetic makes one NaN, 7fffffff: above the canonical one, and that above infinity.
__device__ __forceinline__ float2 sum_of(const float2& a, const float2& b) {
  const auto sum = [](float x, float y) {
    return __int_as_float(min(__float_as_int(x + y), 0x7fc00000));
  };
  return {sum(a.x, b.x), sum(a.y, b.y)};
}
// The residual of kAhead pairs of columns is on its way while those before are rounded.
template <bool kBias, bool kResidual, int kCount>
__device__ __forceinline__ void store_pairs(const RoundedPairs<kCount>& pairs,
                                            const FollowedArgs<float>& p, int row, int column,
                                            int batch) {
  constexpr int kAhead = 4, kPairs = kCount / 4;
  const int lane = static_cast<int>(threadIdx.x % 32), c0 = column + lane % 4 * 2;
  const int first = row + lane / 4;
  float* const to = p.c + batch * p.c_batch + first * p.c_row + c0;
  float* const lines[2] = {to, to + 8 * p.c_row};
  const Following<float>& f = p.follows;
  const float* const bias = kBias ? f.bias.at(0, 0, c0) : nullptr;
  const float* const residual = kResidual ? f.residual.at(batch, first, c0) : nullptr;
  const float* const residuals[2] = {residual, residual + (kResidual ? 8 * f.residual.row : 0)};
  float2 ahead[kAhead][2];
  const auto fetch = [&](int j) {
    if constexpr (kResidual)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        ahead[j % kAhead][h] = __ldg(reinterpret_cast<const float2*>(residuals[h] + 8 * j));
  };
#pragma unroll
  for (int j = 0; j < kAhead; ++j) fetch(j);
#pragma unroll
  for (int j = 0; j < kPairs; ++j) {
    const float2 by = pairs.of_pair(j);
    float2 b = {};
    if constexpr (kBias) b = __ldg(reinterpret_cast<const float2*>(bias + 8 * j));
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float2 v = pairs.rounded(j, h, by);
      if constexpr (kBias) v = sum_of(v, b);
      if constexpr (kResidual) v = sum_of(v, ahead[j % kAhead][h]);
      *reinterpret_cast<float2*>(lines[h] + 8 * j) = v;
    }
    if (j + kAhead < kPairs) fetch(j + kAhead);
  }
}

template <int kCount>
__device__ __forceinline__ void store_pairs(const RoundedPairs<kCount>& pairs,
                                            const FollowedArgs<float>& p, int row, int column,
                                            int batch) {
  const bool biased = p.follows.bias.data != nullptr;
  if (p.follows.residual.data != nullptr) {
    if (biased)
      store_pairs<true, true>(pairs, p, row, column, batch);
    else
      store_pairs<false, true>(pairs, p, row, column, batch);
  } else if (biased) {
    store_pairs<true, false>(pairs, p, row, column, batch);
  } else {
    store_pairs<false, false>(pairs, p, row, column, batch);
  }
}

// A lane's sums, two neighbours at a time, to rows of integers, of which so many rows and columns
// are there; added to what lies there, or as they are. `to` is where a warp's begin.
template <int kCount>
__device__ __forceinline__ void store_sums(const SettledBytes<kCount>& settled,
                                           const std::int32_t (&s1)[kCount],
                                           const std::int32_t (&s0)[kCount], std::int64_t* to,
                                           std::int64_t to_row, int rows, int columns, bool adds) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int r = lane / 4 + 8 * h;
    if (r >= rows) return;
    std::int64_t* const line = to + r * to_row + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int i = 4 * j + 2 * h + c;
        if (8 * j + lane % 4 * 2 + c >= columns) continue;
        std::int64_t v = settled.joined(i, s1[i], s0[i]);
        if (adds) v += line[8 * j + c];
        line[8 * j + c] = v;
      }
  }
}

// What a warp leaves of a part of a tile: its rows, by pairs of neighbours in the order in which
// lanes have them, so that what all store at once lies side by side.
inline constexpr int kPartRows = 16;
struct PlaceInPart {
  int row, column;
  __device__ __forceinline__ explicit PlaceInPart(int pair)
      : row(pair % 32 / 4 + pair / 32 % 2 * 8), column(pair / 64 * 8 + pair % 4 * 2) {}
};
template <int kCount>
__device__ __forceinline__ void store_part(const SettledBytes<kCount>& settled,
                                           const std::int32_t (&s1)[kCount],
                                           const std::int32_t (&s0)[kCount], std::int64_t* to) {
  auto* const pairs = reinterpret_cast<longlong2*>(to) + threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kCount; i += 2)
    pairs[i / 2 * 32] = {settled.joined(i, s1[i], s0[i]),
                         settled.joined(i + 1, s1[i + 1], s0[i + 1])};
}

}  // namespace planck::gemm_device
