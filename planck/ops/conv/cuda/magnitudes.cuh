// Exponents of exact convolutions on the device: the largest finite magnitudes of what shares one,
// and whether there is NaN or an infinity beside them.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/cuda/division.cuh"
#include "planck/math/products/exact_product.h"
#include "planck/ops/conv/cuda/layout.h"
#include "planck/ops/conv/cuda/operands.cuh"

namespace planck::conv_device {

// Plane [a, b] of a tensor of four axes belongs to
//   key = a · per_a + a / a_group · per_a_group + b / b_group · per_b.
struct MagnitudeKeys {
  std::int64_t per_a, a_group, per_a_group, b_group, per_b;
  PLANCK_HD std::int64_t of(std::int64_t a, std::int64_t b) const {
    return a * per_a + a / a_group * per_a_group + b / b_group * per_b;
  }
};

// The image of y and dx; its weight; an operand of dweight.
inline MagnitudeKeys keys_of_images(std::int64_t groups, std::int64_t channels_in_group) {
  return {groups, 1, 0, std::max<std::int64_t>(channels_in_group, 1), 1};
}
inline MagnitudeKeys keys_of_weights(const ConvProblem& p) {
  if (p.kind == ConvKind::conv2d) return {1, 1, 0, 1, 0};
  return {0, std::max<std::int64_t>(p.filters(), 1), p.channels(), 1, 1};
}
inline MagnitudeKeys keys_of_channels() { return {0, 1, 0, 1, 1}; }

struct Magnitudes {
  std::uint32_t* largest;  // [key]: bits
  std::uint32_t* odd;      // [key]: 1 where there is NaN or an infinity
  Magnitudes(void* data, std::int64_t keys)
      : largest(static_cast<std::uint32_t*>(data)), odd(largest + keys) {}
  __device__ int exponent(std::int64_t key) const { return math::exact::exponent_of(largest[key]); }
};

// A block for each plane and 4,096 of its elements.
inline constexpr int kMagnitudeThreads = 128, kMagnitudePart = 4096;
inline __global__ void find_magnitudes(Tensor4 x, std::int64_t planes_b, std::int64_t height,
                                       std::int64_t width, std::int64_t parts, MagnitudeKeys keys,
                                       Magnitudes out) {
  const std::int64_t plane = blockIdx.x / parts, part = blockIdx.x % parts;
  const std::int64_t a = plane / planes_b, b = plane % planes_b;
  const std::int64_t end = min(height * width, (part + 1) * kMagnitudePart);
  std::uint32_t most = 0, odd = 0;
  for (std::int64_t e = part * kMagnitudePart + threadIdx.x; e < end; e += kMagnitudeThreads) {
    const std::uint32_t m = math::exact::magnitude_of(x.at<float>(a, b, e / width, e % width));
    if (m < 0x7f800000u)
      most = max(most, m);
    else
      odd = 1;
  }
  most = __reduce_max_sync(0xffffffffu, most);
  odd = __reduce_or_sync(0xffffffffu, odd);
  if (threadIdx.x % 32 != 0) return;
  atomicMax(out.largest + keys.of(a, b), most);
  if (odd != 0) atomicOr(out.odd + keys.of(a, b), 1u);
}

// The elements of keys as runs that lie side by side: key a · inner + b begins at
// a · outer_step + b · inner_step, and its runs of `length` lie `step` apart. Or keys lie side by
// side (across), with one element of each every `step`.
struct MagnitudeRuns {
  const float* data = nullptr;
  std::int64_t keys = 0, inner = 1, outer_step = 0, inner_step = 0, step = 0;
  std::uint32_t elements = 0, parts = 1;  // of a key; blocks for it
  Divisor length;
  bool packs = false;  // four at a time
  bool across = false;
  __host__ __device__ std::int64_t blocks() const {
    return (across ? (keys + 31) / 32 : keys) * parts;
  }
};

inline constexpr int kRunThreads = 256, kRunPart = 8192;

// The runs of a tensor, of which axes 0 and 1 say the key, if there are such.
inline std::optional<MagnitudeRuns> runs_of(const View& v, const MagnitudeKeys& keys,
                                            std::int64_t count) {
  if (numel(v.shape) == 0) return MagnitudeRuns{};
  struct Axis {
    std::int64_t extent, stride;
  };
  const Strides& s = v.strides;
  MagnitudeRuns r;
  r.data = static_cast<const float*>(v.data), r.keys = count;
  std::vector<Axis> rest = {{v.shape[3], s[3]}, {v.shape[2], s[2]}};
  // Each axis is all key, all summed over, or a key of groups of neighbours.
  const std::int64_t a = v.shape[0], b = v.shape[1];
  std::int64_t key_a = keys.per_a != 0 ? a : 1, key_b = 1;
  if (keys.per_a_group != 0) key_a = ceil_div(a, keys.a_group);
  if (keys.per_b != 0) key_b = ceil_div(b, keys.b_group);
  if (key_a * key_b != count) return std::nullopt;
  rest.push_back({b / key_b, s[1]}), rest.push_back({a / key_a, s[0]});
  r.inner = key_b, r.outer_step = a / key_a * s[0], r.inner_step = b / key_b * s[1];
  std::erase_if(rest, [](const Axis& x) { return x.extent == 1; });
  std::sort(rest.begin(), rest.end(), [](auto& x, auto& y) { return x.stride < y.stride; });
  std::vector<Axis> merged = {{1, 1}};
  for (const Axis& x : rest) {
    if (x.stride <= 0) return std::nullopt;
    Axis& last = merged.back();
    if (x.stride == last.stride * last.extent)
      last.extent *= x.extent;
    else
      merged.push_back(x);
  }
  const std::int64_t runs = merged.size() > 1 ? merged[1].extent : 1;
  const std::int64_t elements = merged[0].extent * runs;
  if (merged.size() > 2 || elements >= kDivisorLimit / 2) return std::nullopt;
  r.step = merged.size() > 1 ? merged[1].stride : 0;
  r.elements = static_cast<std::uint32_t>(elements);
  r.length = Divisor(static_cast<std::uint32_t>(merged[0].extent));
  r.parts = static_cast<std::uint32_t>(ceil_div(elements, kRunPart));
  r.packs = merged[0].extent % 4 == 0 && r.step % 4 == 0 && r.outer_step % 4 == 0 &&
            r.inner_step % 4 == 0 && reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
  r.across =
      merged[0].extent == 1 && runs > 1 && r.inner_step == 1 && r.inner == count && count > 1;
  if (r.across) r.parts = static_cast<std::uint32_t>(ceil_div(elements, kRunPart / 32));
  return r;
}

// use(e, read(e)) for every step-th e of [first, end), for the last maybe several times: so many
// are asked for before one is used. (An unrolled loop asks for its rest one by one.)
template <int kTogether, class Read, class Use>
__device__ __forceinline__ void read_together(std::uint32_t first, std::uint32_t end,
                                              std::uint32_t step, Read read, Use use) {
#pragma unroll 1
  for (std::uint32_t e = first; e < end; e += kTogether * step) {
    decltype(read(e)) values[kTogether];
    const auto at = [&](std::uint32_t i) { return min(e + i * step, end - 1); };
#pragma unroll
    for (std::uint32_t i = 0; i < kTogether; ++i) values[i] = read(at(i));
#pragma unroll
    for (std::uint32_t i = 0; i < kTogether; ++i) use(at(i), values[i]);
  }
}

// The largest of finite magnitudes, and whether there are others.
struct Largest {
  std::uint32_t most, odd;
  __device__ __forceinline__ void see(float v) {
    const std::uint32_t m = math::exact::magnitude_of(v);
    if (m < 0x7f800000u)
      most = max(most, m);
    else
      odd = 1;
  }
  // alone: no other has elements of this key.
  __device__ __forceinline__ void tell(const Magnitudes& out, std::int64_t key, bool alone) const {
    if (alone) {
      out.largest[key] = most, out.odd[key] = odd;
      return;
    }
    atomicMax(out.largest + key, most);
    if (odd != 0) atomicOr(out.odd + key, 1u);
  }
};

// A block for a part of 32 keys that lie side by side.
__device__ __forceinline__ void find_across(const MagnitudeRuns& r, std::uint32_t block,
                                            const Magnitudes& out) {
  constexpr std::uint32_t kLines = kRunPart / 32, kWarps = kRunThreads / 32;
  __shared__ Largest of_warps[kWarps][32];
  const std::uint32_t tile = block / r.parts, part = block - tile * r.parts;
  const std::uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t key = std::int64_t{tile} * 32 + lane;
  const std::uint32_t end = min(r.elements, (part + 1) * kLines);
  Largest found{0, 0};
  if (key < r.keys)
    read_together<8>(
        part * kLines + warp, end, kWarps,
        [&](std::uint32_t e) { return r.data[key + e * r.step]; },
        [&](std::uint32_t, float v) { found.see(v); });
  of_warps[warp][lane] = found;
  __syncthreads();
  if (warp != 0 || key >= r.keys) return;
#pragma unroll
  for (std::uint32_t w = 1; w < kWarps; ++w)
    found.most = max(found.most, of_warps[w][lane].most), found.odd |= of_warps[w][lane].odd;
  found.tell(out, key, r.parts == 1);
}

// A block for a part of a key, of one tensor, then of another.
inline __global__ void __launch_bounds__(kRunThreads)
    find_in_runs(const __grid_constant__ MagnitudeRuns first,
                 const __grid_constant__ MagnitudeRuns second, Magnitudes of_first,
                 Magnitudes of_second) {
  let_next_begin();
  __shared__ Largest of_block;
  if (threadIdx.x == 0) of_block = {0, 0};
  __syncthreads();
  const bool is_first = blockIdx.x < first.blocks();
  const MagnitudeRuns& r = is_first ? first : second;
  const auto block = static_cast<std::uint32_t>(blockIdx.x - (is_first ? 0 : first.blocks()));
  Magnitudes out = of_first;
  if (!is_first) out = of_second;
  if (r.across) return find_across(r, block, out);
  const std::int64_t key = block / r.parts;
  const std::uint32_t part = block - static_cast<std::uint32_t>(key) * r.parts;
  const float* const from = r.data + key / r.inner * r.outer_step + key % r.inner * r.inner_step;
  const std::uint32_t end = min(r.elements, (part + 1) * kRunPart);
  Largest found{0, 0};
  const auto at = [&](std::uint32_t e) {
    const std::uint32_t run = r.length.quotient(e);
    return from + run * r.step + (e - run * r.length.value);
  };
  const std::uint32_t begin = part * kRunPart;
  if (r.packs)
    read_together<8>(
        begin / 4 + threadIdx.x, end / 4, kRunThreads,
        [&](std::uint32_t e) { return __ldg(reinterpret_cast<const float4*>(at(4 * e))); },
        [&](std::uint32_t, const float4& v) {
          found.see(v.x), found.see(v.y), found.see(v.z), found.see(v.w);
        });
  else
    read_together<8>(
        begin + threadIdx.x, end, kRunThreads, [&](std::uint32_t e) { return *at(e); },
        [&](std::uint32_t, float v) { found.see(v); });
  found.most = __reduce_max_sync(0xffffffffu, found.most);
  found.odd = __reduce_or_sync(0xffffffffu, found.odd);
  if (threadIdx.x % 32 == 0)
    atomicMax(&of_block.most, found.most), atomicOr(&of_block.odd, found.odd);
  __syncthreads();
  if (threadIdx.x == 0) of_block.tell(out, key, r.parts == 1);
}

// `out` is zeros before.
inline Result<void> find_magnitudes(const Stream& stream, const View& v, const MagnitudeKeys& keys,
                                    const Magnitudes& out) {
  const std::int64_t parts = ceil_div(v.shape[2] * v.shape[3], kMagnitudePart);
  return launch(stream, "conv2d",
                static_cast<void (*)(Tensor4, std::int64_t, std::int64_t, std::int64_t,
                                     std::int64_t, MagnitudeKeys, Magnitudes)>(find_magnitudes),
                v.shape[0] * v.shape[1] * parts, kMagnitudeThreads, Tensor4(v), v.shape[1],
                v.shape[2], v.shape[3], parts, keys, out);
}

// Of the image (y: x, dx: dy, dweight: x) and of the other operand. Both lie in one piece of the
// workspace, which is cleared where several blocks tell of a key, with so many bytes behind it.
inline Result<void> find_both_magnitudes(const Stream& stream, const ConvProblem& p,
                                         const Operands& operands, const Magnitudes& image,
                                         const Magnitudes& other, const ExactKeys& keys,
                                         std::size_t behind = 0) {
  const bool slopes = p.kind == ConvKind::conv2d_weight;
  const View &a = operands[conv_operand::first], &b = operands[conv_operand::second];
  const MagnitudeKeys of_image =
      slopes ? keys_of_channels() : keys_of_images(p.groups(), a.shape[1] / p.groups());
  const MagnitudeKeys of_other = slopes ? keys_of_channels() : keys_of_weights(p);
  const auto runs_a = runs_of(a, of_image, keys.of_image),
             runs_b = runs_of(b, of_other, keys.of_other);
  const auto tells_all = [](const std::optional<MagnitudeRuns>& r, std::int64_t count) {
    return r && r->keys == count && r->parts == 1;
  };
  if (behind != 0 || !tells_all(runs_a, keys.of_image) || !tells_all(runs_b, keys.of_other)) {
    const auto bytes = reinterpret_cast<char*>(other.odd + keys.of_other) + behind -
                       reinterpret_cast<char*>(image.largest);
    const auto cleared =
        cudaMemsetAsync(image.largest, 0, static_cast<std::size_t>(bytes), native(stream));
    if (auto ok = cuda_result(cleared, "conv2d"); !ok) return ok;
  }
  if (!runs_a)
    if (auto ok = find_magnitudes(stream, a, of_image, image); !ok) return ok;
  if (!runs_b)
    if (auto ok = find_magnitudes(stream, b, of_other, other); !ok) return ok;
  const MagnitudeRuns first = runs_a.value_or(MagnitudeRuns{}),
                      second = runs_b.value_or(MagnitudeRuns{});
  return launch(stream, "conv2d", find_in_runs, first.blocks() + second.blocks(), kRunThreads,
                first, second, image, other);
}

}  // namespace planck::conv_device
